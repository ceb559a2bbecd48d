"""When a link is measured, and by how much: within its budget, and never at the cost of who uses it."""

import itertools
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.agent.probing.prober import Prober
from reconciler.agent.probing.schedule import MIB, Course, Rules, Try, after, after_failure, begun, due_at, is_full, told
from reconciler.model.link_table import LinkLine
from reconciler.probe_port import TcpFacts, Transferred
from tests.agent.probing.pretend import PretendLinks, line, publish, table_of
from tests.agent.region import HandClock
from tests.agent.stores import FailingStore

RULES = Rules()
GBIT = 1.25e8
"""A Gbit/s, in bytes a second."""


def measured(rate: float, *, seconds: float = 1.0, at: float = 0.0, link: LinkLine | None = None, step: int = 0) -> Course:
    """A link after one transfer that reached that rate."""
    found = Transferred(RULES.sizes[step], seconds, rate, TcpFacts(5.0))
    return after(Course(0.0, 0.0, step=step), found, Try(link or line("eu", "us"), at, at + seconds), RULES, Random(1))


# ---- which size ---------------------------------------------------------------------------------------------------

SIZES: dict[str, tuple[int, float, float, float, int]] = {
    "over at once: a larger one": (0, 0.01, 5.0, 1.0, 1),
    "and a larger one still": (1, 0.2, 5.0, 1.0, 2),
    "there is none larger": (2, 0.01, 5.0, 1.0, 2),
    "long enough": (1, 1.0, 5.0, 1.0, 1),
    "few round trips, however long": (0, 0.9, 150.0, 1.0, 1),
    "too long: a smaller one": (2, 9.0, 5.0, 1.0, 1),
    "there is none smaller": (0, 20.0, 5.0, 1.0, 0),
    "cut off by the time": (2, 30.0, 5.0, 0.3, 1),
}


@pytest.mark.parametrize("case", SIZES)
def test_which_size_is_next(case: str) -> None:
    step, seconds, rtt, moved, wanted = SIZES[case]
    size = RULES.sizes[step]
    found = Transferred(int(size * moved), seconds, size * moved / seconds, TcpFacts(rtt))
    course = after(Course(0.0, 0.0, step=step), found, Try(line("eu", "us"), 0.0, seconds), RULES, Random(1))
    assert course.step == wanted


@given(st.floats(min_value=1e4, max_value=2e9), st.floats(min_value=0.1, max_value=300.0))
def test_no_link_goes_to_and_fro_between_two_sizes(rate: float, rtt: float) -> None:
    course, steps = Course(0.0, 0.0), []
    for _ in range(12):
        seconds = min(RULES.sizes[course.step] / rate, RULES.most_seconds)
        moved = min(RULES.sizes[course.step], int(seconds * rate) + 1)
        course = after(course, Transferred(moved, seconds, rate, TcpFacts(rtt)), Try(line("eu", "us"), 0, 1), RULES, Random(1))
        steps.append(course.step)
    assert len(set(steps[-6:])) == 1


# ---- when ---------------------------------------------------------------------------------------------------------

DUES: dict[str, tuple[Course, LinkLine, float | None]] = {
    "a link that nobody knows goes by little": (Course(0, 0), line("eu", "us"), MIB / (0.005 * 1.25e6)),
    "a declared one by what is declared": (Course(0, 0), line("eu", "us", 0.02), MIB / (0.005 * 0.02 * GBIT)),
    "a quick one rests all the same": (Course(0, 0), line("eu", "us", 100), 45),
    "the lower of declared and measured counts": (
        measured(1e6),
        line("eu", "us", 10),
        MIB / (0.005 * 1e6),
    ),
    "declared lower than measured": (measured(1e9), line("eu", "us", 0.01), MIB / (0.005 * 0.01 * GBIT)),
    "declared to carry nothing": (Course(0, 0), line("eu", "us", 0), None),
    "full by what is declared": (Course(0, 0), line("eu", "us", 1, held=int(0.8 * GBIT)), None),
    "nearly full": (Course(0, 0), line("eu", "us", 1, held=int(0.79 * GBIT)), 45),
    "full by what is measured, whatever is declared": (measured(1e6), line("eu", "us", 10, held=800_000), None),
    "held, and nobody knows of how much": (Course(0, 0), line("eu", "us", held=1), None),
}


@pytest.mark.parametrize("case", DUES)
def test_when_it_is_measured_next(case: str) -> None:
    course, link, wanted = DUES[case]
    course = Course(course.paid_at, 0.0, samples=course.samples)
    assert due_at(course, link, 1.0, RULES) == (None if wanted is None else pytest.approx(wanted))
    assert is_full(course, link, 1.0) == (wanted is None and link.gbit_per_second != 0)


def test_failures_make_it_rest_longer_but_not_for_ever() -> None:
    quick, course, rests = line("eu", "us", 100), Course(0.0, 0.0), []
    for _ in range(6):
        rests.append(due_at(Course(0.0, 0.0, failures=course.failures), quick, 0.0, RULES))
        course = after_failure(course, "no", Try(quick, 0.0, 1.0), Random(1))
    assert rests == [45, 90, 180, 360, 360, 360]


