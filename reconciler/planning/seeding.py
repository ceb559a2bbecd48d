"""From which attempt's checkpoint the next one goes on, and whether a task copies it before that one's GPUs are held. Pure.

All attempts of a job write below one address (`checkpoint_path`), each into a folder of its own, so a job that goes on has its
checkpoint copied inside one store. Its pod can do that by itself. Where the store is another region's, each request of the pod
crosses the link, and so do all bytes, twice, if the store does not copy by itself: a worker in the store's region does it before.

Invariant: no job depends on such a task. There is none where the store's region cannot take it now; one whose worker does not
run for a while, whose region falls silent, or whose record cannot be used is waited for no longer; and no run waits again after
it has waited in vain.
"""

from collections.abc import Container, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from reconciler.model.attempt import Attempt, State, own_prefix
from reconciler.model.names import STAGING_TEAM, JobKey, attempt_name
from reconciler.model.reasons import Reason, Why, because
from reconciler.model.record import JobRecord
from reconciler.model.stage import StageTask, what_of_checkpoint
from reconciler.planning.compliance import stores_of
from reconciler.planning.copies import is_done
from reconciler.planning.filters import reachable
from reconciler.planning.records import next_number
from reconciler.planning.snapshot import Snapshot
from reconciler.planning.stage_names import checkpoint_key, subject_of_checkpoint
from reconciler.planning.staging import can_stage, was_let_go_for, why_not_to_come

NO_WORKER: Final = timedelta(minutes=5)
"""So long a task may be without a worker that runs before its job goes on without it."""


class Seed(NamedTuple):
    """URIs; None where the job keeps no checkpoints, or there is none to go on from."""

    attempt: str
    """The attempt that is to come."""
    source: str | None
    target: str | None


def seed_of(record: JobRecord) -> Seed:
    """What a job's next attempt goes on from, and where it writes; of a proposal as it was noted."""
    current = record.current
    if current is not None:
        return Seed(current.name, current.seeded_from, current.checkpoint)
    name = attempt_name(record.job_id, record.run_hash, next_number(record))
    base = record.spec.checkpoint_path
    if base is None:
        return Seed(name, None, None)
    # An attempt that never started wrote nothing; one that did had the checkpoint before it copied to its own prefix.
    earlier = next((old for old in reversed(record.this_run) if old.started_at is not None and old.checkpoint is not None), None)
    return Seed(name, earlier.checkpoint if earlier is not None else None, own_prefix(base, name))


def checkpoint_task(record: JobRecord, region: str, snapshot: Snapshot) -> StageTask | None:
    """The task that a job waits for if it is placed in the region now; None where its own pod copies what it goes on from."""
    seed = seed_of(record)
    if seed.source is None or seed.target is None or _waited_in_vain(record):
        return None
    stores = stores_of(snapshot.regions)
    name = stores.only(seed.target)
    # The two differ once `checkpoint_path` was edited: a worker opens one store.
    if name is None or name == region or stores.only(seed.source) != name:
        return None
    view = snapshot.regions[name]
    if not can_stage(view) or reachable(view, snapshot.policy.thresholds.report_fresh_seconds) is not None:
        return None
    return StageTask(
        kind="checkpoint",
        subject=subject_of_checkpoint(seed.attempt),
        region=name,
        source_region=name,
        source_uri=seed.source,
        target_uri=seed.target,
    )


def not_to_wait_for(
    attempt: Attempt, tasks: Mapping[JobKey, JobRecord], regions: Iterable[str], silent: Container[str], now: datetime
) -> Reason | None:
    """Why an attempt should wait for its checkpoint's task no longer; None where it may. `silent`: regions nobody hears of."""
    for name in attempt.stages:
        key = JobKey(STAGING_TEAM, name)
        record = tasks.get(key)
        if record is not None:
            words = _why_not_to_wait(record, silent, now)
        else:  # a person has to look at it first; the job can do without it
            is_its_own = any(key == checkpoint_key(attempt.name, region) for region in regions)
            words = "the record of its task is gone or cannot be read" if is_its_own else None
        if words is not None:
            return because(Why.STAGING_FAILED, what=what_of_checkpoint(attempt.name), region=attempt.region, message=words)
    return None


def _why_not_to_wait(record: JobRecord, silent: Container[str], now: datetime) -> str | None:
    task = record.stage
    if task is None or task.kind != "checkpoint" or is_done(record):
        return None
    if task.region in silent:
        return f"{task.region} is not heard of"
    since = _idle_since(record)
    if since is not None and now >= since + NO_WORKER:
        return record.why.text if record.why is not None else f"{task.region} has no room for its worker"
    return why_not_to_come(record)


def _idle_since(record: JobRecord) -> datetime | None:
    """Since when no worker of a task has been at work; None while one is."""
    current = record.current
    if current is not None and current.state is State.RUNNING:
        return None
    # One that is being stopped is at work no more, and may take for ever.
    ends = [one.stopping_at or one.ended_at for one in record.this_run if one.started_at is not None]
    return next((end for end in reversed(ends) if end is not None), record.submitted_at)


def _waited_in_vain(record: JobRecord) -> bool:
    """Whether an attempt of the run was let go because its checkpoint was not copied."""
    return any(was_let_go_for(one, what_of_checkpoint(one.name)) for one in record.this_run)
