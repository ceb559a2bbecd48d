"""How much the source may send ahead: what the rate brings in a moment, or while the link answers."""

from typing import Any

import pytest

from reconciler.agent.stage.transfer.ahead import Ahead
from reconciler.agent.stage.transfer.work import Options, in_flight_limit

MB = 1_000_000
PART = 8 * 1024**2


class Held:
    """A source that remembers what it was told."""

    def __init__(self, round_trip: float) -> None:
        self.told: list[int | None] = []
        self._round_trip = round_trip

    def round_trip_seconds(self, _: object) -> float:
        return self._round_trip

    def hold_back(self, receive_bytes: int | None) -> None:
        self.told.append(receive_bytes)


def bounds(*rates: float | None, round_trip: float = 0.0, **options: Any) -> list[int | None]:
    """What is told while the rate is one after the other."""
    held, left = Held(round_trip), list(rates)
    ahead = Ahead(held, Options(**options), lambda: left[0], lambda: 0.0)  # type: ignore[arg-type]
    while left:
        ahead.look()
        left.pop(0)
    return held.told


CASES = {
    "no rate": ([None], 0.0, []),
    "a pause": ([0.0], 0.0, []),
    "a near store: what comes in 60 ms, over all 16 connections": ([40.0 * MB], 0.001, [150_000]),
    "a far store: what comes in one and a half round trips": ([40.0 * MB], 0.2, [750_000]),
    "a slow rate: never less than 64 KiB": ([1.0 * MB], 0.001, [64 * 1024]),
    "a change of rate": ([10.0 * MB, 100.0 * MB], 0.001, [120_000, 375_000]),
    "hardly a change": ([40.0 * MB, 41.0 * MB], 0.001, [150_000]),
    "so much that no window is the bound": ([1000.0 * MB], 0.2, []),
    "so much now": ([40.0 * MB, 1000.0 * MB], 0.2, [750_000, None]),
}


@pytest.mark.parametrize(("rates", "round_trip", "told"), CASES.values(), ids=CASES.keys())
def test_what_is_held(rates: list[float | None], round_trip: float, told: list[int | None]) -> None:
    assert bounds(*rates, round_trip=round_trip) == told


def test_a_far_target_bounds_nothing_at_the_source() -> None:
    assert bounds(40.0 * MB, link="target") == []


def test_in_flight_is_what_a_rate_brings_in_four_seconds() -> None:
    figures = {None: 128 * 1024**2, 0.0: 2 * PART, 1.0 * MB: 2 * PART, 10.0 * MB: 40 * MB, 1000.0 * MB: 128 * 1024**2}
    assert {rate: in_flight_limit(Options(), rate, copies=False) for rate in figures} == figures
