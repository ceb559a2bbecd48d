"""One attempt as its region reports it: state, whether it has stopped, how it ended.

Decides how a Job's conditions and its pods read as one state; what the hub makes of it is the hub's. Pure.

A Job's own words are not enough, in either direction: `Suspended=True` says nothing of pods, a Job without that condition may
run, `Failed` never comes while it is suspended, and an exit 0 within the grace of a suspend leaves no trace in it.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from reconciler.agent.deadman import why_failed
from reconciler.agent.pods import report_pod, short
from reconciler.agent.queueing import is_enqueued, why_it_waits
from reconciler.agent.reading import condition, is_complete, is_held, is_true, makes_jobs, moment, part, uid_of
from reconciler.agent.seen import Seen, Standing, changed_since, standing, stopped
from reconciler.model.progress import Progress
from reconciler.model.report import PodReport, WorkloadReport, WorkloadState
from reconciler.ports import KubeObject

LONGEST_TAIL: Final = 4096
"""Bytes of a failed program's output."""

_FAILURES: Final = ("Failed", "FailureTarget")
_FENCED: Final = "Fenced"


@dataclass(frozen=True, slots=True)
class Cause:
    """What was asked about an attempt: the last output of its failed program; what keeps it from having pods; its progress."""

    tail: str = ""
    waiting: str | None = None
    progress: Progress | None = None


NO_CAUSE: Final = Cause()


def report_attempt(seen: Seen, *, is_left_over: bool, cause: Cause = NO_CAUSE) -> WorkloadReport:
    """What is said of one attempt."""
    item = seen.named if seen.entry is None else seen.bound
    state = _state(seen)
    pods = tuple(report_pod(pod) for pod in seen.pods)
    started = [pod.started_at for pod in pods if pod.started_at is not None]
    return WorkloadReport(
        attempt=seen.key.attempt,
        namespace=seen.key.namespace,
        uid=_uid(seen),
        state=state,
        stopped=stopped(seen),
        succeeded=_succeeded(seen, item),
        failed=_failed(seen, job_of(seen, item)) if state == "Ended" and item is not None else None,
        replaced=_replaced(seen),
        left_over=is_left_over,
        pods=pods,
        started_at=min(started, default=None),
        ended_at=_ended_at(item and job_of(seen, item), pods) if state == "Ended" else None,
        log_tail=shortened_tail(cause.tail),
        waiting=short(cause.waiting or _waits_in_queue(seen, item)),
        progress=cause.progress,
    )


def is_queued(workload: WorkloadReport) -> bool:
    """Whether it waits: for its release, or with a pod for its gate or a node."""
    waits = any(pod.phase == "Pending" and pod.node is None for pod in workload.pods)
    return workload.state == "Held" or (workload.state == "Released" and waits)


def shortened_tail(text: str) -> str:
    """The last part of an output that fits, as valid Unicode."""
    return text.encode(errors="replace")[-LONGEST_TAIL:].decode(errors="ignore")


def _state(seen: Seen) -> WorkloadState:
    match standing(seen):
        case Standing.ABSENT | Standing.LOST:
            return "Absent"
        case Standing.HELD | Standing.BOUND:
            return "Held"
        case Standing.LOOSE | Standing.RELEASED:
            return "Released"
        case Standing.REPLACED:
            return "Released" if seen.active else "Held"
        case Standing.FINISHED | Standing.CLOSED:
            return "Released" if seen.active else "Ended"


def _uid(seen: Seen) -> str | None:
    """Of the object that was released, even where that is gone; else of the one that is there."""
    if seen.entry is not None:
        return seen.entry.uid
    return None if seen.named is None else uid_of(seen.named)


def _waits_in_queue(seen: Seen, item: KubeObject | None) -> str | None:
    if seen.grant is None or item is None or not is_enqueued(item) or standing(seen) not in (Standing.HELD, Standing.BOUND):
        return None
    return why_it_waits(seen.admission) or None


def _replaced(seen: Seen) -> bool:
    if standing(seen) is Standing.REPLACED:
        return True
    return standing(seen) is Standing.RELEASED and changed_since(seen) and any(is_held(pod) for pod in seen.pods)


def job_of(seen: Seen, item: KubeObject) -> KubeObject:
    """The Job that tells how its pods ended, of what makes a Job; else the object itself."""
    return seen.makers[0] if makes_jobs(item) and len(seen.makers) == 1 else item


def _succeeded(seen: Seen, item: KubeObject | None) -> bool:
    if item is not None and is_complete(item):
        return True
    return seen.entry is not None and seen.entry.nodes > 0 and len(seen.entry.done) >= seen.entry.nodes


def _failed(seen: Seen, item: KubeObject) -> str | None:
    words = [condition(item, kind).get("reason") or kind for kind in _FAILURES if is_true(item, kind)]
    if words:
        return why_failed(item, str(words[0]), seen.grant)
    # What is granted is closed by the fence alone: a right that was taken away is never given again.
    return _FENCED if seen.grant is not None and standing(seen) is Standing.CLOSED else None


def _ended_at(item: KubeObject | None, pods: tuple[PodReport, ...]) -> datetime | None:
    ends = [pod.ended_at for pod in pods if pod.ended_at is not None]
    if ends or item is None:
        return max(ends, default=None)
    said = [part(item, "status").get("completionTime")]
    said += [condition(item, kind).get("lastTransitionTime") for kind in _FAILURES]
    return next((found for found in map(moment, said) if found is not None), None)
