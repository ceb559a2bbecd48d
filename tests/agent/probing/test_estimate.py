"""What a link is believed to do, by the transfers over it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.agent.probing.estimate import MOST_SAMPLES, Sample, beside, estimate, with_sample

HOUR = 3600.0
EVERY = 60.0


def made(*rates: float, size: int = 8_000_000, every: float = EVERY) -> tuple[Sample, ...]:
    """What is kept of transfers that reached these rates, one after the other."""
    samples: tuple[Sample, ...] = ()
    for index, rate in enumerate(rates):
        samples = with_sample(samples, Sample(rate, size, index * every))
    return samples


def now_of(samples: tuple[Sample, ...]) -> float:
    return samples[-1].at


def believed(*rates: float) -> float | None:
    samples = made(*rates)
    return estimate(samples, now_of(samples))


COURSES: dict[str, tuple[list[float], float]] = {
    "one transfer is believed": ([10], 10),
    "of two that nearly agree it is between": ([10, 12], 12),
    "usual scatter leaves it where it is": ([10, 11, 9, 10, 10.5, 9.5, 10], 10),
    "one slow transfer changes nothing": ([10, 10, 10, 10, 3], 10),
    "one quick transfer changes nothing": ([10, 10, 10, 10, 40], 10),
    "two slow ones are followed at once": ([*[10] * 20, 3.3, 3.4], 3.4),
    "two that are slow, each in its way, as well": ([*[10] * 20, 5, 2], 2),
    "a slow one and one as ever are scatter": ([10, 10, 10, 10, 3, 10], 10),
    "after the fall one quick transfer changes nothing": ([*[10] * 20, 3, 3, 3, 10], 3),
    "two quick ones neither": ([*[10] * 20, 3, 3, 3, 3, 3, 10, 10], 3),
    "three are a rise": ([*[10] * 20, 3, 3, 3, 3, 3, 10, 10, 10], 10),
    "it may fall again and again": ([*[100] * 9, 30, 30, 9, 9, 3, 3], 3),
    "a tenth less is no fall": ([*[10] * 20, 9, 9], 10),
}


@pytest.mark.parametrize("case", COURSES)
def test_what_is_believed_after(case: str) -> None:
    rates, wanted = COURSES[case]
    found = believed(*rates)
    assert found is not None
    assert abs(found - wanted) <= 0.1 * wanted


def test_without_a_transfer_nothing_is_believed() -> None:
    assert estimate((), 0.0) is None


def test_the_newer_counts_more() -> None:
    old = tuple(Sample(10, 1, at) for at in range(5))
    new = tuple(Sample(12, 1, 2 * HOUR + at) for at in range(3))
    assert estimate((*old, *new), 2 * HOUR + 5) == 12
    assert estimate((*old, *(Sample(12, 1, 10.0 + at) for at in range(3))), 20.0) == 10


def test_the_larger_counts_more_for_tcp_needs_time_to_find_its_rate() -> None:
    small = [Sample(4, 1_000_000, at) for at in range(6)]
    assert estimate([*small, Sample(10, 8_000_000, 6)], 6) == 10


def test_what_is_too_old_is_not_believed_any_more() -> None:
    samples = made(10, 10)
    assert estimate(samples, now_of(samples) + 11 * HOUR) == 10
    assert estimate(samples, now_of(samples) + 13 * HOUR) is None


def test_a_link_that_changed_is_not_measured_by_what_was_before() -> None:
    assert [one.bytes_per_second for one in made(*[10] * 20, 3, 3)] == [3, 3]


RATES = st.lists(st.floats(min_value=1.0, max_value=1e10), min_size=1, max_size=60)


@given(RATES)
def test_it_lies_within_what_was_seen_and_few_are_kept(rates: list[float]) -> None:
    samples = made(*rates)
    found = estimate(samples, now_of(samples))
    assert found is not None
    assert min(rates) <= found <= max(rates)
    assert len(samples) <= MOST_SAMPLES
    assert samples[-1].bytes_per_second == rates[-1]


@given(st.lists(st.floats(min_value=0.85, max_value=1.15), min_size=2, max_size=60), st.floats(min_value=1e3, max_value=1e9))
def test_a_fall_to_a_third_shows_after_two_whatever_the_scatter_was(scatter: list[float], rate: float) -> None:
    before = [rate * each for each in scatter]
    assert (believed(*before) or 0) >= 0.85 * rate
    assert (believed(*before, rate / 3 * scatter[0], rate / 3 * scatter[1]) or 0) <= 0.4 * rate


SHARED: dict[str, tuple[float, float, float | None, float]] = {
    "nothing is held": (10, 0, 100, 10),
    "nothing is believed yet": (10, 50, None, 10),
    "what was left to it shows the whole": (40, 60, 100, 100),
    "half of what was left shows a half": (20, 60, 100, 50),
    "an idle holder makes it no more than was believed": (100, 60, 100, 100),
    "more than was believed is believed": (120, 60, 100, 120),
    "more is held than was believed": (10, 200, 100, 10),
}


@pytest.mark.parametrize("case", SHARED)
def test_a_transfer_beside_others(case: str) -> None:
    rate, held, believed, wanted = SHARED[case]
    assert beside(rate, held, believed) == pytest.approx(wanted)
