"""JobSets: the set is what is released, its one Job is what makes the pods, and each of the two only once."""

from dataclasses import dataclass, replace

import pytest

from reconciler.agent.decide import Decision, Right, decide
from reconciler.agent.record import Entry, Record, decode, encode
from reconciler.agent.recovery import recovered
from reconciler.agent.seen import gather, settled, stopped
from reconciler.agent.workloads import report_attempt
from reconciler.model.grants import Grants
from reconciler.model.report import WorkloadReport
from reconciler.ports import ClusterState
from tests.agent.objects import (
    ATTEMPT,
    KEY,
    Raw,
    ended_pod,
    gated_pod,
    made_job,
    make_admission,
    make_grant,
    make_grants,
    make_job_set,
    make_state,
    running_pod,
)
from tests.agent.test_decide import FENCED, LAPSED, VALID, in_words

RELEASED = Entry("uid-s", generation=2, nodes=1)
BOUND = replace(RELEASED, maker="uid-1", maker_generation=2)
GRANTED, NOTHING = make_grants(make_grant(run_seconds=600)), make_grants()
HELD = make_job_set()
RUNS = make_job_set(suspend=False, generation=2)


@dataclass(frozen=True)
class Case:
    """What there is, what is done, and what the record says of it then."""

    want: tuple[str, ...]
    item: Raw
    makers: tuple[Raw, ...] = ()
    pods: tuple[Raw, ...] = ()
    before: Entry | None = None
    after: Entry | None = None
    grants: Grants = GRANTED
    right: Right = VALID
    note: str = ""


CASES = {
    "granted: recorded and released, and its run time is the hub's to count": Case(
        ("release uid-s for 600",), HELD, (made_job(suspend=True, generation=1),), after=RELEASED
    ),
    "not without a valid lease": Case((), HELD, right=LAPSED),
    "its Job makes no pods yet": Case((), RUNS, (made_job(suspend=True, generation=1),), before=RELEASED, after=RELEASED),
    "its Job is bound, in the record that is written before a gate is lifted": Case(
        ("lift p1",), RUNS, (made_job(),), (gated_pod(),), RELEASED, BOUND
    ),
    "a pod of its Job is let run": Case(("lift p1",), RUNS, (made_job(),), (gated_pod(),), BOUND, BOUND),
    "a pod that only says that it is of it is not": Case((), RUNS, (made_job(),), (gated_pod(owner="uid-x"),), BOUND, BOUND),
    "its Job was deleted and made again: nothing of that is let run": Case(
        (), RUNS, (made_job("uid-2", generation=1),), (gated_pod(owner="uid-2"),), BOUND, BOUND, note="ChangedSinceRelease"
    ),
    "its Job was suspended and resumed: nothing more is let run": Case(
        (), RUNS, (made_job(generation=4),), (gated_pod(),), BOUND, BOUND, note="ChangedSinceRelease"
    ),
    "a Job of another set is not bound": Case((), RUNS, (made_job(owner="uid-y"),), (gated_pod(),), RELEASED, RELEASED),
    "a Job that is suspended is not bound": Case((), RUNS, (made_job(suspend=True),), (), RELEASED, RELEASED),
    "what runs under its name and is of another Job is ended": Case(
        ("delete p2",), RUNS, (made_job(),), (running_pod("p1"), running_pod("p2", owner="uid-2")), BOUND, BOUND
    ),
    "withdrawn: the set is suspended and closed, and its pods are told to end": Case(
        ("close uid-s", "delete p1"), RUNS, (made_job(),), (running_pod(),), BOUND, BOUND, grants=NOTHING
    ),
    "nothing may run: its pods end soon": Case(
        ("close uid-s", "delete p1 in 30"), RUNS, (made_job(),), (running_pod(),), BOUND, BOUND, right=FENCED
    ),
    "a set of several Jobs is not released": Case((), make_job_set(replicas=2), note="SeveralJobs"),
    "a set whose pods have no gate is not released": Case((), make_job_set(gates=()), note="GateMissing"),
    "one that has ended is left alone": Case(
        (),
        make_job_set(suspend=False, generation=2, conditions={"Completed": "AllJobsCompleted"}),
        (made_job(conditions={"Complete": "CompletionsReached"}),),
        (ended_pod(),),
        BOUND,
        replace(BOUND, done=frozenset({0})),
    ),
}


