"""What a pass decides from: frozen, complete, and gathered by whoever calls. Times and ages are arguments, never read here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from reconciler.model.attempt import Needs
from reconciler.model.fleet import Dataset, Link, Team
from reconciler.model.job import JobSpec
from reconciler.model.names import JobKey
from reconciler.model.policy import Policy
from reconciler.model.reasons import Reason
from reconciler.model.region import Region
from reconciler.planning.image_facts import ImageFacts
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
class Snapshot:
    """Everything that a pass needs to know."""

    regions: Mapping[str, RegionView]
    links: Mapping[tuple[str, str], Link]
    datasets: Mapping[str, Dataset]
    teams: Mapping[str, Team]
    policy: Policy
    pending: tuple[JobView, ...]
    used_gpus: Mapping[str, int] = field(default_factory=dict)
    """GPUs that each team holds at present."""
    images: Mapping[str, ImageFacts] | None = None
    """What is known of images, by their names; None: nobody asks registries."""
    asks_images: bool = False
    """Whether registries are asked for the images of `pending` that are not known yet, so that their jobs wait a moment."""
    image_seconds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """What fetching an image takes where it is not: image, as the spec names it → region; nothing for one that is not here."""
