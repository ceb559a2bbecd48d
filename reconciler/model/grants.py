"""Who may run: the objects that hub and agents exchange in the store. Every write is a compare-and-swap."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from reconciler.model.base import Many, Model, Name

HUB_LEASE_KEY = "hub/lease.json"
LEDGER_MARK_KEY = "hub/ledger.json"
HUB_STORE_KEY = "hub/store.json"
HUB_TROUBLE_KEY = "hub/trouble.json"


def report_key(region: str) -> str:
    """Key of a region's report."""
    return f"regions/{region}/report.json"


def lease_key(region: str) -> str:
    """Key of a region's lease."""
    return f"regions/{region}/lease.json"


def grants_key(region: str) -> str:
    """Key of a region's grants."""
    return f"regions/{region}/grants.json"


class Lease(Model):
    """A region's time-limited right to run anything of ours. Its agent renews it, the hub revokes it; both by ETag.

    Times are not in it: each side counts by its own monotonic clock, the agent from when it sent a renewal, the hub
    from when it first saw the present ETag.
    """

    schema_version: Literal[1] = 1
    region: Name
    epoch: int = Field(ge=1)
    """Grows at each revocation; grants of another epoch mean nothing."""
    incarnation: str
    renewal: int = Field(ge=0)
    """Rises with every renewal, so that no two bodies are alike."""
    revoked: bool = False
    self_fence_seconds: float = Field(default=240.0, gt=0)
    """After a renewal its agent lets ours run for so long, and ..."""
    fence_kill_seconds: float = Field(default=30.0, ge=0)
    """... then stops it within so long. These are its holder's own: whoever revokes waits for as long as they say."""


class Grant(Model):
    """The hub's word that one attempt may run."""

    attempt: str
    team: Name
    job_id: str
    nodes: int = Field(ge=1)
    epoch: int = Field(default=0, ge=0)
    """Of the lease under which the attempt was placed: it runs under no other, so a lease of a higher one proves its end."""
    run_seconds: int | None = None
    """Run time that is left to it in all; None for no limit."""
    bytes_per_second: int | None = Field(default=None, ge=0)
    """Of a staging task: the bandwidth that it holds on its link at present. It may change while the task runs."""


class Grants(Model):
    """All that may run in a region at present. What is not listed is stopped."""

    schema_version: Literal[1] = 1
    region: Name
    term: int = Field(ge=1)
    """Of the hub that wrote it; a new leader writes every region's grants anew under its own."""
    version: int = Field(ge=1)
    """Rises with every write."""
    epoch: int = Field(ge=0)
    """Of the lease that it is bound to; 0 where the hub has seen none yet, and then nothing may run."""
    commit: str | None = None
    """The region branch's commit, so that the agent can nudge its sync engine."""
    attempts: Many[Grant] = ()
    forget: Many[str] = ()
    """Attempts whose left-over or replaced objects the agent is to delete."""


class LedgerMark(Model):
    """How far the status branch was seen to have come: one that does not contain this commit was set back by somebody."""

    schema_version: Literal[1] = 1
    commit: str


class StoreIdentity(Model):
    """Which store this is, among all that a ledger could be used with. Made once, by the first hub."""

    schema_version: Literal[1] = 1
    id: str = Field(min_length=1)


class HubTrouble(Model):
    """Why the hub's cycles fail at present; `what` is empty where they do not."""

    schema_version: Literal[1] = 1
    holder: str
    what: str
    since: datetime


class HubLease(Model):
    """Which hub is the leader. Taken over when its ETag has not changed for `duration_seconds` of the observer's clock."""

    schema_version: Literal[1] = 1
    holder: str
    term: int = Field(ge=1)
    renewal: int = Field(ge=0)
    duration_seconds: float = Field(gt=0)
