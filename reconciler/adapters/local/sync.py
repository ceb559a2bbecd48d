"""The sync engine of a local region: applies its branch to its cluster, create once and prune, as Flux does.

Decides when the branch is looked at and which files count; what an application does is `applying`'s. Like Flux it stops
at the first bad file and says which; unlike Flux (and like Argo CD) it prunes nothing where the branch has no manifest at
all. Objects deleted by hand are made again, suspended and with a new uid, at the next interval.

Invariant: `state().commit` is the last commit that was applied whole; what is applied survives a restart.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from reconciler.adapters.local.applying import (
    Inventory,
    Manifests,
    apply,
    first_fault,
    read_inventory,
    write_inventory,
)
from reconciler.adapters.local.manifests import Unreadable, objects_of
from reconciler.adapters.local.region import OWN_NAMESPACE, LocalCluster
from reconciler.ports import Clock, EntryKind, GitRepository, KubeObject, SyncState

_FOLDER: Final = "manifests"
_ENDINGS: Final = (".yaml", ".yml")
_RETRY_SECONDS: Final = 5.0
"""How soon the remote is asked again after it did not answer, if the interval is longer."""


class LocalSync:
    """`ports.SyncEngine` for a `LocalCluster`; `step` does what is due. For one thread, but `nudge` and `state`."""

    def __init__(
        self,
        cluster: LocalCluster,
        git: GitRepository,
        branch: str,
        clock: Clock,
        interval_seconds: float = 10.0,
    ) -> None:
        """Apply `branch` of `git` to `cluster`, looking at the remote every `interval_seconds` and upon a nudge."""
        self._cluster = cluster
        self._git = git
        self._branch = branch
        self._clock = clock
        self._interval = interval_seconds
        self._next = clock.monotonic()
        self._nudged = False
        self._fetched: str | None = None
        self._parsed: dict[str, Sequence[KubeObject]] = {}
        with cluster.changes() as (objects, _):
            self._state = _said(read_inventory(objects, OWN_NAMESPACE), {})

    def state(self) -> SyncState:
        """The commit applied last, what the last try could not apply, and the Jobs that the applied commit holds."""
        return self._state

    def nudge(self, commit: str) -> None:
        """Look at the remote at the next step, unless that commit is applied already."""
        if commit != self._state.commit or self._state.errors:
            self._nudged = True

    def next_due(self) -> float:
        """When `step` looks at the remote, in seconds of the clock's `monotonic`."""
        return min(self._next, self._clock.monotonic()) if self._nudged else self._next

    def step(self) -> bool:
        """Look at the branch and apply it, if that is due; says whether it was. Raises Transient or Refused."""
        now = self._clock.monotonic()
        if not self._nudged and now < self._next:
            return False
        self._nudged = False
        self._next = now + min(self._interval, _RETRY_SECONDS)
        head = self._head()
        self._next = now + self._interval
        if head is None:
            self._fail(self._branch, f"couldn't find remote ref refs/heads/{self._branch}")
            return True
        manifests = self._manifests(head)
        if manifests is not None:
            self._apply(head, manifests)
        return True

    def _head(self) -> str | None:
        head = self._git.heads().get(self._branch)
        if head is not None and head != self._fetched:
            head = self._git.fetch().get(self._branch)
            self._fetched = head
        return head

    def _manifests(self, commit: str) -> Manifests | None:
        """All objects by file; None where a file cannot be read, or there is none: then nothing may be pruned."""
        entries = self._git.files(commit, _FOLDER)
        if not entries:
            self._fail(_FOLDER, f"kustomization path not found: {_FOLDER}: no such file or directory")
            return None
        found = {path: entry for path, entry in entries.items() if path.endswith(_ENDINGS)}
        if not found:
            self._fail(_FOLDER, "Skipping sync attempt: it would wipe out all resources; the branch holds no manifest")
            return None
        parsed: dict[str, Sequence[KubeObject]] = {}
        for path in sorted(found):
            entry = found[path]
            if entry.kind is not EntryKind.FILE:
                self._fail(path, f"a {entry.kind.value} is not read; put the manifest itself there")
                return None
            try:
                parsed[entry.oid] = self._parsed.get(entry.oid) or objects_of(path, self._git.read(entry.oid))
            except Unreadable as error:
                self._fail(path, str(error))
                return None
        self._parsed = parsed
        return {path: parsed[entry.oid] for path, entry in found.items()}

    def _apply(self, commit: str, manifests: Manifests) -> None:
        with self._cluster.changes() as (objects, now):
            fault = first_fault(objects, manifests)
            if fault is None:
                before = read_inventory(objects, OWN_NAMESPACE)
                after = Inventory(commit, apply(objects, manifests, before, self._branch, now))
                write_inventory(objects, OWN_NAMESPACE, after, now)
        if fault is None:
            self._state = _said(after, {})
        else:
            self._fail(fault.path, fault.message)

    def _fail(self, where: str, message: str) -> None:
        self._state = SyncState(self._state.commit, {where: message}, self._state.objects)


def _said(inventory: Inventory, errors: Mapping[str, str]) -> SyncState:
    jobs = frozenset((namespace, name) for kind, namespace, name in inventory.keys if kind == "Job")
    return SyncState(inventory.commit, errors, jobs)
