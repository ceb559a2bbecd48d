"""What the hub knows of a region beyond its reports: whether it is heard of, and what comes next where it is not."""

from datetime import datetime
from enum import StrEnum

from reconciler.model.base import Model
from reconciler.model.reasons import Reason


class RegionState(StrEnum):
    """A region in one word. Of the first four each but the first goes on to the next with time, and back to the first when it is
    heard of. One that is declared is awaited until its first agent comes. The others are what people said of a region.
    """

    READY = "Ready"
    UNKNOWN = "Unknown"
    LOST = "Lost"
    REVOKED = "Revoked"
    AWAITED = "Awaited"
    UNDECLARED = "Undeclared"
    DRAINING = "Draining"
    CORDONED = "Cordoned"


NOT_HEARD = frozenset({RegionState.UNKNOWN, RegionState.LOST, RegionState.REVOKED})
"""States of a region that is not heard of, or was given up."""


class RegionCondition(Model):
    """Since when a region is not Ready, why, and what comes next."""

    state: RegionState
    since: datetime
    reason: Reason
    next_at: datetime | None = None
    """When it goes on to the next state, if nothing changes; None where that is not a matter of time."""
    epoch: int | None = None
    """Of the last lease that somebody held there, 0 where nobody ever did: what a person says of the region holds until its agent
    takes the next one. None where the region is heard of."""
