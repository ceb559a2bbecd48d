"""Regions with `deadman: true`: until when Kubernetes lets a released Job run if its agent says nothing more.

Decides what a Job's `activeDeadlineSeconds` has to be, and whether it is good enough for a pod to be let go; the requests are
decide.py's. Pure. What an agent that is frozen or gone cannot do, the Job controller does: it counts that field from the Job's
`status.startTime`, and at its end it deletes the pods, with their own grace. So a Job ends at the last renewal's sending +
self_fence + fence_kill, less what its pods may take to end, and never beyond the run time of its grant.

Invariant: no gate is lifted unless the Job, as it was read, ends in time. A Job without `startTime` does not: its controller has
not begun, and may write any later time there.

It is put off by steps: while renewals come, once a quarter of the fence was used up. A patch of every Job at every renewal would
be three times the load. It costs that an agent that dies, or an API server that does not answer, has three quarters of the fence
left, less one renewal. When a renewal is late, every Job gets at once all that there is: a store that is away ends nothing sooner
than the fence would. Time here is the Job controller's; it and the agent's must agree within the margin of the region's times.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import floor
from typing import Final

from reconciler.agent.actions import deadline
from reconciler.agent.reading import condition, grace_of, makes_jobs, moment, part, pod_templates
from reconciler.model.grants import Grant
from reconciler.ports import KubeObject

EXCEEDED: Final = "DeadlineExceeded"
DEADMAN: Final = "Deadman"
"""What is said of a Job that Kubernetes ended before the run time of its grant was used up."""
_WRITTEN_SECONDS: Final = 2.0
"""Times are written in whole seconds: two of them are off by so much at most."""
_Fault = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Deadman:
    """What the last renewal leaves. Times are those of the region's Kubernetes, as near as the agent can tell."""

    now: datetime
    latest: datetime
    """By when all pods must have ended, if there is no further renewal."""
    self_fence_seconds: float
    fence_kill_seconds: float
    is_late: bool
    """Whether a renewal was due, and has failed."""

    @property
    def longest_grace_seconds(self) -> float:
        """With a longer one, too little of the fence is left for renewals to come in time."""
        return self.self_fence_seconds / 2 + self.fence_kill_seconds

    @property
    def step_seconds(self) -> float:
        """How much sooner than it could a Job may end before it is put off again."""
        return 1.0 if self.is_late else self.self_fence_seconds / 4


def unfit_for(item: KubeObject, deadman: Deadman) -> _Fault | None:
    """Why Kubernetes could not end a workload in time, as a code and in words."""
    if makes_jobs(item):
        return "DeadmanNotPossible", "with `deadman: true` Kubernetes must end it in time, and a JobSet has no field for that"
    grace = _grace(item, ())
    if grace > deadman.longest_grace_seconds:
        words = f"`grace_seconds` ({grace}) is more than `deadman: true` and this region's times allow"
        return "GraceTooLong", f"{words} ({floor(deadman.longest_grace_seconds)})"
    return None


def first_deadline(item: KubeObject, grant: Grant, deadman: Deadman | None) -> int | None:
    """`activeDeadlineSeconds` with which a workload is released; None for no limit.

    Half a step less than there is: its controller may begin late.
    """
    run = deadline(grant.run_seconds)
    if deadman is None:
        return run
    room = deadman.latest - deadman.now - timedelta(seconds=_grace(item, ()) + deadman.step_seconds / 2)
    return _least(floor(room.total_seconds()), run)


def next_deadline(item: KubeObject, pods: Iterable[KubeObject], grant: Grant, deadman: Deadman | None) -> int | None:
    """`activeDeadlineSeconds` that a released Job should have; the one that it has, where that is good enough."""
    run, present = deadline(grant.run_seconds), _present(item)
    if deadman is None:
        return run
    room = _room(item, pods, deadman)
    if room is None:
        return present
    wanted = _least(room, run)
    if present is None or present > wanted or wanted == run:
        return wanted
    return wanted if wanted - present >= deadman.step_seconds else present


def ends_in_time(item: KubeObject, pods: Iterable[KubeObject], deadman: Deadman | None) -> bool:
    """Whether Kubernetes ends the pods of a Job in time without its agent, by what was read of it."""
    if deadman is None:
        return True
    room, present = _room(item, pods, deadman), _present(item)
    return room is not None and present is not None and present <= room


def ends_at(item: KubeObject) -> datetime | None:
    """When Kubernetes ends a Job as it is; None where it does not, or has not begun to count."""
    start, present = _started_at(item), _present(item)
    return None if start is None or present is None else start + timedelta(seconds=present)


def why_failed(item: KubeObject, reason: str, grant: Grant | None) -> str:
    """The reason that a Job gives for its failure, but where its deadline was only the agent's: that is no fault of the job's.

    Judged by the times that the Job controller wrote. What it decided on may have been patched since.
    """
    if reason != EXCEEDED or grant is None:
        return reason
    run, start = deadline(grant.run_seconds), _started_at(item)
    if run is None:
        return DEADMAN
    end = moment(condition(item, "FailureTarget").get("lastTransitionTime"))
    if start is not None and end is not None:
        return reason if (end - start).total_seconds() >= run - _WRITTEN_SECONDS else DEADMAN
    present = _present(item)
    return DEADMAN if present is not None and present < run else reason


def _room(item: KubeObject, pods: Iterable[KubeObject], deadman: Deadman) -> int | None:
    """The most that the field may be; None where nothing is counted yet, or nothing is to be counted."""
    start = _started_at(item)
    if start is None or makes_jobs(item):
        return None
    return floor((deadman.latest - start).total_seconds() - _grace(item, pods))


def _least(room: int, run: int | None) -> int:
    return max(room if run is None else min(room, run), 1)


def _present(item: KubeObject) -> int | None:
    found = part(item, "spec").get("activeDeadlineSeconds")
    return None if found is None else int(found)


def _started_at(item: KubeObject) -> datetime | None:
    return moment(part(item, "status").get("startTime"))


def _grace(item: KubeObject, pods: Iterable[KubeObject]) -> int:
    """How long its pods may take to end, in seconds; an admission webhook may have given one more than its template has."""
    return max(map(grace_of, (*pod_templates(item), *pods)))
