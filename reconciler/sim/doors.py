"""The store, the remote and the cluster as one program sees them: the same ports, on a way on which things go wrong."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from reconciler.ports import (
    Cluster,
    ClusterState,
    Listed,
    ObjectRef,
    PushOutcome,
    RefUpdate,
    Stored,
    Transient,
)
from reconciler.sim.git import RACED, MemoryGit, Remote
from reconciler.sim.store import MemoryStore, Shelf
from reconciler.sim.ways import Route


class StoreDoor:
    """`ports.ObjectStore` on a way."""

    def __init__(self, shelf: Shelf, who: str, route: Route, *, own: str = "") -> None:
        """`who`: the program, for the world's record of writes; `own`: a key that it never reads an older state of."""
        self._shelf = shelf
        self._store = MemoryStore(shelf, who)
        self._route = route
        self._own = own

    def get(self, key: str) -> Stored | None:
        """The object, or an older state of it."""
        return self._route.read(f"get {key}", lambda: self._past(key) or self._store.get(key))

    def etag(self, key: str) -> str | None:
        """The object's ETag, or that of an older state."""
        past = self._past(key)
        return self._route.read(f"etag {key}", lambda: self._store.etag(key) if past is None else past.etag)

    def put(self, key: str, body: bytes, *, expect: str | None) -> str:
        """Replace by compare-and-swap; that is never answered from the past."""
        sent = self._route.agenda.seconds
        return self._route.write(f"put {key}", lambda: self._store.put_sent(key, body, expect, sent))

    def list(self, prefix: str) -> Iterator[Listed]:
        """All objects below a prefix."""
        return iter(self._route.read(f"list {prefix}", lambda: list(self._store.list(prefix))))

    def copy(self, source: str, target: str) -> None:
        """Copy one object."""
        self._route.write(f"copy {target}", lambda: self._store.copy(source, target))

    def delete(self, key: str) -> None:
        """Remove one object."""
        self._route.write(f"delete {key}", lambda: self._store.delete(key))

    def _past(self, key: str) -> Stored | None:
        """An older state, where it is one's turn."""
        if key == self._own or not self._route.is_stale(key):
            return None
        past = self._shelf.past.get(key)
        return past[int(self._route.dice.roll(f"age {key}") * len(past))] if past else None


class GitDoor(MemoryGit):
    """`ports.GitRepository` on a way; the clone is the program's own and never fails."""

    def __init__(self, remote: Remote, route: Route, behind: Callable[[], Mapping[str, str]] | None = None) -> None:
        """`behind` gives branches that are answered with an earlier commit at present."""
        super().__init__(remote)
        self._route = route
        self._behind = behind

    def heads(self) -> Mapping[str, str]:
        """The remote's branches, if it answers."""
        return self._route.read("heads", lambda: self._as_answered(super(GitDoor, self).heads()))

    def fetch(self) -> Mapping[str, str]:
        """Fetch, if it answers."""
        return self._route.read("fetch", lambda: self._as_answered(super(GitDoor, self).fetch()))

    def push(self, updates: Sequence[RefUpdate]) -> PushOutcome:
        """Push, unless the remote is in the mood for something else."""
        return self._route.write("push", lambda: self._pushed(updates))

    def _pushed(self, updates: Sequence[RefUpdate]) -> PushOutcome:
        remote = self._remote
        mood, remote.mood = remote.mood, ""
        refused = {update.branch: "declined: a pre-receive hook" for update in updates if update.branch in remote.closed}
        if refused:
            return PushOutcome(done=False, raced=False, refusals=refused)
        if mood == "races":
            return RACED
        if mood == "dies" and all(remote.branches.get(update.branch) == update.old for update in updates):
            some = sorted(updates, key=lambda update: self._route.dice.roll(f"order {update.branch}"))[: len(updates) // 2]
            remote.move(some)
            raise Transient("push: the remote died between two branches")
        return super().push(updates)

    def _as_answered(self, heads: Mapping[str, str]) -> Mapping[str, str]:
        if self._behind is None:
            return heads
        return {**heads, **self._behind()}


class ClusterDoor:
    """`ports.Cluster` on a way: an agent's own Kubernetes, which is near and mostly answers."""

    def __init__(self, cluster: Cluster, route: Route, touched: Callable[[], None]) -> None:
        """`touched` is called after each write, so that the cluster goes on."""
        self._cluster = cluster
        self._route = route
        self._touched = touched

    def read(self) -> ClusterState:
        """One look."""
        return self._route.read("look", self._cluster.read)

    def patch(self, target: ObjectRef, body: Mapping[str, Any]) -> ObjectRef:
        """JSON merge patch at exactly that version."""

        def patch() -> ObjectRef:
            done = self._cluster.patch(target, body)
            self._touched()
            return done

        return self._route.write(f"patch {target.kind}", patch)

    def delete(self, target: ObjectRef, grace_seconds: int | None) -> None:
        """Delete that very object."""

        def delete() -> None:
            self._cluster.delete(target, grace_seconds)
            self._touched()

        self._route.write(f"delete {target.kind}", delete)

    def log_tail(self, namespace: str, pod: str, limit: int) -> str:
        """The last bytes that a pod wrote."""
        return self._route.read("log", lambda: self._cluster.log_tail(namespace, pod, limit))

    def complaints(self, target: ObjectRef, limit: int) -> Sequence[str]:
        """What controllers complain of."""
        return self._route.read("complaints", lambda: self._cluster.complaints(target, limit))

    def read_record(self) -> Stored | None:
        """The agent's record."""
        return self._route.read("read record", self._cluster.read_record)

    def write_record(self, body: bytes, *, expect: str | None) -> str:
        """Replace the record by compare-and-swap."""
        return self._route.write("write record", lambda: self._cluster.write_record(body, expect=expect))
