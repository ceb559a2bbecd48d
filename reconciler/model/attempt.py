"""The life of an attempt: one table, `(state, event) → state`. docs/states.md is made from it.

Two rules for whoever edits this file. Everything that changes an attempt's state is in this table. And only an
observation or a commit of our own is an event: nothing happens because somebody expects it.
"""

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from reconciler.model.base import Many, Model
from reconciler.model.fleet import Dataset
from reconciler.model.job_parts import Code
from reconciler.model.progress import Progress
from reconciler.model.reasons import Reason
from reconciler.model.stage import Return, TransferEstimate


class State(StrEnum):
    """Where an attempt is."""

    PROPOSED = "Proposed"
    PLACED = "Placed"
    STAGING = "Staging"
    GRANTED = "Granted"
    RUNNING = "Running"
    STOPPING = "Stopping"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    STOPPED = "Stopped"


class Event(StrEnum):
    """What can happen to an attempt."""

    APPROVED = "approved"
    STAGING_BEGAN = "staging began"
    GRANT_RECORDED = "grant recorded"
    STARTED = "a pod was seen running"
    SUCCEEDED = "success was seen"
    FAILED = "failure was seen"
    WITHDRAWN = "grant withdrawn"
    STOPPED = "stop was proved"


class Outcome(StrEnum):
    """Why a stopped attempt was stopped."""

    PREEMPTED = "Preempted"
    MOVED = "Moved"
    CANCELLED = "Cancelled"
    SUSPENDED = "Suspended"
    REGION_LOST = "RegionLost"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    SUPERSEDED = "Superseded"
    START_TIMEOUT = "StartTimeout"
    DISRUPTED = "Disrupted"
    WITHDRAWN = "Withdrawn"


ENDED = frozenset({State.SUCCEEDED, State.FAILED, State.STOPPED})
"""Nothing of the attempt runs, and nothing ever will."""

MAY_RUN = frozenset({State.GRANTED, State.RUNNING})
"""States in which the grants list the attempt."""

HOLDS_GPUS = frozenset({State.PLACED, State.STAGING, State.GRANTED, State.RUNNING, State.STOPPING})
"""States whose GPUs cannot be given to another."""

RENDERED = frozenset({State.PLACED, State.STAGING, State.GRANTED, State.RUNNING, State.STOPPING})
"""States in which its manifest stands on the region's branch."""

_NEVER_GRANTED = (State.PROPOSED, State.PLACED, State.STAGING)

TABLE: dict[tuple[State, Event], State] = {
    (State.PROPOSED, Event.APPROVED): State.PLACED,
    (State.PLACED, Event.STAGING_BEGAN): State.STAGING,
    (State.PLACED, Event.GRANT_RECORDED): State.GRANTED,
    (State.STAGING, Event.GRANT_RECORDED): State.GRANTED,
    # Never granted, so nothing can have started: there is nothing to prove.
    **{(state, Event.WITHDRAWN): State.STOPPED for state in _NEVER_GRANTED},
    (State.GRANTED, Event.STARTED): State.RUNNING,
    # A short program starts and ends between two reports.
    (State.GRANTED, Event.SUCCEEDED): State.SUCCEEDED,
    (State.GRANTED, Event.FAILED): State.FAILED,
    (State.GRANTED, Event.WITHDRAWN): State.STOPPING,
    (State.GRANTED, Event.STOPPED): State.STOPPED,
    (State.RUNNING, Event.SUCCEEDED): State.SUCCEEDED,
    (State.RUNNING, Event.FAILED): State.FAILED,
    (State.RUNNING, Event.WITHDRAWN): State.STOPPING,
    (State.RUNNING, Event.STOPPED): State.STOPPED,
    # It may have ended well before the stop reached it; a program that ends otherwise after SIGTERM was stopped.
    (State.STOPPING, Event.SUCCEEDED): State.SUCCEEDED,
    (State.STOPPING, Event.STOPPED): State.STOPPED,
}


class Illegal(Exception):
    """An event that cannot happen in that state: a bug, never the user's fault."""


def after(state: State, event: Event) -> State:
    """The state that follows; Illegal where the table has none."""
    try:
        return TABLE[state, event]
    except KeyError:
        raise Illegal(f"{event.value!r} cannot happen in {state.value}") from None


def own_prefix(base: str, attempt: str) -> str:
    """The folder below a URI that one attempt alone writes: no two attempts can overwrite each other there."""
    scheme, _, path = base.partition("://")
    return f"{scheme}://{path.rstrip('/')}/{attempt}/"


