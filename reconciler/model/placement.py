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
    """What is rated."""
    value: float
    """Between 0 and 1; 1 is best."""
    weight: float
    """How much it counts."""


class CandidateView(Model):
    """A region that could take the job now, and how it was rated."""

    region: Name
    score: float
    """The sum of weight × value."""
    terms: Many[Term]
    """What the score is made of."""
    gpu_model: str | None = None
    """The GPUs that it would get."""
    start_at: datetime
    """When it could start."""
    end_at: datetime | None = None
    """None where the run time is not known."""
    move_bytes: int | None = 0
    """Data to bring there; None where a size is not known."""
    price_usd: float | None = None
    """Of the whole run, in US dollars; left out: not known."""


class DecisionView(Model):
    """Why there: what a reviewer reads."""

    reason: Reason
    """The one sentence behind it."""
    chosen: CandidateView
    """The region that was chosen, and how it was rated."""
    runners_up: Many[CandidateView] = ()
    """The next best, at most four."""
    refused: dict[str, Reason] = Field(default_factory=dict)
    """Regions that could not, one reason each; at most 20, the rest is counted."""
    refused_more: dict[str, int] = Field(default_factory=dict)
    """Counts by code of the regions beyond those."""
    strategy: str
    """By which weights."""
    inputs: str
    """Digest of everything that the decision was made from."""


class Placement(Model):
    """A job's placement file."""

    schema_version: Literal[1] = 1
    team: Name
    job_id: str
    """The job's identity within its team."""
    region: Name
    """Where it runs. Change it to move the job."""
    attempt: str
    """The attempt that was decided; a new attempt gets a new decision."""
    pin: Name | None = None
    """Set it to keep the job in this region for all attempts."""
    veto: Annotated[Many[str], Field(max_length=200)] = ()
    """Regions that this job must not use; `[all]` holds it."""
    decided_at: datetime
    """When, in UTC."""
    decision: DecisionView

    """Why there."""
