"""A job's record after a look at main: new, edited, in doubt, removed, added again, to be run again."""

from typing import Any

import pytest

from reconciler.model.attempt import Outcome, State
from reconciler.model.names import JobKey
from reconciler.model.policy import Policy
from reconciler.model.reasons import Why, because
from reconciler.model.record import Phase, PlacementSeen, Source
from reconciler.planning.lifecycle import Intent, admit
from reconciler.planning.observed import Seen
from reconciler.planning.records import (
    next_number,
)
from tests.builders import NOW, TEAM, make_attempt, make_record, make_spec
from tests.planning.looks import LIVE, MINUTE, in_state, look, shows, wants


def test_a_new_job() -> None:
    spec = make_spec(rerun=3)
    intent = wants(spec)
    assert intent.wanted is not None
    record = admit(JobKey(TEAM, "llm-a"), intent.wanted, NOW)
    assert (record.phase, record.rerun, record.first_attempt, record.submitted_at) == (Phase.PENDING, 3, 1, NOW)
    assert look(record, intent) == record, "its `rerun` is honoured already"


STOPS = {
    "removed": (Intent(None), Outcome.CANCELLED, Phase.CANCELLED),
    "suspended": (wants(make_spec(suspend=True)), Outcome.SUSPENDED, Phase.SUSPENDED),
    "edited": (wants(make_spec(args=["x"])), Outcome.SUPERSEDED, Phase.PENDING),
}


@pytest.mark.parametrize("state", LIVE)
@pytest.mark.parametrize("what", STOPS)
def test_main_stops_an_attempt_in_whatever_state_it_is(what: str, state: State) -> None:
    intent, outcome, phase = STOPS[what]
    after = look(in_state(state), intent)
    (attempt,) = after.attempts
    never_granted = state in (State.PROPOSED, State.PLACED, State.STAGING)
    assert attempt.state is (State.STOPPED if never_granted else State.STOPPING)
    assert after.phase is (phase if never_granted else Phase.STOPPING)
    if state is not State.STOPPING:
        assert attempt.outcome is outcome
    assert not attempt.counts_as_failure
    again = look(after, intent)
    assert again == after
    ended = look(after, intent, Seen(None, without_it=True), now=NOW + MINUTE)
    assert (ended.current, ended.phase) == (None, phase)


DOUBTS = [
    because(Why.SPEC_BROKEN),
    because(Why.DUPLICATE_JOB, paths="a and b"),
    because(Why.SOURCE_SUSPICIOUS, what="5 of 6 live jobs went"),
]


@pytest.mark.parametrize("doubt", DOUBTS, ids=lambda doubt: doubt.code)
@pytest.mark.parametrize("state", LIVE)
def test_doubt_stops_nothing(state: State, doubt: Any) -> None:
    before = in_state(state)
    after = look(before, Intent(None, doubt))
    assert after.attempts == before.attempts
    assert after.source == before.source
    (condition,) = after.conditions
    assert (condition.type, condition.status, condition.reason, condition.since) == ("SpecAccepted", "False", doubt, NOW)
    later = look(after, Intent(None, doubt), now=NOW + MINUTE)
    assert later == after, "since when does not move"
    assert look(later, wants(before.spec)).conditions == ()


@pytest.mark.parametrize(
    ("field", "value"), [("priority", "critical"), ("max_runtime_seconds", 7200), ("description", "x"), ("retries", 5)]
)
def test_an_edit_of_when_where_and_how_long_is_in_force_and_restarts_nothing(field: str, value: Any) -> None:
    before = in_state(State.RUNNING)
    after = look(before, wants(make_spec(**{field: value}), Source(path="jobs/team-a/b.yaml", blob="b2")))
    assert after.attempts == before.attempts
    assert getattr(after.spec, field) == value
    assert after.source == Source(path="jobs/team-a/b.yaml", blob="b2")


