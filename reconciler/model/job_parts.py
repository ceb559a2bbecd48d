"""What a job spec is made of: its GPUs, data, volumes, files, secrets, steps."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from reconciler.model.base import END, EnvName, Image, Many, Model, MountPath, Name, Quantity, Uri

CommunicationMode = Literal["sync", "async", "none"]
PriorityClass = Literal["critical", "high", "normal", "low", "idle"]
Launcher = Literal["none", "torchrun"]
Network = Literal["none", "tcp", "rdma"]
ExitAction = Literal["retry", "reschedule", "fail", "succeed"]
Strategy = Literal["balanced", "cost", "utilisation", "data-affinity", "soonest"]
WorkloadKind = Literal["job", "jobset"]

GpuModelName = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._/-]{0,62}" + END),
    Field(description="A GPU model, with or without its VRAM", examples=["A100-80GB", "H100", "NVIDIA-L4"]),
]
Argument = Annotated[str, Field(max_length=65536)]


class Gpu(Model):
    """GPUs of each node of the job."""

    count: int = Field(ge=0, le=1024)
    """GPUs per node (per pod); 0 for a job that needs none."""
    model: GpuModelName | Annotated[Many[GpuModelName], Field(min_length=1, max_length=16)] | None = None
    """One model, or several in order of preference; left out: any."""
    memory: Quantity | None = None
    """VRAM that each GPU must have at least, such as `40Gi`."""
    driver: Annotated[str, StringConstraints(pattern=r"^[0-9.,<>=!~ ]{1,64}" + END)] | None = Field(
        default=None, examples=[">=550", ">=550,<570"]
    )
    """Driver versions that will do, as a version specifier."""

    @property
    def models(self) -> tuple[str, ...]:
        """The wanted models in order of preference; empty for any."""
        if self.model is None:
            return ()
        return (self.model,) if isinstance(self.model, str) else self.model


class Resources(Model):
    """What each node of the job needs beside GPUs; left out: what the region gives per GPU."""

    cpu: Quantity | None = None
    """Cores, such as `8` or `500m`."""
    memory: Quantity | None = None
    """RAM, shared memory included."""
    ephemeral_storage: Quantity | None = None
    """Local disk."""


class DatasetUse(Model):
    """A dataset that the job reads. `name` refers to a file under datasets/; else `uri` says where it is."""

    name: Name | None = None
    """A dataset of the registry (datasets/<name>.yaml)."""
    uri: Uri | None = None
    """Where it is, when it is not in the registry, or to check against it."""
    version: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}" + END)] | None = None
    """The version to read; left out: what the registry says when the run's first attempt may run. Kept for all its attempts."""
    mount_path: MountPath | None = None
    """Where the program finds it; its URI is in DATASET_URI either way."""
    size: Quantity | None = None
    """Its size, such as `120Gi`."""
    size_gb: Annotated[float, Field(ge=0, le=1e9)] | None = None
    """Its size in GB (10^9 bytes)."""

    @model_validator(mode="after")
    def _named(self) -> Self:
        if self.name is None and self.uri is None:
            raise ValueError("a dataset needs a `name` (of a file under datasets/) or a `uri`")
        if self.size is not None and self.size_gb is not None:
            raise ValueError("give `size` or `size_gb`, not both")
        return self


class Output(Model):
    """A folder of results. The program writes them to OUTPUT_URI by itself; nothing is copied from the pod."""

    path: MountPath
    """An empty folder on the node's disk, for what the program puts together before it writes it to OUTPUT_URI. It goes with the
    attempt."""
    uri: Uri
    """Where results are: each attempt writes to its own folder below it, whose address it finds in OUTPUT_URI."""


class Volume(Model):
    """A folder beside the program's own."""

    kind: Literal["scratch", "shared", "claim"]
    """`scratch`: the node's disk, gone with the attempt; `shared`: the region's shared file system; `claim`: a named claim."""
    mount_path: MountPath
    size: Quantity | None = None
    """At most this much; for `scratch` it is set aside on the node."""
    name: Name | None = None
    """The claim's name, for `kind: claim`."""

    @model_validator(mode="after")
    def _claimed(self) -> Self:
        if (self.kind == "claim") != (self.name is not None):
            raise ValueError("`name` goes with `kind: claim`, and only with it")
        return self


class File(Model):
    """A small file, put into the container as it is."""

    path: MountPath
    content: Annotated[str, Field(max_length=65536)]
    """The file's text."""


class SecretUse(Model):
    """A secret by reference; its value is in the region and never in Git."""

    name: Name
    """The secret's name; the region's profile says what it is called there."""
    key: Annotated[str, StringConstraints(pattern=r"^(?!\.{1,2}$)(?!\.\.)[A-Za-z0-9._-]{1,253}" + END)] | None = None
    """Which of its keys; left out: the name of `env`, or all keys as files."""
    env: EnvName | None = None
    """The variable that receives it."""
    mount_path: MountPath | None = None
    """The folder where its keys stand as files."""

    @model_validator(mode="after")
    def _used(self) -> Self:
        if (self.env is None) == (self.mount_path is None):
            raise ValueError("say where the secret goes: `env` or `mount_path`, one of them")
        return self


class Code(Model):
    """Where the program's source came from; recorded with every attempt."""

    git: Annotated[str, StringConstraints(pattern=r"^(https|ssh)://[^\s]{1,1000}" + END)]
    """The repository's URL, without credentials."""
    ref: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,200}" + END)]
    """A commit, a tag or a branch; only a commit says for ever what ran."""


class Prepare(Model):
    """A step before the program: it runs once per attempt, on the first node, before that node's program starts."""

    image: Image | None = None
    """Left out: the job's image."""
    command: Annotated[Many[Argument], Field(min_length=1, max_length=256)]
    """What the step runs."""


JsonObject = dict[str, Any]
