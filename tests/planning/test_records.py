"""The small steps that a record's changes are made of."""

import pytest

from reconciler.model.attempt import Outcome, State
from reconciler.model.reasons import Why, because
from reconciler.planning.records import (
    approve,
    grant,
    next_number,
    see_placement,
    with_attempt,
    with_condition,
    withdraw,
)
from tests.builders import NOW, make_attempt, make_record
from tests.planning.looks import MINUTE


def test_attempts_follow_each_other_and_only_when_the_last_has_ended() -> None:
    first = with_attempt(make_record(), make_attempt(1, State.PLACED))
    assert next_number(first) == 2
    with pytest.raises(ValueError, match="attempt 2 cannot follow"):
        with_attempt(first, make_attempt(2, State.PLACED))
    ended = make_record(make_attempt(1, State.STOPPED))
    for wrong in (make_attempt(1, State.PLACED), make_attempt(3, State.PLACED), make_attempt(2, State.STOPPED)):
        with pytest.raises(ValueError, match="cannot follow"):
            with_attempt(ended, wrong)
    assert with_attempt(ended, make_attempt(2, State.PROPOSED)).current is not None


def test_attempts_of_earlier_runs_are_kept_for_a_while() -> None:
    old = [make_attempt(number, State.STOPPED) for number in range(1, 31)]
    record = with_attempt(make_record(*old, first_attempt=29), make_attempt(31, State.PLACED))
    assert [attempt.number for attempt in record.attempts] == list(range(9, 32))


def test_steps_without_an_attempt_change_nothing() -> None:
    record = make_record()
    assert approve(record, NOW) is record
    assert grant(record, NOW) is record
    assert withdraw(record, Outcome.MOVED, because(Why.HELD), NOW) is record
    assert see_placement(record, record.placement) is record


def test_from_a_proposal_to_a_grant() -> None:
    record = grant(approve(make_record(make_attempt(state=State.PROPOSED)), NOW), NOW + MINUTE)
    assert record.current is not None
    assert (record.current.state, record.current.placed_at, record.current.granted_at) == (State.GRANTED, NOW, NOW + MINUTE)


def test_what_is_being_stopped_keeps_its_first_reason() -> None:
    record = withdraw(make_record(make_attempt()), Outcome.MOVED, because(Why.MOVED, region="us"), NOW)
    assert withdraw(record, Outcome.CANCELLED, because(Why.CANCELLED), NOW) is record


def test_conditions() -> None:
    cordoned, held = because(Why.CORDONED, region="eu"), because(Why.HELD)
    one = with_condition(make_record(), "B", cordoned, NOW)
    both = with_condition(one, "A", held, NOW)
    assert [condition.type for condition in both.conditions] == ["A", "B"]
    assert with_condition(both, "A", held, NOW + MINUTE) is both
    said = with_condition(both, "A", held, NOW + MINUTE, "more words").conditions[0]
    assert (said.since, said.message) == (NOW, "more words")
    other = with_condition(both, "A", cordoned, NOW + MINUTE).conditions[0]
    assert (other.since, other.reason) == (NOW + MINUTE, cordoned)
    assert with_condition(both, "A", None, NOW).conditions == one.conditions
    assert with_condition(one, "C", None, NOW) is one
