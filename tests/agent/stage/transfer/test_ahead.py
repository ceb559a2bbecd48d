"""How much the source may send ahead: little, and more only where the rate does not come."""

from typing import Any

from reconciler.agent.stage.transfer.ahead import Ahead
from reconciler.agent.stage.transfer.work import Options, in_flight_limit
from reconciler.model.progress import Progress

MB = 1_000_000
PART = 8 * 1024**2


class Held:
    """A source that remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[int | None] = []

    def hold_back(self, receive_bytes: int | None) -> None:
        self.told.append(receive_bytes)


def progress(rate: float) -> Progress:
    return Progress(objects_done=0, objects_total=1, bytes_done=0, bytes_total=1, bytes_per_second=rate)


def bounds(rates: list[float | None], came: list[float], **options: Any) -> list[int | None]:
    held, left = Held(), list(rates)
    ahead = Ahead(held, Options(**options), lambda: left[0])  # type: ignore[arg-type]
    ahead.look()
    for rate in came:
        if len(left) > 1:
            left.pop(0)
        ahead.look(progress(rate))
    return held.told


def test_without_a_rate_the_system_decides() -> None:
    assert bounds([None], [5.0, 5.0]) == []


def test_where_the_rate_comes_little_is_held() -> None:
    (each,) = bounds([40.0 * MB], [39.0 * MB] * 5)
    assert each is not None
    assert each * 16 <= 0.1 * 40 * MB


def test_where_it_does_not_come_more_is_held_up_to_half_a_second() -> None:
    told = bounds([40.0 * MB], [10.0 * MB] * 10)
    assert len(told) > 2
    assert told == sorted(told, key=lambda one: one or 0)
    assert 0.4 * 40 * MB <= (told[-1] or 0) * 16 <= 0.55 * 40 * MB


def test_a_rate_that_has_just_changed_is_given_time() -> None:
    assert bounds([10.0 * MB, 100.0 * MB], [9.0 * MB]) == [120_000, 375_000]


def test_a_pause_and_the_far_target_bound_nothing() -> None:
    assert bounds([0.0], [0.0]) == []
    assert bounds([40.0 * MB], [10.0 * MB], link="target") == []


def test_in_flight_is_what_a_rate_brings_in_four_seconds() -> None:
    figures = {None: 128 * 1024**2, 0.0: 2 * PART, 1.0 * MB: 2 * PART, 10.0 * MB: 40 * MB, 1000.0 * MB: 128 * 1024**2}
    assert {rate: in_flight_limit(Options(), rate, copies=False) for rate in figures} == figures
