"""Scenes: a few happenings that belong together, aimed at one narrow moment of the protocol, with drawn times and numbers.

Random happenings come too seldom so close to each other. Decides what each scene is made of; when it is laid into a history is
histories.py's. A scene's happenings are happenings like any other: each can be left out, and the rest is still a history.
"""

from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple

from reconciler.sim import hub_traps, traps
from reconciler.sim.happenings import Happening
from reconciler.sim.person import LONG_PROGRAMS
from reconciler.sim.world import Choices

__all__ = ["SCENES", "Scene", "laid_scene"]


class Scene(NamedTuple):
    """What happens, and until when the world must stay as it is."""

    happenings: tuple[Happening, ...]
    lasts: float


Laid = Callable[[Random, Choices], Scene]
SCENES: Final[dict[str, Laid]] = {}
LAID: Final = (traps, hub_traps)
"""Where the kinds of happenings are that only scenes lay; to import them is to know them."""
_OFTEN: Final = {
    "back_at_once": 4.0,
    "late_request": 3.0,
    "withdrawn_while_away": 2.0,
    "death_at_start": 2.0,
    "slow_controllers": 2.0,
}
_GIVEN_UP: Final = 375.0
"""Seconds after a cut by which the lease was revoked."""
_CUT_LONG: Final = 4
"""The number by which a region is cut off for longest."""


def scene(laid: Laid) -> Laid:
    """Declare a scene."""
    SCENES[laid.__name__] = laid
    return laid


def laid_scene(draw: Random, choices: Choices) -> Scene:
    """One of the scenes; those that need much to fit together come more often, and two leaders where there are two hubs."""
    often = [_OFTEN.get(name, 1.0) * (2.0 if name == "two_lead" and choices.hubs > 1 else 1.0) for name in SCENES]
    (name,) = draw.choices(list(SCENES), often)
    return SCENES[name](draw, choices)


def _at(draw: Random, when: float, name: str, a: int | None = None, b: int | None = None, c: int | None = None) -> Happening:
    """A happening; numbers that are not given are drawn."""
    numbers = [draw.randrange(1000) if number is None else number for number in (a, b, c)]
    return Happening(round(when, 1), name, *numbers)


def _job(draw: Random, when: float) -> Happening:
    """A job that is still there when something breaks."""
    return _at(draw, when, "submit", b=draw.choice(LONG_PROGRAMS))


def _region(draw: Random, choices: Choices) -> int:
    """More often than not the cheapest one, to which most jobs go."""
    return 0 if draw.random() < 0.7 else draw.randrange(len(choices.regions))


@scene
def late_answer(draw: Random, choices: Choices) -> Scene:
    """An agent stands still right after a renewal, and its region is cut off meanwhile."""
    begins, region = draw.uniform(40.0, 150.0), _region(draw, choices)
    jobs = [_job(draw, draw.uniform(5.0, begins)) for _ in range(2)]
    return Scene((*jobs, _at(draw, begins, "answer_of_renewal_is_late", a=region)), begins + 560.0)


@scene
def back_at_once(draw: Random, choices: Choices) -> Scene:
    """A region comes back around the moment at which it is given up, and what its hub writes then goes wrong."""
    begins, region = draw.uniform(30.0, 90.0), _region(draw, choices)
    job = _job(draw, begins + draw.uniform(1.0, 5.0))
    if draw.random() < 0.5:
        cut = _at(draw, begins, "cut_at_grant")
    else:
        cut = _at(draw, begins + draw.uniform(10.0, 60.0), "cut_region", region, _CUT_LONG, 1)
    trap = draw.choice(("back_at_revocation", "back_at_revocation", "back_after_revocation"))
    laid = _at(draw, begins + 1.0, trap, a=region + len(choices.regions) * draw.randrange(50))
    return Scene((job, cut, laid, *_slow_clocks(draw, begins, choices)), begins + _GIVEN_UP + 200.0)


@scene
def old_grants(draw: Random, choices: Choices) -> Scene:
    """A region did not read a grant before it was given up, and finds it still there when it is back: its hub has died, or its
    write of new ones is late.
    """
    return _unread(draw, choices, b=1 + 4 * draw.choice((2, 3)), c=draw.choice((0, 0, 1)) + 5 * draw.choice((1, 3)))


@scene
def late_push(draw: Random, choices: Choices) -> Scene:
    """The push that ends what stood in a region that was given up is under way for long, and the region is back before it."""
    return _unread(draw, choices, b=4 * draw.randrange(4), c=draw.choice((1, 2)) + 5 * draw.randrange(4))


def _unread(draw: Random, choices: Choices, b: int, c: int) -> Scene:
    begins = draw.uniform(30.0, 90.0)
    job = _job(draw, begins + draw.uniform(1.0, 5.0))
    cut = _at(draw, begins, "cut_at_grant", 0, draw.choice((0, 1, 2)))
    laid = _at(draw, begins + 1.0, "back_after_revocation", 0, b, c)
    return Scene((job, cut, laid, *_slow_clocks(draw, begins, choices)), begins + _GIVEN_UP + 200.0)


def _slow_clocks(draw: Random, begins: float, choices: Choices) -> list[Happening]:
    """A hub whose wall clock was set back waits on for the start, so its grants still stand when the region is given up."""
    return [_at(draw, begins + 20.0, "wall_clock_jumps", 1, number, 0) for number in range(choices.hubs)]


