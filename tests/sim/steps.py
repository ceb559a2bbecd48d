"""What can happen in a history, one function a kind. Here: time. What people push is in pushes.py, what breaks in breaks.py.

A step is a name and three numbers; each kind reads the numbers as it likes, always within what there is. So any part of a
history is a history, and a failing one can be made smaller by leaving steps out.
"""

from collections.abc import Callable, Mapping
from random import Random
from typing import NamedTuple

from tests.sim.world import World


class Step(NamedTuple):
    """One thing that happens."""

    kind: str
    a: int = 0
    b: int = 0
    c: int = 0


Kind = Callable[[World, int, int, int], None]
_KINDS: dict[str, tuple[int, Kind]] = {}


def kind(weight: int) -> Callable[[Kind], Kind]:
    """Make a function a kind of step; `weight`: how often it is drawn."""

    def register(function: Kind) -> Kind:
        _KINDS[function.__name__] = weight, function
        return function

    return register


def happen(world: World, step: Step) -> None:
    """Let it happen."""
    _KINDS[step.kind][1](world, step.a, step.b, step.c)


def weights() -> Mapping[str, int]:
    """How often each kind is drawn."""
    return {name: weight for name, (weight, _) in _KINDS.items()}


SECONDS = (0.0, 0.3, 1.0, 1.0, 2.0, 2.0, 5.0, 5.0, 10.0, 10.0, 20.0, 40.0)


@kind(60)
def turn(world: World, a: int, b: int, c: int) -> None:
    """Time passes, and most programs take a step, in some order."""
    draw = Random(a)
    actors = [actor for actor in world.actors if draw.random() < (0.5, 0.75, 0.9)[c % 3]]
    draw.shuffle(actors)
    world.turn(SECONDS[b % len(SECONDS)], actors)
