"""What a pass decides from: frozen, complete, and gathered by whoever calls. Times and ages are arguments, never read here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from reconciler.model.attempt import Needs
from reconciler.model.fleet import Dataset, Link, Team
from reconciler.model.job import JobSpec
from reconciler.model.names import STAGING_TEAM, JobKey
from reconciler.model.policy import Policy
from reconciler.model.reasons import Reason
from reconciler.model.region import Region
from reconciler.planning.image_facts import ImageFacts
from reconciler.planning.links import LinkKey
from reconciler.planning.measured import Measured
from reconciler.planning.shapes import ReportFacts


@dataclass(frozen=True, slots=True)
class Holding:
    """GPUs that an attempt of the ledger holds in a region, seen there or not."""

    attempt: str
    nodes: int
    needs: Needs
    gpu_model: str | None
    ends_at: datetime | None
    """When it is expected to end; None where nobody knows."""


@dataclass(frozen=True, slots=True)
class RegionView:
    """A region as declared, as it last reported, and what the ledger holds there."""

    region: Region
    facts: ReportFacts | None
    """Of its newest report; None before the first."""
    report_age_seconds: float | None
    """By the hub's own clock since the report's sequence last rose; None before the first."""
    holdings: tuple[Holding, ...] = ()
    closed: Reason | None = None
    """Why it gets nothing new at present, for reasons of the hub's own; None where it may."""

    @property
    def has_workers(self) -> bool:
        """Whether it has a place for staging tasks."""
        return self.facts is not None and STAGING_TEAM in self.facts.namespaces


@dataclass(frozen=True, slots=True)
class JobView:
    """A job that wants an attempt."""

    key: JobKey
    spec: JobSpec
    submitted_at: datetime
    pin: str | None = None
    """The only region that a person lets it use."""
    veto: frozenset[str] = frozenset()
    avoid: frozenset[str] = frozenset()
    """Regions that just failed it for reasons of their own; used only when no other can take it."""
    run_seconds: int | None = None
    """Expected run time that is left; None where nobody knows."""
    unrendered: tuple[tuple[str, str], ...] = ()
    """(region, words) of regions for which no manifest of it can be made, or whose sync engine refuses it."""
    kept: tuple[Dataset, ...] = ()
    """Registered datasets as its run's first attempt read them; empty while none has run."""
    kept_image: str | None = None
    """Its image with the digest that its run's first attempt had; None while none has run, or nobody looked it up."""

    @property
    def image(self) -> str:
        """The program's image, as its next attempt names it."""
        return self.kept_image or self.spec.image


@dataclass(frozen=True, slots=True)
class Arriving:
    """A dataset that is being brought to a region, for whichever job."""

    source: str
    """The region from where."""
    uri: str
    """Where it is there."""
    bytes_left: int
    seconds: float
    """Until it is expected to be complete."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that a pass needs to know."""

    regions: Mapping[str, RegionView]
    links: Mapping[LinkKey, Link]
    datasets: Mapping[str, Dataset]
    teams: Mapping[str, Team]
    policy: Policy
    pending: tuple[JobView, ...]
    used_gpus: Mapping[str, int] = field(default_factory=dict)
    """GPUs that each team holds at present."""
    measured: Mapping[LinkKey, Measured] = field(default_factory=dict)
    """What was measured of links; one that is not here goes by what is declared of it."""
    held: Mapping[LinkKey, int] = field(default_factory=dict)
    """What transfers hold of each link, in bytes a second."""
    queued: Mapping[LinkKey, int] = field(default_factory=dict)
    """Bytes that transfers under way, and those that wait for their turn, have still to bring over a link; a link that is not
    here: nobody knows."""
    full: Mapping[LinkKey, Reason] = field(default_factory=dict)
    """Links on which nothing new may begin, and why."""
    copies: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Complete staged copies: subject (`kept.subject_of`) → region → URI."""
    parts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Staged copies that have lost something: subject → region → share of the bytes that is there."""
    unbrought: Mapping[tuple[str, str], Reason] = field(default_factory=dict)
    """(subject, region) of what could not be brought there a short while ago, and why."""
    arriving: Mapping[str, Mapping[str, Arriving]] = field(default_factory=dict)
    """Copies that are being staged: subject → region."""
    images: Mapping[str, ImageFacts] | None = None
    """What is known of images, by their names; None: nobody asks registries."""
    asks_images: bool = False
    """Whether registries are asked for the images of `pending` that are not known yet, so that their jobs wait a moment."""
    image_seconds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """What fetching an image takes where it is not: image, as the spec names it → region; nothing for one that is not here."""
