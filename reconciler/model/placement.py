"""placements/<team>/<job_id>.yaml: the decision in force for a job, and a person's word on it.

The hub writes the decision. A person may change `region` (override), set `pin` or `veto`, by a commit or a pull request; the
hub honours that or says why not in the job's record, and never writes over it to have its own way.
"""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from reconciler.model.base import Many, Model, Name
from reconciler.model.reasons import Reason


class Term(Model):
    """One weighted part of a score; value and weight in their own right, so that they can be checked."""

    name: str
    value: float
    weight: float


class CandidateView(Model):
    """A region that could take the job now, and how it was rated."""

    region: Name
    score: float
    terms: Many[Term]
    gpu_model: str | None = None
    start_at: datetime
    end_at: datetime | None = None
    """None where the run time is not known."""
    move_bytes: int | None = 0
    """Data to bring there; None where a size is not known."""
    price_usd: float | None = None


class DecisionView(Model):
    """Why there: what a reviewer reads."""

    reason: Reason
    chosen: CandidateView
    runners_up: Many[CandidateView] = ()
    """The next best, at most four."""
    refused: dict[str, Reason] = Field(default_factory=dict)
    """Regions that could not, one reason each; at most 20, the rest is counted."""
    refused_more: dict[str, int] = Field(default_factory=dict)
    """Counts by code of the regions beyond those."""
    strategy: str
    inputs: str
    """Digest of everything that the decision was made from."""


class Placement(Model):
    """A job's placement file."""

    schema_version: Literal[1] = 1
    team: Name
    job_id: str
    region: Name
    """Where it runs. Change it to move the job."""
    attempt: str
    """The attempt that was decided; a new attempt gets a new decision."""
    pin: Name | None = None
    """Set it to keep the job in this region for all attempts."""
    veto: Annotated[Many[str], Field(max_length=200)] = ()
    """Regions that this job must not use; `[all]` holds it."""
    decided_at: datetime
    decision: DecisionView
