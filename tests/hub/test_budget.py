"""How often the hub may push: a burst after a pause, then one push an interval."""

import pytest

from reconciler.hub.budget import PushBudget
from reconciler.model.policy import Intervals
from tests.hub.doors import ManualClock

EIGHT = Intervals(push_seconds=8, push_burst=3)


def pushes(budget: PushBudget, clock: ManualClock, seconds: int, intervals: Intervals) -> list[float]:
    """When a hub pushes that would push every second, if it may."""
    made = []
    begun = clock.seconds
    while clock.seconds - begun < seconds:
        if budget.wait_seconds(intervals) == 0:
            budget.spend()
            made.append(clock.seconds - begun)
        clock.seconds += 1
    return made


def test_it_starts_with_a_full_burst_and_then_keeps_the_interval() -> None:
    clock = ManualClock()
    budget = PushBudget(clock.monotonic)
    assert pushes(budget, clock, 45, EIGHT) == [0, 1, 2, 8, 16, 24, 32, 40]


def test_it_never_saves_up_more_than_a_burst() -> None:
    clock = ManualClock()
    budget = PushBudget(clock.monotonic)
    pushes(budget, clock, 20, EIGHT)
    clock.seconds += 24 * 3600
    assert pushes(budget, clock, 8, EIGHT) == [0, 1, 2]


@pytest.mark.parametrize("hours", [1, 24])
def test_the_pushes_of_any_hour_are_bounded(hours: int) -> None:
    clock = ManualClock()
    made = pushes(PushBudget(clock.monotonic), clock, hours * 3600, EIGHT)
    assert len(made) <= hours * 450 + 3
    assert max(sum(start <= at < start + 60 for at in made) for start in range(0, 3600, 7)) <= 8 + 3


def test_the_wait_is_how_long_it_takes_until_the_next_push_may_be_made() -> None:
    clock = ManualClock()
    budget = PushBudget(clock.monotonic)
    for _ in range(3):
        assert budget.wait_seconds(EIGHT) == 0
        budget.spend()
    assert budget.wait_seconds(EIGHT) == 8
    clock.seconds += 4
    assert budget.wait_seconds(EIGHT) == 4
    clock.seconds += budget.wait_seconds(EIGHT)
    assert budget.wait_seconds(EIGHT) == 0


def test_no_interval_means_no_bound() -> None:
    clock = ManualClock()
    budget = PushBudget(clock.monotonic)
    for _ in range(50):
        assert budget.wait_seconds(Intervals(push_seconds=0)) == 0
        budget.spend()


def test_an_interval_that_people_change_holds_from_then_on() -> None:
    clock = ManualClock()
    budget = PushBudget(clock.monotonic)
    for _ in range(3):
        budget.wait_seconds(EIGHT)
        budget.spend()
    slower = Intervals(push_seconds=60, push_burst=1)
    clock.seconds += 30
    assert budget.wait_seconds(slower) == pytest.approx(30)
    clock.seconds += 30
    assert budget.wait_seconds(slower) == 0
    assert budget.wait_seconds(Intervals(push_seconds=0)) == 0
