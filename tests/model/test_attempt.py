"""The life of an attempt: every pair of state and event, legal or not."""

from datetime import timedelta
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.model.attempt import ENDED, HOLDS_GPUS, MAY_RUN, RENDERED, TABLE, Event, Illegal, Needs, Outcome, State, after
from tests.builders import NOW, make_attempt

LEGAL = """
    Proposed  approved               → Placed
    Proposed  grant withdrawn        → Stopped
    Placed    staging began          → Staging
    Placed    grant recorded         → Granted
    Placed    grant withdrawn        → Stopped
    Staging   grant recorded         → Granted
    Staging   grant withdrawn        → Stopped
    Granted   a pod was seen running → Running
    Granted   success was seen       → Succeeded
    Granted   failure was seen       → Failed
    Granted   grant withdrawn        → Stopping
    Granted   stop was proved        → Stopped
    Running   success was seen       → Succeeded
    Running   failure was seen       → Failed
    Running   grant withdrawn        → Stopping
    Running   stop was proved        → Stopped
    Stopping  success was seen       → Succeeded
    Stopping  stop was proved        → Stopped
"""


def rows() -> dict[tuple[State, Event], State]:
    table = {}
    for line in LEGAL.strip().splitlines():
        before, target = line.split("→")
        state, event = before.split(maxsplit=1)
        table[State(state), Event(event.strip())] = State(target.strip())
    return table


@pytest.mark.parametrize(("state", "event"), list(product(State, Event)), ids=lambda word: word.value)
def test_a_pair(state: State, event: Event) -> None:
    target = rows().get((state, event))
    if target is None:
        with pytest.raises(Illegal, match=state.value):
            after(state, event)
        with pytest.raises(Illegal):
            make_attempt(state=state).moved(event, NOW)
    else:
        assert after(state, event) is target
        assert make_attempt(state=state).moved(event, NOW).state is target


def test_the_table_has_no_other_row() -> None:
    assert rows() == TABLE


def test_what_has_ended_stays_so() -> None:
    assert {state for state in State if not any(pair[0] is state for pair in TABLE)} == ENDED


def test_every_state_can_be_reached_and_every_live_one_can_end() -> None:
    reached = {State.PROPOSED}
    while more := {target for (state, _), target in TABLE.items() if state in reached} - reached:
        reached |= more
    assert reached == set(State)
    for state in set(State) - ENDED:
        can = {state}
        while more := {target for (source, _), target in TABLE.items() if source in can} - can:
            can |= more
        assert can & ENDED


def test_nothing_ends_without_a_proof_once_it_was_granted() -> None:
    """Only an observation takes an attempt out of the states in which something of it may run."""
    may_still_run = {*MAY_RUN, State.STOPPING}
    leaving = {event for (state, event), target in TABLE.items() if state in may_still_run and target in ENDED}
    assert leaving == {Event.SUCCEEDED, Event.FAILED, Event.STOPPED}
    assert {target for (state, event), target in TABLE.items() if target in may_still_run and state not in may_still_run} == {
        State.GRANTED
    }


def test_sets_of_states() -> None:
    assert HOLDS_GPUS == RENDERED == set(State) - ENDED - {State.PROPOSED}
    assert MAY_RUN < HOLDS_GPUS


@settings(deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(list(Event)), max_size=12))
def test_times_are_noted_once_and_in_order(events: list[Event]) -> None:
    attempt = make_attempt(state=State.PROPOSED)
    for index, event in enumerate(events):
        now = NOW + timedelta(minutes=index)
        if (attempt.state, event) not in TABLE:
            continue
        before, attempt = attempt, attempt.moved(event, now)
        for name in ("decided_at", "placed_at", "granted_at", "started_at", "stopping_at", "ended_at"):
            assert getattr(before, name) in (None, getattr(attempt, name))
        assert attempt.ended == (attempt.ended_at is not None)
    times = [attempt.decided_at, attempt.placed_at, attempt.granted_at, attempt.started_at, attempt.stopping_at, attempt.ended_at]
    noted = [time for time in times if time is not None]
    assert noted == sorted(noted)


def test_changes_go_with_the_move() -> None:
    stopping = make_attempt().moved(Event.WITHDRAWN, NOW, outcome=Outcome.MOVED, final=True)
    assert (stopping.outcome, stopping.final, stopping.stopping_at) == (Outcome.MOVED, True, NOW)
    assert stopping.total_gpus == 8


def test_what_is_not_asked_for_is_not_needed() -> None:
    assert Needs() == Needs(gpus=0, cpu_milli=0, memory_bytes=0, disk_bytes=0)
