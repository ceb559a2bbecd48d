"""What can happen in a history: one function a kind. What people ask for is in asking.py, what breaks in cutting.py, breaking.py
and befalling.py.

A happening is a moment, a name and three numbers; each kind reads the numbers as it likes, always within what there is. So any
part of a history is a history, and one that fails can be made smaller by leaving happenings out.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from reconciler.sim.hubs import HubProgram
from reconciler.sim.regions import Region
from reconciler.sim.world import World


class Happening(NamedTuple):
    """One thing that happens, `at` so many seconds from the beginning."""

    at: float
    kind: str
    a: int = 0
    b: int = 0
    c: int = 0


Kind = Callable[[World, int, int, int], None]
_KINDS: dict[str, tuple[float, Kind]] = {}


def kind(weight: float) -> Callable[[Kind], Kind]:
    """Make a function a kind of happening; `weight`: how often it is drawn."""

    def register(function: Kind) -> Kind:
        _KINDS[function.__name__] = weight, function
        return function

    return register


def plan(world: World, happenings: tuple[Happening, ...]) -> None:
    """Put all of them on the world's agenda."""
    for each in happenings:
        world.agenda.at(each.at, _doing(world, each))


def _doing(world: World, each: Happening) -> Callable[[], None]:
    act = _KINDS[each.kind][1]
    return lambda: act(world, each.a, each.b, each.c)


def weights(*modules: str) -> Mapping[str, float]:
    """How often each kind of these modules is drawn."""
    return {name: weight for name, (weight, act) in sorted(_KINDS.items()) if act.__module__ in modules}


SHORT: Final = (3.0, 12.0, 35.0, 70.0, 110.0)
LONG: Final = (150.0, 280.0, 320.0, 420.0, 620.0)


def a_hub(world: World, a: int) -> HubProgram:
    """One of the hubs."""
    return world.hubs[a % len(world.hubs)]


def a_region(world: World, a: int) -> Region:
    """One of the regions."""
    return world.regions[a % len(world.regions)]


def later(world: World, seconds: float, words: str, act: Callable[[], object]) -> None:
    """Let something be well again after a while, and tell it; unless everything has been mended by then."""

    def done() -> None:
        if not world.is_mended:
            world.tell(words)
            act()

    world.agenda.at(world.agenda.seconds + seconds, done)
