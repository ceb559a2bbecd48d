"""A bare clone of one remote: the `GitRepository` of ports.py.

Objects are read and made by libgit2 in the clone's object store, without a work tree and without an index; the remote
is reached by the `git` command alone. The remote is the truth and the clone a copy of it: a clone that cannot be read is
checked at the next fetch and made again when it is broken. Nothing here prunes objects, so what a fetch has brought
stays readable for as long as the folder does. One caller at a time.
"""

import os
import re
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

import pygit2
from pygit2.enums import ObjectType

from reconciler.adapters.git import commits, pushing, trees
from reconciler.adapters.git import folder as disk
from reconciler.adapters.git.command import REMOTE, Answer, Remote, check_version, failure, git, shorten
from reconciler.forge_port import Bounds, Change
from reconciler.ports import CommitWords, PushOutcome, RefUpdate, Refused, Transient, TreeEntry

_TRACKING: Final = "refs/remotes/origin/"
_FETCHED: Final = "refs/fetched/one"
"""Where the last ref that is no branch stands here; what it had before stays readable."""
_PATIENCE: Final = 30
"""How many times `timeout_seconds` a fetch or push may take as long as it makes progress."""
_PULL_PATIENCE: Final = 2
"""The same for the head of one pull request, which others wait behind."""
_UPKEEP_SECONDS: Final = 3600.0
_LARGEST: Final = "16m"
"""A blob above that is never held in memory by git: a stranger may have made it, and none of ours is."""
_NEAR: Final = 16
"""Steps back in a history that are looked at here, without git."""


