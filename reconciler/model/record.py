"""The ledger: one record a job on the status branch. What the hub must not forget of a job is in its record, nowhere else."""

from datetime import datetime
from enum import StrEnum
from typing import Literal

from pydantic import Field

from reconciler.model.attempt import ENDED, Attempt
from reconciler.model.base import Many, Model, Name
from reconciler.model.job import JobSpec
from reconciler.model.names import JobKey
from reconciler.model.reasons import Reason
from reconciler.model.stage import StageTask


class Phase(StrEnum):
    """A job in one word, derived from its attempts and its spec."""

    PENDING = "Pending"
    IMPOSSIBLE = "Impossible"
    PROPOSED = "Proposed"
    HELD = "Held"
    SUSPENDED = "Suspended"
    STARTING = "Starting"
    RUNNING = "Running"
    STOPPING = "Stopping"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    CANCELLED = "Cancelled"


REACHABLE = "RegionReachable"
"""The type of the condition that says that the region of a job's attempt is not heard of."""

RELEASE_HONOURED = "ReleaseHonoured"
"""The type of the condition that says that the spec's `release` names an attempt that there was not when it was read."""

FINISHED = frozenset({Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED})


class Condition(Model):
    """Something that holds of a job, since when and why."""

    type: str
    """SpecAccepted, PlacementHonoured, RunsWhatItSays, RegionReachable or ReleaseHonoured."""
    status: Literal["True", "False"]
    reason: Reason | None = None
    message: str = ""
    """Words that no reason code has, such as `file:line:col` problems."""
    since: datetime


class Source(Model):
    """Which bytes of main the record's spec came from."""

    path: str
    blob: str
    """Object id of the file; the spec in force is that file's, parsed and defaulted."""


class PlacementSeen(Model):
    """The placement file as it was last read or written, so that a person's edit is told from the hub's own."""

    blob: str | None
    pin: str | None = None
    veto: Many[str] = ()
    approved: str | None = None
    """The region that a person chose, by merging a proposal or by an edit: the next attempt goes there, and uses it up."""
    agreed: str | None = None
    """The region that a person chose before: another attempt may be placed there without asking again."""
    run_hash: str | None = None
    """Of the spec that a person chose it for."""
    declined: str | None = None
    """Run hash of the spec whose proposal a person deleted."""


class JobRecord(Model):
    """A job: its spec in force and its attempts."""

    schema_version: Literal[1] = 1
    team: Name
    job_id: str
    phase: Phase
    why: Reason | None = None
    """The one sentence that explains the phase."""
    waits: dict[str, Reason] = Field(default_factory=dict)
    """Why each region does not run it at present, while it waits; at most 20 regions, the rest is counted."""
    waits_more: dict[str, int] = Field(default_factory=dict)
    """Counts by code of the regions beyond those."""
    spec: JobSpec
    source: Source | None
    """None once the file is gone from main."""
    run_hash: str
    rerun: int = 0
    """The spec's `rerun` that has been honoured."""
    first_attempt: int = 1
    """Number of the first attempt of the present run; retries and limits count from there."""
    submitted_at: datetime
    """When this run was first seen; its age in the queue."""
    cancelled: bool = False
    stage: StageTask | None = None
    """What it brings where, of the hub's own jobs; None of people's."""
    placement: PlacementSeen = PlacementSeen(blob=None)
    conditions: Many[Condition] = ()
    attempts: Many[Attempt] = ()

    @property
    def key(self) -> JobKey:
        """Its identity."""
        return JobKey(self.team, self.job_id)

    @property
    def current(self) -> Attempt | None:
        """The attempt that has not ended; a job has at most one."""
        last = self.attempts[-1] if self.attempts else None
        return last if last is not None and last.state not in ENDED else None

    @property
    def last(self) -> Attempt | None:
        """The newest attempt, ended or not."""
        return self.attempts[-1] if self.attempts else None

    @property
    def this_run(self) -> tuple[Attempt, ...]:
        """Attempts of the present run (since the last rerun)."""
        return tuple(attempt for attempt in self.attempts if attempt.number >= self.first_attempt)

    @property
    def live(self) -> bool:
        """Whether it still has something to do."""
        return self.phase not in FINISHED
