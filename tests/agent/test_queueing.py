"""What the agent does where Kueue owns `suspend`: each case is a look, and the actions that follow."""

from dataclasses import dataclass

import pytest

from reconciler.agent.actions import Activate, Admit, Deactivate, patch_body
from reconciler.agent.decide import Decision, Right, decide
from reconciler.agent.queueing import why_it_waits
from reconciler.agent.record import Entry, Record
from reconciler.agent.seen import gather, settled
from reconciler.agent.workloads import report_attempt
from reconciler.model.grants import Grants
from reconciler.model.names import ANNOTATION_OUT, GRANT_CHECK
from tests.agent.objects import (
    ATTEMPT,
    KEY,
    Raw,
    gated_pod,
    make_admission,
    make_grant,
    make_grants,
    make_state,
    queued_job,
    running_pod,
)
from tests.agent.test_decide import FENCED, LAPSED, VALID, in_words

BOUND = Entry("uid-1", generation=2, nodes=1)
GRANTED, NOTHING = make_grants(make_grant(run_seconds=600)), make_grants()
RUNS = queued_job(suspend=False, generation=2, activeDeadlineSeconds=600)
PUT_OUT = queued_job(generation=3)


@dataclass(frozen=True)
class Case:
    """What there is, what is done, and whether the attempt is recorded as released then."""

    want: tuple[str, ...]
    job: Raw
    admission: Raw | None = None
    pods: tuple[Raw, ...] = ()
    before: Entry | None = None
    grants: Grants = GRANTED
    right: Right = VALID
    recorded: bool = False
    kueue: bool = True


CASES = {
    "a manifest goes into its queue only when it is granted": Case((), queued_job(enqueued=False), grants=NOTHING),
    "granted, it goes into its queue, with its run time": Case(("enqueue in gpu-research for 600",), queued_job(enqueued=False)),
    "without a valid lease it does not": Case((), queued_job(enqueued=False), right=LAPSED),
    "in the queue and unseen by Kueue it waits": Case((), queued_job()),
    "without quota it waits": Case((), queued_job(), make_admission(reserved=False)),
    "with quota, and our check pending, it is recorded and released": Case(
        ("admit job-x",), queued_job(), make_admission(), recorded=True
    ),
    "without a valid lease it is not": Case((), queued_job(), make_admission(), right=LAPSED),
    "a release that was recorded and has not reached Kueue is asked for again": Case(
        ("admit job-x",), queued_job(), make_admission(), before=BOUND, recorded=True
    ),
    "one that has reached it is waited for": Case((), queued_job(), make_admission("Ready"), before=BOUND, recorded=True),
    "its pods lose their gates": Case(("lift p1",), RUNS, make_admission("Ready"), (gated_pod(),), BOUND, recorded=True),
    "admitted by a queue without our check, it is bound before a gate is lifted": Case(
        (), queued_job(suspend=False, generation=2), make_admission(None), (gated_pod(),), recorded=True
    ),
    "such a one that nobody has granted leaves the queue": Case(
        ("deactivate job-x",), queued_job(suspend=False, generation=2), make_admission(None), (gated_pod(),), grants=NOTHING
    ),
    "such a one that runs already is stopped, not bound": Case(
        ("deactivate job-x", "delete p1"), queued_job(suspend=False, generation=2), make_admission(None), (running_pod(),)
    ),
    "withdrawn while it waits, it leaves the queue and holds no quota": Case(
        ("deactivate job-x",), queued_job(), make_admission(), grants=NOTHING
    ),
    "withdrawn while it runs, it leaves the queue, is closed, and its pods are told to end": Case(
        ("deactivate job-x", f"close {ATTEMPT}", "delete p1"),
        RUNS,
        make_admission("Ready"),
        (running_pod(),),
        BOUND,
        NOTHING,
        recorded=True,
    ),
    "where nothing may run, its pods end soon": Case(
        ("deactivate job-x", f"close {ATTEMPT}", "delete p1 in 30"),
        RUNS,
        make_admission("Ready"),
        (running_pod(),),
        BOUND,
        right=FENCED,
        recorded=True,
    ),
    "put out by Kueue, it is not resumed, and holds no quota": Case(
        ("deactivate job-x",), PUT_OUT, make_admission(), (), BOUND, recorded=True
    ),
    "put out by Kueue, it stays so until the hub has heard of it": Case(
        (), PUT_OUT, make_admission(taken_out=True), (), BOUND, recorded=True
    ),
    "and is closed then": Case((f"close {ATTEMPT}",), PUT_OUT, make_admission(taken_out=True), (), BOUND, NOTHING, recorded=True),
    "out of its queue, and Kueue does not suspend it: it is suspended all the same": Case(
        ("close uid-1", "delete p1"), RUNS, make_admission(taken_out=True), (running_pod(),), BOUND, NOTHING, recorded=True
    ),
    "taken out while nothing might run, and never released: back into its queue": Case(
        ("activate job-x",), queued_job(), make_admission(taken_out=True)
    ),
    "not back without a valid lease": Case((), queued_job(), make_admission(taken_out=True), right=LAPSED),
    "not back where it was released and ended": Case(
        (), queued_job(generation=3, closed=True), make_admission(taken_out=True), (), BOUND, recorded=True
    ),
    "what somebody else took out stays out": Case((), queued_job(), make_admission(active=False)),
    "out of the queue for good": Case(
        (), queued_job(generation=3, closed=True), make_admission(active=False), (), BOUND, NOTHING, recorded=True
    ),
    "without Kueue it is stopped as any other": Case(
        ("close uid-1", "delete p1"), RUNS, None, (running_pod(),), BOUND, NOTHING, recorded=True
    ),
    "without Kueue nothing is put into a queue": Case((), queued_job(enqueued=False), kueue=False),
}


