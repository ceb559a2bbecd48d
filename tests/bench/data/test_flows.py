"""The simulation's own arithmetic: no link gives more than it has, no byte is lost or counted twice, no card is given twice."""

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bench.data.arrivals import week
from tests.bench.data.course import Course, course_of, run
from tests.bench.data.curves import DAY, HOUR, Curve, falling, flat, mean, times, weekly
from tests.bench.data.flows import Flow, Lines, shares
from tests.bench.data.hub_way import hub_way
from tests.bench.data.oracle import Asked, Room, free_at, regret
from tests.bench.data.places import FALLS, FALLS_FROM, GPUS_A_NODE, SITES, Place, place
from tests.bench.data.plain_ways import plain_ways
from tests.bench.data.scenes import together
from tests.examples import examples

LINK = ("eu", "us")
DAYS, JOBS = 1, 60


@given(paces=st.lists(st.floats(0, 1e9), min_size=1, max_size=12), rate=st.floats(1, 1e9))
@settings(max_examples=examples(100), deadline=None)
def test_shares_fill_the_link_and_never_more(paces: list[float], rate: float) -> None:
    named = {str(at): pace for at, pace in enumerate(paces)}
    given_now = shares(named, rate)
    assert sum(given_now.values()) == pytest.approx(min(rate, sum(paces)))
    assert all(given_now[name] <= pace for name, pace in named.items())
    limited = [given_now[name] for name, pace in named.items() if given_now[name] < pace]
    assert not limited or max(given_now.values()) == pytest.approx(max(limited)), "who is held back gets as much as any"


CURVES: dict[str, tuple[Curve, float, float, float]] = {
    "a flat link": (flat(10.0), 100.0, 5.0, 15.0),
    "a fall on the way": (falling(10.0, 0.5, 10.0), 100.0, 5.0, 20.0),
    "a fall before": (falling(10.0, 0.5, 10.0), 100.0, 12.0, 32.0),
    "a fall that ends": (falling(10.0, 0.5, 10.0, 14.0), 100.0, 5.0, 17.0),
    "nothing to move": (flat(10.0), 0.0, 5.0, 5.0),
}


@pytest.mark.parametrize("case", CURVES.values(), ids=CURVES.keys())
def test_when_bytes_have_gone_over(case: tuple[Curve, float, float, float]) -> None:
    curve, size, begin, expected = case
    assert curve.moved_at(size, begin) == pytest.approx(expected)
    assert curve.moved_at(size / 2, begin, share=0.5) == pytest.approx(expected)
    if expected > begin:
        assert mean(curve, begin, expected) * (expected - begin) == pytest.approx(size)


@given(number=st.integers(0, 10**6))
@settings(max_examples=examples(100), deadline=None)
def test_bytes_are_conserved_on_links_that_change(number: int) -> None:
    """Flows that begin, pause and change their pace at random: what each moved adds up to what its link carried."""
    chance = random.Random(number)
    curve = weekly(1e6, 0.9, 1, chance)
    lines = Lines({LINK: curve})
    now, moved = 0.0, 0.0
    for step in range(30):
        if chance.random() < 0.5:
            lines.flows[str(step)] = Flow(str(step), LINK, chance.uniform(0, 3e9))
        for flow in lines.flows.values():
            flow.pace = chance.choice((0.0, 1e5, 1e6, 1e9))
        before = {name: flow.moved for name, flow in lines.flows.items()}
        change = lines.next_change(now)
        then = min(now + chance.uniform(0, 2 * HOUR), change if change is not None else DAY)
        lines.advance(now, then)
        more = sum(flow.moved - before[name] for name, flow in lines.flows.items())
        assert more <= curve.at(now) * (then - now) * (1 + 1e-9) + 1e-6
        moved += more
        for name in [name for name, flow in lines.flows.items() if flow.is_done]:
            del lines.flows[name]
        now = then
    assert lines.carried.get(LINK, 0.0) == pytest.approx(moved)
    assert lines.fullest.get(LINK, 0.0) <= 1 + 1e-9


def test_equal_shares_end_as_sums_by_hand_say() -> None:
    assert together([100.0, 200.0, 300.0], 10.0) == pytest.approx([30.0, 50.0, 60.0], abs=0.5)


