"""What joins the regions and who uses them: links, datasets, teams."""

from typing import Annotated, Final, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from reconciler.model.base import END, Line, Many, Model, Name, Quantity, Text, Uri
from reconciler.model.job_parts import GpuModelName
from reconciler.model.quantity import whole

LinkKind = Literal["dedicated-line", "cloud-backbone", "peering", "overlay"]

_VOLUME: Final = "volume:///"
VolumeUri = Annotated[
    str,
    StringConstraints(pattern=r"^volume:///(?!\.)[A-Za-z0-9._-]+(/(?!\.)[A-Za-z0-9._-]+)*/?" + END, max_length=1024),
    Field(
        description="A folder of the region's shared file system (`profile.shared_claim`): volume:///folder/",
        examples=["volume:///datasets/corpus/"],
    ),
]


def volume_path(uri: str) -> str | None:
    """The folder on the region's shared file system that a dataset's URI names; None of a URI of a store."""
    return uri.removeprefix(_VOLUME).strip("/") if uri.startswith(_VOLUME) else None


class Link(Model):
    """A directed link from one region to another. The other direction is another link."""

    source: Name
    target: Name
    kind: LinkKind = "cloud-backbone"
    """What it is made of."""
    gbit_per_second: Annotated[float, Field(ge=0, le=100_000)] | None = None
    """Capacity in Gbit/s; left out: not known (never taken for zero, or for unlimited)."""
    usd_per_gb: Annotated[float, Field(ge=0, le=1000)] | None = None
    """Price per GB (10^9 bytes); left out: not known (never taken for free)."""
    rtt_ms: Annotated[float, Field(ge=0, le=60_000)] | None = None
    """Round-trip time in milliseconds; left out: not known."""
    symmetric: bool = False
    """`true`: the same figures hold the other way."""

    @model_validator(mode="after")
    def _between_two(self) -> Self:
        if self.source == self.target:
            raise ValueError("a link joins two different regions")
        return self


class Links(Model):
    """links.yaml: all links."""

    links: Many[Link] = ()
    """One line a direction, or `symmetric`."""


class Replica(Model):
    """A copy of a dataset in a region."""

    region: Name
    uri: Uri | VolumeUri | None = None
    """Where it is there; left out: the dataset's `uri`. On the region's shared file system jobs mount it as it is, read-only, and
    it is copied to nowhere else."""


class Dataset(Model):
    """A dataset: where its copies are, how large it is, and where it may go."""

    name: Name
    """As the file is called: datasets/<name>.yaml."""
    uri: Uri
    """Where it is, at its home."""
    version: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}" + END)] | None = None
    """The version that jobs read when they do not say."""
    size: Quantity | None = None
    """Its size, such as `120Gi`."""
    size_gb: Annotated[float, Field(ge=0, le=1e9)] | None = None
    """Its size in GB (10^9 bytes)."""
    replicas: Annotated[Many[Replica], Field(min_length=1)]
    """Regions that have it."""
    residency: Many[Name] = ()
    """Tags that a region must carry to hold it; empty: it may go anywhere."""
    description: Text | None = None
    """For people."""

    @model_validator(mode="after")
    def _sized_once(self) -> Self:
        if self.size is not None and self.size_gb is not None:
            raise ValueError("give `size` or `size_gb`, not both")
        return self

    @property
    def size_bytes(self) -> int | None:
        """Its size in bytes; None where it is not known."""
        return declared_bytes(self.size, self.size_gb)


def declared_bytes(size: str | None, size_gb: float | None) -> int | None:
    """The size that a file gives in one of two ways, in bytes; None where it gives none."""
    if size is not None:
        return whole(size)
    return None if size_gb is None else round(size_gb * 1e9)


class Team(Model):
    """A team: its folder under jobs/, its Kubernetes namespace, its rights."""

    name: Name
    """As the file is called: teams/<name>.yaml."""
    regions: Many[Name] | None = None
    """Regions that it may use; left out: all."""
    compliance: Many[Name] = ()
    """Tags that every region of its jobs must carry."""
    weight: float = Field(default=1.0, gt=0, le=1000)
    """Its part of a fair share, relative to the others'."""
    quota: dict[GpuModelName, Annotated[int, Field(ge=0)]] = Field(default_factory=dict)
    """GPUs that it owns, by model."""
    approvers: Many[Line] = ()
    """Who may approve its placements."""
    on_call: Line | None = None
    """Whom to page."""


class Confirmation(Model):
    """confirmations/<any>.yaml: a person's word that a suspicious change of main was meant, or of a region that is silent."""

    main: Annotated[str, Field(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$(?!\n)")] | None = None
    """The commit of main that is to be believed."""
    says: Literal["lost", "forget"] | None = None
    """Of `region`: that it really is down, and not the hub that cannot see; or that it never comes back, so that no job waits for
    it any more."""
    region: Name | None = None
    """The region that `says` is about."""
    epoch: Annotated[int, Field(ge=0)] | None = None
    """Of its last lease, as `reconciler status --json` shows it: with the next one the word says nothing any more."""
    force: bool = False
    """With `says: forget`: its lease is taken away at once, though nobody knows that nothing runs there. Two copies of a job may
    then run at once."""
    by: Line | None = None
    """Who says so."""
    why: Text | None = None
    """Why."""

    @model_validator(mode="after")
    def _of_one_thing(self) -> Self:
        of_region = (self.says, self.region, self.epoch)
        if (self.main is None) == (self.says is None):
            raise ValueError("give either `main`, a commit, or `says`, with `region` and `epoch`")
        if self.says is not None and None in of_region:
            raise ValueError("`says` needs `region` and `epoch`")
        if self.main is not None and of_region != (None, None, None):
            raise ValueError("`region` and `epoch` go with `says`, not with `main`")
        if self.force and self.says != "forget":
            raise ValueError("`force` goes with `says: forget`")
        return self
