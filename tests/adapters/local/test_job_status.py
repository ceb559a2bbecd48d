"""What a Job says of itself, step by step; each case is a row of what was seen on Kubernetes 1.36."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.adapters.local.world import World, conditions, make_job, phases, runs, status_without

SUSPENDED = "Suspended=True (JobSuspended)"
RESUMED = "Suspended=False (JobResumed)"
MET, COMPLETE = "SuccessCriteriaMet=True (CompletionsReached)", "Complete=True (CompletionsReached)"
OVER_LIMIT, FAILED = "FailureTarget=True (BackoffLimitExceeded)", "Failed=True (BackoffLimitExceeded)"
OVERDUE, DEADLINE = "FailureTarget=True (DeadlineExceeded)", "Failed=True (DeadlineExceeded)"

Act = Callable[[World], None]


@dataclass(frozen=True)
class Case:
    """What is done to a fresh Job `train` that was created suspended, one act after the other, and what then holds."""

    acts: tuple[Act, ...]
    want_conditions: tuple[str, ...]
    want_status: dict[str, Any]
    want_phases: tuple[str, ...] = ()
    job: dict[str, Any] = field(default_factory=make_job)


def after(seconds: float) -> Act:
    return lambda world: world.advance(seconds)


def suspend(world: World) -> None:
    world.suspend(True)


def resume(world: World) -> None:
    world.suspend(False)


def delete_pod(world: World) -> None:
    world.delete(world.pods()[-1])


def shorten(grace: int) -> Act:
    return lambda world: world.delete(world.pod(), grace)


def until(seconds: int) -> Act:
    return lambda world: void(world.patch(world.job(), {"spec": {"activeDeadlineSeconds": seconds}}))


def void(_: object) -> None:
    return None


AT_0, AT_5 = {"startTime": "2026-05-01T10:00:00Z"}, {"startTime": "2026-05-01T10:00:05Z"}
ENDED_5 = {"completionTime": "2026-05-01T10:00:05Z"}
QUIET = {"ready": 0, "terminating": 0}

CASES = {
    "created suspended: no pod, no start": Case((), (SUSPENDED,), QUIET),
    "created running: no condition at all": Case(
        (), (), {**AT_0, "active": 1, "ready": 1, "terminating": 0}, ("Running",), make_job(suspend=False)
    ),
    "un-suspended: resumed, started": Case(
        (resume,), (RESUMED,), {**AT_0, "active": 1, "ready": 1, "terminating": 0}, ("Running",)
    ),
    "suspended while running: said at once, while the pod still stops": Case(
        (resume, after(5), suspend, after(1)),
        (SUSPENDED,),
        {"ready": 0, "terminating": 1},
        ("Running",),
        make_job(annotations=runs(stop=3)),
    ),
    "suspended, and the pod has stopped: nothing is left": Case(
        (resume, after(5), suspend, after(3)), (SUSPENDED,), QUIET, (), make_job(annotations=runs(stop=3))
    ),
    "resumed: a new start": Case(
        (resume, suspend, after(5), resume),
        (RESUMED,),
        {**AT_5, "active": 1, "ready": 1, "terminating": 0},
        ("Running",),
    ),
    "complete": Case(
        (resume, after(9)),
        (RESUMED, MET, COMPLETE),
        {**AT_0, **ENDED_5, **QUIET, "succeeded": 1},
        ("Succeeded",),
        make_job(annotations=runs(5)),
    ),
    "suspend and resume of a finished Job do nothing": Case(
        (resume, after(5), suspend, after(5), resume, after(5)),
        (RESUMED, MET, COMPLETE),
        {**AT_0, **ENDED_5, **QUIET, "succeeded": 1},
        ("Succeeded",),
        make_job(annotations=runs(5)),
    ),
    "an indexed Job completes with its indexes": Case(
        (resume, after(9)),
        (RESUMED, MET, COMPLETE),
        {**AT_0, **ENDED_5, **QUIET, "succeeded": 3, "completedIndexes": "0-2"},
        ("Succeeded",) * 3,
        make_job(size=3, annotations=runs(5)),
    ),
    "fewer at a time than in all: the next begins when one has ended": Case(
        (resume, after(5)),
        (RESUMED,),
        {**AT_0, "active": 1, "ready": 1, "terminating": 0, "succeeded": 1, "completedIndexes": "0"},
        ("Succeeded", "Running"),
        make_job(size=2, parallelism=1, annotations=runs(5)),
    ),
    "a pod fails": Case(
        (resume, after(9)),
        (RESUMED, OVER_LIMIT, FAILED),
        {**AT_0, **QUIET, "failed": 1},
        ("Failed",),
        make_job(annotations=runs(5, code=3)),
    ),
    "past the deadline": Case(
        (resume, after(8)),
        (RESUMED, OVERDUE, DEADLINE),
        {**AT_0, **QUIET, "failed": 1},
        (),
        make_job(activeDeadlineSeconds=8),
    ),
    "just before the deadline": Case(
        (resume, after(7.9)),
        (RESUMED,),
        {**AT_0, "active": 1, "ready": 1, "terminating": 0},
        ("Running",),
        make_job(activeDeadlineSeconds=8),
    ),
    "past the deadline, but the pod takes 3 s to stop": Case(
        (resume, after(9)),
        (RESUMED, OVERDUE),
        {**AT_0, "ready": 0, "terminating": 1, "failed": 1},
        ("Running",),
        make_job(activeDeadlineSeconds=8, annotations=runs(stop=3)),
    ),
    "the deadline's clock starts anew at each resume, and rests while suspended": Case(
        (resume, after(5), suspend, after(2), resume, after(7.4)),
        (RESUMED,),
        {"startTime": "2026-05-01T10:00:07Z", "active": 1, "ready": 1, "terminating": 0},
        ("Running",),
        make_job(activeDeadlineSeconds=8),
    ),
    "the deadline after a resume": Case(
        (resume, after(5), suspend, after(2), resume, after(8)),
        (RESUMED, OVERDUE, DEADLINE),
        {"startTime": "2026-05-01T10:00:07Z", **QUIET, "failed": 1},
        (),
        make_job(activeDeadlineSeconds=8),
    ),
    "the deadline is put off while running, again and again": Case(
        (resume, after(5), until(9), after(3), until(12), after(3), until(15), after(3)),
        (RESUMED,),
        {**AT_0, "active": 1, "ready": 1, "terminating": 0},
        ("Running",),
        make_job(activeDeadlineSeconds=6),
    ),
    "the deadline is brought forward into the past: failed at once": Case(
        (resume, after(5), until(2), after(0)),
        (RESUMED, OVERDUE, DEADLINE),
        {**AT_0, **QUIET, "failed": 1},
        (),
        make_job(activeDeadlineSeconds=60),
    ),
    "a pod deleted by hand: nothing while it stops": Case(
        (resume, delete_pod, after(2)),
        (RESUMED,),
        {**AT_0, "ready": 0, "terminating": 1},
        ("Running",),
        make_job(annotations=runs(stop=3)),
    ),
    "a pod deleted by hand has stopped": Case(
        (resume, delete_pod, after(3)),
        (RESUMED, OVER_LIMIT, FAILED),
        {**AT_0, **QUIET, "failed": 1},
        (),
        make_job(annotations=runs(stop=3)),
    ),
    "exit 0 within the grace of a suspend is lost": Case(
        (resume, after(4), suspend, after(9)),
        (SUSPENDED,),
        QUIET,
        (),
        make_job(annotations=runs(5, stop=3)),
    ),
    "and all of it runs again on resume": Case(
        (resume, after(4), suspend, after(1), resume, after(1)),
        (RESUMED,),
        {**AT_5, "active": 1, "ready": 1, "terminating": 0},
        ("Running",),
        make_job(annotations=runs(5, stop=3)),
    ),
    "a failure within the grace of a suspend leaves no trace": Case(
        (resume, after(4), suspend, after(9)), (SUSPENDED,), QUIET, (), make_job(annotations=runs(5, code=1, stop=3))
    ),
    "a pod deleted before the suspend: FailureTarget, and Failed never comes while suspended": Case(
        (resume, after(4), delete_pod, suspend, after(60)),
        (SUSPENDED, OVER_LIMIT),
        {**QUIET, "failed": 1},
        (),
        make_job(annotations=runs(stop=3)),
    ),
    "it comes on resume": Case(
        (resume, after(4), delete_pod, suspend, after(60), resume, after(0)),
        (SUSPENDED, OVER_LIMIT, FAILED),
        {"startTime": "2026-05-01T10:01:04Z", **QUIET, "failed": 1},
        (),
        make_job(annotations=runs(stop=3)),
    ),
    "suspend, then a deletion with a shorter grace: still only suspended": Case(
        (resume, after(4), suspend, after(0), shorten(2), after(2)),
        (SUSPENDED,),
        QUIET,
        (),
        make_job(grace=600, annotations=runs(stop=40)),
    ),
    "a later, longer grace does not lengthen": Case(
        (resume, after(4), suspend, after(0), shorten(3), after(1), shorten(300), after(2)),
        (SUSPENDED,),
        QUIET,
        (),
        make_job(grace=600, annotations=runs(stop=40)),
    ),
    "resumed while the old pod stops: none is made until it is gone": Case(
        (resume, after(4), suspend, after(1), resume, after(4)),
        (RESUMED,),
        {**AT_5, "ready": 0, "terminating": 1},
        ("Running",),
        make_job(annotations=runs(stop=6)),
    ),
    "and made when it is gone": Case(
        (resume, after(4), suspend, after(1), resume, after(5)),
        (RESUMED,),
        {**AT_5, "active": 1, "ready": 1, "terminating": 0},
        ("Running",),
        make_job(annotations=runs(stop=6)),
    ),
    "gated: pods, but none that runs": Case(
        (resume, after(60)),
        (RESUMED,),
        {**AT_0, "active": 2, "ready": 0, "terminating": 0},
        ("Pending", "Pending"),
        make_job(size=2, gated=True),
    ),
    "suspend deletes gated pods at once": Case(
        (resume, after(60), suspend, after(0)), (SUSPENDED,), QUIET, (), make_job(size=2, gated=True)
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_job_status(case: Case) -> None:
    world = World()
    world.create(case.job)
    for act in case.acts:
        act(world)
        world.settle()
    job = world.job()
    assert tuple(conditions(job)) == case.want_conditions
    assert status_without(job) == case.want_status
    assert tuple(phases(world.pods())) == case.want_phases
