"""What every program of a world shares."""

from dataclasses import dataclass
from typing import Final, Protocol

from reconciler.sim.agenda import Agenda, Dice
from reconciler.sim.git import Remote
from reconciler.sim.judge import Judge
from reconciler.sim.store import Shelf
from reconciler.sim.ways import Fuse, Life, Route, Way

TEAMS: Final = ("team-a", "team-b")


class Teller(Protocol):
    """Writes the story."""

    def __call__(self, words: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Place:
    """What every program of a world shares."""

    agenda: Agenda
    dice: Dice
    remote: Remote
    shelf: Shelf
    judge: Judge
    tell: Teller

    def route(self, way: Way, fuse: Fuse, life: Life) -> Route:
        """One start of a program on its way to one place."""
        return Route(self.agenda, self.dice, way, fuse, life)
