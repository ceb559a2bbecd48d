"""A transfer held to a rate: by a clock that only waiting moves."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.agent.stage.rate import paced, rate_from
from reconciler.ports import Refused


class Time:
    """Passes only while somebody waits. `told` is called after each wait."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.told: Callable[[], object] = lambda: None

    def now(self) -> float:
        return self.seconds

    def pause(self, seconds: float) -> None:
        assert 0 < seconds <= 0.5
        self.seconds += seconds
        self.told()


@given(st.lists(st.integers(1, 50_000), min_size=1, max_size=50), st.floats(1_000, 1e6))
def test_what_has_passed_is_never_more_than_the_rate_allows(counts: list[int], rate: float) -> None:
    time = Time()
    took = paced(lambda: rate, time.now, time.pause)
    passed = 0
    for count in counts:
        took(count)
        passed += count
        assert passed <= rate * (time.seconds + 0.1) + 1
    assert time.seconds <= passed / rate + 0.5


def test_without_a_rate_nothing_waits() -> None:
    time = Time()
    took = paced(lambda: None, time.now, time.pause)
    for _ in range(10):
        took(10**9)
    assert time.seconds == 0.0


def test_what_was_not_used_while_it_waited_for_others_is_not_saved_up() -> None:
    time = Time()
    took = paced(lambda: 1000.0, time.now, time.pause)
    time.seconds = 3600.0
    for _ in range(50):
        took(100)
    assert 3604.7 <= time.seconds <= 3605.0


def test_a_rate_of_nothing_holds_it_until_there_is_one(tmp_path: Path) -> None:
    file, time = tmp_path / "rate", Time()
    file.write_text("0\n")
    time.told = lambda: file.write_text("1000" if time.seconds > 60 else "0")
    paced(rate_from(None, file, time.now), time.now, time.pause)(1000)
    assert 60 < time.seconds < 64


FILES: dict[str, tuple[str | None, float | None]] = {
    "a number": ("2500000", 2.5e6),
    "one with a fraction": (" 2.5e6\n", 2.5e6),
    "nothing": ("", 7.0),
    "white space": (" \n", 7.0),
    "no file": (None, 7.0),
    "zero": ("0", 0.0),
}


@pytest.mark.parametrize(("text", "expected"), FILES.values(), ids=FILES)
def test_what_a_file_says(tmp_path: Path, text: str | None, expected: float) -> None:
    file = tmp_path / "rate"
    if text is not None:
        file.write_text(text)
    assert rate_from(7.0, file, lambda: 0.0)() == expected


@pytest.mark.parametrize("text", ["fast", "-1", "nan", "inf", "1 2"])
def test_a_file_that_says_no_rate_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "rate"
    file.write_text(text)
    with pytest.raises(Refused, match="bytes per second"):
        rate_from(None, file, lambda: 0.0)()


def test_a_file_is_read_again_each_second_and_no_more(tmp_path: Path) -> None:
    file, time = tmp_path / "rate", Time()
    file.write_text("1")
    rate = rate_from(None, file, time.now)
    assert rate() == 1
    file.write_text("2")
    time.seconds = 0.9
    assert rate() == 1
    time.seconds = 1.0
    assert rate() == 2
