"""A region: what a platform team declares of it. What it has free at the moment comes from its agent's report."""

from datetime import datetime
from typing import Annotated, Final, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from reconciler.model.base import END, EnvName, Image, LabelKey, LabelValue, Line, Many, Model, Name, Quantity, Text, Uri, Usd
from reconciler.model.job_parts import GpuModelName, JsonObject, WorkloadKind

ResourceName = Annotated[str, StringConstraints(pattern=r"^([a-z0-9.-]{1,253}/)?[A-Za-z0-9][A-Za-z0-9._-]{0,62}" + END)]


class NodePool(Model):
    """Nodes alike: used to tell *impossible* from *not now*, and to plan before the first report."""

    name: Name
    nodes: int = Field(ge=0, le=100_000)
    """How many of them."""
    gpu_model: GpuModelName | None = None
    """The GPUs' model; left out for nodes without GPUs."""
    gpus: int = Field(default=0, ge=0, le=1024)
    """GPUs of each node."""
    gpu_memory: Quantity | None = None
    """VRAM of each GPU."""
    driver: Line | None = None
    """Version of the GPU driver."""
    cpu: Quantity
    memory: Quantity
    rdma: bool = False
    """Whether they have RDMA network cards."""


class Spelling(Model):
    """How this region spells something that jobs ask for by intent: merged into the pod when they do."""

    resources: dict[ResourceName, Quantity] = Field(default_factory=dict)
    """Extended resources of the main container, such as `rdma/hca: "1"`."""
    annotations: dict[LabelKey, str] = Field(default_factory=dict)
    """Annotations of the pod."""
    env: dict[EnvName, str] = Field(default_factory=dict)
    """Variables of the main container."""
    pod: JsonObject = Field(default_factory=dict)
    """A partial pod spec, merged last."""


class Toleration(Model):
    """A Kubernetes toleration."""

    key: LabelKey
    """The taint's key."""
    operator: Literal["Equal", "Exists"] = "Exists"
    """`Exists`: whatever the taint's value; `Equal`: only this `value`."""
    value: LabelValue | None = None
    """With `Equal`: the taint's value."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Left out: every effect."""


class Profile(Model):
    """How what jobs ask for is done in this region."""

    gpu_resource: ResourceName = "nvidia.com/gpu"
    """The extended resource that counts GPUs."""
    gpu_label: LabelKey = "nvidia.com/gpu.product"
    """The node label that names the GPU's model."""
    cpu_per_gpu: Quantity = "8"
    """CPU that a job gets per GPU when it does not say."""
    memory_per_gpu: Quantity = "64Gi"
    """RAM that a job gets per GPU when it does not say."""
    cpu_without_gpu: Quantity = "1"
    memory_without_gpu: Quantity = "4Gi"
    rdma: Spelling | None = None
    """How a pod gets RDMA; left out: there is none."""
    tolerations: dict[Name, Toleration] = Field(default_factory=dict)
    """What the names in a job's `tolerations` mean."""
    queues: dict[Name, Name] = Field(default_factory=dict)
    """Queues of jobs, and what they are called here."""
    secrets: dict[Name, Name] = Field(default_factory=dict)
    """Secrets of jobs, and what they are called here; a name not listed keeps itself."""
    stage_image: Image | None = None
    """The image with the `reconciler` command, for the steps that bring data; left out: the one of the hub's release."""
    image_pull_secrets: Many[Name] = ()
    """Secrets that pull images, by their names here."""
    shared_claim: Name | None = None
    """The claim of the region's shared file system, for volumes of kind `shared`."""
    runtime_class: Name | None = None
    """RuntimeClass of pods with GPUs."""
    scheduler_name: Name | None = None
    """The scheduler that places the pods; left out: Kubernetes' own, or Volcano's where that has the gangs."""
    gang: Literal["none", "native", "volcano"] = "none"
    """What starts the pods of a job of several nodes together or not at all: Kubernetes' own PodGroups, which its Job controller
    makes (1.36 and later, feature gate WorkloadWithJob), or Volcano's, which are rendered."""
    pod: JsonObject = Field(default_factory=dict)
    """A partial pod spec, merged into every pod."""


class StoreAddress(Model):
    """An object store: a bucket or a folder. Credentials come from the environment of whoever opens it."""

    url: Uri
    """`s3://bucket/prefix` or `file:///folder`."""
    endpoint: Annotated[str, StringConstraints(pattern=r"^https?://[^\s/]+" + END)] | None = None
    """For S3 stores that are not Amazon's."""
    location: Line | None = None
    """The S3 region name, where the store wants one."""
    secret: Name | None = None
    """Of a region's store: the secret that opens it for staging tasks, with the keys AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY,
    in the namespace gpu-staging of every region that copies from or to it. Left out: their pods are let in as they are."""


class Receiver(Model):
    """Where the region's sync engine hears of pushes, if the hub can reach it: Flux's Receiver of type `generic-hmac`, or Argo
    CD's `/api/webhook`. Only a short cut: the region's agent tells its engine as well, from inside.
    """

    url: Annotated[str, StringConstraints(pattern=r"^https?://[^\s/@]+(/[^\s]*)?" + END)]
    """Its whole address."""
    secret_env: Annotated[str, StringConstraints(pattern=r"^RECONCILER_RECEIVER_[A-Z0-9_]{1,100}" + END)] = (
        "RECONCILER_RECEIVER_SECRET"  # noqa: S105 - a variable's name
    )
    """The variable of the hub's environment that holds the secret shared with it. Only such a name: whoever may write this file
    is not to choose which of the hub's secrets is used."""


