"""What a manifest is made from: one value, so that the same value gives the same bytes."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from reconciler.model.attempt import own_prefix
from reconciler.model.fleet import volume_path
from reconciler.model.image_ref import parse_image, through_mirror
from reconciler.model.job import JobSpec
from reconciler.model.job_parts import JsonObject
from reconciler.model.pods import wants_rdma
from reconciler.model.region import Profile, Region, Spelling, StoreAddress

SET_JOB = "w"
"""What a JobSet's one Job is called in it; short, for it stands in the names of its pods, and none that YAML reads as a flag."""
_NOTHING = Spelling()
_DATASETS = "/mnt/datasets"
"""Where datasets of a shared file system are that ask for no folder."""


class Unrenderable(Exception):
    """The region lacks what the spec names, or its profile or the spec's overlay cannot become a pod. A person must act."""


@dataclass(frozen=True, slots=True)
class Rendering:
    """One attempt of one job in one region, decided in every point."""

    team: str
    """The job's team, which is its namespace."""
    spec: JobSpec
    region: Region
    attempt: str
    """The attempt's name (`names.attempt_name`), at most 52 characters."""
    number: int
    run_hash: str
    gpu_products: tuple[str, ...]
    """The chosen GPU model as the region's node labels spell it; empty for any."""
    checkpoint: str | None
    """The URI prefix that this attempt alone writes."""
    seeded_from: str | None
    """The prefix of the earlier attempt whose newest complete checkpoint it goes on from."""
    stage_image: str
    """The image that has the `reconciler` command, for steps that bring data."""
    dataset_uris: tuple[str, ...]
    """Where each dataset of the spec is read from, in the spec's order."""
    image: str | None = None
    """The program's image with its digest; None: as the spec names it."""
    checkpoint_store: StoreAddress | None = None
    """The region's store, whichever region's it is, in which `seeded_from` lies; None: that of no region that anybody knows."""
    written_uris: tuple[str, ...] = ()
    """Where it writes each of the job's outputs, in the spec's order; empty: to a folder of its own below what the spec says."""

    def __post_init__(self) -> None:
        if len(self.dataset_uris) != len(self.spec.datasets):
            raise ValueError(f"{len(self.dataset_uris)} dataset URIs for {len(self.spec.datasets)} datasets")
        if self.seeded_from is not None and self.checkpoint is None:
            raise ValueError("an attempt that is seeded needs a checkpoint prefix of its own")
        if self.written_uris and len(self.written_uris) != len(self.spec.outputs):
            raise ValueError(f"{len(self.written_uris)} URIs for {len(self.spec.outputs)} outputs")

    @property
    def folders(self) -> tuple[str | None, ...]:
        """Of each dataset its folder on the region's shared file system; None of one that is in a store."""
        return tuple(volume_path(uri) for uri in self.dataset_uris)

    def dataset_path(self, index: int) -> str | None:
        """Where the program finds a dataset; None of one that it reads from a store."""
        asked = self.spec.datasets[index].mount_path
        return asked if asked is not None or self.folders[index] is None else f"{_DATASETS}/{index + 1}"

    @property
    def read_uris(self) -> tuple[str, ...]:
        """Where the program reads each dataset: what is mounted from a shared file system, at its folder in the pod."""
        pairs = enumerate(zip(self.dataset_uris, self.folders, strict=True))
        return tuple(
            uri if folder is None else f"file://{quote(self.dataset_path(index) or '')}" for index, (uri, folder) in pairs
        )

    @property
    def output_uris(self) -> tuple[str, ...]:
        """Where this attempt alone writes each of the job's outputs, in the spec's order: two attempts can overwrite nothing."""
        return self.written_uris or tuple(own_prefix(output.uri, self.attempt) for output in self.spec.outputs)

    @property
    def profile(self) -> Profile:
        """How the region spells what jobs ask for."""
        return self.region.profile

    @property
    def main_image(self) -> str:
        """The program's image as it is pulled there. What we pinned goes by its digest alone: not every runtime takes both."""
        pinned = self.spec.image if self.image is None else str(parse_image(self.image)._replace(tag=None))
        return through_mirror(pinned, self.region.registry_mirror)

    @property
    def spelling(self) -> Spelling:
        """What the region adds for RDMA, where the job uses it and the region has it; else nothing."""
        rdma = self.region.profile.rdma
        return rdma if rdma is not None and wants_rdma(self.spec) else _NOTHING

    @property
    def regional_pods(self) -> tuple[JsonObject, ...]:
        """Partial pods of the region, in the order in which they are merged."""
        return tuple(partial for partial in (self.spelling.pod, self.region.profile.pod) if partial)

    @property
    def has_peers(self) -> bool:
        """Whether its pods must find each other."""
        return self.spec.nodes > 1

    @property
    def is_set(self) -> bool:
        """Whether its workload is a JobSet, which makes the Job."""
        return self.spec.workload == "jobset"

    @property
    def job_name(self) -> str:
        """The name of the Job that makes its pods: their host names are `<this>-<index>`."""
        return f"{self.attempt}-{SET_JOB}-0" if self.is_set else self.attempt

    @property
    def has_volcano_gang(self) -> bool:
        """Whether its pods are of a PodGroup of Volcano's; in a region with one scheduler for all, also a single pod."""
        return self.region.profile.gang == "volcano"


def canonical(value: Any) -> Any:
    """A JSON value with its keys in order, so that equal values print alike."""
    if isinstance(value, dict):
        return {key: canonical(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [canonical(item) for item in value]
    return value