def test_a_file_that_moved_is_the_same_job() -> None:
    before = in_state(State.RUNNING)
    after = look(before, wants(before.spec, Source(path="jobs/team-a/elsewhere/b.yaml", blob="b1")))
    assert after == before.model_copy(update={"source": Source(path="jobs/team-a/elsewhere/b.yaml", blob="b1")})


def test_cancelled_and_added_again() -> None:
    """A new run begins once the old attempt has ended: it may yet be seen to have succeeded, and then there is none."""
    gone = look(in_state(State.RUNNING), Intent(None))
    back = look(gone, wants(make_spec()), now=NOW + MINUTE)
    assert (back.phase, back.attempts) == (Phase.STOPPING, gone.attempts)
    stopped = look(back, seen=Seen(None, without_it=True), now=NOW + 2 * MINUTE)
    assert (stopped.phase, stopped.cancelled, stopped.this_run, next_number(stopped)) == (Phase.PENDING, False, (), 2)
    assert stopped.submitted_at == NOW + 2 * MINUTE
    succeeded = look(back, seen=shows(state="Ended", succeeded=True), now=NOW + 2 * MINUTE)
    assert (succeeded.phase, succeeded.cancelled) == (Phase.SUCCEEDED, False)
    asked = look(back, wants(make_spec(rerun=1)), shows(state="Ended", succeeded=True))
    assert look(asked, wants(make_spec(rerun=1))).phase is Phase.PENDING
    removed_again = look(back, Intent(None), Seen(None, without_it=True))
    assert removed_again.phase is Phase.CANCELLED


@pytest.mark.parametrize("phase", [Phase.PENDING, Phase.IMPOSSIBLE, Phase.HELD, Phase.SUSPENDED, Phase.FAILED, Phase.SUCCEEDED])
def test_a_file_that_goes_from_a_job_that_does_not_run(phase: Phase) -> None:
    ended = {Phase.FAILED: [make_attempt(state=State.FAILED, final=True)], Phase.SUCCEEDED: [make_attempt(state=State.SUCCEEDED)]}
    record = make_record(*ended.get(phase, []), phase=phase)
    after = look(record, Intent(None))
    assert after.source is None
    assert after.phase is (phase if phase in (Phase.FAILED, Phase.SUCCEEDED) else Phase.CANCELLED)
    assert look(after, Intent(None), now=NOW + MINUTE) == after


def test_rerun_is_honoured_once() -> None:
    before = make_record(make_attempt(state=State.SUCCEEDED), phase=Phase.SUCCEEDED)
    after = look(before, wants(make_spec(rerun=1)))
    assert (after.phase, after.why, after.rerun, after.first_attempt, after.submitted_at) == (Phase.PENDING, None, 1, 2, NOW)
    assert look(after, wants(make_spec(rerun=1)), now=NOW + MINUTE) == after
    lowered = look(before.model_copy(update={"rerun": 5}), wants(make_spec(rerun=4)))
    assert lowered.phase is Phase.SUCCEEDED


def test_a_failed_spec_that_was_mended_runs_again_and_a_successful_one_does_not() -> None:
    mended = wants(make_spec(args=["better"]))
    failed = make_record(make_attempt(state=State.FAILED, final=True), phase=Phase.FAILED)
    assert look(failed, mended).phase is Phase.PENDING
    assert look(failed, wants(make_spec(priority="high"))).phase is Phase.FAILED
    succeeded = look(make_record(make_attempt(state=State.SUCCEEDED), phase=Phase.SUCCEEDED), mended)
    assert succeeded.phase is Phase.SUCCEEDED
    (condition,) = succeeded.conditions
    assert (condition.type, condition.reason) == ("RunsWhatItSays", because(Why.EDITED_AFTER_SUCCESS))
    asked = look(succeeded, wants(make_spec(args=["better"], rerun=1)))
    assert (asked.phase, asked.conditions) == (Phase.PENDING, ()), "it will run what it says"


