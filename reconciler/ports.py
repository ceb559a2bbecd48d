"""What the hub and the agent ask of the world, as protocols; `app.py` chooses who answers.

Adapters raise only the errors below. Which one says what the caller does: `Conflict` and `Lost` mean somebody else
moved first, so observe again; `Transient` means the world did not answer, so try later; `Refused` means a person must
act. Anything else is a bug and ends the cycle, not the loop.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, Protocol


class Conflict(Exception):
    """A conditional write lost: the object is no longer (or not yet) what the writer had read."""


class Transient(Exception):
    """The world did not answer, or not in time. Nothing is known about whether a write was done."""


class Refused(Exception):
    """The other side said no and will say no again (permission, hook, branch protection, broken contract)."""


class Clock(Protocol):
    """Two clocks: `now` for what people read, `monotonic` (seconds) for every duration that decides something."""

    def now(self) -> datetime: ...

    def monotonic(self) -> float: ...


# ---- object store -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stored:
    """An object's bytes and the ETag to give back when it is replaced."""

    body: bytes
    etag: str


@dataclass(frozen=True, slots=True)
class Listed:
    """One line of a listing. `size` in bytes."""

    key: str
    size: int


class ObjectStore(Protocol):
    """Objects by key, replaced only by compare-and-swap. Keys are relative, with `/` between their parts."""

    def get(self, key: str) -> Stored | None:
        """The object, or None where there is none. Raises Transient."""

    def etag(self, key: str) -> str | None:
        """The object's ETag without its bytes. Raises Transient."""

    def put(self, key: str, body: bytes, *, expect: str | None) -> str:
        """Write and return the new ETag. `expect` is the ETag read before, or None for "must not exist yet".

        Raises Conflict where the condition fails (HTTP 409 and 412 alike), Transient where the outcome is not known.
        """

    def list(self, prefix: str) -> Iterator[Listed]:
        """All objects whose key starts with `prefix`, in order of key, however many pages that takes."""

    def copy(self, source: str, target: str) -> None:
        """Copy one object inside this store, unconditionally; for bulk data, never for what decides anything."""

    def delete(self, key: str) -> None:
        """Remove one object if it is there; for bulk data only."""


# ---- git ----------------------------------------------------------------------------------------------------------


class EntryKind(Enum):
    """What stands in a tree. Only FILE is ever read."""

    FILE = "file"
    LINK = "symbolic link"
    SUBMODULE = "submodule"


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One path of a commit. `oid` names the content: equal oids are equal bytes, so caches are keyed by it."""

    oid: str
    kind: EntryKind


@dataclass(frozen=True, slots=True)
class RefUpdate:
    """Move one branch from `old` (None: must not exist) to `new` (None: delete it)."""

    branch: str
    old: str | None
    new: str | None


@dataclass(frozen=True, slots=True)
class PushOutcome:
    """What became of an atomic push. Exactly one of the three holds: `done`; `raced` (a branch had moved or a lock was
    held: fetch and plan again); or `refusals`, branch by branch, in the remote's words (a hook, a protected branch)."""

    done: bool
    raced: bool
    refusals: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CommitWords:
    """What a commit says of itself: `author` as `Name <address>`, when it was written, its first line."""

    author: str
    when: datetime
    subject: str


class GitRepository(Protocol):
    """One remote, seen through a bare clone of our own. Branch names are short (`main`, `region/eu`)."""

    def heads(self) -> Mapping[str, str]:
        """Ask the remote for its branches and their commits; nothing is fetched. Raises Transient or Refused."""

    def fetch(self) -> Mapping[str, str]:
        """Bring all branches here and return their commits as the remote had them. Raises Transient or Refused."""

    def tree_id(self, commit: str, folder: str = "") -> str | None:
        """Object id of a folder's tree in a commit ('' is the root), None where there is no such folder."""

    def files(self, commit: str, folder: str = "") -> Mapping[str, TreeEntry]:
        """Every entry below a folder, by full path in UTF-8 order; folders themselves are not listed.

        Paths that are not valid UTF-8 come with their bad bytes as surrogate escapes. Unchanged subtrees cost nothing
        on later calls.
        """

    def size(self, oid: str) -> int:
        """Bytes of a blob, without reading it."""

    def read(self, oid: str) -> bytes:
        """A blob's bytes."""

    def write_blob(self, body: bytes) -> str:
        """Store bytes and return their object id."""

    def write_tree(self, base: str | None, changes: Mapping[str, str | None]) -> str:
        """A new root tree: `base` (a commit, or None for an empty tree) with each path set to a blob's oid or removed (None).

        Built bottom-up from the touched folders only; folders that become empty vanish. Returns the tree's oid.
        """

    def commit(self, tree: str, parents: Sequence[str], message: str, when: datetime) -> str:
        """A commit object under the pinned identity of the reconciler; same arguments, same id."""

    def words_of(self, commit: str) -> CommitWords:
        """Who wrote a commit, when, and its subject."""

    def root_of(self, commit: str) -> str:
        """Object id of a commit's root tree."""

    def has(self, commit: str) -> bool:
        """Whether a commit is here, on a branch or not."""

    def is_ancestor(self, ancestor: str, descendant: str) -> bool:
        """Whether `ancestor` is reachable from `descendant`; False where either is not here any more."""

    def push(self, updates: Sequence[RefUpdate]) -> PushOutcome:
        """Move all branches or none, each only from its `old`. Raises Transient where the outcome is not known."""

    def maintain(self) -> None:
        """Repack; slow, so never inside a cycle."""