REPORT_SECONDS: Final = 10.0
"""Between two reports of an agent, where nothing asks for more of them."""
REPORTS_MISSED: Final = 3
"""Reports that are missing before a region is Unknown: one that is late, or lost, says nothing."""


class LossTimes(Model):
    """When a region that is not heard of counts as lost, and from when it is certain that nothing of ours runs there.

    Its agent stops everything `self_fence_seconds` after its last renewal, and that takes `fence_kill_seconds` at most; with
    the margin for clocks and requests under way, the sum of the three is when its lease may be revoked.
    """

    unknown_seconds: int = Field(default=30, ge=5, le=86_400)
    """Not heard of for so long: no new jobs there, nothing else."""
    grace_seconds: int = Field(default=120, ge=5, le=86_400)
    """Not heard of for so long: it is lost; people are told where its jobs would go, and nothing is started yet."""
    self_fence_seconds: int = Field(default=240, ge=15, le=86_400)
    """How long the agent lets ours run without a renewal of its lease."""
    fence_kill_seconds: int = Field(default=30, ge=1, le=3600)
    """The most that pods get to end when it stops them then."""
    margin_seconds: int = Field(default=30, ge=10, le=3600)
    """For clocks that do not run alike, and requests that are under way."""

    @property
    def revoked_after_seconds(self) -> int:
        """How long its lease must not have changed before it may be revoked."""
        return self.self_fence_seconds + self.fence_kill_seconds + self.margin_seconds

    @property
    def report_seconds(self) -> float:
        """The longest that its agent may wait between two reports: three are missing before it is Unknown. In whole tenths."""
        return self.unknown_seconds * 10 // REPORTS_MISSED / 10

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.grace_seconds < self.unknown_seconds:
            raise ValueError(f"`grace_seconds` ({self.grace_seconds}) is below `unknown_seconds` ({self.unknown_seconds})")
        if self.grace_seconds > self.revoked_after_seconds:
            parts = "`self_fence_seconds` + `fence_kill_seconds` + `margin_seconds`"
            raise ValueError(f"`grace_seconds` ({self.grace_seconds}) is above {parts} ({self.revoked_after_seconds})")
        return self


class Region(Model):
    """One region: a Kubernetes cluster with its object store, registry mirror, prices and rules."""

    name: Name
    """As the file is called: regions/<name>.yaml; its output branch is region/<name>."""
    description: Text | None = None
    """For people."""
    cordoned: bool = False
    """`true`: no new jobs here; what runs goes on."""
    drain_by: Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ" + END)] | None = Field(
        default=None, examples=["2026-05-01T12:00:00Z"]
    )
    """By when it is to be empty, in UTC; quote it. No new jobs here; what runs is moved by its checkpoints as there is room
    elsewhere, and stopped at that moment."""
    loss: LossTimes | None = None
    """When it counts as lost; left out: as the policy says."""
    deadman: bool = False
    """`true`: Kubernetes itself ends the jobs here when their agent is gone, for the agent keeps putting off their end."""
    node_pools: Many[NodePool] = ()
    """What nodes there are when none is missing."""
    prices: dict[GpuModelName, Usd] = Field(default_factory=dict)
    """US dollars per GPU-hour, by model; a model not listed has no known price."""
    compliance: Many[Name] = ()
    """Tags that hold here, such as `gdpr`."""
    object_store: StoreAddress | None = None
    """The region's own bucket, for datasets, checkpoints and results."""
    staged_limit: Quantity | None = None
    """How much of its store staged copies of datasets may take, such as `20T`; beyond that the least recently used are removed,
    never one in use. Left out: none is removed."""
    returns_results: bool = False
    """`true`: an output that is asked for in another region's store is written to this region's own first, and returned by a task
    once its attempt has succeeded. Its programs must be allowed to write there."""
    registry_mirror: Line | None = None
    """Host (and port) of the pull-through registry; images are then named through it."""
    registry_mirror_gbit_per_second: Annotated[float, Field(gt=0, le=100_000)] | None = None
    """How quickly it brings what it has not, in Gbit/s; left out: not known, and images count for nothing in start estimates."""
    workloads: Many[WorkloadKind] = ("job",)
    """Kinds of workload that are installed."""
    sync_engine: Literal["flux", "argocd", "local"] = "flux"
    """What applies the region's branch."""
    receiver: Receiver | None = None
    """Where that hears of pushes; left out: from the region's agent, and by looking."""
    profile: Profile = Profile()
    """How what jobs ask for is done here."""
    overlay_allowed: Many[Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z.]{0,200}" + END)]] = ()
    """Pod fields that a job's `pod_overlay` may set here, such as `dnsPolicy` or `containers.resources`."""

    @model_validator(mode="after")
    def _drain_by_is_a_time(self) -> Self:
        if self.drain_by is not None:
            try:
                datetime.fromisoformat(self.drain_by)
            except ValueError:
                raise ValueError("`drain_by` is no time of the calendar") from None
        return self

    @property
    def drained_at(self) -> datetime | None:
        """By when it is to be empty; None where it is not being drained."""
        return None if self.drain_by is None else datetime.fromisoformat(self.drain_by)
