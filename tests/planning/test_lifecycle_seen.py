"""A job's record after a look at its region, and what the rules make of it: starts, ends, proofs, limits, and what follows."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from reconciler.model.attempt import Attempt, Outcome, State
from reconciler.model.policy import Policy
from reconciler.model.reasons import Why, because, code_of
from reconciler.model.record import Phase
from reconciler.planning.lifecycle import Intent, avoided_regions
from reconciler.planning.observed import Away, Seen
from reconciler.planning.records import (
    run_limit,
    run_seconds_left,
    run_seconds_used,
)
from tests.builders import NOW, make_attempt, make_pod, make_record, make_spec, make_workload
from tests.planning.looks import MINUTE, granted, in_state, look, shows, stint, wants


@pytest.mark.parametrize("state", State)
def test_a_running_pod_starts_a_granted_attempt_and_nothing_else(state: State) -> None:
    before = in_state(state)
    after = look(before, seen=shows(make_pod()))
    started = state is State.GRANTED
    assert after.attempts[0].state is (State.RUNNING if started else state)
    if started:
        assert (after.attempts[0].started_at, after.phase) == (NOW, Phase.RUNNING)


ENDINGS = {
    "success": (shows(state="Ended", succeeded=True), State.SUCCEEDED),
    "failure": (shows(make_pod(phase="Failed", exit_code=3), state="Ended", log_tail="Traceback"), State.FAILED),
}


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("what", ENDINGS)
def test_an_end_that_is_seen(what: str, state: State) -> None:
    seen, target = ENDINGS[what]
    after = look(in_state(state), seen=seen)
    (attempt,) = after.attempts
    if state in (State.GRANTED, State.RUNNING) or (state is State.STOPPING and target is State.SUCCEEDED):
        assert (attempt.state, attempt.ended_at) == (target, NOW)
        assert attempt.log_tail == ("Traceback" if target is State.FAILED else "")
    else:
        assert attempt.state is state, "what was not granted cannot have run, and what is being stopped is stopped"


def test_a_program_that_ran_between_two_reports_did_run() -> None:
    began, done = NOW - 9 * MINUTE, NOW - 2 * MINUTE
    pods = [
        make_pod("p0", phase="Succeeded", started=began, ended_at=done),
        make_pod("p1", phase="Succeeded", started=done, ended_at=done),
    ]
    after = look(in_state(State.GRANTED), seen=shows(*pods, state="Ended", succeeded=True))
    assert after.attempts[0].started_at == NOW - 7 * MINUTE, "by its length: the region's clock may be off"
    assert run_seconds_used(after) == 420


@pytest.mark.parametrize(
    ("without_it", "workload", "stopped"),
    [
        (True, None, True),
        (True, make_workload("x", state="Ended"), True),
        (True, make_workload("x", make_pod(terminating=True)), False),
        (True, make_workload("x", state="Ended", stopped=False), False),
        (False, None, False),
        (False, make_workload("x", state="Ended"), False),
        (False, make_workload("x", state="Absent"), False),
    ],
)
def test_a_stop_needs_its_proof(without_it: bool, workload: Any, stopped: bool) -> None:
    """A report that has acted on grants without the attempt, and that says of nothing of it that it may still run."""
    after = look(in_state(State.STOPPING), seen=Seen(workload, without_it=without_it))
    assert (after.attempts[0].state is State.STOPPED) == stopped


@pytest.mark.parametrize("state", [State.GRANTED, State.RUNNING])
def test_an_object_that_others_touched(state: State) -> None:
    for seen, why in (
        (shows(state="Absent", stopped=False), Why.OBJECT_LOST),
        (shows(state="Held", replaced=True), Why.OBJECT_REPLACED),
    ):
        after = look(in_state(state), seen=seen)
        assert (after.attempts[0].state, after.attempts[0].outcome) == (State.STOPPING, Outcome.DISRUPTED)
        assert after.why == because(why, region="eu")
        assert not after.attempts[0].counts_as_failure
    waiting = look(in_state(state), seen=shows(state="Absent", uid=None))
    assert waiting.attempts[0].state is state, "an object that was never made is not lost"


def test_time_to_start() -> None:
    own, none = granted(1, start_timeout_seconds=60), granted(15)
    assert look(own).attempts[0].state is State.GRANTED
    assert look(own, now=NOW + timedelta(seconds=1)).attempts[0].outcome is Outcome.START_TIMEOUT
    assert look(none).attempts[0].state is State.GRANTED
    assert look(none, now=NOW + timedelta(seconds=1)).why == because(
        Why.START_TIMEOUT, limit_seconds=900, message="the sync engine has not made its object"
    )
    shorter = Policy.model_validate({"limits": {"start_timeout_seconds": 60}})
    assert look(granted(2), policy=shorter).attempts[0].state is State.STOPPING
    assert look(in_state(State.RUNNING, start_timeout_seconds=1)).attempts[0].state is State.RUNNING


def test_why_it_does_not_run_yet_is_told_once_for_each_wait() -> None:
    def pending(words: str) -> Any:
        return shows(make_pod(phase="Pending", waiting=words))

    first = look(granted(1), seen=pending("Unschedulable: 0/12 nodes are available"))
    assert (first.phase, first.why) == (
        Phase.STARTING,
        because(Why.NOT_YET_RUNNING, region="eu", message="Unschedulable: 0/12 nodes are available"),
    )
    assert look(first, seen=pending("Unschedulable: 0/14 nodes are available")) == first
    pull = look(first, seen=pending("ErrImagePull: not found"))
    assert (pull.why.text if pull.why else "") == "eu has not started it yet: ErrImagePull: not found"
    assert look(pull, seen=pending("ImagePullBackOff: Back-off pulling image")) == pull
    assert look(pull, seen=shows(make_pod(phase="Pending"))) == pull
    runs = look(pull, seen=shows(make_pod(phase="Running")))
    assert (runs.phase, runs.why) == (Phase.RUNNING, None)


def test_what_cannot_be_granted_says_so_until_it_can() -> None:
    held = shows(state="Held")
    for seen in (Seen(None, without_it=False), held, shows(make_pod(phase="Pending", waiting="Unschedulable: 0/12 nodes"))):
        before = look(granted(1), seen=seen)
        untold = look(before, seen=replace(seen, ungranted="its lease cannot be read"))
        assert (untold.phase, untold.why.text if untold.why else "") == (
            Phase.STARTING,
            "eu cannot be told yet that it may run: its lease cannot be read",
        )
        assert look(untold, seen=replace(seen, ungranted="its lease cannot be read")) == untold
        assert look(untold, seen=seen) == before
    runs = in_state(State.RUNNING)
    assert look(runs, seen=replace(shows(make_pod()), ungranted="no answer")) == look(runs, seen=shows(make_pod()))


def test_an_image_that_cannot_be_pulled_is_not_tried_elsewhere() -> None:
    pull = shows(make_pod(phase="Pending", waiting="ImagePullBackOff: not found"))
    stopping = look(granted(16, retries=3), seen=pull)
    assert (stopping.attempts[0].final, stopping.attempts[0].counts_as_failure) == (True, True)
    over = look(stopping, seen=Seen(None, without_it=True))
    assert (over.phase, over.why) == (Phase.FAILED, because(Why.IMAGE_PULL, message="ImagePullBackOff: not found"))
    assert avoided_regions(over) == {"eu"}


def test_what_the_sync_engine_refuses_is_stopped_and_the_job_is_not_over() -> None:
    after = look(granted(0), seen=Seen(None, without_it=False, refused="unknown field"))
    assert (after.attempts[0].state, after.attempts[0].final) == (State.STOPPING, False)
    assert look(after, seen=Seen(None, without_it=True)).phase is Phase.PENDING
    running = look(in_state(State.RUNNING), seen=Seen(None, without_it=False, refused="unknown field"))
    assert running.attempts[0].state is State.RUNNING


def test_run_time_is_counted_over_attempts_of_this_run() -> None:
    spec = make_spec(max_runtime_seconds=3600)
    never_started = make_attempt(4, State.STOPPED, started_at=None)
    attempts = (stint(1, 500), stint(2, 30), stint(3, 20.5), never_started)
    record = make_record(*attempts, spec=spec, first_attempt=2)
    assert run_seconds_used(record) == 50.5 * 60
    assert run_seconds_left(record, Policy()) == 570
    assert run_seconds_left(make_record(stint(1, 61), spec=spec), Policy()) == 0
    assert run_seconds_left(make_record(stint(1, 61)), Policy()) is None


def test_the_wait_for_a_lost_region_is_no_run_time() -> None:
    begun = NOW - timedelta(days=1)
    lost = make_attempt(
        1,
        State.STOPPED,
        outcome=Outcome.REGION_LOST,
        started_at=begun,
        stopping_at=begun + timedelta(minutes=10),
        ended_at=NOW,
    )
    assert run_seconds_used(make_record(lost)) == 600
    drained = lost.model_copy(update={"outcome": Outcome.DISRUPTED})
    assert run_seconds_used(make_record(drained)) == 86_400


@pytest.mark.parametrize(
    ("own", "most", "limit"), [(None, None, None), (60, None, 60), (None, 90, 90), (60, 90, 60), (90, 60, 60)]
)
def test_the_limit_of_run_time(own: int | None, most: int | None, limit: int | None) -> None:
    fields: dict[str, Any] = {} if own is None else {"max_runtime_seconds": own}
    assert run_limit(make_spec(**fields), Policy.model_validate({"limits": {"max_runtime_seconds": most}})) == limit


def test_the_hub_stops_what_its_region_did_not() -> None:
    spec = make_spec(max_runtime_seconds=3600)
    started = NOW - timedelta(seconds=600)
    record = make_record(stint(1, 50), make_attempt(2, spec=spec, started_at=started), spec=spec, phase=Phase.RUNNING)
    assert look(record, now=NOW + timedelta(seconds=15)).phase is Phase.RUNNING
    after = look(record, now=NOW + timedelta(seconds=16))
    assert (after.phase, after.attempts[1].outcome, after.attempts[1].final) == (Phase.STOPPING, Outcome.DEADLINE_EXCEEDED, True)
    over = look(after, seen=Seen(None, without_it=True), now=NOW + timedelta(seconds=40))
    assert (over.phase, over.why) == (Phase.FAILED, because(Why.DEADLINE_EXCEEDED, limit_seconds=3600))


def test_no_run_time_left_is_the_end_even_between_attempts() -> None:
    spec = make_spec(max_runtime_seconds=1200)
    record = look(make_record(stint(1, 20), spec=spec))
    assert (record.phase, record.why) == (Phase.FAILED, because(Why.DEADLINE_EXCEEDED, limit_seconds=1200))
    assert look(make_record(stint(1, 19.9), spec=spec)).phase is Phase.PENDING


FAILED: dict[str, Any] = {"counts_as_failure": True}
TAKEN: dict[str, Any] = {"outcome": Outcome.DISRUPTED}

AFTER: dict[str, tuple[list[Attempt], int, Phase, Why | None]] = {
    "no attempt": ([], 0, Phase.PENDING, None),
    "a failure without retries": ([stint(1, 1, State.FAILED, **FAILED)], 0, Phase.FAILED, None),
    "a failure with one": ([stint(1, 1, State.FAILED, **FAILED)], 1, Phase.PENDING, None),
    "two failures with one": (
        [stint(1, 1, State.FAILED, **FAILED), stint(2, 1, State.FAILED, **FAILED)],
        1,
        Phase.FAILED,
        Why.RETRIES_EXHAUSTED,
    ),
    "a failure and disruptions": (
        [stint(1, 1, State.FAILED, **TAKEN), stint(2, 1, State.FAILED, **FAILED), stint(3, 1, **TAKEN)],
        1,
        Phase.PENDING,
        None,
    ),
    "preempted, moved, edited": (
        [stint(1, 1, outcome=Outcome.PREEMPTED), stint(2, 1, outcome=Outcome.MOVED), stint(3, 1, outcome=Outcome.SUPERSEDED)],
        0,
        Phase.PENDING,
        None,
    ),
    "failures of an earlier run": (
        [stint(at, 1, State.FAILED, **FAILED) for at in (1, 2)],
        0,
        Phase.FAILED,
        Why.RETRIES_EXHAUSTED,
    ),
    "an end that is final": ([stint(1, 1, final=True, **TAKEN)], 9, Phase.FAILED, None),
    "success after failures": ([stint(1, 1, State.FAILED, **FAILED), stint(2, 1, State.SUCCEEDED)], 0, Phase.SUCCEEDED, None),
}


@pytest.mark.parametrize("case", AFTER.values(), ids=AFTER.keys())
def test_what_follows_an_end(case: tuple[list[Attempt], int, Phase, Why | None]) -> None:
    attempts, retries, phase, why = case
    after = look(make_record(*attempts, spec=make_spec(retries=retries), phase=Phase.RUNNING))
    assert after.phase is phase
    if why is not None:
        assert after.why is not None
        assert after.why.code == code_of(why)


def test_retries_are_counted_within_the_run() -> None:
    attempts = [stint(at, 1, State.FAILED, **FAILED) for at in (1, 2, 3)]
    assert look(make_record(*attempts, first_attempt=4, phase=Phase.PENDING)).phase is Phase.PENDING
    assert look(make_record(*attempts, first_attempt=3, phase=Phase.RUNNING)).phase is Phase.FAILED


@pytest.mark.parametrize(
    ("fields", "avoided"),
    [
        ({"state": State.FAILED, **TAKEN}, True),
        ({"state": State.FAILED}, True),  # its exit code asked for another place
        ({"state": State.FAILED, **FAILED}, False),
        ({"state": State.STOPPED, "outcome": Outcome.START_TIMEOUT}, True),
        ({"state": State.STOPPED, "outcome": Outcome.REGION_LOST}, True),
        ({"state": State.STOPPED, "outcome": Outcome.MOVED}, False),
        ({"state": State.STOPPED, "outcome": Outcome.SUPERSEDED}, False),
        ({"state": State.SUCCEEDED}, False),
        ({"state": State.RUNNING}, False),
    ],
)
def test_which_region_is_avoided_next(fields: dict[str, Any], avoided: bool) -> None:
    assert avoided_regions(make_record(make_attempt(**fields))) == ({"eu"} if avoided else set())


def test_nothing_is_avoided_in_a_new_run() -> None:
    assert avoided_regions(make_record()) == frozenset()
    assert avoided_regions(make_record(make_attempt(state=State.FAILED, **TAKEN), first_attempt=2)) == frozenset()


def test_reasons_to_wait_go_when_it_no_longer_waits() -> None:
    waits: dict[str, Any] = {"waits": {"us": because(Why.CORDONED, region="us")}, "waits_more": {"Cordoned": 3}}
    waiting = make_record(**waits, phase=Phase.IMPOSSIBLE, why=because(Why.NO_REGIONS))
    assert look(waiting) == waiting, "the pass decides between Pending and Impossible"
    started = look(make_record(make_attempt(state=State.GRANTED, granted_at=NOW), **waits))
    assert (started.waits, started.waits_more, started.phase) == ({}, {}, Phase.STARTING)


# ---- a region that is lost ------------------------------------------------------------------------------------------

SILENT = Seen(None, without_it=False, away=Away(because(Why.REGION_UNKNOWN, region="eu")), epoch=1)
GIVEN_UP = Seen(None, without_it=False, away=Away(because(Why.REGION_AWAY, region="eu"), "10:05:00 UTC"), epoch=2)
WHATEVER_FOR = [one for one in Outcome if one not in (Outcome.CANCELLED, Outcome.REGION_LOST)]
"""Outcomes of an attempt that is being stopped while its job goes on."""
CHOICES = {"rerun": Phase.PENDING, "hold": Phase.HELD, "wait": Phase.STOPPING}


@pytest.mark.parametrize("outcome", WHATEVER_FOR)
@pytest.mark.parametrize("choice", CHOICES)
def test_what_was_being_stopped_when_its_region_was_lost(choice: str, outcome: Outcome) -> None:
    """Whether it ended well before the stop reached it, only that region could tell; whatever it was being stopped for."""
    spec = make_spec(on_region_lost=choice)
    attempt = make_attempt(state=State.STOPPING, spec=spec, outcome=outcome, epoch=1)
    after = look(make_record(attempt, spec=spec, phase=Phase.STOPPING), seen=GIVEN_UP)
    then = outcome if choice == "rerun" else Outcome.REGION_LOST
    assert (after.attempts[0].outcome, after.phase) == (then, CHOICES[choice])
    assert look(after, seen=GIVEN_UP) == after


@pytest.mark.parametrize("choice", CHOICES)
def test_nobody_waits_for_a_job_that_is_given_up_itself(choice: str) -> None:
    spec = make_spec(on_region_lost=choice)
    attempt = make_attempt(state=State.STOPPING, spec=spec, outcome=Outcome.CANCELLED, epoch=1)
    before = make_record(attempt, spec=spec, phase=Phase.STOPPING, cancelled=True, source=None)
    after = look(before, Intent(None), seen=GIVEN_UP)
    assert (after.attempts[0].outcome, after.phase) == (Outcome.CANCELLED, Phase.CANCELLED)


@pytest.mark.parametrize("choice", ["hold", "wait"])
def test_a_job_that_is_paused_while_its_region_is_silent_does_not_go_on_by_itself(choice: str) -> None:
    spec = make_spec(on_region_lost=choice)
    before = make_record(make_attempt(spec=spec, epoch=1), spec=spec, phase=Phase.RUNNING)
    paused = look(before, wants(spec.model_copy(update={"suspend": True})), seen=SILENT)
    assert (paused.phase, paused.attempts[0].outcome) == (Phase.STOPPING, Outcome.SUSPENDED)
    lost = look(paused, wants(spec.model_copy(update={"suspend": True})), seen=GIVEN_UP)
    assert look(lost, wants(spec), seen=GIVEN_UP).phase is CHOICES[choice]


@pytest.mark.parametrize("state", [State.GRANTED, State.RUNNING])
def test_nothing_runs_out_of_time_while_its_region_is_not_heard_of(state: State) -> None:
    """It may have started, or ended well, in time."""
    spec = make_spec(max_runtime_seconds=60, start_timeout_seconds=60)
    began = NOW - timedelta(hours=1)
    attempt = make_attempt(
        state=state, spec=spec, epoch=1, granted_at=began, started_at=began if state is State.RUNNING else None
    )
    before = make_record(attempt, spec=spec, phase=in_state(state).phase)
    assert look(before, seen=SILENT).attempts[0].state is state
    assert look(before).attempts[0].state is State.STOPPING
    held = make_spec(max_runtime_seconds=60, on_region_lost="hold")
    lost = look(make_record(attempt, spec=held, phase=in_state(state).phase), seen=GIVEN_UP)
    assert lost.phase is Phase.HELD, "it did not use its time: nobody knows what it did"


def test_a_region_that_is_lost_says_that_it_was_stopped_and_that_counts_as_ever() -> None:
    spec = make_spec(on_region_lost="hold")
    attempt = make_attempt(state=State.STOPPING, spec=spec, outcome=Outcome.MOVED, epoch=1)
    after = look(make_record(attempt, spec=spec, phase=Phase.STOPPING), seen=Seen(None, without_it=True, epoch=2))
    assert (after.attempts[0].outcome, after.phase) == (Outcome.MOVED, Phase.PENDING)


def test_nothing_is_held_that_was_never_let_run() -> None:
    spec = make_spec(on_region_lost="hold")
    after = look(make_record(make_attempt(state=State.PLACED, spec=spec), spec=spec, phase=Phase.STARTING), seen=GIVEN_UP)
    assert (after.attempts[0].outcome, after.phase) == (Outcome.REGION_LOST, Phase.PENDING)