def test_held_for_a_person_until_it_is_released_or_rerun_is_raised() -> None:
    attempts = [make_attempt(number, State.FAILED, outcome=Outcome.DISRUPTED) for number in range(1, 4)]
    policy = Policy.model_validate({"thresholds": {"reschedules": 2}})
    held = look(make_record(*attempts), policy=policy)
    assert (held.phase, held.why) == (Phase.HELD, because(Why.TOO_MANY_DISRUPTIONS, count=3, job="team-a/llm-a"))
    assert look(make_record(*attempts[:2]), policy=policy).phase is Phase.PENDING
    after = look(held, wants(make_spec(rerun=1)), policy=policy)
    assert (after.phase, after.this_run) == (Phase.PENDING, ())
    released = look(held, wants(make_spec(release=3)), policy=policy)
    assert (released.phase, len(released.this_run)) == (Phase.PENDING, 3)


LOST_TWICE = [make_attempt(number, State.STOPPED, outcome=Outcome.REGION_LOST, granted_at=NOW) for number in (1, 2)]


@pytest.mark.parametrize("ahead", [2, 3, 77])
def test_nothing_is_released_ahead(ahead: int) -> None:
    """What names an attempt that was not there when it was read counts for none, also once that one is there."""
    early = make_spec(on_region_lost="hold", release=ahead)
    (condition,) = look(make_record(LOST_TWICE[0]), wants(early)).conditions
    assert (condition.type, condition.reason) == (
        "ReleaseHonoured",
        because(Why.RELEASE_AHEAD, release=ahead, last=1, job="team-a/llm-a"),
    )
    for attempts in (LOST_TWICE[:1], LOST_TWICE):
        held = look(make_record(*attempts, conditions=(condition,)), wants(early))
        assert (held.phase, held.conditions) == (Phase.HELD, (condition,))
    taken_out = look(held, wants(make_spec(on_region_lost="hold")))
    assert (taken_out.phase, taken_out.conditions) == (Phase.HELD, ())
    assert look(taken_out, wants(make_spec(on_region_lost="hold", release=2))).phase is Phase.PENDING


def test_a_job_that_comes_with_a_release_has_nothing_to_release() -> None:
    wanted = wants(make_spec(on_region_lost="hold", release=1)).wanted
    assert wanted is not None
    new = admit(make_record().key, wanted, NOW)
    assert [one.type for one in new.conditions] == ["ReleaseHonoured"]
    after = new.model_copy(update={"attempts": tuple(LOST_TWICE[:1])})
    assert look(after, Intent(wanted)).phase is Phase.HELD


def test_only_disruptions_are_counted_until_it_is_held() -> None:
    policy = Policy.model_validate({"thresholds": {"reschedules": 2}})
    for outcome in Outcome:
        attempts = [make_attempt(number, State.STOPPED, outcome=outcome) for number in range(1, 4)]
        held = outcome in (Outcome.DISRUPTED, Outcome.START_TIMEOUT, Outcome.REGION_LOST)
        assert look(make_record(*attempts), policy=policy).phase is (Phase.HELD if held else Phase.PENDING)


def test_added_again_before_it_had_an_attempt() -> None:
    gone = look(make_record(), Intent(None))
    back = look(gone, wants(make_spec()))
    assert (gone.phase, back.phase, back.first_attempt, next_number(back)) == (Phase.CANCELLED, Phase.PENDING, 1, 1)


def test_held_by_a_veto_or_a_declined_proposal() -> None:
    vetoed = look(make_record(placement=PlacementSeen(blob="b", veto=("eu", "all"))))
    assert vetoed.phase is Phase.HELD
    assert look(vetoed.model_copy(update={"placement": PlacementSeen(blob="b", veto=("eu",))})).phase is Phase.PENDING
    declined = look(make_record(placement=PlacementSeen(blob=None, declined=make_record().run_hash)))
    assert (declined.phase, declined.why) == (Phase.HELD, because(Why.DECLINED, into="placements"))
    assert look(declined, wants(make_spec(args=["x"]))).phase is Phase.PENDING
