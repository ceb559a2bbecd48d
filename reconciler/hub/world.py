"""What a cycle has observed, and what it has decided: the values between the hub's steps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from reconciler.hub.ledger import Ledger, Suspicion, Trouble, WordNoted
from reconciler.hub.regions import RegionSeen
from reconciler.hub.review import PlacementFile
from reconciler.hub.sources import Sources
from reconciler.model.job import JobSpec
from reconciler.model.names import JobKey, region_branch
from reconciler.model.placement import Placement
from reconciler.model.reasons import Reason
from reconciler.model.record import JobRecord
from reconciler.model.region import LossTimes
from reconciler.model.region_state import RegionCondition
from reconciler.planning.copies import Listing
from reconciler.planning.image_facts import ImageFacts
from reconciler.planning.links import LinkKey
from reconciler.planning.measured import Measured
from reconciler.planning.observed import Away


@dataclass(frozen=True, slots=True)
class Unrendered:
    """A job as it was when the renderer refused it."""

    spec: JobSpec
    regions: Mapping[str, str]
    """Region → why no manifest can be made for it."""


@dataclass(frozen=True, slots=True)
class World:
    """Everything that a cycle has observed."""

    sources: Sources
    ledger: Ledger
    suspicion: Suspicion | None
    regions: Mapping[str, RegionSeen]
    ages: Mapping[str, float | None]
    withdrawn_at: Mapping[str, int]
    """Attempt that is being stopped → the first version of its region's grants that is known not to list it."""
    placements: Mapping[JobKey, PlacementFile | None]
    """Placement files that are not as their job's record has them: changed, new, or (None) gone."""
    declined: frozenset[JobKey]
    """Jobs whose proposal a person refused: its branch was deleted, or its pull request closed, unmerged."""
    refused: Mapping[str, Reason]
    """Branches that the remote refuses at present, and its words."""
    inputs: str
    """Digest of all of the above, to be published with each decision."""
    unrendered: Mapping[JobKey, Unrendered] = field(default_factory=dict)
    """Jobs of which no manifest can be made for some regions."""
    away: Mapping[str, Away] = field(default_factory=dict)
    """What is so of regions that are not heard of, or were given up."""
    epochs: Mapping[str, int] = field(default_factory=dict)
    """Region → the highest epoch that its lease was seen to have."""
    conditions: Mapping[str, RegionCondition] = field(default_factory=dict)
    """The same, as it is published."""
    images: Mapping[str, ImageFacts] | None = None
    """What is known of the images of jobs that wait, by their names; None: nobody asks registries."""
    unreachable: Sequence[Trouble] = ()
    """Leases that could not be looked at, or written."""
    measured: Mapping[LinkKey, Measured] = field(default_factory=dict)
    """What the regions have measured of the links between them."""
    listings: Mapping[str, Listing] = field(default_factory=dict)
    """What stands in the stores of regions that are heard of, where that was listed."""
    stage_image: str = ""
    """The image of staging workers, where a region does not name its own."""
    loss: Mapping[str, LossTimes] = field(default_factory=dict)
    """The times of the regions that have some of their own."""
    store: str = ""
    """The id of the object store."""
    words: Mapping[str, WordNoted] = field(default_factory=dict)
    """What people say of regions, as it is to be noted."""

    def is_open(self, region: str) -> bool:
        """Whether the remote takes the region's branch."""
        return region_branch(region) not in self.refused


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is to be published."""

    records: Mapping[JobKey, JobRecord]
    """All records; those that did not change are the very same objects."""
    placements: Mapping[JobKey, Placement]
    """Placements that are in force from now on, of this cycle's decisions."""
    proposals: Mapping[JobKey, Placement]
    """Placements that wait for approval, of this cycle's decisions."""
    events: tuple[str, ...]
    """What happened, a line each, for the commit message."""
    crowded: Mapping[LinkKey, datetime] = field(default_factory=dict)
    """Links of which more is held than may be, and since when."""
    full: Mapping[LinkKey, Reason] = field(default_factory=dict)
    """Links on which nothing new may begin, and why."""
    tasks: tuple[JobKey, ...] = ()
    """Staging tasks of which an attempt begins in this cycle."""
