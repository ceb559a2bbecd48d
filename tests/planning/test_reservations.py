"""Who gets how much of a link: table by table, and over the whole life of twenty transfers against the two plain ways."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.model.policy import Thresholds
from reconciler.planning.reservations import TOGETHER, TRICKLES, Transfer, in_turn, reserve
from tests.builders import NOW
from tests.examples import examples

RULES = Thresholds()
WEST, EAST = ("eu", "us"), ("us", "eu")
MB = 1_000_000
RATE = 100 * MB
"""What may be used of the link; a trickle is 2 MB/s, and a minute's worth 6000 MB."""


def transfer(
    name: str, mb: float | None = 100_000, rate: float = 0, *, priority: int = 50, minutes_ago: float = 0, **fields: Any
) -> Transfer:
    """`mb` left, `rate` in MB/s."""
    left = None if mb is None else int(mb * MB)
    since = NOW - timedelta(minutes=minutes_ago)
    said: dict[str, Any] = {"source": "eu", "target": "us", "deadline": None, **fields}
    return Transfer(name=name, bytes_left=left, priority=priority, since=since, rate=int(rate * MB), **said)


def rates(*transfers: Transfer, mb: float = 100, full: Sequence[tuple[str, str]] = ()) -> dict[str, float]:
    """MB/s of each that gets any."""
    given_now = reserve(transfers, {WEST: int(mb * MB)}, NOW, RULES, full)
    assert given_now.keys() == {one.name for one in transfers}
    return {name: round(rate / MB, 1) for name, rate in given_now.items() if rate}


SOON = 5000
"""MB: 50 s of the whole link, less than the lead."""

SHARES: dict[str, tuple[tuple[Transfer, ...], dict[str, float]]] = {
    "nobody": ((), {}),
    "one has all that may be used": ((transfer("a"),), {"a": 100}),
    "of two the smaller has it, and the other waits": ((transfer("a", 90_000), transfer("b", 80_000)), {"b": 100}),
    "the next is under way before it is its turn": ((transfer("a", SOON), transfer("b")), {"a": 98, "b": 2}),
    "and so are all whose turn is near, but not more": (
        (transfer("a", 2000), transfer("b", 2500), transfer("c", 3000), transfer("d", 4000)),
        {"a": 96, "b": 2, "c": 2},
    ),
    "three at most": (tuple(transfer(name, 990 + at) for at, name in enumerate("abcdef")), {"a": 94, "b": 2, "c": 2, "d": 2}),
    "those that are done in ten seconds go at once, the larger ones quicker": (
        (transfer("a", 90), transfer("b", 360), transfer("c", 490), transfer("d")),
        {"a": 18.4, "b": 36.8, "c": 42.9, "d": 2},
    ),
    "nothing left to copy is something left to check": (
        (transfer("a", 0), transfer("b", 900), transfer("c")),
        {"a": 1, "b": 97, "c": 2},
    ),
    "nobody knows how large the first is: the next may be needed at once": (
        (transfer("a", None), transfer("b", None)),
        {"a": 98, "b": 2},
    ),
    "of unknown size after those of known": ((transfer("a", None), transfer("b", SOON)), {"b": 98, "a": 2}),
    "priority before size": ((transfer("a", SOON, priority=50), transfer("b", priority=75)), {"b": 100}),
    "a deadline before none, and the earlier one first": (
        (transfer("a", 1), transfer("b", deadline=NOW), transfer("c", deadline=NOW - timedelta(hours=1))),
        {"c": 100},
    ),
    "a deadline counts within a priority only": ((transfer("a", priority=75), transfer("b", deadline=NOW)), {"a": 100}),
    "what has waited four times its own length goes first": (
        # 100 GB are 1000 s of the link; it has waited 67 minutes.
        (transfer("new", 10), transfer("old", 100_000, minutes_ago=67)),
        {"old": 100},
    ),
    "before that the small one": ((transfer("new", 7000), transfer("old", 100_000, minutes_ago=60)), {"new": 100}),
    "of equal ones the older, then by name": ((transfer("c"), transfer("b"), transfer("a", minutes_ago=0.01)), {"a": 100}),
    "the links are apart": (
        (transfer("a"), transfer("b", source="us", target="eu"), transfer("c", source="us", target="sa")),
        {"a": 100},
    ),
}


@pytest.mark.parametrize("case", SHARES.values(), ids=SHARES.keys())
def test_a_share(case: tuple[tuple[Transfer, ...], dict[str, float]]) -> None:
    transfers, expected = case
    assert rates(*transfers) == expected
    assert rates(*transfers[::-1]) == expected


@pytest.mark.parametrize("mb", [0, None])
def test_a_link_that_carries_nothing_or_is_not_known_makes_all_wait(mb: float | None) -> None:
    known = {} if mb is None else {WEST: 0}
    assert reserve([transfer("a"), transfer("b", rate=50)], known, NOW, RULES) == {"a": 0, "b": 0}


