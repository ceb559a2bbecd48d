"""Time in a world: one line of seconds, the things that are due on it, and the clocks that programs see.

Everything happens in one thread. Whoever must wait (a slow request, a frozen program) lets the world go on from within its own
call: `wait` plays what is due until then and returns. So a wait that begins inside another ends no later than that one; the
moments of a world are exact, and the same seed gives the same moments.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from random import Random
from typing import Final

START: Final = datetime(2026, 5, 1, 10, 0, 0, tzinfo=UTC)
NEVER: Final = float("inf")
_DEEPEST: Final = 5
"""Waits inside waits."""


@dataclass(slots=True)
class Agenda:
    """What is due when. `seconds` is the present moment."""

    seconds: float = 0.0
    _due: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _made: int = 0
    _until: float = NEVER
    _depth: int = 0

    def at(self, when: float, act: Callable[[], None]) -> None:
        """Let something happen then, or at once where that has passed; what is due at one moment goes in the order of asking."""
        self._made += 1
        heappush(self._due, (max(when, self.seconds), self._made, act))

    def run(self, until: float) -> None:
        """Play everything that is due until then."""
        while self._due and self._due[0][0] <= until:
            when, _, act = heappop(self._due)
            self.seconds = max(self.seconds, when)
            act()
        self.seconds = max(self.seconds, until)

    def room(self) -> float:
        """For how many seconds somebody could wait now."""
        return 0.0 if self._depth >= _DEEPEST else self._until - self.seconds

    def wait(self, seconds: float) -> None:
        """Let the world go on for that long, or for as long as there is room."""
        until = self.seconds + min(seconds, self.room())
        before, self._until = self._until, until
        self._depth += 1
        try:
            self.run(until)
        finally:
            self._until = before
            self._depth -= 1


@dataclass(slots=True)
class Clock:
    """One machine's clocks. `rate`: seconds that its monotonic clock counts in one; `wall_ahead`: how wrong its wall clock is."""

    agenda: Agenda
    rate: float = 1.0
    wall_ahead: float = 0.0
    origin: float = 5000.0
    _stopped: float | None = None
    _behind: float = 0.0

    def now(self) -> datetime:
        """The wall clock."""
        return START + timedelta(seconds=self.agenda.seconds + self.wall_ahead)

    def monotonic(self) -> float:
        """The monotonic clock, in seconds."""
        seconds = self.agenda.seconds - self._behind if self._stopped is None else self._stopped
        return self.origin + seconds * self.rate

    def seconds_of(self, monotonic: float) -> float:
        """The moment of the world at which the monotonic clock shows that."""
        return (monotonic - self.origin) / self.rate + self._behind

    def stop(self) -> None:
        """It stands still, as in a virtual machine that is paused."""
        if self._stopped is None:
            self._stopped = self.agenda.seconds - self._behind

    def go_on(self) -> None:
        """It counts on from where it stood."""
        if self._stopped is not None:
            self._behind = self.agenda.seconds - self._stopped
            self._stopped = None


@dataclass(slots=True)
class Dice:
    """Numbers from 0 to 1: each thing has a sequence of its own, so that leaving out one fault does not change the others."""

    seed: str
    _drawn: dict[str, Random] = field(default_factory=dict)

    def roll(self, what: str) -> float:
        """The next number of this thing."""
        known = self._drawn.get(what)
        if known is None:
            known = self._drawn[what] = Random(f"{self.seed} {what}")  # noqa: S311 - it must repeat itself
        return known.random()


@dataclass(slots=True)
class Turn:
    """When a program takes its next step; `come` is called then. Asking for an earlier turn twice is asking once."""

    agenda: Agenda
    come: Callable[[], None]
    due: float = NEVER

    def by(self, when: float) -> None:
        """Let it be no later than that."""
        if when < self.due:
            self.due = when
            self.agenda.at(when, self._arrived)

    def drop(self) -> None:
        """No turn until somebody asks for one."""
        self.due = NEVER

    def _arrived(self) -> None:
        if self.due <= self.agenda.seconds:
            self.due = NEVER
            self.come()
