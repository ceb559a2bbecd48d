"""Settings that would let a single lost request stop a region are refused."""

from typing import Any

import pytest

from reconciler.agent.settings import Settings, Times, timed


@pytest.mark.parametrize(
    "wrong",
    [
        {"renew_seconds": 100.0},
        {"renew_seconds": 0.0},
        {"self_fence_seconds": 30.0},
        {"fence_kill_seconds": -1},
        {"request_seconds": 61.0},
        {"report_seconds": 0.0},
        {"look_seconds": 0.0},
    ],
)
def test_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must"):
        Settings(**wrong)


def test_the_defaults_are_those_of_the_protocol() -> None:
    settings = Settings()
    assert (settings.self_fence_seconds, settings.fence_kill_seconds, settings.report_seconds) == (240.0, 30, 10.0)


TIMED: dict[str, tuple[tuple[Times, ...], tuple[float, int, float, float, bool]]] = {
    "nothing said": ((), (240.0, 30, 20.0, 10.0, False)),
    "a short fence renews and asks in sixths of it": ((Times(30, 5),), (30, 5, 5.0, 5.0, False)),
    "the shortest": ((Times(15, 1),), (15, 1, 2.5, 2.5, False)),
    "a long one is renewed as often as any": ((Times(3600, 60),), (3600, 60, 20.0, 10.0, False)),
    "what is said first counts": ((Times(60), Times(90, 20, deadman=True)), (60, 20, 10.0, 10.0, True)),
    "no is said as well": ((Times(deadman=False), Times(90, 20, deadman=True)), (90, 20, 15.0, 10.0, False)),
}


@pytest.mark.parametrize(("said", "want"), TIMED.values(), ids=TIMED.keys())
def test_times(said: tuple[Times, ...], want: tuple[float, int, float, float, bool]) -> None:
    made = timed(Settings(), *said)
    found = made.self_fence_seconds, made.fence_kill_seconds, made.renew_seconds, made.request_seconds, made.deadman
    assert found == want


REPORTS: dict[str, tuple[tuple[Times, ...], float]] = {
    "nothing said": ((Times(30, 5),), 10.0),
    "said": ((Times(report_seconds=1.5),), 1.5),
    "what is said first counts": ((Times(report_seconds=4.0), Times(report_seconds=9.0)), 4.0),
}


@pytest.mark.parametrize(("said", "want"), REPORTS.values(), ids=REPORTS.keys())
def test_reports(said: tuple[Times, ...], want: float) -> None:
    assert timed(Settings(), *said).report_seconds == want


def test_what_is_not_about_times_stays() -> None:
    assert timed(Settings(look_seconds=7.0), Times(30, 5)).look_seconds == 7.0