CHANGES: dict[str, tuple[float, tuple[Transfer, ...], dict[str, float]]] = {
    "a little better: nothing changes": (109, (transfer("a", rate=100),), {"a": 100}),
    "a tenth better is worth a change": (112, (transfer("a", rate=100),), {"a": 112}),
    "a little worse: never above what may be used": (97, (transfer("a", rate=100),), {"a": 97}),
    "the last shrink first": (
        97,
        (transfer("a", 9000, 94), transfer("b", 9001, 2), transfer("c", 9002, 2), transfer("d", 9003, 2)),
        {"a": 94, "b": 2, "c": 1},
    ),
    "lower priority shrinks first": (
        60,
        (transfer("low", 10, 40, priority=25), transfer("high", rate=50, priority=75)),
        {"high": 60},
    ),
    "a third of it is left, for the first": (33, (transfer("a", 9000, 94), transfer("b", 9001, 6)), {"a": 33}),
    "better again": (100, (transfer("a", 9000, 33), transfer("b", 9001, begun=True)), {"a": 100}),
    "the first yields a trickle to one that must begin": (100, (transfer("a", SOON, 100), transfer("b")), {"a": 98, "b": 2}),
    "but not to one that is only paused": (100, (transfer("a", SOON, 100), transfer("b", begun=True)), {"a": 100}),
    "the first has ended: the next has it": (100, (transfer("b", rate=2), transfer("c", rate=2)), {"b": 100}),
    "a more urgent one comes": (100, (transfer("a", 90_000, 100), transfer("b", priority=99)), {"b": 100}),
    "a smaller one comes": (100, (transfer("a", 90_000, 100), transfer("b", 10)), {"b": 98, "a": 2}),
    "a larger one comes": (100, (transfer("a", 90_000, 100), transfer("b", 95_000)), {"a": 100}),
}


@pytest.mark.parametrize("case", CHANGES.values(), ids=CHANGES.keys())
def test_a_change(case: tuple[float, tuple[Transfer, ...], dict[str, float]]) -> None:
    mb, transfers, expected = case
    assert rates(*transfers, mb=mb) == expected


def test_nothing_begins_on_a_full_link_and_what_runs_goes_on() -> None:
    line = (transfer("new", 10), transfer("old", rate=50), transfer("paused", 20, begun=True))
    assert rates(*line, full=[WEST]) == {"paused": 98, "old": 2}
    assert rates(*line, full=[EAST]).keys() == {"new", "paused", "old"}


def as_given(transfers: Sequence[Transfer], mb: float) -> list[Transfer]:
    now = reserve(transfers, {WEST: int(mb * MB)}, NOW, RULES)
    return [replace(one, rate=now[one.name], begun=one.runs or now[one.name] > 0) for one in transfers]


sizes = st.one_of(st.none(), st.integers(0, 10**12))
some_transfers = st.lists(
    st.builds(
        lambda left, priority, late, waited, rate, begun: transfer(
            "", None if left is None else left / MB, rate / MB, priority=priority, minutes_ago=waited, begun=begun, deadline=late
        ),
        sizes,
        st.integers(0, 100),
        st.one_of(st.none(), st.floats(-24, 24).map(lambda hours: NOW + timedelta(hours=hours))),
        st.floats(0, 10_000),
        st.integers(0, 10**9),
        st.booleans(),
    ),
    max_size=12,
).map(lambda found: [replace(one, name=f"t{at}") for at, one in enumerate(found)])
usables = st.integers(0, 2 * 10**9)
thorough = settings(max_examples=examples(200), deadline=None, derandomize=True)


@thorough
@given(some_transfers, usables, st.randoms(use_true_random=False))
def test_never_more_than_may_be_used_and_the_same_in_any_order(line: list[Transfer], usable: int, rng: random.Random) -> None:
    given_now = reserve(line, {WEST: usable}, NOW, RULES)
    assert sum(given_now.values()) <= usable
    assert all(rate >= 0 for rate in given_now.values())
    assert reserve(rng.sample(line, len(line)), {WEST: usable}, NOW, RULES) == given_now


@thorough
@given(some_transfers, usables)
def test_the_link_is_used_and_few_are_under_way_that_had_not_begun(line: list[Transfer], usable: int) -> None:
    given_now = reserve(line, {WEST: usable}, NOW, RULES)
    if line and usable:
        assert sum(given_now.values()) >= 0.8 * usable
    fresh = [one.name for one in line if not one.runs and given_now[one.name]]
    assert len(fresh) <= TOGETHER + TRICKLES


@thorough
@given(some_transfers, usables)
def test_what_was_given_stays_while_nothing_changes(line: list[Transfer], usable: int) -> None:
    once = as_given(line, usable / MB)
    again = as_given(once, usable / MB)
    assert as_given(again, usable / MB) == again
    changed = [max(abs(one.rate - other.rate) for one, other in zip(once, again, strict=True)) if once else 0]
    assert max(changed) <= 0.1 * usable


