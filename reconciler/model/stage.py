"""A staging task: what is brought to a region before a job's GPUs are held. In the ledger it is a job of the hub's own."""

from typing import Literal

from pydantic import Field

from reconciler.model.base import Many, Model, Name, Uri


class StageTask(Model):
    """One copy of one version of a dataset, in one region, for all jobs there that want it."""

    kind: Literal["dataset", "evict"] = "dataset"
    """Bring it; or remove what was brought."""
    subject: str
    """Of what it is a copy: `<dataset>@<version>`."""
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