# ---- a region's cluster -------------------------------------------------------------------------------------------

KubeObject = Mapping[str, Any]
"""An object as the Kubernetes API serves it, decoded from JSON."""


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """One object at one version. Requests carry `uid` and `resource_version`, so that they fail on any other."""

    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str


@dataclass(frozen=True, slots=True)
class GpuMeter:
    """What a node's cards say of themselves, all together. `busy`: the mean share of time that they work, 0 to 1."""

    vram_used_bytes: int
    vram_free_bytes: int
    busy: float | None


@dataclass(frozen=True, slots=True)
class ClusterState:
    """One look at a region: all nodes and pods, and the workloads that carry our label, with the fields that the agent reads.

    The workloads, and after them the pods that carry our label, come from the API server itself, never from a cache. What is
    not ours may be as old as a cluster's settings allow.
    """

    nodes: Sequence[KubeObject]
    pods: Sequence[KubeObject]
    workloads: Sequence[KubeObject]
    namespaces: Sequence[str]
    priority_values: Mapping[str, int]
    meters: Mapping[str, GpuMeter] = field(default_factory=dict)
    """By node, where something measures."""
    troubles: Sequence[str] = ()
    """What a person should know of how this was read: a watch that does not work, and the like."""
    admissions: Sequence[KubeObject] | None = None
    """Kueue's Workloads, which it makes of what carries its queue label; None where there is no Kueue. They may be a little old:
    every request about one names the version that it is for."""
    makers: Sequence[KubeObject] = ()
    """Jobs that workloads of ours have made, where those make Jobs that make the pods (JobSet); no older than the workloads."""
    kinds: Sequence[str] = ("job",)
    """Kinds of workload that are installed, as specs name them."""


class Cluster(Protocol):
    """A region's Kubernetes, as much of it as the agent needs. Every call raises Transient or Refused."""

    def read(self) -> ClusterState: ...

    def patch(self, target: ObjectRef, body: Mapping[str, Any]) -> ObjectRef:
        """JSON merge patch at exactly that version; returns the new one. A body of `status` alone is for the object's status
        subresource. Raises Conflict."""

    def delete(self, target: ObjectRef, grace_seconds: int | None) -> None:
        """Delete that very object (by uid); gone already is success. None leaves the object's own grace."""

    def log_tail(self, namespace: str, pod: str, limit: int) -> str:
        """The last `limit` bytes that the pod's main container wrote; '' where there are none."""

    def complaints(self, target: ObjectRef, limit: int) -> Sequence[str]:
        """What the cluster's controllers complained of about that very object lately, newest first: `Reason: message`."""

    def read_record(self) -> Stored | None:
        """What this agent must not forget, kept in the region's own Kubernetes (a ConfigMap)."""

    def write_record(self, body: bytes, *, expect: str | None) -> str:
        """Replace the record by compare-and-swap; returns its new version. Raises Conflict."""


@dataclass(frozen=True, slots=True)
class SyncState:
    """What a region's sync engine says: the commit it has applied, and what it could not apply."""

    commit: str | None
    errors: Mapping[str, str]
    """Its words by what they are about: a file (`manifests/<namespace>/<name>.yaml`, or the end of such a path), an object
    (`<Kind>/<namespace>/<name>`), or anything else where they blame no manifest."""
    objects: frozenset[tuple[str, str]]
    """(namespace, name) of the workloads that the applied commit holds; anything else of ours is left over."""


class SyncEngine(Protocol):
    """Flux, Argo CD, or the local engine: applies one branch, create once and prune."""

    def state(self) -> SyncState: ...

    def nudge(self, commit: str) -> None:
        """Tell the engine that there is a new commit; harmless to repeat."""


Wake = Callable[[], None]
"""Asks a loop to look again soon. Carries nothing: the loop reads the state (level, not edge)."""
