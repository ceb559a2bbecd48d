"""One attempt: what a look amounts to, and what is reported of it. Each case is a few raw objects and one sentence."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from reconciler.agent.record import Entry, Record
from reconciler.agent.seen import Seen, Standing, gather, left_over, standing, stopped
from reconciler.agent.workloads import LONGEST_TAIL, is_queued, report_attempt, shortened_tail
from reconciler.model.grants import Grants
from reconciler.model.names import GATE
from reconciler.model.report import WorkloadReport
from reconciler.ports import SyncState
from tests.agent.objects import (
    ATTEMPT,
    KEY,
    TEAM,
    Raw,
    ended_pod,
    gated_pod,
    make_grant,
    make_grants,
    make_job,
    make_pod,
    make_state,
    running_pod,
)

FAILING, FAILED = (
    {"FailureTarget": "BackoffLimitExceeded"},
    {"FailureTarget": "BackoffLimitExceeded", "Failed": "BackoffLimitExceeded"},
)
COMPLETE = {"SuccessCriteriaMet": "CompletionsReached", "Complete": "CompletionsReached"}
RELEASED = Entry("uid-1", generation=2, nodes=1)
DONE = Entry("uid-1", generation=2, nodes=1, done=frozenset({0}))


def see(jobs: tuple[Raw, ...], pods: tuple[Raw, ...], entry: Entry | None, granted: bool) -> Seen:
    record = Record(attempts={KEY: entry} if entry else {})
    grants = make_grants(make_grant(nodes=entry.nodes if entry else 1)) if granted else make_grants()
    (seen,) = gather(make_state(jobs=jobs, pods=pods), record, grants)
    return seen


@dataclass(frozen=True)
class Case:
    """Objects of one attempt, and what they amount to. `want` are fields of its report."""

    want: Standing
    state: str
    stopped: bool
    jobs: tuple[Raw, ...] = (make_job(suspend=False, generation=2),)
    pods: tuple[Raw, ...] = ()
    entry: Entry | None = RELEASED
    granted: bool = True
    said: dict[str, Any] = field(default_factory=dict)


NONE: tuple[Raw, ...] = ()
CASES = {
    # before the release
    "granted, and not synced yet": Case(Standing.ABSENT, "Absent", False, NONE, entry=None, said={"uid": None}),
    "synced and not granted: nothing of it runs, and nothing can": Case(
        Standing.HELD, "Held", True, (make_job(),), entry=None, granted=False, said={"uid": "uid-1"}
    ),
    "granted and not released yet": Case(Standing.HELD, "Held", False, (make_job(),), entry=None),
    "somebody un-suspended it before its release": Case(
        Standing.LOOSE, "Released", False, (make_job(suspend=False, generation=2),), (gated_pod(),), entry=None, granted=False
    ),
    "recorded, and the release has not arrived": Case(Standing.BOUND, "Held", False, (make_job(generation=1),)),
    "recorded, withdrawn, and a release may be under way": Case(
        Standing.BOUND, "Held", False, (make_job(generation=1),), granted=False
    ),
    "recorded, withdrawn, closed: no release can arrive any more": Case(
        Standing.CLOSED, "Ended", True, (make_job(generation=1, closed=True),), granted=False
    ),
    # while it runs
    "released, pods gated": Case(Standing.RELEASED, "Released", False, pods=(gated_pod(),)),
    "running, without any condition": Case(Standing.RELEASED, "Released", False, pods=(running_pod(),)),
    "withdrawn, running": Case(Standing.RELEASED, "Released", False, pods=(running_pod(),), granted=False),
    "withdrawn and released: no pod yet, but one may come": Case(Standing.RELEASED, "Released", False, granted=False),
    "Suspended=True says nothing of pods": Case(
        Standing.CLOSED, "Released", False, (make_job(closed=True, generation=3, conditions={"Suspended": "JobSuspended"}),),
        (running_pod(deleting=True),), granted=False,
    ),
    "closed, and a gated pod may have a lift under way": Case(
        Standing.CLOSED, "Ended", False, (make_job(closed=True, generation=3),), (gated_pod(),), granted=False
    ),
    "closed, and the gated pod is being deleted: a lift would fail": Case(
        Standing.CLOSED, "Ended", True, (make_job(closed=True, generation=3),), (gated_pod(deleting=True),), granted=False
    ),
    "closed, and the gated pod is closed too: a lift would fail": Case(
        Standing.CLOSED, "Ended", True, (make_job(closed=True, generation=3),), (gated_pod(closed=True),), granted=False
    ),
    "closed, pods ended": Case(
        Standing.CLOSED, "Ended", True, (make_job(closed=True, generation=3),), (ended_pod(code=143, deleting=True),), granted=False,
        said={"failed": None},
    ),
    "closed while granted (a fence): it has stopped for good": Case(
        Standing.CLOSED, "Ended", True, (make_job(closed=True, generation=3),), said={"replaced": False, "failed": "Fenced"}
    ),
    "a pod without a node that is being deleted never runs, however long it is listed": Case(
        Standing.CLOSED, "Ended", True, (make_job(closed=True, generation=3),),
        (running_pod(phase="Pending", node=None, deleting=True),), granted=False,
    ),
    "a pod without a node and without its gate may still run": Case(
        Standing.CLOSED, "Released", False, (make_job(closed=True, generation=3),), (running_pod(phase="Pending", node=None),),
        granted=False,
    ),
    "a pod on a silent node may run": Case(
        Standing.CLOSED, "Released", False, (make_job(closed=True, generation=3),), (running_pod(phase="Unknown", deleting=True),),
        granted=False,
    ),
    "a pod that carries our gate and a node all the same runs": Case(
        Standing.CLOSED, "Released", False, (make_job(closed=True, generation=3),), (make_pod(attempt=ATTEMPT, gates=[GATE]),),
        granted=False,
    ),
    # ends
    "failing, and cards are still held": Case(
        Standing.RELEASED, "Released", False, (make_job(suspend=False, generation=2, conditions=FAILING, status={"terminating": 2}),),
        (ended_pod("a", code=1), running_pod("b", deleting=True)), said={"failed": None},
    ),
    "failed": Case(
        Standing.FINISHED, "Ended", True, (make_job(suspend=False, generation=2, conditions=FAILED),),
        (ended_pod(code=1),), said={"failed": "BackoffLimitExceeded", "succeeded": False},
    ),
    "FailureTarget with no live pod is an end, for Failed may never come": Case(
        Standing.FINISHED, "Ended", True, (make_job(suspend=True, generation=3, conditions=FAILING | {"Suspended": "JobSuspended"}),),
        (ended_pod(code=1),), said={"failed": "BackoffLimitExceeded"},
    ),
    "an older Kubernetes says Failed while pods still end": Case(
        Standing.FINISHED, "Released", False, (make_job(suspend=False, generation=2, conditions=FAILED),),
        (running_pod(deleting=True),), said={"failed": None},
    ),
    "complete": Case(
        Standing.FINISHED, "Ended", True, (make_job(suspend=False, generation=2, conditions=COMPLETE),), (ended_pod(),),
        said={"succeeded": True, "failed": None},
    ),
    "complete, its pods cleaned away": Case(
        Standing.FINISHED, "Ended", True, (make_job(suspend=False, generation=2, conditions=COMPLETE),), said={"succeeded": True}
    ),
    "success is decided, pods still end": Case(
        Standing.RELEASED, "Released", False,
        (make_job(suspend=False, generation=2, conditions={"SuccessCriteriaMet": "CompletionsReached"}),), (running_pod(deleting=True),),
    ),
    "a condition that is False is none": Case(
        Standing.RELEASED, "Released", False, (make_job(suspend=False, generation=2, conditions={"Failed": "!No", "Suspended": "!JobResumed"}),),
        (running_pod(),),
    ),
    "an exit 0 within the grace of our own stop, which the Job forgets": Case(
        Standing.CLOSED, "Ended", True, (make_job(closed=True, generation=3),), entry=DONE, granted=False, said={"succeeded": True}
    ),
    "one of two pods ended well": Case(
        Standing.RELEASED, "Released", False, pods=(ended_pod("a", index=0), running_pod("b", index=1)),
        entry=Entry("uid-1", 2, nodes=2, done=frozenset({0})), said={"succeeded": False},
    ),
    # what others did
    "the object was made again": Case(
        Standing.REPLACED, "Held", True, (make_job(uid="uid-2"),), said={"replaced": True, "uid": "uid-1"}
    ),
    "made again while the old pod still ends": Case(
        Standing.REPLACED, "Released", False, (make_job(uid="uid-2"),), (running_pod(deleting=True),), said={"replaced": True}
    ),
    "made again and un-suspended by somebody": Case(
        Standing.REPLACED, "Held", False, (make_job(uid="uid-2", suspend=False),), (gated_pod(owner="uid-2"),), said={"replaced": True}
    ),
    "suspended since the release": Case(
        Standing.REPLACED, "Held", False, (make_job(generation=3),), said={"replaced": True}
    ),
    "suspended and resumed by somebody: its gated pod waits for the hub": Case(
        Standing.RELEASED, "Released", False, (make_job(suspend=False, generation=4),), (gated_pod(),), said={"replaced": True}
    ),
    "somebody changed its spec while all of it runs": Case(
        Standing.RELEASED, "Released", False, (make_job(suspend=False, generation=3),), (running_pod(),), said={"replaced": False}
    ),
    "deleted by somebody, and nothing is left": Case(Standing.LOST, "Absent", True, NONE, said={"uid": "uid-1"}),
    "deleted by somebody, and its pod still ends": Case(Standing.LOST, "Absent", False, NONE, (running_pod(deleting=True),)),
    "orphaned: the pod runs on, and only labels tell": Case(
        Standing.LOST, "Absent", False, NONE, (running_pod(owner=None, labels={"batch.kubernetes.io/controller-uid": "uid-1"}),)
    ),
    "pods of ours with nothing else": Case(Standing.ABSENT, "Absent", False, NONE, (running_pod(),), entry=None, granted=False),
    "closed, and nobody remembers why": Case(Standing.CLOSED, "Ended", True, (make_job(closed=True),), entry=None),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_an_attempt(case: Case) -> None:
    seen = see(case.jobs, case.pods, case.entry, case.granted)
    assert standing(seen) is case.want
    report = report_attempt(seen, is_left_over=False)
    assert (report.state, report.stopped) == (case.state, case.stopped)
    assert {name: getattr(report, name) for name in case.said} == case.said


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_none_that_has_a_pod_at_large_has_stopped(case: Case) -> None:
    stray = make_pod("stray", attempt=ATTEMPT)
    assert not stopped(see(case.jobs, (*case.pods, stray), case.entry, case.granted))


def test_pods_are_found_by_label_and_by_who_made_them() -> None:
    by_label = running_pod("a", owner=None)
    by_owner = make_pod("b", owner="uid-1")
    by_record = make_pod("c", owner="uid-gone")
    foreign = make_pod("d", owner="uid-9")
    record = Record(attempts={KEY: Entry("uid-gone", 2, 1)})
    (seen,) = gather(make_state(jobs=[make_job()], pods=[by_label, by_owner, by_record, foreign]), record, None)
    assert [pod["metadata"]["name"] for pod in seen.pods] == ["a", "b", "c"]


def test_a_workload_without_its_attempt_label_is_found_by_its_name() -> None:
    (seen,) = gather(make_state(jobs=[make_job(attempt=None)]), Record(), None)
    assert seen.key == KEY


def test_one_name_in_two_namespaces_is_two_attempts() -> None:
    state = make_state(jobs=[make_job(), make_job(namespace="team-b", uid="uid-2")])
    assert [(seen.key.namespace, seen.grant is not None) for seen in gather(state, Record(), make_grants(ATTEMPT))] == [
        (TEAM, True),
        ("team-b", False),
    ]


LEFT_OVER: dict[str, tuple[SyncState | None, Grants | None, bool]] = {
    "the branch has it no more": (SyncState("c2", {}, frozenset()), make_grants(commit="c2"), True),
    "the branch has it": (SyncState("c2", {}, frozenset({(TEAM, ATTEMPT)})), make_grants(commit="c2"), False),
    "the engine is behind": (SyncState("c1", {}, frozenset()), make_grants(commit="c2"), False),
    "the engine has applied nothing yet": (SyncState(None, {}, frozenset()), make_grants(), False),
    "the engine does not answer": (None, make_grants(commit="c2"), False),
    "the grants are not known": (SyncState("c2", {}, frozenset()), None, False),
}


@pytest.mark.parametrize(("sync", "grants", "want"), LEFT_OVER.values(), ids=LEFT_OVER.keys())
def test_what_is_left_over(sync: SyncState | None, grants: Grants | None, want: bool) -> None:
    assert bool(left_over(see((make_job(),), (), None, granted=False), sync, grants)) is want


def test_times_of_an_attempt_are_those_of_its_pods() -> None:
    pods = (ended_pod("a", finished="2026-05-01T11:00:00Z"), ended_pod("b", finished="2026-05-01T11:30:00Z"))
    report = report_attempt(see((make_job(suspend=False, conditions=COMPLETE),), pods, RELEASED, True), is_left_over=False)
    assert report.started_at is not None
    assert report.ended_at is not None
    assert (report.started_at.hour, report.ended_at.minute) == (10, 30)


def test_without_pods_the_end_is_when_the_job_says() -> None:
    job = make_job(suspend=False, conditions=COMPLETE, status={"completionTime": "2026-05-01T12:00:00Z"})
    job["status"]["conditions"] = [{"type": "Complete", "status": "True", "lastTransitionTime": "2026-05-01T12:00:00Z"}]
    report = report_attempt(see((job,), (), RELEASED, True), is_left_over=False)
    assert report.ended_at is not None
    assert report.ended_at.hour == 12


QUEUED = {
    "held": (make_job(), (), None, True),
    "gated": (make_job(suspend=False, generation=2), (gated_pod(),), RELEASED, True),
    "no room": (make_job(suspend=False, generation=2), (running_pod(phase="Pending", node=None),), RELEASED, True),
    "running": (make_job(suspend=False, generation=2), (running_pod(),), RELEASED, False),
    "ended": (make_job(suspend=False, conditions=COMPLETE), (ended_pod(),), RELEASED, False),
}


@pytest.mark.parametrize(("job", "pods", "entry", "want"), QUEUED.values(), ids=QUEUED.keys())
def test_what_waits(job: Raw, pods: tuple[Raw, ...], entry: Entry | None, want: bool) -> None:
    report: WorkloadReport = report_attempt(see((job,), pods, entry, True), is_left_over=False)
    assert is_queued(report) is want


def test_a_tail_is_cut_at_the_front_to_whole_characters() -> None:
    tail = shortened_tail("é" * LONGEST_TAIL)
    assert len(tail.encode()) <= LONGEST_TAIL
    assert set(tail) == {"é"}
    assert shortened_tail("x\ud800") == "x?"
