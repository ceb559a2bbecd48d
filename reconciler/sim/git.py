"""A Git remote in memory, and how one program sees it: a `GitRepository` over dicts.

Decides what a remote answers and what a clone has; what goes wrong on the way between the two is for links.py. Objects are shared
by all clones of a world, but a clone knows only the commits that it fetched or made, as a real one does.

Invariants: a push moves all of its branches or none, each only from the commit that it names; what was fetched once stays.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Final

from reconciler.ports import CommitWords, PushOutcome, RefUpdate, Transient, TreeEntry
from reconciler.sim.objects import Commit, Objects

DONE: Final = PushOutcome(done=True, raced=False, refusals=MappingProxyType({}))
RACED: Final = PushOutcome(done=False, raced=True, refusals=MappingProxyType({}))
IDENTITY: Final = ("gpu-reconciler", "reconciler@localhost")


def _nobody(_moved: Sequence[str]) -> None:
    return


@dataclass(slots=True)
class Remote:
    """The branches of one repository. `moved` is called with the names of those that a push or a person has moved."""

    objects: Objects = field(default_factory=Objects)
    branches: dict[str, str] = field(default_factory=dict)
    moved: Callable[[Sequence[str]], None] = _nobody
    past: dict[str, list[str]] = field(default_factory=dict)
    """Every commit that a branch has stood at, in order."""
    closed: set[str] = field(default_factory=set)
    """Branches that a hook refuses at present."""
    mood: str = ""
    """What the next push meets: `races`: another writer's lock; `dies`: it dies between two branches."""

    def heads(self) -> Mapping[str, str]:
        """All branches and their commits."""
        return dict(sorted(self.branches.items()))

    def push(self, updates: Sequence[RefUpdate]) -> PushOutcome:
        """Move all branches or none, each only from its `old`."""
        if len({update.branch for update in updates}) != len(updates):
            raise ValueError("a branch is named twice in one push")
        if not updates or self._is_done(updates):
            return DONE
        clashes = self._clashes(updates)
        if clashes:
            return PushOutcome(done=False, raced=False, refusals=clashes)
        if any(self.branches.get(update.branch) != update.old for update in updates):
            return RACED
        self.move(updates)
        return DONE

    def move(self, updates: Iterable[RefUpdate]) -> None:
        """Move branches, whatever they were at before: what a person does by force, and a server that dies half-way."""
        names = []
        for update in updates:
            names.append(update.branch)
            if update.new is None:
                self.branches.pop(update.branch, None)
            else:
                self.branches[update.branch] = update.new
                self.past.setdefault(update.branch, []).append(update.new)
        self.moved(names)

    def _is_done(self, updates: Sequence[RefUpdate]) -> bool:
        return all(self.branches.get(update.branch) == update.new for update in updates)

    def _clashes(self, updates: Sequence[RefUpdate]) -> Mapping[str, str]:
        """New branches for which Git has no room: `eu/west` cannot stand beside `eu`."""
        gone = {update.branch for update in updates if update.new is None}
        staying = set(self.branches) - gone | {update.branch for update in updates if update.new is not None}
        found = {}
        for update in updates:
            if update.new is not None and update.branch not in self.branches:
                for other in sorted(staying):
                    if update.branch.startswith(f"{other}/") or other.startswith(f"{update.branch}/"):
                        found[update.branch] = f"there cannot be a branch {update.branch!r} beside {other!r}"
        return found


class MemoryGit:
    """`ports.GitRepository`: one program's clone of a remote. What it asks of the remote may be put under faults."""

    def __init__(self, remote: Remote) -> None:
        """A new clone, which knows no commit yet."""
        self._remote = remote
        self._objects = remote.objects
        self._here: set[str] = set()

    def heads(self) -> Mapping[str, str]:
        """The remote's branches and their commits."""
        return self._remote.heads()

    def fetch(self) -> Mapping[str, str]:
        """Bring all branches here and return their commits."""
        heads = self._remote.heads()
        todo = [commit for commit in heads.values() if commit not in self._here]
        while todo:
            commit = todo.pop()
            if commit not in self._here:
                self._here.add(commit)
                todo += self._objects.commits[commit].parents
        return heads

    def tree_id(self, commit: str, folder: str = "") -> str | None:
        """Object id of a folder's tree in a commit, None where there is no such folder."""
        return self._objects.subtree(self.root_of(commit), folder)

    def files(self, commit: str, folder: str = "") -> Mapping[str, TreeEntry]:
        """Every entry below a folder, by full path in UTF-8 order."""
        tree = self.tree_id(commit, folder)
        return {} if tree is None else self._objects.below(tree, folder)

    def size(self, oid: str) -> int:
        """Bytes of a blob."""
        return len(self.read(oid))

    def read(self, oid: str) -> bytes:
        """A blob's bytes. Raises Transient where it is not here."""
        body = self._objects.blobs.get(oid)
        if body is None:
            raise Transient(f"{oid} is not here; fetch again")
        return body

    def write_blob(self, body: bytes) -> str:
        """Store bytes and return their object id."""
        return self._objects.blob(body)

    def write_tree(self, base: str | None, changes: Mapping[str, str | None]) -> str:
        """A new root tree: that of commit `base` with each path set to a blob or removed (None)."""
        return self._objects.changed(None if base is None else self.root_of(base), changes)

    def commit(self, tree: str, parents: Sequence[str], message: str, when: datetime) -> str:
        """A commit under the reconciler's identity; same arguments, same id."""
        for parent in parents:
            self._commit(parent)
        if tree not in self._objects.trees:
            raise Transient(f"{tree} is not here; fetch again")
        oid = self._objects.commit(tree, parents, IDENTITY, message, when)
        self._here.add(oid)
        return oid

    def words_of(self, commit: str) -> CommitWords:
        """Who wrote a commit, when, and its subject."""
        return self._commit(commit).words

    def root_of(self, commit: str) -> str:
        """Object id of a commit's root tree. Raises Transient where the commit is not here."""
        return self._commit(commit).tree

    def has(self, commit: str) -> bool:
        """Whether a commit was fetched or made here."""
        return commit in self._here

    def is_ancestor(self, ancestor: str, descendant: str) -> bool:
        """Whether `ancestor` is reachable from `descendant`; False where either is not here."""
        if ancestor not in self._here or descendant not in self._here:
            return False
        todo, met = [descendant], {descendant}
        while todo:
            commit = todo.pop()
            if commit == ancestor:
                return True
            fresh = [parent for parent in self._objects.commits[commit].parents if parent not in met]
            met.update(fresh)
            todo += fresh
        return False

    def push(self, updates: Sequence[RefUpdate]) -> PushOutcome:
        """Move all branches or none, each only from its `old`."""
        for update in updates:
            if update.new is not None:
                self._commit(update.new)
        return self._remote.push(updates)

    def maintain(self) -> None:
        """Nothing needs packing."""

    def _commit(self, commit: str) -> Commit:
        if commit not in self._here:
            raise Transient(f"{commit} is not here; fetch again")
        return self._objects.commits[commit]
