"""Where the result of a job is: one object a job in the hub's store, for whoever works on with it and does not read Git."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from reconciler.model.base import Many, Model, Name
from reconciler.model.names import JobKey

RESULTS = "results/"


def result_key(job: JobKey) -> str:
    """Key of a job's result pointer."""
    return f"{RESULTS}{job.team}/{job.job_id}.json"


class ResultPointer(Model):
    """The attempt whose outputs are the job's result. Replaced only by one of a higher number, so by the success of a new run."""

    schema_version: Literal[1] = 1
    team: Name
    job_id: str
    attempt: str
    number: int = Field(ge=1)
    region: Name
    outputs: Many[str] = ()
    """Prefixes that this attempt alone wrote, one for each of the job's outputs, in the spec's order."""
    checkpoint: str | None = None
    """The prefix of its checkpoints."""
    succeeded_at: datetime
