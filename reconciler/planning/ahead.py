"""When a busy region is expected to have room: a look ahead over the ends of what holds its GPUs.

Only ends that somebody stated count; a job of unknown length is taken to run for ever, and so is one that is long overdue. Jobs
that wait in front are not foreseen: the answer is the earliest start, not a promise.
"""

import bisect
from collections.abc import Iterable
from datetime import datetime, timedelta

from reconciler.model.attempt import Needs
from reconciler.planning.capacity import now_free
from reconciler.planning.shapes import Free, Kind
from reconciler.planning.snapshot import RegionView

_NOTHING = Free(0, 0, 0, 0, 0)

OVERDUE = timedelta(minutes=10)
"""An end that is past by more was a wrong guess. Up to there it may be saving its checkpoint, or the report may be late."""


def earliest_start(view: RegionView, needs: Needs, nodes: int, kinds: Iterable[Kind], now: datetime) -> datetime | None:
    """The first moment at which `nodes` pods of `needs` are expected to fit; None where no known end brings it about."""
    facts = view.facts
    if facts is None:
        return None
    wanted = tuple(kinds)
    ending = sorted(
        (
            (holding.ends_at, holding.attempt, holding.needs)
            for holding in view.holdings
            if holding.ends_at is not None and holding.ends_at > now - OVERDUE
        ),
        key=lambda one: (one[0], one[1]),
    )

    def fits_after(count: int) -> bool:
        freed: dict[str, Free] = {}
        for _, attempt, held in ending[:count]:
            for node in facts.pods_on.get(attempt, ()):
                freed[node] = freed.get(node, _NOTHING).less(held, -1)
        room = now_free(view, freed, {attempt for _, attempt, _ in ending[:count]})
        return room.fits(needs, nodes, wanted) >= nodes

    # Every end adds room, so the first that is enough is found by halving; a fleet has thousands of ends.
    at = bisect.bisect_left(range(1, len(ending) + 1), True, key=fits_after)
    return max(ending[at][0], now) if at < len(ending) else None
