"""Who comes before whom in the queue only with a pull request: held against the plain definition, and in little memory."""

import random
import tracemalloc

import pytest

from reconciler.hub.pull_check import MOST_NAMED, Behind, overtaken
from reconciler.model.names import JobKey


def keys(*names: str) -> list[JobKey]:
    return [JobKey("t", name) for name in names]


def by_definition(first: list[JobKey], then: list[JobKey], touched: set[JobKey]) -> dict[JobKey, set[JobKey]]:
    """For each job, the touched ones before it in `then`, less those that were before it in `first`."""
    found = {}
    for place, key in enumerate(then):
        was = set(first[: first.index(key)]) if key in first else set()
        found[key] = (set(then[:place]) & touched) - was
    return {key: others for key, others in found.items() if others and key not in touched}


CASES = {
    "nobody new": (keys("a", "b"), keys("a", "b"), set(), {}),
    "a new one before all": (keys("a", "b"), keys("n", "a", "b"), keys("n"), {"a": (["n"], 1), "b": (["n"], 1)}),
    "a new one behind all": (keys("a", "b"), keys("a", "b", "n"), keys("n"), {}),
    "one that moves up": (keys("a", "b", "c"), keys("c", "a", "b"), keys("c"), {"a": (["c"], 1), "b": (["c"], 1)}),
    "one that was ahead and still is": (keys("c", "a"), keys("c", "a"), keys("c"), {}),
    "one that waits only now": (keys("c"), keys("c", "a"), keys("c"), {"a": (["c"], 1)}),
    "one that moves up among those who stay": (keys("a", "b", "c"), keys("a", "c", "b"), keys("c"), {"b": (["c"], 1)}),
    "more than are named": (keys("a"), keys(*"123456789", "a"), keys(*"123456789"), {"a": (["1", "2", "3", "4", "5"], 9)}),
}


@pytest.mark.parametrize("case", CASES)
def test_who_comes_before_whom(case: str) -> None:
    first, then, touched, expected = CASES[case]
    wanted = {JobKey("t", name): Behind(tuple(keys(*named)), count) for name, (named, count) in expected.items()}
    assert overtaken(first, then, set(touched)) == wanted


@pytest.mark.parametrize("seed", range(60))
def test_it_is_what_the_definition_says(seed: int) -> None:
    luck = random.Random(seed)
    every = keys(*(f"j{number}" for number in range(30)))
    first, then = luck.sample(every, luck.randint(0, 30)), luck.sample(every, luck.randint(0, 30))
    touched = set(luck.sample(every, luck.randint(0, 20)))
    wanted, found = by_definition(first, then, touched), overtaken(first, then, touched)
    assert {key: each.count for key, each in found.items()} == {key: len(others) for key, others in wanted.items()}
    for key, each in found.items():
        assert len(each.named) == min(len(wanted[key]), MOST_NAMED)
        assert set(each.named) <= wanted[key]
        assert list(each.named) == sorted(each.named, key=then.index)


def test_many_jobs_before_many_others_are_counted_and_not_listed() -> None:
    new, old = keys(*(f"n{number}" for number in range(4_000))), keys(*(f"o{number}" for number in range(4_000)))
    then = [key for both in zip(new, old, strict=True) for key in both]
    tracemalloc.start()
    try:
        found = overtaken(old, then, set(new))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found[old[-1]].count == 4_000
    assert peak < 8 << 20, "a list for each of them would be 64 MiB"
