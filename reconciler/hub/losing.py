"""When a region counts as lost, and when it is certain that it runs nothing of ours. Pure.

Decides the state of each region from how long it was not heard of and how long its lease has not changed; and which one may be
given up at a moment. What is done about it is the watch's (watch.py), what becomes of its jobs planning's.

Invariant: no state but Revoked lets anything start elsewhere, and that one is a fact in the store, not a judgement.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from reconciler.hub.leases import LeaseSeen
from reconciler.model.region import LossTimes
from reconciler.model.region_state import RegionState

ONE_A_MINUTE = 60.0
"""Seconds between two regions that are given up."""
WINDOW_SECONDS = 120.0
"""Regions that fall silent within so long may have one cause."""


class Sight(NamedTuple):
    """One region, as the hub sees it. Seconds of the hub's monotonic clock."""

    times: LossTimes
    heard_at: float
    """When its report last changed, or the hub began to see it, whichever is later."""
    lease: LeaseSeen | None = None
    """None: it is not watched, or could not be looked at."""
    never_led: bool = False
    """Whether nothing was ever granted there under any lease."""


class Verdict(NamedTuple):
    """What is so of a region at a moment."""

    state: RegionState
    next_in: float | None
    """Seconds to the next state if nothing changes; None where that is not a matter of time."""
    since: float
    """When it was last heard of."""


def is_due(sight: Sight, now: float) -> bool:
    """Whether the region's lease may be revoked, as far as the region itself goes."""
    return judged(sight, now).state is RegionState.LOST and revocable_in(sight, now) == 0.0


def revocable_in(sight: Sight, now: float) -> float | None:
    """Seconds until the region's lease may be revoked; None where that cannot come by waiting."""
    lease = sight.lease
    if lease is None or lease.revoked:
        return None
    if lease.etag is None:
        if not sight.never_led:
            return None
        lasts = float(sight.times.revoked_after_seconds)
    elif lease.lease is None:
        return None
    else:
        lasts = lease.lease.self_fence_seconds + lease.lease.fence_kill_seconds + sight.times.margin_seconds
    return max(lease.since + lasts - now, 0.0)


def in_turn(waits: Mapping[str, float], first: float, due: Sequence[str] = ()) -> dict[str, float]:
    """Seconds until each of these regions is given up, one a minute. `waits`: until it may be, as far as it goes itself; `first`:
    until any may be; `due`: the order of those that may be now.
    """
    left, turn, found = dict(waits), first, {}
    order = {name: place for place, name in enumerate(due)}
    while left:
        turn = max(turn, min(left.values()))
        ready = (name for name, wait in left.items() if wait <= turn)
        name = min(ready, key=lambda name: (order.get(name, len(order)), name))
        found[name] = turn
        del left[name]
        turn += ONE_A_MINUTE
    return found


def judged(sight: Sight, now: float) -> Verdict:
    """The region's state."""
    silent, times = now - sight.heard_at, sight.times
    if sight.lease is not None and sight.lease.revoked:
        return Verdict(RegionState.REVOKED, None, sight.heard_at)
    if silent <= times.unknown_seconds:
        return Verdict(RegionState.READY, times.unknown_seconds - silent, sight.heard_at)
    if silent <= times.grace_seconds:
        return Verdict(RegionState.UNKNOWN, times.grace_seconds - silent, sight.heard_at)
    return Verdict(RegionState.LOST, revocable_in(sight, now), sight.heard_at)


def silent_together(verdicts: Mapping[str, Verdict], region: str, aside: Iterable[str] = ()) -> tuple[int, int]:
    """How many regions fell silent in one window with `region`, and of how many. Those that were given up before are no sign of
    anything, nor those that are put `aside`.
    """
    known = {name for name, verdict in verdicts.items() if verdict.state is not RegionState.REVOKED} - set(aside)
    began = verdicts[region].since
    silent = [name for name in known if verdicts[name].state is not RegionState.READY]
    return sum(abs(verdicts[name].since - began) <= WINDOW_SECONDS for name in silent), len(known)


def doubts_itself(silent: int, known: int) -> bool:
    """Whether so many regions fell silent at once that it is rather the hub that does not see: half or more, and at least two."""
    return silent >= 2 and 2 * silent >= known