def test_a_link_that_falls_falls_to_a_third() -> None:
    there = place(1, 7)
    other = times(there.curves[FALLS], 3.0, FALLS_FROM, FALLS_FROM + HOUR)
    assert there.curves[FALLS].at(FALLS_FROM + 60) * 3 == pytest.approx(other.at(FALLS_FROM + 60))
    declared = there.fleet.links[FALLS].gbit_per_second or 0.0
    assert other.at(FALLS_FROM + 60) <= declared * 125e6


def test_the_oracle_knows_when_cards_are_free() -> None:
    jobs = week(1, 1, 3, list(place(1, 1).fleet.datasets.values()))
    first, second, third = (job.key for job in jobs)
    room = Room("eu", (((first, 4), (second, 4)), ((third, 8),)))
    ends = {first: 100.0, second: 50.0, third: 80.0}
    assert free_at(room, 4, 10.0, ends) == 50.0
    assert free_at(room, 8, 10.0, ends) == 80.0
    assert free_at(room, 8, 90.0, ends) == 90.0, "never before the question"


# ---- whole weeks, small ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def there() -> Place:
    return place(3, DAYS)


def check(course: Course) -> None:
    """What must hold of any way's week."""
    for region in SITES:
        for node in range(len(course.place.nodes[region])):
            stays = [stay for stay in course.ended.values() if (stay.region, stay.node) == (region, node)]
            turns = sorted(
                [(stay.started_at or 0.0, stay.job.gpus) for stay in stays]
                + [(stay.ended_at or 0.0, -stay.job.gpus) for stay in stays]
            )
            held = 0
            for _, gpus in turns:
                held += gpus
                assert held <= GPUS_A_NODE
    for stay in course.ended.values():
        assert stay.started_at is not None
        assert stay.ended_at is not None
        assert stay.job.at <= stay.held_at <= stay.started_at
        assert stay.ended_at - stay.started_at == pytest.approx(stay.job.run_seconds)
    for part in course.lines.fullest.values():
        assert part <= 1 + 1e-9


@pytest.mark.parametrize("at", range(3), ids=[way.name for way in plain_ways()])
def test_a_plain_way_moves_each_dataset_once_to_a_region(there: Place, at: int) -> None:
    jobs = week(3, DAYS, JOBS, list(there.fleet.datasets.values()))
    course = course_of(there, jobs)
    run(course, plain_ways()[at], 10 * DAY)
    assert course.is_over
    assert len(course.ended) == JOBS
    check(course)
    most = sum(dataset.size_bytes or 0 for dataset in there.fleet.datasets.values()) * len(SITES)
    assert sum(course.lines.carried.values()) <= most


@pytest.mark.slow
def test_the_hubs_way_is_the_same_each_time_and_moves_what_its_tasks_say(there: Place) -> None:
    jobs = week(3, DAYS, JOBS, list(there.fleet.datasets.values()))
    told = []
    for _ in range(2):
        asked = Asked(there, {job.key: job for job in jobs})
        course, way = course_of(there, jobs), hub_way(there, 3, asked.watch)
        run(course, way, 10 * DAY)
        assert course.is_over
        check(course)
        brought = sum(
            record.stage.size_bytes or 0
            for record in way.records.values()
            if record.stage is not None and record.phase.value == "Succeeded"
        )
        assert brought > 0
        unended = sum(record.phase.value != "Succeeded" for record in way.records.values())
        assert unended or sum(course.lines.carried.values()) == pytest.approx(brought)
        ends = {key: stay.ended_at or 0.0 for key, stay in course.ended.items()}
        found = regret(asked.questions, ends, there)
        assert found.time >= 0
        assert found.cost >= 0
        told.append((found, ends, course.lines.carried))
    assert told[0] == told[1]


def test_jobs_come_in_order_and_are_the_same_for_the_same_seed(there: Place) -> None:
    datasets = list(there.fleet.datasets.values())
    jobs = week(5, 7, 200, datasets)
    assert jobs == week(5, 7, 200, datasets)
    assert jobs != week(6, 7, 200, datasets)
    assert all(one.at <= other.at for one, other in pairwise(jobs))
    assert len({job.key for job in jobs}) == 200
