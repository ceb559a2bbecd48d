"""What staging tasks are called, and where what they bring stands. Pure."""

import re
from collections.abc import Iterator
from typing import Literal

from reconciler.model.attempt import Attempt
from reconciler.model.names import STAGING_TEAM, JobKey, digest
from reconciler.model.record import JobRecord
from reconciler.model.region import Region
from reconciler.model.stage import Return, StageTask
from reconciler.model.staged import STAGED


def key_of(task: StageTask) -> JobKey:
    """The task's identity: its subject and its region."""
    return _key_for(task.region, task.subject, task.kind if task.kind in ("results", "checkpoint") else "dataset")


def _key_for(region: str, subject: str, kind: Literal["dataset", "results", "checkpoint"]) -> JobKey:
    """The hash keeps apart what is cut off or cannot stand in a name; and an attempt from a dataset that is called like it."""
    name = subject.partition("@")[0].rpartition("/")[2]
    readable = re.sub(r"[^a-z0-9-]+", "-", name)[:40].rstrip("-")
    named = [region, subject] if kind == "dataset" else [region, subject, kind]
    return JobKey(STAGING_TEAM, f"{readable}-{digest(named)[:10]}")


def subject_of_checkpoint(attempt: str) -> str:
    """What a checkpoint's task is of: the attempt that goes on from it."""
    return f"{attempt}@checkpoint"


def checkpoint_key(attempt: str, region: str) -> JobKey:
    """The task that copies what an attempt goes on from, in the region's store."""
    return _key_for(region, subject_of_checkpoint(attempt), "checkpoint")


def staged_uri(region: Region, subject: str) -> str | None:
    """Where a copy of a subject stands in the region's store; None where it has no store."""
    return None if region.object_store is None else uri_in(region.object_store.url, subject)


def uri_in(store: str, subject: str) -> str:
    """The same, in the store at that address."""
    return f"{store.rstrip('/')}/{STAGED}{subject}/"


# ---- results ------------------------------------------------------------------------------------------------------


def subject_of_output(attempt: Attempt, number: int) -> str:
    """What is returned of an attempt. `number`: which of the job's outputs, from 0; named from 1, as its variables are."""
    return f"{attempt.name}@output-{number + 1}"


def return_key(attempt: Attempt, one: Return) -> JobKey:
    """The task that returns an output of an attempt."""
    return _key_for(one.region, subject_of_output(attempt, one.output), "results")


def written_uris(attempt: Attempt) -> tuple[str, ...]:
    """Where an attempt's program writes each of the job's outputs."""
    elsewhere = {one.output: one.written_uri for one in attempt.returns}
    return tuple(elsewhere.get(number, uri) for number, uri in enumerate(attempt.outputs))


def unreturned(record: JobRecord) -> Iterator[Attempt]:
    """The attempts of a job that have succeeded, and whose outputs are not all where they were asked for."""
    return (attempt for attempt in record.attempts if attempt.is_unreturned)
