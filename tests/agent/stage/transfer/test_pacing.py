"""The rate is kept over any span, by all takers together, whatever it changes to."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.agent.stage.transfer.pacing import BODY_SHARE, Pacer, RateFile
from reconciler.ports import Refused


class Time:
    """A clock that only waiting moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds


@given(
    rate=st.integers(50_000, 500_000_000),
    idle=st.lists(st.floats(0, 5), min_size=1, max_size=5),
    blocks=st.integers(20, 200),
)
def test_over_no_span_more_than_the_rate(rate: int, idle: list[float], blocks: int) -> None:
    time = Time()
    pacer = Pacer(lambda: float(rate), time.monotonic, time.wait)
    taken: list[tuple[float, int]] = []
    for pause in idle:
        time.now += pause
        for _ in range(blocks):
            size = pacer.block()
            pacer.take(size)
            taken.append((time.now, size))
    for first, (began, _) in enumerate(taken):
        total = 0
        for at, size in taken[first:]:
            total += size
            assert total <= rate * (at - began) + rate * 0.05 + 2 * pacer.block()


def test_the_rate_is_used_to_the_full() -> None:
    time = Time()
    pacer = Pacer(lambda: 1_000_000.0, time.monotonic, time.wait)
    for _ in range(1000):
        pacer.take(10_000)
    assert 10_000_000 / time.now >= 0.93 * 1_000_000
    assert 10_000_000 / time.now <= 1_000_000


def test_a_new_rate_holds_at_once_and_none_means_no_wait() -> None:
    time = Time()
    rates: list[float | None] = [1000.0]
    pacer = Pacer(lambda: rates[0], time.monotonic, time.wait)
    for _ in range(10):
        pacer.take(100)
    slow = time.now
    rates[0] = 1_000_000.0
    for _ in range(10):
        pacer.take(100)
    assert time.now - slow < 0.3
    rates[0] = None
    before = time.now
    pacer.take(10**12)
    assert time.now == before
    rates[0] = 1000.0
    for _ in range(5):
        pacer.take(100)
    assert time.now - before >= 4 * 100 / 1000 * 0.9


def test_zero_is_a_pause() -> None:
    time = Time()
    pacer = Pacer(lambda: 0.0 if time.now < 60 else 1e6, time.monotonic, time.wait)
    pacer.take(1)
    assert 60 <= time.now < 61


def test_a_small_rate_is_taken_in_small_blocks() -> None:
    assert Pacer(lambda: 10_000.0, lambda: 0.0, lambda _: None).block() == 4096
    assert Pacer(lambda: 1e9, lambda: 0.0, lambda _: None).block() == 64 * 1024
    assert 0.9 < BODY_SHARE < 1


def test_the_file_says_the_rate_and_is_read_again(tmp_path: Path) -> None:
    time, path = Time(), tmp_path / "rate"
    rate = RateFile(path, 5.0, time.monotonic)
    assert rate() == 5.0
    path.write_text("1000\n")
    assert rate() == 5.0
    time.now += 1.5
    assert rate() == 1000
    for text, expected in (("0", 0.0), ("", 5.0), ('"2500.5"', 2500.5)):
        path.write_text(text)
        time.now += 1.5
        assert rate() == expected
    path.unlink()
    time.now += 1.5
    assert rate() == 5.0


@pytest.mark.parametrize("text", ["fast", "-1", "nan", "inf", "1e400"])
def test_a_file_that_says_no_rate_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "rate").write_text(text)
    with pytest.raises(Refused, match="write bytes a second there, as a number"):
        RateFile(tmp_path / "rate", None, lambda: 0.0)()
