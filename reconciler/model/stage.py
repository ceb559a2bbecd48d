"""A staging task: what is brought to a region before a job's GPUs are held, or returned when it is done. In the ledger it is a
job of the hub's own."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from reconciler.model.base import Many, Model, Name, Uri


class StageTask(Model):
    """One copy of one version of a dataset, in one region, for all jobs there that want it; or of what one attempt wrote."""

    kind: Literal["dataset", "evict", "results"] = "dataset"
    """Bring a dataset; remove what was brought; return an output."""
    subject: str
    """Of what it is a copy: `<dataset>@<version>`, `<attempt>@output-<number>`."""
    region: Name
    """Where it is brought, and where its worker runs."""
    source_region: Name
    source_uri: Uri
    target_uri: Uri
    size_bytes: int | None = Field(default=None, ge=0)
    """As declared; None where nobody has said."""
    ahead_for: Many[str] = ()
    """Jobs, as `<team>/<job_id>`, for which it was begun before any of them had a place; empty of all other tasks."""
    price_usd: float | None = Field(default=None, ge=0)
    """Of the transfer, as estimated; None where the link's price is not known."""
    estimated_seconds: float | None = Field(default=None, ge=0)
    """Until all of it is there, as believed when it was decided, behind or beside what the link carried then; None: not noted."""
    estimated_bytes_per_second: int | None = Field(default=None, ge=0)
    """What our transfers together were believed to get of the link then."""


class Return(Model):
    """An output that an attempt writes to its own region's store, and that a task returns to where it is asked for."""

    output: int = Field(ge=0)
    """Which of the job's, from 0."""
    written_uri: Uri
    """Where the program writes it."""
    region: Name
    """In whose store it is asked for."""


class TransferEstimate(Model):
    """What a transfer was believed to take, kept beside what it took."""

    at: datetime
    """From when the seconds count: when the task's present run began."""
    source_region: Name
    seconds: float = Field(ge=0)
    """Until all of it is there, behind or beside what else the link carried."""
    bytes_per_second: int = Field(ge=0)
    """What our transfers together would get of the link."""
    size_bytes: int | None = Field(default=None, ge=0)
    """As declared."""
