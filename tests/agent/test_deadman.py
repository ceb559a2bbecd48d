"""Regions with `deadman: true`: Kubernetes itself ends a Job when its agent says nothing more, and no sooner."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from reconciler.agent.actions import Enqueue, PatchDeadline, Release
from reconciler.agent.deadman import Deadman, why_failed
from reconciler.agent.decide import Decision, Right, decide
from reconciler.agent.record import Entry, Record
from reconciler.agent.seen import gather
from reconciler.agent.settings import Settings, Times, timed
from reconciler.model.grants import Grants
from reconciler.ports import Transient
from tests.agent.objects import (
    ATTEMPT,
    KEY,
    Raw,
    gated_pod,
    make_grant,
    make_grants,
    make_job,
    make_job_set,
    make_state,
    queued_job,
    running_pod,
)
from tests.agent.region import Region, job_of, runs, started
from tests.agent.stores import FailingStore
from tests.agent.test_decide import in_words

A1, A2 = "train-a1", "train-a2"
NOW = datetime(2026, 5, 1, 10, 0, 0, tzinfo=UTC)
RENEWED = Deadman(NOW, NOW + timedelta(seconds=270), 240.0, 30.0, is_late=False)
"""A renewal that was sent right now, with the times of the protocol: a pod with the usual grace has 240 s."""
LATE = Deadman(NOW + timedelta(seconds=31), NOW + timedelta(seconds=270), 240.0, 30.0, is_late=True)
GRANTED = make_grants(ATTEMPT)
RELEASED = Entry("uid-1", generation=2, nodes=1)


def ago(seconds: float) -> str:
    return f"{NOW - timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"


def running(
    deadline: int | None, since: float | None = 1000, *, grace: int | None = None, generation: int = 2, **more: Any
) -> Raw:
    """A released Job, which began `since` seconds ago; None: its controller has not begun."""
    status = {} if since is None else {"startTime": ago(since)}
    job = make_job(suspend=False, generation=generation, status=status, activeDeadlineSeconds=deadline, **more)
    if grace is not None:
        job["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = grace
    return job


def held(grace: int) -> Raw:
    job = make_job()
    job["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = grace
    return job


def granted(run_seconds: int | None) -> Grants:
    return make_grants(make_grant(run_seconds=run_seconds))


@dataclass(frozen=True)
class Case:
    """A Job as it was read, and what is done about it."""

    want: tuple[str, ...]
    job: Raw
    pods: tuple[Raw, ...] = ()
    grants: Grants = GRANTED
    deadman: Deadman | None = RENEWED
    before: Entry | None = RELEASED
    entry: Entry | None = RELEASED
    note: str = ""


PATCHED = replace(RELEASED, generation=3)

CASES = {
    # the release
    "released with half a step less than there is": Case(("release uid-1 for 210",), make_job(), before=None),
    "a long grace is taken off": Case(("release uid-1 for 140",), held(100), before=None),
    "the run time, where that is less": Case(("release uid-1 for 60",), make_job(), grants=granted(60), before=None),
    "not released while a renewal is late": Case((), make_job(), deadman=LATE, before=None, entry=None),
    "the longest grace": Case(("release uid-1 for 90",), held(150), before=None),
    "a grace that leaves too little time": Case((), held(151), before=None, entry=None, note="GraceTooLong"),
    "a JobSet has no deadline": Case((), make_job_set(), before=None, entry=None, note="DeadmanNotPossible"),
    "elsewhere it is released, whatever its grace": Case(("release uid-1 for None",), held(7200), before=None, deadman=None),
    # putting off
    "put off once a quarter of the fence is used up": Case(("deadline 1240",), running(1180), (running_pod(),), entry=PATCHED),
    "not sooner": Case((), running(1181), (running_pod(),)),
    "at once while a renewal is late": Case(("deadline 1240",), running(1239), deadman=LATE, entry=PATCHED),
    "once only": Case((), running(1240), deadman=LATE),
    "never beyond the run time": Case(("deadline 1200",), running(1170), grants=granted(1200), entry=PATCHED),
    "to the very end of the run time": Case(("deadline 1200",), running(1199), grants=granted(1200), entry=PATCHED),
    "and then no more": Case((), running(1200), grants=granted(1200)),
    "a run time that was used up": Case(("deadline 900",), running(1200), grants=granted(900), entry=PATCHED),
    "a limit that was raised": Case(("deadline 1240",), running(1100), grants=granted(9000), entry=PATCHED),
    "brought forward where it ends too late": Case(("deadline 1240",), running(1241), entry=PATCHED),
    "given one where it had none": Case(("deadline 1240",), running(None), entry=PATCHED),
    "a pod may have a longer grace than its template": Case(
        ("deadline 1170",), running(1240), (running_pod(terminationGracePeriodSeconds=100),), entry=PATCHED
    ),
    "a Job whose controller has not begun is left": Case((), running(210, None)),
    "one that somebody changed is kept all the same, and its change not hidden": Case(
        ("deadline 1240",), running(9000, generation=5), (running_pod(),)
    ),
    "one that is failing is left": Case((), running(900, conditions={"FailureTarget": "DeadlineExceeded"})),
    # lifting
    "a gate is lifted where Kubernetes ends the pod in time": Case(("lift p1",), running(1240), (gated_pod(),)),
    "also where it is put off at once": Case(("lift p1", "deadline 1240"), running(1100), (gated_pod(),), entry=PATCHED),
    "not before it would": Case(("deadline 1240",), running(1241), (gated_pod(),), entry=PATCHED),
    "not before its controller has begun": Case((), running(210, None), (gated_pod(),)),
    "not without a deadline": Case(("deadline 1240",), running(None), (gated_pod(),), entry=PATCHED),
    "a JobSet that was released before is let go on": Case(
        (), make_job_set(suspend=False, generation=2), before=replace(RELEASED, uid="uid-s"), entry=replace(RELEASED, uid="uid-s"),
        note="DeadmanNotPossible",
    ),
}  # fmt: skip


def run(case: Case) -> Decision:
    record = Record(epoch=1, attempts={KEY: case.before} if case.before else {})
    right = Right(epoch=1, valid=True, stop_all=False, kill_seconds=30, deadman=case.deadman)
    attempts = gather(make_state(jobs=[case.job], pods=case.pods), record, case.grants)
    return decide(attempts, record, case.grants, right, None)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_next(case: Case) -> None:
    decision = run(case)
    assert tuple(in_words(action) for action in decision.actions) == case.want
    assert decision.record.attempts.get(KEY) == case.entry
    assert [note.code for note in decision.notes] == ([case.note] if case.note else [])


def test_a_request_to_put_off_says_when_it_ends_else() -> None:
    (action,) = run(CASES["put off once a quarter of the fence is used up"]).actions
    assert isinstance(action, PatchDeadline)
    assert action.ends_at == NOW + timedelta(seconds=180)


def test_what_is_put_into_a_queue_has_a_deadline_as_well() -> None:
    job = queued_job(enqueued=False)
    right = Right(epoch=1, valid=True, stop_all=False, kill_seconds=30, deadman=RENEWED)
    grants = make_grants(ATTEMPT)
    attempts = gather(make_state(jobs=[job], admissions=[]), Record(epoch=1), grants)
    (action,) = decide(attempts, Record(epoch=1), grants, right, None).actions
    assert isinstance(action, Enqueue)
    assert action.run_seconds == 210


def test_what_runs_is_kept_running_before_anything_new_is_released() -> None:
    jobs = [running(1100), make_job("new", uid="uid-new", attempt="new")]
    record, grants = Record(epoch=1, attempts={KEY: RELEASED}), make_grants("new", ATTEMPT)
    right = Right(epoch=1, valid=True, stop_all=False, kill_seconds=30, deadman=RENEWED)
    actions = decide(gather(make_state(jobs=jobs), record, grants), record, grants, right, None).actions
    assert [type(action) for action in actions] == [PatchDeadline, Release]


@dataclass(frozen=True)
class Ended:
    """How a Job was ended, and how that is told."""

    want: str
    after: float | None
    run_seconds: int | None
    reason: str = "DeadlineExceeded"
    deadline: int | None = 240


ENDS = {
    "no limit": Ended("Deadman", 240, None),
    "long before the run time was used up": Ended("Deadman", 240, 3600),
    "the run time was used up": Ended("DeadlineExceeded", 3600, 3600, deadline=3600),
    "times are written in whole seconds": Ended("DeadlineExceeded", 3598, 3600, deadline=3600),
    "used up, while the deadline was behind": Ended("DeadlineExceeded", 3601, 3600, deadline=3500),
    "put off to the run time's end when it was too late": Ended("Deadman", 3500, 3600, deadline=3600),
    "no times, a deadline before the run time": Ended("Deadman", None, 3600),
    "no times, the run time": Ended("DeadlineExceeded", None, 3600, deadline=3600),
    "no times, no deadline": Ended("DeadlineExceeded", None, 3600, deadline=None),
    "another failure": Ended("BackoffLimitExceeded", 240, None, reason="BackoffLimitExceeded"),
}


@pytest.mark.parametrize("case", ENDS.values(), ids=ENDS.keys())
def test_why_it_failed(case: Ended) -> None:
    since = case.after
    job = running(case.deadline, since, conditions={"FailureTarget": case.reason})
    if since is not None:
        job["status"]["conditions"][0]["lastTransitionTime"] = ago(0)
    assert why_failed(job, case.reason, make_grant(run_seconds=case.run_seconds)) == case.want
    assert why_failed(job, case.reason, None) == case.reason, "what is not granted has its own words"


# ---- in a region --------------------------------------------------------------------------------------------------


def settings(self_fence: int = 240, fence_kill: int = 30) -> dict[str, Any]:
    made = timed(Settings(), Times(self_fence, fence_kill, deadman=True))
    names = ("self_fence_seconds", "fence_kill_seconds", "deadman", "renew_seconds", "request_seconds")
    return {name: getattr(made, name) for name in names}


def region_with(self_fence: int = 240, fence_kill: int = 30, **job: Any) -> Region:
    """A region in which a job runs, whose agent looks as seldom as its times allow."""
    return started(region=Region(look_seconds=self_fence / 30, **settings(self_fence, fence_kill)), **job)


def active(region: Region, attempt: str = A1) -> list[str]:
    return [phase for phase in region.phases(attempt) if phase in ("Pending", "Running")]


def sent_at(region: Region) -> float:
    """When the last renewal was sent, in the region's seconds."""
    sent = region.agent.memory.holding.sent_at
    assert sent is not None
    return sent - 5000.0


