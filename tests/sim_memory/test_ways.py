"""What becomes of a request on a bad way, and what its sender hears; and how time goes on meanwhile."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from reconciler.ports import Conflict, Transient
from reconciler.sim.agenda import Agenda, Clock, Dice, Turn
from reconciler.sim.ways import PATIENCE, Armed, Fuse, Killed, Life, Route, Way


@dataclass
class Rig:
    """One program before one place."""

    agenda: Agenda = field(default_factory=Agenda)
    way: Way = field(default_factory=lambda: Way("a way"))
    life: Life = field(default_factory=Life)
    done: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.fuse = Fuse(self.agenda.wait)
        self.route = Route(self.agenda, Dice("seed"), self.way, self.fuse, self.life)

    def write(self) -> None:
        self.route.write("put a", lambda: self.done.append(self.agenda.seconds))


def _cut(how: str, patience: float) -> Callable[[Rig], None]:
    def spoil(rig: Rig) -> None:
        rig.way.cut, rig.way.patience = how, patience

    return spoil


def _armed(kind: str, *, after: bool = False, seconds: float = 0.0) -> Callable[[Rig], None]:
    return lambda rig: rig.fuse.armed.append(Armed(kind, 0, after=after, seconds=seconds))


Outcome = tuple[type[BaseException] | None, list[float], float]
"""What is raised, when it was done, and when the sender goes on."""

WRITES: dict[str, tuple[Callable[[Rig], None], Outcome]] = {
    "a fair way": (lambda _: None, (None, [0.0], 0.0)),
    "a way that is cut": (_cut("asks", 0.0), (Transient, [], 0.0)),
    "a way that is cut and says nothing": (_cut("asks", PATIENCE), (Transient, [], PATIENCE)),
    "a way that brings no answers": (_cut("answers", 0.0), (Transient, [0.0], 0.0)),
    "a request that is lost": (_armed("lose"), (Transient, [], 0.0)),
    "an answer that is lost": (_armed("lose", after=True), (Transient, [0.0], 0.0)),
    "a sender that is killed before": (_armed("kill"), (Killed, [], 0.0)),
    "a sender that is killed after": (_armed("kill", after=True), (Killed, [0.0], 0.0)),
    "a sender that stands still before": (_armed("freeze", seconds=70.0), (None, [70.0], 70.0)),
    "a sender that stands still after": (_armed("freeze", after=True, seconds=70.0), (None, [0.0], 70.0)),
    "a slow request": (_armed("slow", seconds=4.0), (None, [4.0], 4.0)),
    "a request that arrives after it was given up": (_armed("delay", seconds=30.0), (Transient, [30.0], PATIENCE)),
}


@pytest.mark.parametrize("case", WRITES)
def test_a_write_on(case: str) -> None:
    spoil, (error, done, goes_on) = WRITES[case]
    rig = Rig()
    spoil(rig)
    if error is None:
        rig.write()
    else:
        with pytest.raises(error):
            rig.write()
    assert rig.agenda.seconds == goes_on
    rig.agenda.run(1000.0)
    assert rig.done == done


def test_an_answer_of_no_is_lost_like_any_other() -> None:
    rig = Rig()
    rig.way.cut = "answers"

    def refuse() -> None:
        raise Conflict("no")

    with pytest.raises(Transient):
        rig.route.write("put a", refuse)


@pytest.mark.parametrize("how", ["asks", "answers"])
def test_a_read_over_a_cut_way_has_no_answer(how: str) -> None:
    rig = Rig()
    rig.way.cut = how
    with pytest.raises(Transient):
        rig.route.read("get a", lambda: 1)
    rig.way.mend()
    assert rig.route.read("get a", lambda: 1) == 1


def test_only_writes_of_that_name_count() -> None:
    rig = Rig()
    rig.fuse.armed.append(Armed("kill", 1, on="push"))
    for _ in range(5):
        rig.write()
    rig.route.write("push", lambda: None)
    with pytest.raises(Killed):
        rig.route.write("push", lambda: None)


def test_one_that_was_killed_while_it_waited_does_no_more() -> None:
    rig = Rig()
    rig.agenda.at(5.0, lambda: setattr(rig.life, "ended", True))
    _armed("freeze", seconds=70.0)(rig)
    with pytest.raises(Killed):
        rig.write()
    assert rig.done == []


# ---- time ---------------------------------------------------------------------------------------------------------


def test_things_happen_in_their_order_and_those_of_one_moment_as_they_were_asked_for() -> None:
    agenda, seen = Agenda(), list[str]()
    agenda.at(2.0, lambda: seen.append("c"))
    agenda.at(1.0, lambda: seen.append("a"))
    agenda.at(1.0, lambda: seen.append("b"))
    agenda.at(9.0, lambda: seen.append("too late"))
    agenda.run(5.0)
    assert (seen, agenda.seconds) == (["a", "b", "c"], 5.0)


def test_a_wait_inside_another_ends_no_later_than_that() -> None:
    agenda, ends = Agenda(), list[float]()

    def inner() -> None:
        agenda.wait(100.0)
        ends.append(agenda.seconds)

    agenda.at(3.0, inner)
    agenda.at(7.0, lambda: ends.append(agenda.seconds))
    agenda.wait(10.0)
    assert (ends, agenda.seconds) == ([7.0, 10.0], 10.0)


def test_a_clock_drifts_and_stands_still() -> None:
    agenda = Agenda()
    clock = Clock(agenda, rate=1.01)
    agenda.run(100.0)
    assert clock.monotonic() == pytest.approx(5101.0)
    assert clock.seconds_of(5101.0) == pytest.approx(100.0)
    clock.stop()
    agenda.run(150.0)
    assert clock.monotonic() == pytest.approx(5101.0)
    clock.go_on()
    agenda.run(250.0)
    assert clock.monotonic() == pytest.approx(5202.0)
    assert clock.seconds_of(5202.0) == pytest.approx(250.0)


def test_a_turn_comes_at_the_earliest_moment_that_was_asked_for_and_once() -> None:
    agenda, came = Agenda(), list[float]()
    turn = Turn(agenda, lambda: came.append(agenda.seconds))
    for when in (9.0, 4.0, 6.0):
        turn.by(when)
    agenda.run(20.0)
    assert came == [4.0]


def test_each_thing_has_numbers_of_its_own() -> None:
    one, other = Dice("seed"), Dice("seed")
    other.roll("another thing")
    assert [one.roll("a") for _ in range(3)] == [other.roll("a") for _ in range(3)]
