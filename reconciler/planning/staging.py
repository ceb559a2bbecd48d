"""What must be brought to a region before an attempt may run there, and how far that has come. Pure.

A staging task is a job of the hub's own: a record in the ledger, with attempts, grants and ends like any other, so that whatever
holds for attempts (epochs, lost regions, stop before start) holds for it. This module says which tasks there are to be, what
each of them runs, and when what they bring is there. One task brings a version of a dataset to a region, however many jobs wait
for it. Nothing is staged where the region has no store of its own, or no namespace for the workers. Images: mirroring.py.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from reconciler.model.attempt import Attempt, State
from reconciler.model.names import STAGING_TEAM, JobKey
from reconciler.model.reasons import Reason, Why, because, code_of
from reconciler.model.record import FINISHED, JobRecord, Phase
from reconciler.model.region import StoreAddress
from reconciler.model.stage import StageTask, TransferEstimate
from reconciler.planning.compliance import stores_at
from reconciler.planning.copies import bytes_to_bring, is_done, is_lost
from reconciler.planning.lifecycle import Intent
from reconciler.planning.snapshot import RegionView
from reconciler.planning.stage_names import return_key, staged_uri, unreturned
from reconciler.planning.stage_specs import spec_of, wanted_of
from reconciler.planning.ways import Source as Way

_BRINGS = frozenset({"dataset", "image", "checkpoint"})
"""Kinds of task that jobs wait for before they run."""
_COMES_TO_NOTHING = frozenset({Phase.FAILED, Phase.CANCELLED, Phase.HELD, Phase.IMPOSSIBLE})
_TAKES_NO_WORKER = frozenset(code_of(why) for why in (Why.CORDONED, Why.DRAINING, Why.NAMESPACE_MISSING))
"""What a region says to a worker until a person has done something there. A job that waited for that might wait for ever."""
_MOST_WORDS = 300
_STAYS = frozenset({State.PLACED, State.STAGING})


def can_stage(view: RegionView) -> bool:
    """Whether a region can have anything brought to it before a job starts: it has a store, and a place for the workers."""
    return view.region.object_store is not None and view.has_workers


def task_for(way: Way, view: RegionView, ahead_for: Iterable[JobKey] = ()) -> StageTask | None:
    """The task that brings to a region what comes by `way`; None where it cannot be brought before a job starts.

    `ahead_for`: jobs that have no place yet and will probably want it there.
    """
    target = staged_uri(view.region, way.subject)
    if target is None or not can_stage(view):
        return None
    return StageTask(
        subject=way.subject,
        region=view.region.name,
        source_region=way.region,
        source_uri=way.uri,
        target_uri=target,
        size_bytes=way.bytes + way.there,
        ahead_for=tuple(map(str, ahead_for)),
        price_usd=way.price_usd,
        estimated_seconds=round(way.seconds, 1),
        estimated_bytes_per_second=way.usable,
    )


def estimate_of(record: JobRecord) -> TransferEstimate | None:
    """What a task's next attempt is believed to take; None where that was not noted, or something of it is there."""
    task = record.stage
    if task is None or task.kind != "dataset" or record.this_run or task.found is not None:
        return None
    if task.estimated_seconds is None or task.estimated_bytes_per_second is None:
        return None
    return TransferEstimate(
        at=record.submitted_at,
        source_region=task.source_region,
        seconds=task.estimated_seconds,
        bytes_per_second=task.estimated_bytes_per_second,
        size_bytes=task.size_bytes,
    )


# ---- which tasks there are to be ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Waiting:
    """Who waits for a task."""

    priority: int
    """Of the most urgent job that does, 0 to 1000."""
    deadline: datetime | None = None
    """By when it must be there so that the first of their deadlines can be met; None where none has one."""


def waited_for(records: Mapping[JobKey, JobRecord]) -> dict[str, Waiting]:
    """Job id of a task → who waits for it: attempts that were placed; of a task ahead of need its jobs that have no place yet;
    of one that returns results the job whose they are. `records`: at least the tasks, and the jobs that may wait for one.
    """
    found: dict[str, Waiting] = {}
    for record in records.values():
        attempt = record.current
        if attempt is not None and attempt.state in _STAYS:
            for name in attempt.stages:
                found[name] = _also(found.get(name), record)
        for job in record.stage.ahead_for if record.stage is not None else ():
            wants = records.get(JobKey(*job.split("/", 1)))
            if wants is not None and wants.current is None and wants.phase is Phase.PENDING:
                found[record.job_id] = _also(found.get(record.job_id), wants)
        for done in unreturned(record):
            found |= {return_key(done, one).job_id: Waiting(record.spec.priority_value) for one in done.returns}
    return found


def _also(before: Waiting | None, record: JobRecord) -> Waiting:
    known = before or Waiting(0)
    deadlines = [moment for moment in (known.deadline, _must_start(record)) if moment is not None]
    return Waiting(max(known.priority, record.spec.priority_value), min(deadlines, default=None))


def _must_start(record: JobRecord) -> datetime | None:
    """The last moment at which a job can begin and still meet its deadline, as far as its run time is known."""
    if record.spec.deadline is None:
        return None
    seconds = record.spec.expected_runtime_seconds or record.spec.max_runtime_seconds or 0
    return datetime.fromisoformat(record.spec.deadline) - timedelta(seconds=seconds)


def turned(record: JobRecord, *, waited_for: bool, evict: bool) -> JobRecord:
    """The task's record, turned from bringing to removing, or back. What is under way comes to its end first."""
    task = record.stage
    if task is None or record.phase not in FINISHED:
        return record
    bring_again = task.kind == "evict" and waited_for
    if bring_again or (task.kind == "dataset" and evict and record.phase is Phase.SUCCEEDED):
        kind = "dataset" if bring_again else "evict"
        return record.model_copy(update={"stage": task.model_copy(update={"kind": kind, "found": None})})
    return record