def decided(case: Case) -> Decision:
    record = Record(epoch=1, attempts={} if case.before is None else {KEY: case.before})
    admissions = (() if case.admission is None else (case.admission,)) if case.kueue else None
    state = make_state(jobs=(case.job,), pods=case.pods, admissions=admissions)
    return decide(gather(state, record, case.grants), record, case.grants, case.right, None)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_what_is_done_in_a_queue(case: Case) -> None:
    decision = decided(case)
    assert tuple(map(in_words, decision.actions)) == case.want
    assert (KEY in decision.record.attempts) is case.recorded
    assert [note.code for note in decision.notes] == ([] if case.kueue else ["KueueMissing"])


def test_the_release_changes_our_check_alone() -> None:
    (admit,) = decided(CASES["with quota, and our check pending, it is recorded and released"]).actions
    assert isinstance(admit, Admit)
    checks = {check["name"]: check for check in patch_body(admit)["status"]["admissionChecks"]}
    assert {name: check["state"] for name, check in checks.items()} == {"another": "Ready", GRANT_CHECK: "Ready"}
    assert all(check["lastTransitionTime"] for check in checks.values())


@pytest.mark.parametrize("active", [True, False])
def test_what_kueue_may_still_admit_has_not_stopped(active: bool) -> None:
    record = Record(epoch=1, attempts={KEY: BOUND})
    state = make_state(jobs=(queued_job(generation=3, closed=True),), admissions=(make_admission(active=active),))
    (seen,) = gather(state, record, NOTHING)
    assert settled(seen) is not active


def test_what_is_taken_out_is_marked_and_what_is_put_back_is_not() -> None:
    (out,) = decided(CASES["withdrawn while it waits, it leaves the queue and holds no quota"]).actions
    (back,) = decided(CASES["taken out while nothing might run, and never released: back into its queue"]).actions
    assert isinstance(out, Deactivate)
    assert isinstance(back, Activate)
    assert patch_body(out) == {"metadata": {"annotations": {ANNOTATION_OUT: "true"}}, "spec": {"active": False}}
    assert patch_body(back) == {"metadata": {"annotations": {ANNOTATION_OUT: None}}, "spec": {"active": True}}


FAILED_TO_START = {"type": "Finished", "status": "True", "reason": "FailedToStart", "message": "node selector clash"}
WORDS = {
    "no quota": (make_admission(reserved=False), "insufficient unused quota"),
    "nothing but our own check": (make_admission(), ""),
    "another check": (make_admission(another="Pending"), "AdmissionCheck another is Pending: no machines yet"),
    "Kueue does not work": (None, "Kueue has made no Workload of it; see whether it runs, and works in this namespace"),
    "Kueue gave it up": ({"status": {"conditions": [FAILED_TO_START]}}, "node selector clash"),
}


@pytest.mark.parametrize(("admission", "words"), WORDS.values(), ids=WORDS.keys())
def test_what_it_waits_for(admission: Raw | None, words: str) -> None:
    assert why_it_waits(admission) == words


@pytest.mark.parametrize(
    ("job", "grants", "said"),
    {
        "granted, it waits": (queued_job(), GRANTED, "insufficient unused quota"),
        "withdrawn, it waits for nothing": (queued_job(), NOTHING, None),
        "not in its queue yet": (queued_job(enqueued=False), GRANTED, None),
        "it runs": (RUNS, GRANTED, None),
    }.values(),
)
def test_what_it_waits_for_is_reported(job: Raw, grants: Grants, said: str | None) -> None:
    record = Record(epoch=1, attempts={KEY: BOUND} if job is RUNS else {})
    state = make_state(jobs=(job,), admissions=(make_admission(reserved=False),))
    (seen,) = gather(state, record, grants)
    assert report_attempt(seen, is_left_over=False).waiting == said