def state_of(case: Case) -> ClusterState:
    return make_state(jobs=(case.item,), pods=case.pods, makers=case.makers)


def decided(case: Case) -> Decision:
    record = Record(epoch=1, attempts={} if case.before is None else {KEY: case.before})
    return decide(gather(state_of(case), record, case.grants), record, case.grants, case.right, None)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_what_is_done_with_a_set(case: Case) -> None:
    decision = decided(case)
    assert tuple(map(in_words, decision.actions)) == case.want
    assert decision.record.attempts.get(KEY) == case.after
    assert [note.code for note in decision.notes] == ([case.note] if case.note else [])
    assert decode(encode(decision.record)) == decision.record


def reported(item: Raw, makers: tuple[Raw, ...], pods: tuple[Raw, ...], entry: Entry | None = BOUND) -> WorkloadReport:
    record = Record(epoch=1, attempts={} if entry is None else {KEY: entry})
    (seen,) = gather(make_state(jobs=(item,), pods=pods, makers=makers), record, GRANTED)
    return report_attempt(seen, is_left_over=False)


def test_how_it_ended_is_told_as_of_a_job() -> None:
    well = make_job_set(suspend=False, generation=2, conditions={"Completed": "AllJobsCompleted"})
    said = reported(well, (made_job(conditions={"Complete": "CompletionsReached"}),), (ended_pod(),))
    assert (said.attempt, said.uid, said.state, said.stopped, said.succeeded) == (ATTEMPT, "uid-s", "Ended", True, True)
    badly = make_job_set(suspend=False, generation=2, conditions={"Failed": "FailedJobs"})
    said = reported(badly, (made_job(conditions={"Failed": "BackoffLimitExceeded"}),), (ended_pod(code=3),))
    assert (said.state, said.succeeded, said.failed) == ("Ended", False, "BackoffLimitExceeded")


@pytest.mark.parametrize(
    "maker", [made_job("uid-2", generation=1), made_job(generation=4)], ids=["made again", "suspended and resumed"]
)
def test_a_job_that_is_not_as_it_was_is_reported_as_replaced(maker: Raw) -> None:
    owner = maker["metadata"]["uid"]
    assert reported(RUNS, (maker,), (gated_pod(owner=owner),)).replaced is True
    assert reported(RUNS, (made_job(),), (gated_pod(),)).replaced is False


def test_a_pod_without_our_label_is_found_by_the_job_that_the_set_made() -> None:
    state = make_state(jobs=(RUNS,), pods=(running_pod(attempt=None),), makers=(made_job(),))
    (seen,) = gather(state, Record(epoch=1, attempts={KEY: BOUND}), GRANTED)
    assert seen.active is True


def test_it_has_stopped_when_no_pod_is_left_and_no_release_can_reach_it() -> None:
    record = Record(epoch=1, attempts={KEY: BOUND})
    closed = make_job_set(generation=3, closed=True)
    for pods, want in (((running_pod(),), False), ((gated_pod(),), False), ((gated_pod(closed=True),), True), ((), True)):
        (seen,) = gather(make_state(jobs=(closed,), pods=pods, makers=(made_job(suspend=True),)), record, NOTHING)
        assert settled(seen) is stopped(seen) is want


def test_where_the_record_was_lost_what_runs_goes_on_and_nothing_more_is_let_run() -> None:
    state = make_state(jobs=(RUNS,), pods=(running_pod("p1"), gated_pod("p2")), makers=(made_job(),))
    record = recovered(gather(state, Record(), GRANTED), epoch=1)
    decision = decide(gather(state, record, GRANTED), record, GRANTED, VALID, None)
    assert decision.actions == ()
    assert reported(RUNS, (made_job(),), (running_pod("p1"), gated_pod("p2")), record.attempts[KEY]).replaced is True


def test_in_a_queue_it_is_kueues_to_suspend() -> None:
    item = make_job_set()
    item["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "gpus"
    item["metadata"]["annotations"] = {"gpu-reconciler.dev/queue": "gpus"}
    state = make_state(jobs=(item,), admissions=(make_admission(owner="uid-s"),))
    decision = decide(gather(state, Record(epoch=1), GRANTED), Record(epoch=1), GRANTED, VALID, None)
    assert tuple(map(in_words, decision.actions)) == ("admit job-x",)
