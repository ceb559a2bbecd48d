"""What the agent may do in its region, as values; each carries the version of the object that it was decided on.

Decides how each becomes a request; when it is made is decide.py's. Every request names uid and resourceVersion (or, for a
deletion, the uid), so that one that was decided on an older look fails instead of acting on something else.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from reconciler.agent.reading import JOB_SET, Key
from reconciler.model.names import ANNOTATION_CLOSED, ANNOTATION_OUT, ANNOTATION_PACE, GATE, QUEUE_LABEL
from reconciler.ports import Cluster, ObjectRef, SyncEngine


@dataclass(frozen=True, slots=True)
class Suspend:
    """Let the workload have no pods. `close`: for good; no release formed before can succeed after it."""

    key: Key
    target: ObjectRef
    close: bool


@dataclass(frozen=True, slots=True)
class DeletePod:
    """End a pod. `grace_seconds` None leaves its own grace."""

    key: Key
    target: ObjectRef
    grace_seconds: int | None


@dataclass(frozen=True, slots=True)
class Close:
    """Mark a gated pod of a stopped workload, so that no lift formed before can succeed (its controller removes it); or a
    workload that Kueue suspends, as ended for good."""

    key: Key
    target: ObjectRef


@dataclass(frozen=True, slots=True)
class Deactivate:
    """Take a workload out of its queue: Kueue suspends it, and admits it no more. The target is Kueue's Workload."""

    key: Key
    target: ObjectRef


@dataclass(frozen=True, slots=True)
class Activate:
    """Put a workload that the agent took out of its queue, and that was never released, into it again."""

    key: Key
    target: ObjectRef


@dataclass(frozen=True, slots=True)
class Enqueue:
    """Put a granted workload into its queue, with what is left of its run time (None: no limit). It starts nothing yet."""

    key: Key
    target: ObjectRef
    queue: str
    run_seconds: int | None


@dataclass(frozen=True, slots=True)
class Admit:
    """Release a workload for the first and only time, by our check on Kueue's Workload, which is the target."""

    key: Key
    target: ObjectRef
    checks: tuple[Mapping[str, Any], ...]
    """All its checks, ours Ready."""


@dataclass(frozen=True, slots=True)
class LiftGate:
    """Let a pod of a released workload be scheduled; `others` are the gates that stay."""

    key: Key
    target: ObjectRef
    others: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Release:
    """Un-suspend a workload for the first and only time, with what is left of its run time (None: no limit).

    A JobSet has no field for that.
    """

    key: Key
    target: ObjectRef
    run_seconds: int | None


@dataclass(frozen=True, slots=True)
class PatchDeadline:
    """Set the run time of a released workload anew (None: no limit)."""

    key: Key
    target: ObjectRef
    run_seconds: int | None
    ends_at: datetime | None = None
    """When Kubernetes ends it if this fails, where it does so without us."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Tell a pod of a staging task how quick it may be: bytes a second, or `unlimited`."""

    key: Key
    target: ObjectRef
    pace: str


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """Delete a workload that the hub wants forgotten."""

    key: Key
    target: ObjectRef


@dataclass(frozen=True, slots=True)
class Nudge:
    """Tell the sync engine that its branch has a new commit."""

    commit: str


_CLOSED: Final[Mapping[str, Any]] = {"metadata": {"annotations": {ANNOTATION_CLOSED: "true"}}}

Stop = Suspend | DeletePod | Close | Deactivate
Start = LiftGate | Release | PatchDeadline | Enqueue | Activate | Admit | Pace
"""What may be done only by recorded right: the record first, and a lease that is valid at that moment."""
Action = Stop | Start | DeleteObject | Nudge


def perform(action: Action, cluster: Cluster, engine: SyncEngine) -> None:
    """Make the request. Raises Conflict, Transient or Refused."""
    match action:
        case DeletePod(_, target, grace_seconds):
            cluster.delete(target, grace_seconds)
        case DeleteObject(_, target):
            cluster.delete(target, None)
        case Nudge(commit):
            engine.nudge(commit)
        case _:
            cluster.patch(action.target, patch_body(action))


def patch_body(action: Suspend | Close | Deactivate | Start) -> dict[str, Any]:
    """The merge patch of an action."""
    match action:
        case Suspend(close=True):
            return {**_CLOSED, "spec": {"suspend": True}}
        case Suspend():
            return {"spec": {"suspend": True}}
        case Close():
            return dict(_CLOSED)
        case LiftGate(others=others):
            return {"spec": {"schedulingGates": [{"name": name} for name in others] or None}}
        case Release(run_seconds=seconds):
            return {"spec": {"suspend": False, **_run_limit(action.target, seconds)}}
        case PatchDeadline(run_seconds=seconds):
            return {"spec": {"activeDeadlineSeconds": deadline(seconds)}}
        case Pace(pace=pace):
            return {"metadata": {"annotations": {ANNOTATION_PACE: pace}}}
        case _:
            return _queue_body(action)


def _queue_body(action: Enqueue | Deactivate | Activate | Admit) -> dict[str, Any]:
    match action:
        case Enqueue(queue=queue, run_seconds=seconds):
            return {"metadata": {"labels": {QUEUE_LABEL: queue}}, "spec": _run_limit(action.target, seconds)}
        case Deactivate():
            return {"metadata": {"annotations": {ANNOTATION_OUT: "true"}}, "spec": {"active": False}}
        case Activate():
            return {"metadata": {"annotations": {ANNOTATION_OUT: None}}, "spec": {"active": True}}
        case Admit(checks=checks):
            return {"status": {"admissionChecks": [dict(check) for check in checks]}}


def _run_limit(target: ObjectRef, seconds: int | None) -> dict[str, Any]:
    """A JobSet has no such field, and in its Jobs it cannot be changed: there the hub's own count of the run time ends it."""
    return {} if target.kind == JOB_SET else {"activeDeadlineSeconds": deadline(seconds)}


def deadline(run_seconds: int | None) -> int | None:
    """`activeDeadlineSeconds` for what is left of the run time; no less than 1, so that the API takes it."""
    return None if run_seconds is None else max(run_seconds, 1)


def other_gates(gates: tuple[str, ...]) -> tuple[str, ...]:
    """The gates that are not ours."""
    return tuple(name for name in gates if name != GATE)
