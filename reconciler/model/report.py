"""What a region says of itself, written by its agent to `regions/<r>/report.json`.

A report is whole or worthless: one object, one schema version; a half one is refused and the last good one ages.
`used` counts what pods hold that are bound and not in a terminal phase; `releasing` is the part of it whose pods are
being deleted, `reclaimable` the part that Kubernetes would evict for a normal pod (priority below zero).
"""

from datetime import datetime
from typing import Literal

from pydantic import Field

from reconciler.model.base import Many, Model, Name
from reconciler.model.progress import Progress

Phase = Literal["Pending", "Running", "Succeeded", "Failed", "Unknown"]


class Amounts(Model):
    """GPUs, CPU (thousandths of a core), memory and disk (bytes), pod slots."""

    gpus: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0
    disk_bytes: int = 0
    pods: int = 0


class NodeReport(Model):
    """One node. Sick GPUs are in `capacity_gpus` but not in `allocatable`."""

    name: str
    gpu_model: str | None = None
    """In the normalised form of model/gpu.py; None without GPUs."""
    gpu_product: str | None = None
    """As the node's label spells it."""
    vram_bytes: int | None = None
    vram_free_bytes: int | None = None
    """Of all its cards together, as they say themselves; None where nothing measures it."""
    gpu_busy: float | None = None
    """Mean share of time that its cards work, 0 to 1; None where nothing measures it."""
    driver: str | None = None
    capacity_gpus: int = 0
    allocatable: Amounts = Amounts()
    used: Amounts = Amounts()
    releasing_gpus: int = 0
    reclaimable_gpus: int = 0
    unavailable: str | None = None
    """Why nothing can be scheduled here (Cordoned, NotReady, a taint); None where it can."""
    taints: Many[str] = ()
    """Keys of its NoSchedule and NoExecute taints, for jobs that tolerate them."""
    rdma: bool = False
    zone: str | None = None
    rack: str | None = None


class PodReport(Model):
    """One pod of one of our attempts."""

    name: str
    index: int | None = None
    node: str | None = None
    phase: Phase
    gated: bool = False
    terminating: bool = False
    waiting: str | None = None
    """Why it does not start, in the kubelet's or the scheduler's words (`ImagePullBackOff: …`, `Unschedulable: …`)."""
    exit_code: int | None = None
    signal: int | None = None
    reason: str | None = None
    message: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None


WorkloadState = Literal["Absent", "Held", "Released", "Ended"]


class WorkloadReport(Model):
    """One attempt as its region sees it.

    `state`: Absent – granted or recorded here, but there is no object; Held – not released; Released – released and not
    ended; Ended – it will run nothing any more. `stopped` is said under rule 5 of the protocol only: no release request is
    outstanding, and a read of the API server showed every pod terminal, gone or gated.
    """

    attempt: str
    namespace: str
    uid: str | None = None
    state: WorkloadState
    stopped: bool
    succeeded: bool = False
    """Every index has a pod that was seen with exit code 0."""
    failed: str | None = None
    """The workload's own word that it failed (BackoffLimitExceeded, DeadlineExceeded, …).

    `Deadman`: Kubernetes ended it before its run time was used up, for its agent did not put that off. `Fenced`: its agent ended
    it though it was granted, for the region's lease had run out.
    """
    replaced: bool = False
    """The object is not the one that was released; it waits for the hub."""
    left_over: bool = False
    """The sync engine's branch does not have it any more."""
    waiting: str | None = None
    """Why it gets no pods though it was released, in the words of who refuses them (`FailedCreate: … exceeded quota …`)."""
    pods: Many[PodReport] = ()
    started_at: datetime | None = None
    ended_at: datetime | None = None
    log_tail: str = ""
    """The last bytes that a failed program wrote, 4 KB at most."""
    progress: Progress | None = None
    """Of a staging task: how far it has come."""


class RegionSummary(Model):
    """The summary form, for dashboards and other readers."""

    cluster_id: Name
    gpu_nodes: int
    gpu_busy: int
    gpu_free: int
    gpu_models: Many[str]
    queued_jobs: int
    avg_cpu_usage: float | None
    """Requested share of allocatable CPU, 0 to 1; None where there is none."""
    avg_gpu_usage: float | None
    last_heartbeat: datetime


class Health(Model):
    """One thing that is not as it should be."""

    code: str
    message: str


class LinkProbe(Model):
    """What one directed link was last measured to do, by the agent at one of its ends."""

    source: Name
    target: Name
    bytes_per_second: float | None = None
    """Decayed median of its transfers; None where none has come to its end yet."""
    newest_bytes_per_second: float | None = None
    """Of the newest transfer."""
    samples: int = Field(default=0, ge=0)
    """Transfers behind the median."""
    rtt_ms: float | None = None
    """The kernel's smoothed round-trip time of the transfer's own connection, ..."""
    rtt_var_ms: float | None = None
    """... its variance ..."""
    retransmitted: float | None = None
    """... and the share of segments sent again, 0 to 1."""
    age_seconds: float | None = Field(default=None, ge=0)
    """Since the newest transfer ended, by the agent's monotonic clock, when the report was made."""
    problem: str = ""
    """Why the last try failed; '' where it did not."""


class CacheReport(Model):
    """A staged copy in the region's store, as it was found there."""

    subject: str
    """Of what: `<dataset>@<version>`."""
    uri: str
    objects: int = Field(ge=0)
    """Found, ..."""
    objects_total: int = Field(ge=0)
    """... of so many that its marker names."""
    size_bytes: int = Field(ge=0)
    size_bytes_total: int = Field(ge=0)


class CacheListing(Model):
    """The listing by which the copies were found."""

    url: str
    """Of the store, as the hub had told it."""
    age_seconds: float = Field(ge=0)
    """Since it was begun, by the agent's monotonic clock, when the report was made."""
    left_out: int = Field(default=0, ge=0)
    """Copies that are not told, for there are too many."""


class RegionReport(Model):
    """All that a region says."""

    schema_version: Literal[1] = 1
    region: Name
    incarnation: str
    """Differs for each start of the agent."""
    sequence: int
    """Rises with every report of this incarnation."""
    sent_at: datetime
    """The agent's clock; shown, never used to decide."""
    grants_version: int
    """The last version of the grants that the agent has acted upon; 0 for none."""
    lease_epoch: int
    summary: RegionSummary
    nodes: Many[NodeReport]
    workloads: Many[WorkloadReport]
    namespaces: Many[str]
    workload_kinds: Many[str]
    synced_commit: str | None = None
    sync_errors: dict[str, str] = Field(default_factory=dict)
    foreign_pods: int = 0
    """Running pods that are not ours."""
    probes: Many[LinkProbe] = ()
    """Links of this region, either way."""
    caches: Many[CacheReport] | None = None
    """Staged copies in its store; None where nobody has looked, or could."""
    caches_listed: CacheListing | None = None
    """How they were found; None where they were not."""
    health: Many[Health] = ()