def intent_of(record: JobRecord, waiting: Waiting | None, stores: Mapping[str, StoreAddress]) -> Intent:
    """What is wanted of a task: that it runs while anybody waits for it. One that has done its work stays as it is.

    A task that is under way goes on as it began. Removing is not waited for by anybody, and comes to its end.
    """
    task = record.stage
    if task is None:
        return Intent(None)
    if is_done(record) or (waiting is None and is_lost(record)):
        return Intent(wanted_of(record.spec))
    if task.kind != "evict" and waiting is None:
        # That no worker of it can run is kept: else its job would be sent to wait for it again, at once and for ever. But of a
        # checkpoint's no job is: its next attempt has another.
        kept = record.phase is Phase.IMPOSSIBLE and task.kind != "checkpoint"
        return Intent(wanted_of(record.spec) if kept else None)
    priority = waiting.priority if waiting is not None else 0
    if record.current is not None:  # whatever has been declared since: it goes on as it began
        return Intent(wanted_of(record.spec.model_copy(update={"priority": priority})))
    again = record.phase in FINISHED and not record.cancelled
    # Asked elsewhere than where it was written it may find nothing, and call that all.
    spec = record.spec if _is_elsewhere(task, stores) else spec_of(task, stores, priority, record.spec.image)
    return Intent(wanted_of(spec.model_copy(update={"priority": priority, "rerun": record.rerun + again})))


def _is_elsewhere(task: StageTask, stores: Mapping[str, StoreAddress]) -> bool:
    """Whether a task's source is in the store that its region is declared to have no more."""
    if task.kind == "checkpoint":
        return stores_at(stores).of(task.source_uri) != (task.source_region,)
    return task.kind == "results" and task.source_region not in stores


def has_served(record: JobRecord) -> bool:
    """Whether nobody will ever want anything of a task again: what it was for is one attempt's."""
    kind = record.stage.kind if record.stage is not None else None
    return (kind == "results" and is_done(record)) or (kind == "checkpoint" and record.phase in FINISHED)


# ---- how far it has come ------------------------------------------------------------------------------------------

Readiness = Literal["ready", "waiting"]


def readiness(attempt: Attempt, tasks: Mapping[JobKey, JobRecord]) -> Readiness | Reason:
    """Whether all is there that an attempt waits for, and still is; a reason where something will not come."""
    there = True
    for name in attempt.stages:
        task = tasks.get(JobKey(STAGING_TEAM, name))
        if task is None or task.stage is None or task.stage.kind not in _BRINGS or not is_done(task):
            there = False
        if task is not None and (why := why_not_to_come(task)) is not None:
            what = task.stage.what if task.stage is not None else name
            return because(Why.STAGING_FAILED, what=what, region=attempt.region, message=why)
    return "ready" if there else "waiting"


def was_let_go_for(attempt: Attempt, what: str) -> bool:
    """Whether an attempt was let go because that did not come. `what`: in a task's words."""
    reason = attempt.reason
    return reason is not None and reason.code == code_of(Why.STAGING_FAILED) and reason.numbers.get("what") == what


def why_not_to_come(task: JobRecord) -> str | None:
    """Why what a task brings will not come unless a person or ten minutes change that, in words; None while it may."""
    if task.phase in _COMES_TO_NOTHING:
        return _why_it_ended(task)
    region = task.stage.region if task.stage is not None else ""
    refused = task.waits.get(region) if task.phase is Phase.PENDING else None
    return refused.text if refused is not None and refused.code in _TAKES_NO_WORKER else None


def _why_it_ended(task: JobRecord) -> str:
    """In words; with the last line that its worker wrote, which tells more than how often it failed."""
    words = task.why.text if task.why is not None else "its worker failed"
    lines = task.last.log_tail.split("\n") if task.phase is Phase.FAILED and task.last is not None else []
    last = next((line.strip() for line in reversed(lines) if line.strip()), None)
    return words if last is None else f"{words}; the last said: {last[:_MOST_WORDS]}"


AGAIN = timedelta(minutes=10)
"""A region that something could not be brought to is not asked for it again before so long."""


def failed_lately(task: JobRecord, now: datetime) -> bool:
    """Whether a task has failed as often as it may, so short a while ago that it is not begun anew yet."""
    failed_at = task.last.ended_at if task.phase is Phase.FAILED and task.last is not None else None
    return failed_at is not None and now < failed_at + AGAIN


def unbrought(tasks: Iterable[JobRecord], now: datetime) -> dict[tuple[str, str], Reason]:
    """(subject, region) of what could not be brought there a short while ago, and why."""
    found = {}
    for record in tasks:
        task = record.stage
        if task is None or task.kind not in _BRINGS:
            continue
        if record.phase is Phase.IMPOSSIBLE or failed_lately(record, now):
            reason = because(Why.STAGING_FAILED, what=task.what, region=task.region, message=_why_it_ended(record))
            found[task.subject, task.region] = reason
    return found


def spent_ahead(tasks: Iterable[JobRecord], now: datetime) -> tuple[int, float]:
    """Of tasks ahead of need: bytes that are still to come, and US dollars of those under way and of the last day."""
    size, usd = 0, 0.0
    for record in tasks:
        task = record.stage
        if task is None or not task.ahead_for or task.kind != "dataset":
            continue
        comes = record.phase not in FINISHED
        size += (bytes_to_bring(task) or 0) if comes else 0
        usd += (task.price_usd or 0.0) if comes or now < record.submitted_at + timedelta(days=1) else 0.0
    return size, usd