def test_a_failure_is_told_in_words_and_what_is_known_stays_and_ages() -> None:
    course = after_failure(measured(1e6, at=0.0), "the  store\nis away " * 50, Try(line("eu", "us"), 50.0, 55.0), Random(1))
    said = told(course, line("eu", "us"), 61.0)
    assert (said.bytes_per_second, said.newest_bytes_per_second, said.samples, said.age_seconds) == (1e6, 1e6, 1, 60.0)
    assert said.problem.startswith("the store is away the store")
    assert len(said.problem) <= 300


def test_a_link_that_never_answered_has_no_rate_at_all() -> None:
    said = told(after_failure(Course(0, 0), "no", Try(line("eu", "us"), 0, 1), Random(1)), line("eu", "us"), 2.0)
    assert (said.bytes_per_second, said.newest_bytes_per_second, said.samples, said.age_seconds) == (None, None, 0, None)


def test_the_rests_are_drawn_from_what_is_passed_in() -> None:
    def rest(seed: int) -> float | None:
        return due_at(begun(0.0, Random(seed)), line("eu", "us", 100), 0.0, RULES)

    rests = {rest(seed) for seed in range(50)}
    assert rest(7) == rest(7)
    assert len(rests) == 50
    assert all(each is not None and 45 <= each <= 67.5 for each in rests)


WRONG = {"a share of more than half a percent": {"share": 0.01}, "sizes that fall": {"sizes": (2, 1)}, "no sizes": {"sizes": ()}}


@pytest.mark.parametrize("case", WRONG)
def test_rules_that_break_the_budget_are_refused(case: str) -> None:
    with pytest.raises(ValueError, match="must"):
        Rules(**WRONG[case])  # type: ignore[arg-type]


# ---- both ends, for a day -----------------------------------------------------------------------------------------


def lived(rate: float, gbit: float | None, seed: int, hours: float, *, down: float = 0.0) -> list[tuple[str, str, float, int]]:
    """All transfers that the agents of eu and us make over the links between them, each by a clock of its own."""
    moved = []
    fate = Random(seed)
    for index, region in enumerate(("eu", "us")):
        clock, store, chance = HandClock(), FailingStore(), Random(seed + index)
        publish(store, table_of(line("eu", "us", gbit), line("us", "eu", gbit)))
        pretend = PretendLinks(region, clock, lambda *_: 0.0 if fate.random() < down else rate)
        prober = Prober(region, store, pretend, clock, chance, RULES)
        began = clock.seconds
        while clock.seconds - began < hours * 3600:
            clock.seconds += prober.step()
        moved += pretend.moved
    return moved


WORLDS: dict[str, tuple[float, float | None]] = {
    "a slow link": (2e5, 0.002),
    "a link of a tenth of a Gbit/s": (1.2e7, 0.1),
    "a Gbit/s": (1.2e8, 1.0),
    "ten": (4e8, 10.0),
    "one that nobody declared": (3e7, None),
    "declared far too high": (1e6, 10.0),
}


@pytest.mark.parametrize("case", WORLDS)
def test_both_ends_together_use_one_percent_of_a_link_at_most(case: str) -> None:
    rate, gbit = WORLDS[case]
    moved = lived(rate, gbit, 1, hours=5)
    carries = max(rate, RULES.assumed_bytes_per_second if gbit is None else gbit * GBIT)
    for way in (("eu", "us"), ("us", "eu")):
        over = sorted((when - 5000.0, size) for source, target, when, size in moved if (source, target) == way)
        assert len(over) >= 10
        total = 0
        for when, size in over:
            total += size
            assert total <= 0.01 * carries * when


def test_a_link_declared_too_high_is_corrected_by_the_first_transfer() -> None:
    moved = [each for each in lived(1e6, 10.0, 3, hours=6) if each[:2] == ("eu", "us")]
    assert sum(size for *_, size in moved) <= 0.01 * 1e6 * 6 * 3600 + 2 * MIB


def test_all_three_sizes_are_used_on_a_quick_link_and_the_smallest_on_a_slow_one() -> None:
    assert {size for *_, size in lived(1.2e8, 1.0, 1, hours=1)} == set(RULES.sizes)
    assert {size for *_, size in lived(2e6, 1.0, 1, hours=1)} == {RULES.sizes[0]}


def test_a_link_is_measured_every_few_minutes_and_agents_do_not_come_at_once() -> None:
    starts = sorted(when for *_, when, _ in lived(1.2e8, 1.0, 1, hours=2))
    gaps = [after - before for before, after in itertools.pairwise(starts)]
    assert max(gaps) < 600
    assert len({round(gap, 3) for gap in gaps}) > len(gaps) / 2


def test_failures_cost_little_and_do_not_stop_it() -> None:
    moved = lived(1.2e7, 0.1, 5, hours=6, down=0.5)
    assert sum(1 for *_, size in moved if size) > 30