@thorough
@given(some_transfers, usables, st.integers(0, 100))
def test_where_a_link_worsens_nobody_loses_before_all_behind_it_have_lost_all(
    line: list[Transfer], usable: int, percent: int
) -> None:
    held = as_given(as_given(line, usable / MB), usable / MB)
    less = usable * percent // 100
    after = reserve(held, {WEST: less}, NOW, RULES)
    order = in_turn(held, less, NOW)
    if order != in_turn(held, usable, NOW):
        return  # who is soonest done is seen by the rate, too
    for at, one in enumerate(order):
        if after[one.name] < one.rate and one.rate - after[one.name] < one.rate:
            # Cut, and not to nothing: then what stands behind it gets no more than it had.
            assert all(after[other.name] <= other.rate for other in order[at + 1 :])


# ---- twenty transfers from beginning to end ------------------------------------------------------------------------

CYCLE = 10.0
START = 5.0
"""Seconds between two decisions, and from a worker's grant to its first byte: a pod starts, a listing is read."""

Way = Callable[[list[Transfer], int, datetime], dict[str, int]]


@dataclass
class Course:
    """How the transfers went: seconds until each had ended, and the most that was moved at once."""

    ended: dict[str, float]
    peak: float = 0.0


def run(amounts: Sequence[float], usable: int, way: Way, start: float = START) -> Course:
    """The twenty from their wish to their end, by decisions every cycle; between two the rates stay."""
    left = {f"t{at:02}": amount for at, amount in enumerate(amounts)}
    held: dict[str, int] = {}
    ready: dict[str, float] = {}
    course, clock = Course({}), 0.0
    while left:
        now = NOW + timedelta(seconds=clock)
        line = [
            Transfer(name, *WEST, int(amount), 50, None, NOW, held.get(name, 0), begun=name in ready)
            for name, amount in left.items()
        ]
        held = way(line, usable, now)
        for name, rate in held.items():
            if rate:
                ready.setdefault(name, clock + start)
        course.peak = max(course.peak, sum(held.values()))
        for name in list(left):
            rate, begins = held[name], max(clock, ready.get(name, float("inf")))
            moved = rate * max(0.0, clock + CYCLE - begins)
            if rate and moved >= left[name]:
                course.ended[name] = begins + left[name] / rate
                del left[name]
            else:
                left[name] -= moved
        clock += CYCLE
    return course


def ours(line: list[Transfer], usable: int, now: datetime) -> dict[str, int]:
    return reserve(line, {WEST: usable}, now, RULES)


def one_after_another(line: list[Transfer], usable: int, now: datetime) -> dict[str, int]:
    first = min(line, key=lambda one: (not one.begun, one.bytes_left, one.name))
    return {one.name: usable if one is first else 0 for one in line}


def all_at_once(line: list[Transfer], usable: int, now: datetime) -> dict[str, int]:
    return dict.fromkeys((one.name for one in line), usable // len(line))


def mean(course: Course) -> float:
    return sum(course.ended.values()) / len(course.ended)


EQUAL: list[float] = [2e9] * 20
tiny_to_large = st.lists(st.floats(0.01, 300), min_size=20, max_size=20)
large = st.lists(st.floats(CYCLE, 300), min_size=20, max_size=20)
"""Seconds that each would take alone."""


@settings(max_examples=examples(60), deadline=None, derandomize=True)
@given(tiny_to_large | large, st.integers(10**7, 10**9))
def test_twenty_at_once_end_sooner_than_one_after_another_and_than_by_equal_shares(alone: list[float], usable: int) -> None:
    amounts = [seconds * usable for seconds in alone]
    found = {way.__name__: run(amounts, usable, way) for way in (ours, one_after_another, all_at_once)}
    assert all(len(course.ended) == 20 and course.peak <= usable for course in found.values())
    means = {name: mean(course) for name, course in found.items()}
    assert means["ours"] <= means["one_after_another"]
    if min(alone) >= CYCLE:
        assert means["ours"] < means["all_at_once"]
    assert means["ours"] <= means["all_at_once"] + CYCLE  # tiny ones: they end before anything is decided again


def test_what_it_comes_to_for_twenty_of_two_gigabytes_over_a_hundred_megabytes_a_second() -> None:
    means = {way.__name__: round(mean(run(EQUAL, RATE, way))) for way in (ours, one_after_another, all_at_once)}
    print(means)
    assert means["ours"] < 0.9 * means["one_after_another"] < 0.9 * means["all_at_once"]


def test_over_a_whole_life_rates_seldom_change() -> None:
    """Each transfer's rate changes when it begins, when its turn comes, and little beside that."""
    seen: list[dict[str, int]] = []

    def watched(line: list[Transfer], usable: int, now: datetime) -> dict[str, int]:
        seen.append(ours(line, usable, now))
        return seen[-1]

    run([5e9 + at * 1e8 for at in range(20)], RATE, watched)
    changes = sum(before.get(name, 0) != rate for before, after in pairwise(seen) for name, rate in after.items())
    assert changes <= 20 * 4
