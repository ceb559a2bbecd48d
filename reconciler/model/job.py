"""The job spec: what a person commits. Intent stands here; how a region does it stands in the region's profile.

`gpu.count` is per node, as every launcher counts. Only `job_id`, `gpu` and `image` must be given.
"""

from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from reconciler.model.base import (
    END,
    EnvName,
    Image,
    JobId,
    LabelKey,
    LabelValue,
    Line,
    Many,
    Model,
    MountPath,
    Name,
    Quantity,
    Seconds,
    Text,
    Uri,
)
from reconciler.model.job_parts import (
    Argument,
    Code,
    CommunicationMode,
    DatasetUse,
    ExitAction,
    File,
    Gpu,
    JsonObject,
    Launcher,
    Network,
    Output,
    Prepare,
    PriorityClass,
    Resources,
    SecretUse,
    Strategy,
    Volume,
    WorkloadKind,
)


class JobSpec(Model):
    """A job: a program, what it needs and where it may run."""

    job_id: JobId
    """The job's identity within its team; renaming the file changes nothing, changing this makes another job."""
    task_type: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,62}" + END)] = "training"
    """What kind of work it is, for people and reports."""
    communication_mode: CommunicationMode = "sync"
    """`sync`: all nodes in one region, all or none; `async`: may lag; `none`: independent pieces."""
    nodes: int = Field(default=1, ge=1, le=4096)
    """Nodes (pods) of the job."""
    gpu: Gpu
    """GPUs of each node."""
    resources: Resources = Resources()
    """CPU, memory and disk of each node."""
    workload: WorkloadKind = "job"
    """The kind of Kubernetes object it becomes."""
    image: Image
    """The container image."""
    command: Annotated[Many[Argument], Field(max_length=256)] = ()
    """The program, in place of the image's own."""
    args: Annotated[Many[Argument], Field(max_length=4096)] = ()
    """Its arguments."""
    env: dict[EnvName, Annotated[str, Field(max_length=32768)]] = Field(default_factory=dict, max_length=512)
    """Environment variables; values are strings, so quote numbers."""
    working_dir: MountPath | None = None
    """Where the program starts; left out: as the image says."""
    launcher: Launcher = "none"
    """`torchrun` starts `args` by torchrun on every node, with MASTER_ADDR, NNODES, NODE_RANK; `none` runs `command` as it is."""
    code: Code | None = None
    """Where the program's source came from."""
    dataset: Uri | DatasetUse | Annotated[Many[Uri | DatasetUse], Field(min_length=1, max_length=32)] | None = None
    """What it reads: a URI, a dataset, or a list of them."""
    outputs: Annotated[Many[Output], Field(max_length=32)] = ()
    """Folders of results, and where they go."""
    volumes: Annotated[Many[Volume], Field(max_length=32)] = ()
    """Folders beside the program's own."""
    shm: Quantity | None = None
    """Size of /dev/shm; left out: 64Gi when there is more than one GPU or node, counted in memory."""
    files: Annotated[Many[File], Field(max_length=64)] = ()
    """Small files, put into the container as they are."""
    secrets: Annotated[Many[SecretUse], Field(max_length=64)] = ()
    """Secrets by reference; values never stand in Git."""
    prepare: Prepare | None = None
    """A step before the program."""
    network: Network | None = None
    """`rdma` must be had; left out: tcp, and RDMA preferred when `sync` on several nodes."""
    checkpoint_path: Uri | None = None
    """Where checkpoints go, in `s3://` or `file://`. Each attempt has a folder of its own in it (CHECKPOINT_PATH), seeded with
    the last complete one."""
    priority: PriorityClass | Annotated[int, Field(ge=0, le=1000)] = "normal"
    """A class, or a number from 0 to 1000 (idle 0, low 25, normal 50, high 75, critical 90)."""
    queue: Name | None = None
    """A queue that the region's profile knows."""
    strategy: Strategy | None = None
    """How to weigh regions for this job; left out: as the policy says."""
    allowed_regions: Annotated[Many[Name], Field(min_length=1, max_length=200)] | None = None
    """Only these regions."""
    denied_regions: Annotated[Many[Name], Field(max_length=200)] = ()
    """None of these regions."""
    compliance: Annotated[Many[Name], Field(max_length=32)] = ()
    """Tags that the region must carry."""
    tolerations: Annotated[Many[Name], Field(max_length=32)] = ()
    """Kinds of tainted nodes that will do, by the names in the region's profile (such as `spot`)."""
    preemptible: bool = True
    """Whether it may be stopped, with time to save a checkpoint, for more urgent work."""
    retries: int = Field(default=0, ge=0, le=100)
    """New attempts after failures of the program; disruptions never count."""
    on_exit: dict[
        Annotated[str, StringConstraints(pattern=r"^([1-9]|[1-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5])" + END)],
        ExitAction,
    ] = Field(default_factory=dict, max_length=64)
    """What an exit code means: retry (counts), reschedule (does not count), fail (at once), succeed."""
    on_region_lost: Literal["rerun", "wait", "hold"] = "rerun"
    """When its region is given up as lost: start elsewhere from the last checkpoint; wait for that region to come back; or
    hold it for a person, for work that must not be done twice. `reconciler release` ends the waiting and the holding."""
    release: int = Field(default=0, ge=0, le=1_000_000)
    """Number of the attempt after which a person lets it go on; written by `reconciler release`."""
    start_timeout_seconds: Seconds | None = None
    """Seconds from the grant to the program's first line, image pull included; left out: as the policy says."""
    grace_seconds: int = Field(default=30, ge=0, le=7200)
    """Seconds to save a checkpoint between SIGTERM and SIGKILL."""
    max_runtime_seconds: Seconds | None = None
    """Run time over all attempts together; waiting does not count."""
    expected_runtime_seconds: Seconds | None = None
    """A guess of the run time, for the plan; left out: `max_runtime_seconds`."""
    deadline: Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ" + END)] | None = Field(
        default=None, examples=["2026-05-01T12:00:00Z"]
    )
    """When it should be done, in UTC; quote it."""
    suspend: bool = False
    """`true` stops it, with its checkpoint kept; `false` goes on as a new attempt."""
    rerun: int = Field(default=0, ge=0, le=1_000_000)
    """Raise it to run a job again that has ended."""
    owner: Line | None = None
    """Whom to ask."""
    description: Text | None = None
    """For people."""
    labels: dict[LabelKey, LabelValue] = Field(default_factory=dict, max_length=32)
    """Labels for its objects."""
    pod_overlay: JsonObject = Field(default_factory=dict)
    """A partial pod template, merged last; refused unless the policy allows it."""

    @model_validator(mode="after")
    def _deadline_is_a_time(self) -> Self:
        if self.deadline is not None:
            try:
                datetime.fromisoformat(self.deadline)
            except ValueError:
                raise ValueError("`deadline` is no time of the calendar") from None
        return self

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.launcher == "torchrun" and not self.args:
            raise ValueError("`launcher: torchrun` needs `args`: the script and its arguments")
        if self.launcher == "torchrun" and self.command:
            raise ValueError("`launcher: torchrun` makes the command itself; put the script into `args`")
        mounts = [item.mount_path for item in self.datasets if item.mount_path]
        mounts += [item.mount_path for item in self.secrets if item.mount_path]
        mounts += (
            [item.mount_path for item in self.volumes] + [item.path for item in self.files] + [item.path for item in self.outputs]
        )
        twice = sorted({mount for mount in mounts if mounts.count(mount) > 1})
        if twice:
            raise ValueError(f"`{twice[0]}` is mounted twice")
        variables = [secret.env for secret in self.secrets if secret.env]
        clash = sorted({name for name in variables if variables.count(name) > 1 or name in self.env})
        if clash:
            raise ValueError(f"the variable `{clash[0]}` is set twice")
        return self

    @property
    def datasets(self) -> tuple[DatasetUse, ...]:
        """What it reads, in one form."""
        if self.dataset is None:
            return ()
        several = self.dataset if isinstance(self.dataset, tuple) else (self.dataset,)
        return tuple(DatasetUse(uri=item) if isinstance(item, str) else item for item in several)

    @property
    def priority_value(self) -> int:
        """The priority as a number, 0 to 1000."""
        return PRIORITIES[self.priority] if isinstance(self.priority, str) else self.priority

    @property
    def total_gpus(self) -> int:
        """GPUs of all nodes together."""
        return self.nodes * self.gpu.count


PRIORITIES: dict[str, int] = {"idle": 0, "low": 25, "normal": 50, "high": 75, "critical": 90}
