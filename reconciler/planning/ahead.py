"""When a busy region is expected to have room: a look ahead over the ends of what holds its GPUs.

Only ends that somebody stated count; a job of unknown length is taken to run for ever. Jobs that wait in front are not foreseen:
the answer is the earliest start, not a promise.
"""

from collections.abc import Iterable
from datetime import datetime

from reconciler.model.attempt import Needs
from reconciler.planning.capacity import reported
from reconciler.planning.shapes import Free, Kind
from reconciler.planning.snapshot import RegionView

_NOTHING = Free(0, 0, 0, 0, 0)


def earliest_start(view: RegionView, needs: Needs, nodes: int, kinds: Iterable[Kind], now: datetime) -> datetime | None:
    """The first moment at which `nodes` pods of `needs` are expected to fit; None where no known end brings it about."""
    if view.facts is None:
        return None
    wanted = tuple(kinds)
    ending = sorted(
        ((holding.ends_at, holding) for holding in view.holdings if holding.ends_at is not None),
        key=lambda pair: (pair[0], pair[1].attempt),
    )
    freed: dict[str, Free] = {}
    for ends_at, holding in ending:
        for node in view.facts.pods_on.get(holding.attempt, ()):
            freed[node] = freed.get(node, _NOTHING).less(holding.needs, -1)
        if reported(view.facts, freed).fits(needs, nodes, wanted) >= nodes:
            return max(ends_at, now)
    return None
