"""Results in the cycle: the tasks that return what succeeded attempts wrote in their own regions, and when all of it is there.

What is returned, and from where, is for planning/returning.py. Invariant: an attempt counts as returned only when the records of
all its tasks, as this ledger has them, say that they have succeeded.
"""

from collections.abc import Mapping
from datetime import datetime

from reconciler.hub.staging import new_tasks
from reconciler.hub.world import World
from reconciler.model.attempt import Attempt
from reconciler.model.names import JobKey
from reconciler.model.reasons import Reason, Why, because
from reconciler.model.record import JobRecord, Phase
from reconciler.model.region import Region
from reconciler.model.stage import Return
from reconciler.planning.records import replace_current
from reconciler.planning.returning import all_returned, return_task, returns_of
from reconciler.planning.snapshot import Snapshot
from reconciler.planning.stage_names import return_key, unreturned
from reconciler.planning.staging import why_not_to_come


def with_returns(record: JobRecord, snapshot: Snapshot) -> JobRecord:
    """The record whose new attempt has its place, with what that writes to its own region's store."""
    attempt = record.current
    returns = returns_of(record.key, attempt, snapshot) if attempt is not None else ()
    if attempt is None or not returns:
        return record
    return replace_current(record, attempt.model_copy(update={"returns": returns}))


def returned(records: Mapping[JobKey, JobRecord], world: World, now: datetime) -> dict[JobKey, JobRecord]:
    """The records that change: tasks that are new, and the jobs whose outputs come to where they were asked for."""
    changed: dict[JobKey, JobRecord] = {}
    for key, record in records.items():
        after = record
        for attempt in unreturned(record):
            if all_returned(attempt, records):
                after = _replaced(after, attempt.model_copy(update={"returned_at": now}))
                after = _told(after, attempt, attempt.reason or because(Why.SUCCEEDED))
                continue
            regions = world.sources.fleet.regions
            new = [one for one in attempt.returns if return_key(attempt, one) not in records]
            tasks = [return_task(attempt, one) for one in new if _undeclared(attempt, one, regions) is None]
            changed |= new_tasks(tasks, records, world, record.spec.priority_value, now)
            after = _told(after, attempt, _why(attempt, records, regions))
        if after is not record:
            changed[key] = after
    return changed


def _undeclared(attempt: Attempt, one: Return, regions: Mapping[str, Region]) -> str | None:
    """What is not declared any more, so that no worker can be told how to ask the stores; None where all is."""
    gone = next((name for name in (attempt.region, one.region) if name not in regions), None)
    if gone is not None:
        return f"there is no region {gone}"
    return None if regions[attempt.region].object_store is not None else f"{attempt.region} has no object_store any more"


def _replaced(record: JobRecord, attempt: Attempt) -> JobRecord:
    attempts = tuple(attempt if one.number == attempt.number else one for one in record.attempts)
    return record.model_copy(update={"attempts": attempts})


def _why(attempt: Attempt, records: Mapping[JobKey, JobRecord], regions: Mapping[str, Region]) -> Reason:
    """What a job is told whose outputs are not all there."""
    for one in attempt.returns:
        task = records.get(return_key(attempt, one))
        said = _undeclared(attempt, one, regions) if task is None else why_not_to_come(task)
        if said is not None:
            return because(Why.RESULTS_NOT_RETURNED, region=attempt.region, to=one.region, message=said)
    to = " and ".join(sorted({one.region for one in attempt.returns}))
    return because(Why.RESULTS_RETURNING, region=attempt.region, to=to)


def _told(record: JobRecord, attempt: Attempt, why: Reason) -> JobRecord:
    """Said of a job whose newest attempt it is; of one that runs again, or has again succeeded, there is other news."""
    newest = record.last is not None and record.last.number == attempt.number
    if not newest or record.phase is not Phase.SUCCEEDED or record.why == why:
        return record
    return record.model_copy(update={"why": why})