def frozen(region: Region, until: float) -> float:
    """The agent does nothing until then; returns when the last pod had ended."""
    while active(region):
        assert region.clock.seconds < until, f"pods still run {region.clock.seconds} s after the start"
        region.pass_time(0.5)
    return region.clock.seconds


TIMES = {
    "the protocol's times": (240, 30, 30, 30.0),
    "pods that need no time": (240, 30, 30, 0.0),
    "a long grace, all of it used": (240, 30, 100, 100.0),
    "the longest": (240, 30, 150, 150.0),
    "a short fence": (30, 5, 5, 5.0),
    "the shortest": (15, 1, 1, 1.0),
}


@pytest.mark.parametrize(("fence", "kill", "grace", "stop"), TIMES.values(), ids=TIMES.keys())
@pytest.mark.parametrize("runs_for", [5, 47, 333])
def test_an_agent_that_is_frozen_for_ever(fence: int, kill: int, grace: int, stop: float, runs_for: float) -> None:
    region = region_with(fence, kill, grace=grace, says=runs(stop=stop))
    assert region.phases(A1) == ["Running"]
    region.advance(runs_for)
    assert region.phases(A1) == ["Running"]
    left = frozen(region, sent_at(region) + fence + kill + 0.5) - region.clock.seconds
    assert left <= 0


