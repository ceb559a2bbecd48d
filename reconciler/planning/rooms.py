"""Free room of the regions from one pass to the next: a region about which nothing has changed is not accounted for again.

Decides nothing. Reports in their small form and holdings are frozen values, so the very same objects mean the very same room.
Throwing it away costs time and changes nothing.
"""

from dataclasses import dataclass, field

from reconciler.model.region import Region
from reconciler.planning.capacity import Capacity, Pool, now_free, whole_nodes
from reconciler.planning.shapes import Kind, ReportFacts
from reconciler.planning.snapshot import Holding, RegionView


@dataclass(frozen=True, slots=True)
class _Known:
    region: Region
    facts: ReportFacts | None
    holdings: tuple[Holding, ...]
    free: Capacity
    whole: dict[Kind, Pool]


@dataclass(slots=True)
class Rooms:
    """What is known of each region, by name. Whoever takes room from a capacity of it takes from a copy."""

    _known: dict[str, _Known] = field(default_factory=dict)

    def of(self, view: RegionView) -> tuple[Capacity, dict[Kind, Pool]]:
        """Free room now, and the nodes as if empty. Neither may be changed."""
        known = self._known.get(view.region.name)
        if (
            known is None
            or known.facts is not view.facts
            or known.region is not view.region
            or known.holdings is not view.holdings
        ):
            known = _Known(view.region, view.facts, view.holdings, now_free(view), whole_nodes(view))
            self._known[view.region.name] = known
        return known.free, known.whole
