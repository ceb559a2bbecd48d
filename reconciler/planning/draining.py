"""A region that is to be empty by some moment: what becomes of each attempt there, and when. Pure.

An attempt that is expected to end before stays. Another is moved once the pass would place its job elsewhere at this very moment,
after everything that waits; a few at a time, so that what is on its way finds its room when it comes. What is left at the moment
itself is stopped. Invariant: before that moment nothing is stopped that could not go on elsewhere at once.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from reconciler.model.names import JobKey
from reconciler.model.reasons import Reason, Why, because
from reconciler.planning.decisions import Candidate, Place
from reconciler.planning.plan import plan
from reconciler.planning.snapshot import Holding, JobView, Snapshot


@dataclass(frozen=True, slots=True)
class Leaving:
    """An attempt that stands in a region which is being drained."""

    view: JobView
    """Its job, as if it wanted an attempt."""
    region: str
    ends_at: datetime | None
    """When it is expected to end by itself; None where nobody knows."""
    moving: bool = False
    """Whether it is on its way already."""
    silent: bool = False
    """Whether its region is not heard of: then nothing is known of it, and nothing can be stopped."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How an attempt leaves."""

    key: JobKey
    region: str
    how: Literal["ends", "moves", "waits", "stops", "is moving"]
    """`ends` by itself; `moves` now; `waits` for room elsewhere; `stops` now, for the time is over."""
    at: datetime | None
    """When it is gone, or stopped, at the latest."""
    reason: Reason | None = None
    """Why it is stopped; None where it is not."""
    to: Candidate | None = None
    """Where it could go on."""


def exits(leaving: Iterable[Leaving], snapshot: Snapshot, now: datetime) -> tuple[Exit, ...]:
    """What becomes of each of them. `snapshot`: with the room that is left once all that waits was placed."""
    found: list[Exit] = []
    by_key = {one.view.key: one for one in leaving}
    undecided: list[Leaving] = []
    for one in by_key.values():
        by = snapshot.regions[one.region].region.drained_at
        certain = _certain(one, by, now)
        if certain is not None:
            found.append(certain)
        elif by is not None:
            undecided.append(one)
    moving = [one for one in by_key.values() if one.moving]
    room = _without(snapshot, [one.view for one in moving], now) if undecided else snapshot
    found += _moves(undecided, moving, room, now)
    return tuple(sorted(found, key=lambda each: each.key))


def _certain(one: Leaving, by: datetime | None, now: datetime) -> Exit | None:
    """What does not hang on the room elsewhere."""
    key, region = one.view.key, one.region
    if one.moving:
        return Exit(key, region, "is moving", None)
    if by is None or one.silent:
        return Exit(key, region, "waits", by)
    if now >= by:
        return Exit(key, region, "stops", now, because(Why.DRAIN_OVER, region=region, by=in_utc(by)))
    if one.ends_at is not None and now < one.ends_at <= by:
        return Exit(key, region, "ends", one.ends_at)
    return None


def _moves(undecided: Sequence[Leaving], moving: Sequence[Leaving], room: Snapshot, now: datetime) -> list[Exit]:
    most = room.policy.thresholds.drain_at_once
    left = {name: most - sum(one.region == name for one in moving) for name in {one.region for one in undecided}}
    placed = _placed([one.view for one in undecided], room, now) if any(free > 0 for free in left.values()) else {}
    by_key = {one.view.key: one for one in undecided}
    found = []
    for key in [*placed, *(key for key in by_key if key not in placed)]:
        region, place = by_key[key].region, placed.get(key)
        if place is not None and left[region] > 0:
            left[region] -= 1
            reason = because(Why.DRAIN_MOVED, region=region, to=place.chosen.region)
            found.append(Exit(key, region, "moves", now, reason, place.chosen))
        else:
            found.append(Exit(key, region, "waits", room.regions[region].region.drained_at))
    return found


def _placed(views: Sequence[JobView], snapshot: Snapshot, now: datetime) -> Mapping[JobKey, Place]:
    """Those that a pass over them alone would place, in its order."""
    decisions = plan(replace(snapshot, pending=tuple(views)), now)
    return {each.key: each for each in decisions if isinstance(each, Place)}


def _without(snapshot: Snapshot, views: Sequence[JobView], now: datetime) -> Snapshot:
    """The snapshot without the room that these will take."""
    regions, nodes = dict(snapshot.regions), {view.key: view.spec.nodes for view in views}
    for key, place in _placed(views, snapshot, now).items():
        chosen = place.chosen
        held = Holding(str(key), nodes[key], chosen.needs, chosen.node_model, chosen.end_at)
        view = regions[chosen.region]
        regions[chosen.region] = replace(view, holdings=(*view.holdings, held))
    return replace(snapshot, regions=regions)


def in_utc(moment: datetime) -> str:
    """As it stands in files."""
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"