class BareClone:
    """One remote, seen through a bare clone in `folder`, which is made at the first use and is ours alone.

    `identity` (name, email) is author and committer of every commit. `timeout_seconds` is how long the remote may be
    silent. The URL may be anything that git takes; credentials in it are never written to disk nor told in an error.
    """

    def __init__(
        self,
        url: str,
        folder: Path,
        *,
        identity: tuple[str, str] = ("gpu-reconciler", "reconciler@localhost"),
        timeout_seconds: float = 60.0,
    ) -> None:
        commits.check_identity(identity)
        self._remote = Remote(url)
        self._folder = folder
        self._identity = identity
        self._timeout = timeout_seconds
        self._claimed = False
        self._suspect = False
        self._opened: pygit2.Repository | None = None
        self._listings = trees.Listings()

    def heads(self) -> Mapping[str, str]:
        """The remote's branches and their commits, without fetching. Raises Transient or Refused."""
        answer = self._git(["ls-remote", "--heads", REMOTE])
        if answer.code != 0:
            raise failure(self._remote, "asking", answer)
        return _branches(answer.out, pushing.HEADS)

    def fetch(self) -> Mapping[str, str]:
        """Bring all branches here, forget those that are gone, and return the commits. Raises Transient or Refused."""
        if self._suspect:
            self._check()
        options = ["--prune", "--no-tags", "--no-write-fetch-head", "--no-show-forced-updates", "--progress"]
        answer = self._git(["fetch", *options, REMOTE, f"+{pushing.HEADS}*:{_TRACKING}*"], _PATIENCE)
        if answer.code != 0:
            raise failure(self._remote, "fetching from", answer)
        listed = self._git(["for-each-ref", "--format=%(objectname)\t%(refname)", _TRACKING])
        if listed.code != 0:
            raise failure(self._remote, "listing the branches fetched from", listed)
        return _branches(listed.out, _TRACKING)

    def root_of(self, commit: str) -> str:
        """Object id of a commit's root tree. Raises Transient where the commit is not here."""
        return commits.tree_in(commit, self._commit(commit))

    def words_of(self, commit: str) -> CommitWords:
        """Who wrote a commit, when, and its first line; what cannot be read in it is replaced."""
        return commits.words_in(self._commit(commit))

    def tree_id(self, commit: str, folder: str = "") -> str | None:
        """Object id of a folder's tree in a commit, None where there is no such folder."""
        root = self.root_of(commit)
        with self._reading(root) as repository:
            return trees.subtree(repository.odb, root, folder)

    def files(self, commit: str, folder: str = "") -> Mapping[str, TreeEntry]:
        """Every entry below a folder, by full path in UTF-8 order. Raises Refused for trees that no git checks out."""
        tree = self.tree_id(commit, folder)
        if tree is None:
            return {}
        with self._reading(tree) as repository:
            return self._listings.below(repository.odb, tree, folder)

    def size(self, oid: str) -> int:
        """Bytes of a blob, from its header. Raises Transient where it is not here."""
        with self._reading(oid) as repository:
            return repository.odb.read_header(_oid(oid))[1]

    def read(self, oid: str) -> bytes:
        """A blob's bytes. Raises Transient where it is not here."""
        with self._reading(oid) as repository:
            return repository.odb.read(_oid(oid))[1]

    def write_blob(self, body: bytes) -> str:
        """Store bytes and return their object id."""
        with self._reading("a new file") as repository:
            return str(repository.create_blob(body))

    def write_tree(self, base: str | None, changes: Mapping[str, str | None]) -> str:
        """A new root tree: that of commit `base` with each path set to a blob or removed (None)."""
        root = None if base is None else self.root_of(base)
        with self._reading(root or "a new tree") as repository:
            return trees.write_tree(repository.odb, root, changes)

    def commit(self, tree: str, parents: Sequence[str], message: str, when: datetime) -> str:
        """A commit under the pinned identity, at whole seconds of `when` in UTC. Raises ValueError without a time zone."""
        if when.tzinfo is None:
            raise ValueError("the time of a commit needs a time zone")
        body = commits.written(tree, parents, self._identity, int(when.timestamp()), message)
        with self._reading(tree) as repository:
            for oid in (tree, *parents):
                if not repository.odb.exists(_oid(oid)):
                    raise KeyError(oid)
            return str(repository.odb.write(ObjectType.COMMIT, body))

    def has(self, commit: str) -> bool:
        """Whether a commit is here, on a branch or not; nothing that was ever fetched or made here is deleted."""
        with self._reading(commit) as repository:
            return repository.odb.exists(_oid(commit))

    def is_ancestor(self, ancestor: str, descendant: str) -> bool:
        """Whether `ancestor` is reachable from `descendant`; False where either is not here any more."""
        with self._reading(descendant) as repository:
            if not all(repository.odb.exists(_oid(commit)) for commit in (ancestor, descendant)):
                return False
            if self._is_near(ancestor, descendant, repository.odb):
                return True
        # By git: libgit2 gives up at any commit on the way whose author it cannot parse.
        answer = self._git(["merge-base", "--is-ancestor", ancestor, descendant], _PATIENCE)
        if answer.code not in {0, 1}:
            raise Transient(f"the history of {descendant} cannot be read: {shorten(answer.words)}; fetch again")
        return answer.code == 0

    def _is_near(self, ancestor: str, descendant: str, odb: pygit2.Odb) -> bool:
        """Whether a few steps back lead there, which spares a program for the usual question."""
        ring = [descendant]
        for _ in range(_NEAR):
            if ancestor in ring:
                return True
            found = [odb.read(_oid(commit)) for commit in ring if odb.exists(_oid(commit))]
            ring = list(dict.fromkeys(parent for _, body in found for parent in commits.parents_in(body)))[:_NEAR]
        return False

    def fetch_ref(self, ref: str) -> str:
        """Bring one ref that is no branch, and return its commit. Raises Transient or Refused."""
        streamed = ["-c", f"core.bigFileThreshold={_LARGEST}"]
        options = ["--no-tags", "--no-write-fetch-head", "--no-show-forced-updates", "--no-recurse-submodules", "--progress"]
        answer = self._git([*streamed, "fetch", *options, REMOTE, f"+{ref}:{_FETCHED}"], _PULL_PATIENCE)
        if answer.code != 0:
            raise failure(self._remote, f"fetching {ref} from", answer)
        listed = self._git(["for-each-ref", "--format=%(objectname)", _FETCHED])
        if listed.code != 0:
            raise failure(self._remote, f"finding {ref} of", listed)
        return listed.out.decode().strip()

    def merge_base(self, one: str, other: str) -> str | None:
        """A best common ancestor; None where there is none. Raises Transient where a commit is not here."""
        answer = self._git(["merge-base", one, other], _PULL_PATIENCE)
        if answer.code not in {0, 1}:
            raise Transient(f"the history of {one} cannot be read: {shorten(answer.words)}; fetch again")
        return answer.out.decode().split("\n")[0] or None

    def changes(self, old: str, new: str, bounds: Bounds) -> Mapping[str, Change]:
        """What a stranger's commit changes, inside bounds; nothing is kept. Raises Transient, and Refused beyond the bounds."""
        before, after = self.root_of(old), self.root_of(new)
        with self._reading(after) as repository:
            return trees.changes(repository.odb, before, after, bounds)

    def push(self, updates: Sequence[RefUpdate]) -> PushOutcome:
        """Move all branches or none, each only from its `old`.

        Raises Transient where the outcome is not known, Refused where the remote lets nobody in or cannot do this.
        """
        command = pushing.arguments(updates)
        if not updates:
            return pushing.DONE
        for update in updates:
            if update.new is not None:
                self.root_of(update.new)
        answer = self._git(command, _PATIENCE)
        if answer.code == 0:
            return pushing.DONE
        said = pushing.verdicts(answer)
        if pushing.is_told(said):
            return pushing.judge(updates, answer, said, self.heads())
        unknown = failure(self._remote, "pushing to", answer)
        try:
            done = pushing.is_done(updates, self.heads())
        except (Transient, Refused):
            raise unknown from None
        if done:
            return pushing.DONE
        raise unknown

    def maintain(self) -> None:
        """Pack objects and branches. Deletes no object, reachable or not. Raises Transient."""
        frugal = ["-c", f"core.bigFileThreshold={_LARGEST}", "-c", "pack.windowMemory=64m"]
        for command in (["repack", "--geometric=2", "-d"], ["pack-refs", "--all"]):
            answer = self._git([*frugal, *command], silence=_UPKEEP_SECONDS)
            if answer.code != 0:
                self._suspect = True
                raise Transient(f"packing the clone in {self._folder} failed: {shorten(answer.words)}")
        self._close()

    def _commit(self, commit: str) -> bytes:
        with self._reading(commit) as repository:
            kind, body = repository.odb.read(_oid(commit))
        if kind != ObjectType.COMMIT:
            raise ValueError(f"{commit} is no commit")
        return body

    def _repository(self) -> pygit2.Repository:
        if not self._claimed:
            check_version(self._remote, self._folder)
            # The descriptor stays open, and the folder ours, for as long as this object lives.
            weakref.finalize(self, os.close, disk.claim(self._folder))
            self._claimed = True
        if self._opened is None:
            self._opened = disk.open_or_make(self._folder)
        return self._opened

    def _git(self, arguments: Sequence[str], patience: int = 1, silence: float | None = None) -> Answer:
        self._repository()
        answer = git(self._remote, self._folder, arguments, silence or self._timeout, patience)
        if answer.suggests_damage or (answer.code and not self._knows_itself()):
            self._suspect = True
        return answer

    def _knows_itself(self) -> bool:
        """Whether git can read the clone's own configuration and branches."""
        return git(self._remote, self._folder, ["for-each-ref", "--count=1"], self._timeout).code == 0

    def _check(self) -> None:
        """Read every object; where one is broken or missing, make the clone again. Slow, and only after a failed read."""
        self._close()
        answer = self._git(["fsck", "--full", "--no-dangling", "--no-reflogs", "--progress"], _PATIENCE)
        if answer.code is None:
            raise Transient(f"checking the clone in {self._folder} took too long and was ended; remove the folder")
        if answer.code != 0:
            self._close()
            disk.make_again(self._folder)
        self._suspect = False

    def _close(self) -> None:
        # libgit2 keeps open what it has read from, deleted packs too; without `free` until some later garbage collection.
        if self._opened is not None:
            self._opened.free()
            self._opened = None

    @contextmanager
    def _reading(self, wanted: str) -> Iterator[pygit2.Repository]:
        repository = self._repository()
        try:
            yield repository
        except (pygit2.GitError, KeyError, OSError) as broken:
            self._suspect = True
            raise Transient(f"{wanted} cannot be had from the clone in {self._folder}: {broken}; fetch again") from broken


def _oid(text: str) -> pygit2.Oid:
    # libgit2 would fill up a short id with zeros.
    if not re.fullmatch(r"[0-9a-f]{40}", text):
        raise ValueError(f"{text!r} is no full object id")
    return pygit2.Oid(hex=text)


def _branches(listed: bytes, prefix: str) -> Mapping[str, str]:
    lines = (line.partition("\t") for line in listed.decode("utf-8", "surrogateescape").split("\n"))
    return {name.removeprefix(prefix): oid for oid, _, name in lines if name.startswith(prefix)}
