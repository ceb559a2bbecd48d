"""Histories: drawn from a seed, played in a world, told when they fail.

A seed names a history for good: nothing but the seed and the happenings decides it. Invariant: playing the same happenings under
the same seed again gives the same story, line by line.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

from reconciler.sim import asking, befalling, breaking, cutting, saying
from reconciler.sim.ending import drain, mend
from reconciler.sim.happenings import Happening, plan, weights
from reconciler.sim.judge import Violation
from reconciler.sim.person import LONG_PROGRAMS
from reconciler.sim.scenes import laid_scene
from reconciler.sim.shrinking import shrunk
from reconciler.sim.story import Story, told
from reconciler.sim.world import Choices, World, choices_of

_SCENES: Final = 0.5
"""In this share of the histories a scene is laid: what is aimed at one moment, with little beside it."""
_LOSSES: Final = 0.6
"""In this share of the others a region is surely cut off for long."""
_BESIDE_LOSSES: Final = (
    "controllers_stop",
    "controllers_stop",
    "freeze_at_write",
    "kill_at_write",
    "delay_at_write",
    "restart_agent",
)
_ASKED: Final = weights(asking.__name__)
_SAID: Final = weights(saying.__name__)
_SAYINGS: Final = 0.4
"""In this share of the histories people have something to say of regions."""
_IN_SILENCE: Final = 0.4
"""In this share of those they say something while a region is lost."""
_BREAKS: Final = weights(befalling.__name__, breaking.__name__, cutting.__name__)


def drawn(seed: int) -> tuple[Happening, ...]:
    """The happenings of a seed, in order."""
    found = _what_befalls(seed)
    return tuple(sorted([*found, *_what_is_said(seed, max(each.at for each in found))]))


def _what_is_said(seed: int, lasts: float) -> list[Happening]:
    """Of regions and of jobs whose region is lost; drawn by itself, so that what else happens does not hang on it."""
    draw = Random(f"said {seed}")  # noqa: S311 - it must repeat itself
    if draw.random() >= _SAYINGS:
        return []
    jobs = [_one(draw, "when_lost", draw.uniform(10.0, 200.0)) for _ in range(draw.randint(0, 3))]
    said = [_one(draw, name, draw.uniform(20.0, lasts)) for name in _some(draw, _SAID, draw.randint(1, 5))]
    return jobs + said + (_said_in_silence(draw) if draw.random() < _IN_SILENCE else [])


def _said_in_silence(draw: Random) -> list[Happening]:
    """A region is cut off for long, and meanwhile a job of it is to stop for another reason: it must be minded what it says."""
    cut = _loss(draw)
    jobs = [_one(draw, "when_lost", cut.at - draw.uniform(5.0, 30.0))._replace(a=job, b=draw.choice((0, 1))) for job in range(3)]
    name = draw.choice(("edit_program", "drain", "pause", "rerun"))
    stops = _one(draw, name, cut.at + draw.uniform(-5.0, 150.0))
    stops = stops._replace(a=cut.a) if name == "drain" else stops._replace(b=2 * stops.b + 1) if name == "pause" else stops
    goes_on = [stops._replace(at=round(stops.at + draw.uniform(20.0, 200.0), 1), b=0)] if name == "pause" else []
    return [cut, *jobs, stops, *goes_on, Happening(round(cut.at + draw.uniform(380.0, 700.0), 1), "nothing_more")]


def _what_befalls(seed: int) -> tuple[Happening, ...]:
    draw = Random(f"history {seed}")  # noqa: S311 - it must repeat itself
    if draw.random() < _SCENES:
        return _with_scene(draw, choices_of(seed))
    lasts = draw.uniform(300.0, 1000.0)
    first = [_first_job(draw) for _ in range(draw.randint(1, 3))]
    if draw.random() < _LOSSES:
        loss = _loss(draw)
        first += [loss, *(_beside(draw, choices_of(seed), loss) for _ in range(draw.randint(0, 2)))]
        lasts = max(lasts, loss.at + draw.uniform(330.0, 750.0))
    asked = [_one(draw, name, draw.uniform(20.0, lasts)) for name in _some(draw, _ASKED, draw.randint(0, 4))]
    breaks = [_one(draw, name, draw.uniform(10.0, lasts)) for name in _some(draw, _BREAKS, draw.randint(1, 8))]
    return tuple(sorted([*first, *asked, *breaks, Happening(round(lasts, 1), "nothing_more")]))


def _with_scene(draw: Random, choices: Choices) -> tuple[Happening, ...]:
    """A scene, and a few things beside it."""
    laid, lasts = laid_scene(draw, choices)
    first = [_first_job(draw) for _ in range(draw.randint(0, 1))]
    asked = [_one(draw, name, draw.uniform(20.0, lasts)) for name in _some(draw, _ASKED, draw.choice((0, 0, 0, 1, 2)))]
    breaks = [_one(draw, name, draw.uniform(10.0, lasts)) for name in _some(draw, _BREAKS, draw.choice((0, 0, 0, 1, 2, 3)))]
    return tuple(sorted([*laid, *first, *asked, *breaks, Happening(round(lasts, 1), "nothing_more")]))


def _first_job(draw: Random) -> Happening:
    """A job near the beginning, more often than not one that is still there when something breaks."""
    job = _one(draw, "submit", draw.uniform(5.0, 90.0))
    return job._replace(b=draw.choice(LONG_PROGRAMS)) if draw.random() < 0.6 else job


def _loss(draw: Random) -> Happening:
    """A region is cut off for longer than its lease is good."""
    return _one(draw, "cut_region", draw.uniform(60.0, 400.0))._replace(b=draw.choice((2, 3, 4, 8, 12, 14)))


def _beside(draw: Random, choices: Choices, loss: Happening) -> Happening:
    """Something else that is wrong with the same region at about the same time."""
    regions, hubs = len(choices.regions), 2 * choices.hubs
    name = draw.choice(_BESIDE_LOSSES)
    found = _one(draw, name, loss.at + draw.uniform(-20.0, 250.0))
    region, around = loss.a % regions, draw.randrange(50)
    if name.endswith("_at_write"):
        return found._replace(a=around * (hubs + regions) + hubs + region)
    return found._replace(a=around * regions + region)


def _some(draw: Random, often: Mapping[str, float], many: int) -> list[str]:
    return draw.choices(list(often), list(often.values()), k=many)


def _one(draw: Random, name: str, at: float) -> Happening:
    return Happening(round(at, 1), name, draw.randrange(1000), draw.randrange(1000), draw.randrange(1000))


def play(seed: int, happenings: Sequence[Happening], *, telling: bool = False) -> tuple[World, Violation | None]:
    """Play these happenings in the world of a seed, and drain it; the world as it was at its end, and what went wrong."""
    world = World(choices_of(seed), telling=telling)
    plan(world, tuple(happenings))
    try:
        world.agenda.run(max((each.at for each in happenings), default=0.0))
        mend(world)
        found = drain(world)
    except Violation as violation:
        return world, violation
    return world, Violation("NotDone", "; ".join(found)) if found else None


def violation(seed: int, *, shrink: bool = True) -> Story | None:
    """What a seed's history breaks, as a story of as few happenings as show it; None where all is well."""
    happenings = drawn(seed)
    _, found = play(seed, happenings)
    if found is None:
        return None
    kept = tuple(happenings)
    if shrink:
        kept = shrunk(kept, lambda fewer: _kind(seed, fewer) == found.kind)
    return story(seed, kept, len(happenings))


def story(seed: int, happenings: Sequence[Happening] | None = None, drawn_from: int | None = None) -> Story:
    """The whole story of a seed, or of some of its happenings; whether anything is broken or not."""
    kept = drawn(seed) if happenings is None else tuple(happenings)
    world, found = play(seed, kept, telling=True)
    return told(world, seed, found, kept, len(kept) if drawn_from is None else drawn_from)


def _kind(seed: int, happenings: Sequence[Happening]) -> str:
    found = play(seed, happenings)[1]
    return found.kind if found is not None else ""