@scene
def back_by_itself(draw: Random, choices: Choices) -> Scene:
    """A region is cut off, and let back within seconds of the moment at which it may be given up."""
    begins, region = draw.uniform(40.0, 150.0), _region(draw, choices)
    jobs = [_job(draw, draw.uniform(5.0, begins)) for _ in range(2)]
    cut = _at(draw, begins, "cut_for", region, draw.randrange(280, 390))
    weather = _at(draw, begins + 200.0, "old_answers", b=draw.randrange(2))
    return Scene((*jobs, cut, weather), begins + 500.0)


@scene
def late_manifest(draw: Random, choices: Choices) -> Scene:  # noqa: ARG001 - every scene may ask what there is
    """What was granted comes to the region only after its lease has run out."""
    begins = draw.uniform(30.0, 90.0)
    job = _job(draw, begins + draw.uniform(1.0, 5.0))
    return Scene((job, _at(draw, begins, "cut_at_grant", a=1)), begins + 450.0)


@scene
def late_request(draw: Random, choices: Choices) -> Scene:  # noqa: ARG001
    """A release or a lift is under way while its job is withdrawn."""
    begins = draw.uniform(30.0, 90.0)
    job = _job(draw, begins + draw.uniform(1.0, 5.0))
    return Scene((_at(draw, begins, "request_is_late"), job), begins + 260.0)


@scene
def death_at_start(draw: Random, choices: Choices) -> Scene:  # noqa: ARG001
    """An agent dies between record, release and lift, and the object is made again."""
    begins = draw.uniform(30.0, 90.0)
    job = _job(draw, begins + draw.uniform(1.0, 5.0))
    return Scene((_at(draw, begins, draw.choice(("killed_at_start", "killed_at_start", "orphaned"))), job), begins + 200.0)


@scene
def restarts_while_cut(draw: Random, choices: Choices) -> Scene:
    """A region is cut off for long, and its agent dies again and again."""
    begins, region = draw.uniform(60.0, 200.0), _region(draw, choices)
    jobs = [_job(draw, draw.uniform(5.0, begins)) for _ in range(2)]
    cut = _at(draw, begins, "cut_region", region, _CUT_LONG, 1)
    restarts = [
        _at(draw, begins + after, "restart_agent", a=region) for after in (draw.uniform(60.0, 230.0), draw.uniform(200.0, 235.0))
    ]
    return Scene((*jobs, cut, *restarts), begins + 500.0)


@scene
def slow_controllers(draw: Random, choices: Choices) -> Scene:
    """A region is cut off for long, and its controllers stand still when its lease runs out."""
    begins, region = draw.uniform(60.0, 200.0), _region(draw, choices)
    jobs = [_job(draw, draw.uniform(5.0, begins)) for _ in range(2)]
    cut = _at(draw, begins, "cut_region", region, _CUT_LONG, 1)
    rest = _at(draw, begins + draw.uniform(80.0, 190.0), "controllers_stop", region, draw.choice((2, 3, 3)))
    return Scene((*jobs, cut, rest), begins + 500.0)


@scene
def two_lead(draw: Random, choices: Choices) -> Scene:
    """Two hubs believe that they lead; or one rests in the middle of a cycle while the other takes over."""
    begins = draw.uniform(20.0, 60.0)
    name = "two_leaders" if choices.hubs > 1 and draw.random() < 0.8 else "rests_after_push"
    jobs = [_job(draw, begins + draw.uniform(1.0, 30.0)), _job(draw, begins + draw.uniform(1.0, 60.0))]
    return Scene((_at(draw, begins, name), *jobs), begins + 300.0)


@scene
def withdrawn_while_away(draw: Random, choices: Choices) -> Scene:  # noqa: ARG001
    """A job is withdrawn after its region has read the grant, and before its object is there."""
    begins = draw.uniform(30.0, 90.0)
    job = _job(draw, begins + draw.uniform(1.0, 5.0))
    return Scene((_at(draw, begins, "withdrawn_unheard"), job), begins + 220.0)


@scene
def two_regions_cut(draw: Random, choices: Choices) -> Scene:
    """Two regions are cut off at about the same time, for long."""
    begins, region = draw.uniform(40.0, 150.0), draw.randrange(3)
    jobs = [_job(draw, draw.uniform(5.0, begins)) for _ in range(2)]
    cuts = [
        _at(draw, begins + apart, "cut_region", (region + number) % len(choices.regions), _CUT_LONG, 1)
        for number, apart in enumerate((0.0, draw.choice((0.0, 30.0, 100.0, 150.0))))
    ]
    return Scene((*jobs, *cuts), begins + 560.0)


@scene
def reports_lost(draw: Random, choices: Choices) -> Scene:
    """A region is not heard of, and is alive: its lease tells."""
    begins, region = draw.uniform(40.0, 150.0), _region(draw, choices)
    jobs = [_job(draw, draw.uniform(5.0, begins)) for _ in range(2)]
    return Scene((*jobs, _at(draw, begins, "reports_fail", a=region)), begins + 450.0)


@scene
def blind_hub(draw: Random, choices: Choices) -> Scene:
    """A region is cut off, and the hub sees nothing for a good part of that time."""
    begins, region = draw.uniform(40.0, 120.0), _region(draw, choices)
    jobs = [_job(draw, draw.uniform(5.0, begins)) for _ in range(2)]
    cut = _at(draw, begins, "cut_region", region, _CUT_LONG, 1)
    blind = [
        _at(draw, begins + 150.0 + draw.uniform(0.0, 80.0), "cut_hub", number, draw.choice((2, 2, 3)), 1)
        for number in range(choices.hubs)
    ]
    return Scene((*jobs, cut, *blind), begins + 600.0)