class Needs(Model):
    """What each node (pod) of an attempt requests, read from the rendered pod."""

    gpus: int = Field(default=0, ge=0)
    cpu_milli: int = Field(default=0, ge=0)
    memory_bytes: int = Field(default=0, ge=0)
    disk_bytes: int = Field(default=0, ge=0)


class Inputs(Model):
    """What an attempt is made from beside its spec and image. The first of a run that may run settles it for those after it."""

    code: Code | None = None
    """As the spec says it. What a branch or a tag named at that moment is not known here: only a commit says it for ever."""
    datasets: Many[Dataset] = ()
    """Registered datasets that it reads, as they were declared then, without their descriptions."""


class Attempt(Model):
    """One numbered try in one region. Its name is its fence: never reused."""

    number: int = Field(ge=1)
    name: str
    region: str
    state: State
    run_hash: str
    """Of what it runs; a spec with another one makes a new attempt."""
    nodes: int = Field(ge=1)
    needs: Needs
    epoch: int = Field(default=0, ge=0)
    """Of its region's lease under which it may run, and under no other; 0 as long as the region was seen to have none."""
    gpu_model: str | None = None
    gpu_products: Many[str] = ()
    """How the region's nodes spell the GPU models that will do; empty for any."""
    dataset_uris: Many[str] = ()
    """Where it reads each of the job's datasets."""
    image: str | None = None
    """Its image with the digest that the name stood for, `registry/repository[:tag]@sha256:…`; None: as the spec names it."""
    inputs: Inputs | None = None
    """None of attempts that were decided before this was noted."""
    outputs: Many[str] = ()
    """The prefixes that are this attempt's alone, one for each of the job's outputs, in the spec's order."""
    returns: Many[Return] = ()
    """Those of them that its program writes elsewhere, from where they are returned once it has succeeded."""
    returned_at: datetime | None = None
    """Since when all of them are where they were asked for; None of an attempt that returns nothing, or has not yet."""
    stages: Many[str] = ()
    """Staging tasks, by their job ids, that must have succeeded before it may run."""
    bytes_per_second: int | None = None
    """Of a staging task: the bandwidth that it holds on its link."""
    progress: Progress | None = None
    """Of a staging task: how far it was last seen to have come, in steps of a tenth."""
    outcome: Outcome | None = None
    reason: Reason | None = None
    """Why it ended, or is being stopped."""
    counts_as_failure: bool = False
    """Whether it uses up one of the job's retries."""
    final: bool = False
    """Whether no other attempt may follow it in this run."""
    exit_code: int | None = None
    log_tail: str = ""
    checkpoint: str | None = None
    """The prefix that this attempt alone writes."""
    seeded_from: str | None = None
    """The prefix of the attempt whose newest complete checkpoint it goes on from."""
    price_usd: float | None = None
    """Estimated at the decision; None where a price is not known."""
    estimated_start_at: datetime | None = None
    """When it was to start, as estimated at the decision; of one that had to be approved, when it was let go."""
    estimated_end_at: datetime | None = None
    """When it was to end, as estimated then; None where nobody said how long it runs: a limit is no estimate."""
    estimated_transfer: TransferEstimate | None = None
    """Of a staging task's first attempt in a run: what bringing the data was believed to take."""
    approved_by: Many[str] = ()
    """Who approved its placement and who merged it, as the forge names them; empty where no forge was asked."""
    approved_in: int | None = None
    """Number of the pull request in which they did."""
    decided_at: datetime
    placed_at: datetime | None = None
    granted_at: datetime | None = None
    started_at: datetime | None = None
    stopping_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def ended(self) -> bool:
        """Whether nothing of it runs or ever will."""
        return self.state in ENDED

    @property
    def is_unreturned(self) -> bool:
        """Whether it has succeeded, and its outputs are not all where they were asked for."""
        return self.state is State.SUCCEEDED and bool(self.returns) and self.returned_at is None

    @property
    def total_gpus(self) -> int:
        """GPUs of all its nodes."""
        return self.nodes * self.needs.gpus

    def moved(self, event: Event, now: datetime, **changes: object) -> "Attempt":
        """This attempt after `event`, with the time of the new state noted. Raises Illegal."""
        state = after(self.state, event)
        stamp = _STAMPS.get(state)
        times = {stamp: now} if stamp is not None and getattr(self, stamp) is None else {}
        return self.model_copy(update={"state": state, **times, **changes})


_STAMPS = {
    State.PLACED: "placed_at",
    State.GRANTED: "granted_at",
    State.RUNNING: "started_at",
    State.STOPPING: "stopping_at",
    State.SUCCEEDED: "ended_at",
    State.FAILED: "ended_at",
    State.STOPPED: "ended_at",
}
