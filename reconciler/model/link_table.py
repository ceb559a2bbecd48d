"""What the agents must know of the links to measure them: `hub/links.json`, written by the hub, read by every agent.

Agents do not read Git. A table that is old does little harm: an agent probes a link that is gone, or not one that is new.
"""

from typing import Literal

from pydantic import Field

from reconciler.model.base import Many, Model, Name
from reconciler.model.region import StoreAddress

LINKS_KEY = "hub/links.json"


class LinkLine(Model):
    """One directed link."""

    source: Name
    target: Name
    gbit_per_second: float | None = None
    """As declared; None where nobody has said."""
    held_bytes_per_second: int = Field(default=0, ge=0)
    """What transfers that run now have reserved."""


class LinkTable(Model):
    """All links, and where each region's store answers."""

    schema_version: Literal[1] = 1
    stores: dict[Name, StoreAddress] = Field(default_factory=dict)
    links: Many[LinkLine] = ()
