"""How long it is asked again, and when pieces in flight end."""

import threading
from collections.abc import Callable
from contextlib import closing

import pytest

from reconciler.agent.stage.transfer.flight import Flight, Stopped
from reconciler.agent.stage.transfer.patience import Patience
from reconciler.bulk_port import UploadLost
from reconciler.ports import Refused, Transient
from tests.waiting import until


class Time:
    """A clock that only waiting moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def wait(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def failing(times: int, error: type[Exception] = Transient) -> Callable[[], str]:
    left = [times]

    def ask() -> str:
        left[0] -= 1
        if left[0] >= 0:
            raise error("no")
        return "yes"

    return ask


def test_it_asks_again_with_growing_pauses() -> None:
    time = Time()
    assert Patience(lambda: time.now, time.wait, 300.0)(failing(8)) == "yes"
    assert time.pauses == sorted(time.pauses)
    assert (time.pauses[0], max(time.pauses)) == (0.2, 15.0)


def test_patience_ends_when_nothing_gets_through() -> None:
    time = Time()
    with pytest.raises(Transient):
        Patience(lambda: time.now, time.wait, 300.0)(failing(10**6))
    assert 300 <= time.now < 316


def test_what_gets_through_for_another_keeps_patience() -> None:
    time = Time()
    patience = Patience(lambda: time.now, time.wait, 300.0)
    left = [50]

    def ask() -> str:
        left[0] -= 1
        if left[0] > 0:
            patience.moved()
            raise Transient("no")
        return "yes"

    assert patience(ask) == "yes"
    assert time.now > 500


@pytest.mark.parametrize("error", [Refused, UploadLost], ids=["refused", "an upload that is lost"])
def test_some_things_are_not_asked_twice(error: type[Exception]) -> None:
    time = Time()
    with pytest.raises(error):
        Patience(lambda: time.now, time.wait, 300.0)(failing(1, error))
    assert time.pauses == []


def test_no_more_bytes_are_in_flight_than_may_be() -> None:
    gate, flying, most = threading.Event(), [0], [0]
    lock = threading.Lock()

    def piece() -> None:
        with lock:
            flying[0] += 1
            most[0] = max(most[0], flying[0])
        gate.wait(20)
        with lock:
            flying[0] -= 1

    with closing(Flight(8, lambda: 3_000_000)) as flight:
        launching = threading.Thread(target=lambda: [flight.launch(1_000_000, piece) for _ in range(6)])
        launching.start()
        until(lambda: flying[0] == 3)
        gate.set()
        launching.join()
        flight.land()
    assert most == [3]


def test_a_piece_larger_than_all_that_may_be_goes_alone() -> None:
    done = []
    with closing(Flight(8, lambda: 10)) as flight:
        for number in range(3):
            flight.launch(1_000_000, lambda number=number: done.append(number))  # type: ignore[misc]
        flight.land()
    assert done == [0, 1, 2]


def test_one_failure_ends_the_pauses_of_all() -> None:
    ended: list[str] = []

    def pausing() -> None:
        try:
            flight.wait(60)
        except Stopped:
            ended.append("stopped")
            raise

    def refused() -> None:
        raise Refused("no right; ask for it")

    with closing(Flight(2, lambda: 10**9)) as flight:
        flight.launch(1, pausing)
        flight.launch(1, refused)
        with pytest.raises(Refused, match="no right"):
            flight.land()
        with pytest.raises(Refused, match="no right"):
            flight.launch(1, pausing)
    assert ended == ["stopped"]