@pytest.mark.parametrize(("fence", "kill", "grace", "stop"), TIMES.values(), ids=TIMES.keys())
def test_a_healthy_job_runs_far_beyond_the_fence(fence: int, kill: int, grace: int, stop: float) -> None:
    region = region_with(fence, kill, grace=grace, says=runs(stop=stop))
    region.wire.requests.clear()
    region.advance(8 * fence)
    assert (region.phases(A1), region.runtime.started) == (["Running"], [A1])
    patches = region.wire.requests.count("patch Job")
    assert 8 <= patches <= 33, "once in a quarter of the fence at most, and not seldom either"


def test_a_store_that_is_away_ends_nothing_before_the_fence() -> None:
    region = region_with(says=runs(stop=5))
    assert isinstance(region.store, FailingStore)
    region.advance(70)  # its deadline is well behind what the renewals allow
    region.store.down = True
    region.advance(225 - (region.clock.seconds - sent_at(region)))
    assert region.phases(A1) == ["Running"]
    assert "deletionTimestamp" not in region.pods(A1)[0]["metadata"]
    region.store.down = False
    region.advance(300)
    assert (region.phases(A1), region.runtime.started) == (["Running"], [A1])


def test_a_store_that_is_away_for_ever_and_an_agent_that_is_frozen_then() -> None:
    region = region_with(says=runs(stop=30))
    assert isinstance(region.store, FailingStore)
    region.store.down = True
    region.advance(100)
    frozen(region, sent_at(region) + 270.5)


def test_an_agent_that_is_back_in_time_keeps_everything() -> None:
    region = region_with(says=runs(stop=5))
    for _ in range(5):
        region.advance(90)
        region.pass_time(130)
        region.restart()
    region.advance(600)
    assert (region.phases(A1), region.runtime.started) == (["Running"], [A1])
    assert region.record().attempts[next(iter(region.record().attempts))].generation == region.job(A1)["metadata"]["generation"]


def test_what_kubernetes_ended_without_its_agent_is_no_fault_of_the_jobs() -> None:
    region = region_with(says=runs(stop=5))
    region.advance(100)
    frozen(region, sent_at(region) + 270.5)
    region.pass_time(3600)
    region.restart()
    region.advance(5)
    said = region.said(A1)
    assert (said.state, said.stopped, said.failed, said.replaced) == ("Ended", True, "Deadman", False)
    assert region.runtime.started == [A1]


