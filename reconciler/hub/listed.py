"""When the listing in a report was begun, by the hub's clock, at the earliest.

The agent says how old its listing was when it made the report, by its own monotonic clock; clocks of the day differ, so none is
compared. The report was written after the hub's look before the one that found it: so the listing was not begun before that
look, less its age, less what a request may be on its way.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from reconciler.model.report import RegionReport
from reconciler.planning.copies import Listing, Standing, standing_of

ON_ITS_WAY_SECONDS: Final = 30.0
"""What an agent takes at most from making a report until the store has it: its requests end before."""
OLD_SECONDS: Final = 2 * 3600.0
"""A listing that is older says nothing any more; an agent lists more often."""


@dataclass(frozen=True, slots=True)
class Listed:
    """What a report says of a store. `began`: by the hub's monotonic clock; None where there is nothing to be believed."""

    began: float | None = None
    url: str = ""
    copies: Mapping[str, Standing] = field(default_factory=dict)
    names_all: bool = False


def listed_in(report: RegionReport, looked_at: float | None) -> Listed:
    """What a report says. `looked_at`: when it was not there yet; None where nobody had looked before."""
    told = report.caches_listed
    if told is None or report.caches is None or looked_at is None:
        return Listed()
    began = looked_at - told.age_seconds - ON_ITS_WAY_SECONDS
    copies = {cache.uri: standing_of(cache) for cache in report.caches}
    return Listed(began, told.url, copies, names_all=not told.left_out)


def listing_of(listed: Listed, monotonic: float, now: datetime) -> Listing | None:
    """The same with the time of the day at which it was begun; None where there is none, or it is old. The arguments are one
    moment on both clocks."""
    if listed.began is None or monotonic - listed.began > OLD_SECONDS:
        return None
    begun_at = (now - timedelta(seconds=monotonic - listed.began)).replace(microsecond=0)
    return Listing(listed.url, listed.copies, listed.names_all, begun_at)
