"""The ways between programs and places, and what goes wrong on them.

A `Way` has a state that lasts (cut, failing, slow); a `Fuse` burns once, at a counted write of one program, and kills, freezes,
delays or fails it there. Decides what of a request is done and what its sender hears. Both are functions of what was armed and of
how often each thing was asked.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, TypeVar

from reconciler.ports import Conflict, Refused, Transient
from reconciler.sim.agenda import Agenda, Dice

T = TypeVar("T")

PATIENCE: Final = 10.0
"""Seconds until a request that is not answered is given up."""


class Killed(BaseException):
    """The program was killed. Nothing of its own may catch this."""


@dataclass(slots=True)
class Way:
    """From one program to one place. `fails`, `loses`, `stale`, `slow`: shares of requests, from 0 to 1."""

    name: str
    cut: str = ""
    """`asks`: requests never arrive; `answers`: they are done, and nobody hears of it; '' where neither is so."""
    patience: float = 0.0
    """Seconds until a request that is cut fails: at once where the network says so."""
    fails: float = 0.0
    loses: float = 0.0
    stale: float = 0.0
    """Reads that are answered with an older state."""
    slow: float = 0.0

    def mend(self) -> None:
        """All is well again."""
        self.cut, self.patience = "", 0.0
        self.fails = self.loses = self.stale = self.slow = 0.0


@dataclass(slots=True)
class Life:
    """One start of a program."""

    ended: bool = False


@dataclass(slots=True)
class Armed:
    """What happens at a write. `kind`: kill, freeze, lose, delay, slow or watch; `on`: how the writes' names begin that count."""

    kind: str
    writes_left: int
    after: bool = False
    seconds: float = 0.0
    on: str = ""
    then: Callable[[str], None] | None = None
    """What else happens at that moment, before the rest; it is told the write's name."""


@dataclass(slots=True)
class Fuse:
    """What is armed at one program's writes. `freeze` lets it stand still for so many seconds."""

    freeze: Callable[[float], None]
    armed: list[Armed] = field(default_factory=list)

    def due(self, what: str) -> Armed | None:
        """What happens at this write, if anything."""
        found = None
        for each in self.armed:
            if what.startswith(each.on):
                each.writes_left -= 1
                if found is None and each.writes_left < 0:
                    found = each
        if found is not None:
            self.armed.remove(found)
        return found


@dataclass(frozen=True, slots=True)
class Route:
    """One start of one program on its way to one place."""

    agenda: Agenda
    dice: Dice
    way: Way
    fuse: Fuse
    life: Life

    def read(self, what: str, ask: Callable[[], T]) -> T:
        """Ask. Raises Transient where there is no answer."""
        way = self.way
        if way.cut or way.fails or way.slow:
            self._reach(what)
            if way.cut == "answers":
                raise self._unanswered(what)
        return ask()

    def is_stale(self, what: str) -> bool:
        """Whether this read is to be answered with an older state."""
        return self.way.stale > 0 and self.dice.roll(f"stale {what}") < self.way.stale

    def write(self, what: str, write: Callable[[], T]) -> T:
        """Do it, or not, and say so, or not. Raises Transient, Killed, and what `write` raises."""
        armed = self.fuse.due(what) if self.fuse.armed else None
        if armed is None and not (self.way.cut or self.way.fails or self.way.loses or self.way.slow):
            return write()
        if armed is not None:
            self._before(armed, what, write)
        self._reach(what)
        try:
            done = write()
        except (Conflict, Refused):
            self._after(armed, what)
            raise
        self._after(armed, what)
        return done

    def _before(self, armed: Armed, what: str, write: Callable[[], object]) -> None:
        if armed.kind == "delay":
            self._tell(armed, what)
            self.agenda.at(self.agenda.seconds + armed.seconds, lambda: _late(write))
            self._wait(PATIENCE)
            raise Transient(f"{what}: no answer in time")
        if armed.after:
            return
        self._burn(armed, what)

    def _after(self, armed: Armed | None, what: str) -> None:
        if armed is not None and armed.after:
            self._burn(armed, what)
        if self.way.cut == "answers" or self._draws(f"lose {what}", self.way.loses):
            raise self._unanswered(what)

    def _tell(self, armed: Armed, what: str) -> None:
        if armed.then is not None:
            armed.then(what)
            self._go_on()

    def _burn(self, armed: Armed, what: str) -> None:
        self._tell(armed, what)
        if armed.kind == "kill":
            self.life.ended = True
            raise Killed(what)
        if armed.kind == "freeze":
            self.fuse.freeze(armed.seconds)
            self._go_on()
        elif armed.kind == "slow":
            self._wait(min(armed.seconds, PATIENCE - 1))
        elif armed.kind == "lose":
            raise self._unanswered(what)

    def _reach(self, what: str) -> None:
        way = self.way
        if self._draws(f"slow {what}", way.slow):
            self._wait(self.dice.roll(f"how slow {what}") * (PATIENCE - 1))
        if way.cut == "asks" or self._draws(f"fail {what}", way.fails):
            raise self._unanswered(what)

    def _unanswered(self, what: str) -> Transient:
        self._wait(self.way.patience)
        return Transient(f"{what}: no answer")

    def _wait(self, seconds: float) -> None:
        if seconds > 0:
            self.agenda.wait(seconds)
            self._go_on()

    def _go_on(self) -> None:
        if self.life.ended:
            raise Killed("it was killed while it waited")

    def _draws(self, what: str, share: float) -> bool:
        return share > 0 and self.dice.roll(what) < share


def _late(write: Callable[[], object]) -> None:
    """A request arrives whose sender has given it up: it is done, or refused, and nobody hears of it."""
    with suppress(Conflict, Refused, Transient):
        write()