def test_the_run_time_is_kept_to_the_second() -> None:
    region = region_with(grant=make_grant(A1, run_seconds=1000), says=runs(stop=1))
    began = region.clock.seconds
    region.advance(996 - began)
    assert region.phases(A1) == ["Running"]
    region.advance(10)
    assert active(region) == []
    assert region.said(A1).failed == "DeadlineExceeded"


def test_a_run_time_that_is_raised_and_lowered() -> None:
    region = region_with(grant=make_grant(A1, run_seconds=300), says=runs(stop=1))
    region.advance(200)
    region.grant(make_grant(A1, run_seconds=700))
    region.advance(400)
    assert region.phases(A1) == ["Running"]
    region.grant(make_grant(A1, run_seconds=610))
    region.advance(20)
    assert active(region) == []
    assert region.said(A1).failed == "DeadlineExceeded"


def test_a_deadline_that_cannot_be_put_off_is_told_and_ends_the_job_in_time() -> None:
    region = region_with(says=runs(stop=5))
    patch = region.wire.patch

    def refusing(target: Any, body: Any) -> Any:
        if "activeDeadlineSeconds" in body.get("spec", {}):
            raise Transient("the API server does not answer")
        return patch(target, body)

    region.wire.patch = refusing  # type: ignore[method-assign]
    region.advance(130)
    (trouble,) = [one for one in region.report().health if one.code == "EndNotPutOff"]
    assert f"team-a/{A1}, which Kubernetes ends at 2026-05-01 10:" in trouble.message
    region.advance(150)
    assert active(region) == []
    said = region.said(A1)
    assert (said.failed, said.stopped, region.runtime.started) == ("Deadman", True, [A1])


@pytest.mark.parametrize("after", [False, True], ids=["not done", "done, and the answer lost"])
def test_a_patch_whose_answer_does_not_come_is_no_change_by_somebody(after: bool) -> None:
    region = region_with(size=2, says=runs(stop=5))
    patch = region.wire.patch
    lost: list[Any] = []

    def losing(target: Any, body: Any) -> Any:
        if "activeDeadlineSeconds" in body.get("spec", {}) and len(lost) < 2:
            lost.append(patch(target, body) if after else None)
            raise Transient("the connection was closed")
        return patch(target, body)

    region.wire.patch = losing  # type: ignore[method-assign]
    region.advance(600)
    assert len(lost) == 2
    said = region.said(A1)
    assert (region.phases(A1), said.replaced, "ChangedSinceRelease" in region.health()) == (["Running"] * 2, False, False)
    assert region.runtime.started == [A1] * 2


def test_a_job_that_somebody_gives_more_time_does_not_get_it() -> None:
    region = region_with(says=runs(stop=5))
    region.patch(region.job(A1), {"spec": {"activeDeadlineSeconds": 10**6}})
    region.advance(2)
    frozen(region, sent_at(region) + 270.5)


def test_a_region_that_becomes_a_deadmans_and_stops_being_one() -> None:
    region = started(says=runs(stop=5))
    plain = region.settings
    region.settings = Settings(**settings())
    region.restart()
    region.advance(30)
    assert region.job(A1)["spec"]["activeDeadlineSeconds"] <= 270
    region.settings = plain
    region.restart()
    region.advance(30)
    assert region.job(A1)["spec"].get("activeDeadlineSeconds") is None
    region.pass_time(1000)
    assert region.phases(A1) == ["Running"]


@pytest.mark.parametrize("ahead", [-3600.0, 3600.0])
def test_a_clock_that_is_set_while_the_agent_runs_ends_nothing_and_delays_nothing(ahead: float) -> None:
    region = region_with(says=runs(stop=5))
    region.clock.wall_ahead = ahead
    region.advance(900)
    assert (region.phases(A1), region.runtime.started) == (["Running"], [A1])
    assert "ClockSet" in region.health()
    frozen(region, sent_at(region) + 270.5)


def test_another_replica_that_comes_back_from_a_pause_without_a_store_brings_nothing_forward() -> None:
    region = region_with(says=runs(stop=5))
    first = region.agent
    first.store = FailingStore()
    first.store.down = True
    region.restart()
    region.advance(200)
    before = region.job(A1)["spec"]["activeDeadlineSeconds"]
    for _ in range(3):
        first.step()
        region.settle()
        assert region.job(A1)["spec"]["activeDeadlineSeconds"] >= before
        region.pass_time(0.5)
    assert region.phases(A1) == ["Running"]


def test_a_fence_stops_everything_as_elsewhere() -> None:
    region = region_with(grace=100, says=runs(stop=90))
    region.render(job_of(A2))
    assert isinstance(region.store, FailingStore)
    region.store.down = True
    region.advance(280)
    assert active(region) == []
    assert region.runtime.started == [A1]
