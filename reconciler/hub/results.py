"""How a hub is run, and how its cycles end."""

from dataclasses import dataclass
from enum import Enum

from reconciler.hub.regions import AT_ONCE
from reconciler.receiver_port import Moved

RESTING_SECONDS = 60.0
"""While nothing is live, a full look at least this often: regions fall silent without an event."""
TRIES = 5
"""Races lost in a row before the cycle is given up until something wakes the hub."""


class Ended(Enum):
    """How a cycle ended."""

    IDLE = "idle"
    STANDBY = "standby"
    QUIET = "nothing to publish"
    PUBLISHED = "published"
    DEFERRED = "push budget used up"
    RACED = "lost too many races"
    REFUSED = "the remote refused the push"


@dataclass(frozen=True, slots=True)
class Result:
    """How a cycle ended, for the log and for the loop."""

    ended: Ended
    events: tuple[str, ...] = ()
    troubles: tuple[str, ...] = ()
    """What a person should look at: unreadable reports, refused branches, grants that could not be written."""
    ungranted: tuple[str, ...] = ()
    """Regions whose grants could not be written; the next cycle tries again."""
    moved: tuple[Moved, ...] = ()
    """Branches of regions that were pushed."""
    again_in_seconds: float | None = None
    """When another cycle is worth it even if nothing wakes the hub; None where only an event can change anything."""


@dataclass(frozen=True, slots=True)
class HubOptions:
    """How this hub is run. `repo_url` without credentials; durations in seconds."""

    holder: str
    repo_url: str
    stage_image: str
    main: str = "main"
    lease_seconds: float = 15.0
    resync_seconds: float = 5.0
    """While anything is live, a full look at least this often: deadlines pass without an event."""
    reports_at_once: int = AT_ONCE
    """Reports of regions that are read side by side."""
