"""What the agent does where Kueue owns `suspend`: each case is a look, and the actions that follow."""

from dataclasses import dataclass

import pytest

from reconciler.agent.actions import Admit, patch_body
from reconciler.agent.decide import Decision, Right, decide
from reconciler.agent.queueing import GRANT_CHECK, why_it_waits
from reconciler.agent.record import Entry, Record
from reconciler.agent.seen import gather, settled
from reconciler.model.grants import Grants
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
        ("deactivate job-x", f"close {ATTEMPT}"), PUT_OUT, make_admission(), (), BOUND, recorded=True
    ),
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


def test_kueues_words_on_what_it_waits_for() -> None:
    assert why_it_waits(make_admission(reserved=False)) == "insufficient unused quota"
    assert (why_it_waits(make_admission()), why_it_waits(None)) == ("", "")
