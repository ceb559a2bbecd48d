"""Staging in the cycle: the hub's own jobs that bring data, and the attempts that wait for them.

Which tasks there are to be, and when what they bring is there, is for planning/staging.py; here it becomes records. Invariant:
an attempt is granted only after the records of all its tasks, as this ledger has them, say that they have succeeded.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from reconciler.hub.world import World
from reconciler.model.attempt import Attempt, Event, Outcome, State
from reconciler.model.names import STAGING_TEAM, JobKey
from reconciler.model.quantity import whole
from reconciler.model.reasons import Reason, Why, because
from reconciler.model.record import JobRecord, Phase
from reconciler.model.region import Region, StoreAddress
from reconciler.model.report import WorkloadReport
from reconciler.model.stage import StageTask
from reconciler.planning.ahead_of_need import ahead_of_need
from reconciler.planning.copies import Listing, as_listed, is_lost, why_lost
from reconciler.planning.decisions import Candidate, Decision, Wait
from reconciler.planning.evicting import to_evict, uses_of
from reconciler.planning.lifecycle import Intent, admit, settle
from reconciler.planning.mirroring import once_more
from reconciler.planning.records import grant, replace_current, withdraw
from reconciler.planning.returning import rests
from reconciler.planning.seeding import not_to_wait_for
from reconciler.planning.snapshot import RegionView, Snapshot
from reconciler.planning.stage_names import key_of
from reconciler.planning.stage_specs import wanted_task
from reconciler.planning.staging import (
    Waiting,
    has_served,
    intent_of,
    readiness,
    spent_ahead,
    task_for,
    turned,
    waited_for,
)

_STEPS = 10
"""A task's progress is written down in so many steps: each is a commit."""


def stores_of(regions: Mapping[str, Region]) -> dict[str, StoreAddress]:
    """The regions' own stores."""
    return {name: region.object_store for name, region in regions.items() if region.object_store is not None}


def tasks_in(records: Mapping[JobKey, JobRecord]) -> dict[JobKey, JobRecord]:
    """The staging tasks among all records."""
    return {key: record for key, record in records.items() if record.stage is not None}


# ---- what is wanted of the tasks ----------------------------------------------------------------------------------


def staging_intents(
    records: Mapping[JobKey, JobRecord], regions: Mapping[str, Region], now: datetime, listings: Mapping[str, Listing]
) -> dict[JobKey, tuple[JobRecord, Intent]]:
    """Every task that the ledger has, with what its region's listing shows, turned to what it is for now, and what is wanted of
    it. Left out are those that nobody will want again (`has_served`): they only become more, and nothing changes them."""
    tasks = {key: _as_listed(task, listings) for key, task in tasks_in(records).items() if not has_served(task)}
    if not tasks:
        return {}
    waiting: Mapping[str, Waiting] = waited_for(records)
    stores, intents = stores_of(regions), {}
    evict = _to_evict(tasks, records, regions)
    for key, task in tasks.items():
        record = turned(task, waited_for=key.job_id in waiting, evict=key.job_id in evict)
        intents[key] = record, intent_of(record, None if rests(task, now) else waiting.get(key.job_id), stores)
    return intents


def _as_listed(record: JobRecord, listings: Mapping[str, Listing]) -> JobRecord:
    return as_listed(record, listings.get(record.stage.region)) if record.stage is not None else record


def _to_evict(
    tasks: Mapping[JobKey, JobRecord], records: Mapping[JobKey, JobRecord], regions: Mapping[str, Region]
) -> frozenset[str]:
    limits = {name: whole(region.staged_limit) for name, region in regions.items() if region.staged_limit is not None}
    return to_evict(tasks.values(), uses_of(records.values()), limits) if limits else frozenset()


def with_progress(record: JobRecord, said: WorkloadReport | None) -> JobRecord:
    """A task's record with what its worker says of itself, in steps."""
    attempt, progress = record.current, said.progress if said is not None else None
    if attempt is None or record.stage is None or progress is None:
        return record
    before = attempt.progress
    if before is not None and _step(before.bytes_done, before.bytes_total) == _step(progress.bytes_done, progress.bytes_total):
        return record
    return replace_current(record, attempt.model_copy(update={"progress": progress}))


def _step(done: int, total: int) -> int:
    return done * _STEPS // total if total else 0


# ---- attempts that wait for them ----------------------------------------------------------------------------------


def staged(records: Mapping[JobKey, JobRecord], world: World, now: datetime) -> dict[JobKey, JobRecord]:
    """The records that change: attempts whose data is there may run now, and those whose data will not come are let go."""
    policy, regions, changed = world.sources.fleet.policy, world.sources.fleet.regions, {}
    for key, record in records.items():
        attempt = record.current
        if attempt is None or attempt.state is not State.STAGING:
            continue
        in_vain = not_to_wait_for(attempt, records, regions, world.away, now)
        found = in_vain or readiness(attempt, records)
        if isinstance(found, Reason):
            # That a checkpoint was not copied says nothing against the attempt's region, and is no disruption of the job's.
            outcome = Outcome.DISRUPTED if in_vain is None else Outcome.WITHDRAWN
            changed[key] = settle(withdraw(record, outcome, found, now), policy, now)
        elif found == "ready":
            changed[key] = settle(grant(record, now, world.epochs.get(attempt.region, 0)), policy, now)
    return changed


@dataclass(frozen=True, slots=True)
class Brought:
    """Where an attempt reads its datasets, and the tasks that bring them there first."""

    uris: tuple[str, ...]
    tasks: tuple[StageTask, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The tasks' job ids."""
        return tuple(sorted({key_of(task).job_id for task in self.tasks}))


def brought(chosen: Candidate, view: RegionView, more: Iterable[StageTask]) -> Brought:
    """What must be brought for a job that is placed in the region. `more`: beside its datasets."""
    read, tasks = list(chosen.dataset_uris), []
    for index, source in enumerate(chosen.sources):
        task = task_for(source, view) if source is not None else None
        if task is not None:
            read[index] = task.target_uri
            tasks.append(task)
    return Brought(tuple(read), (*tasks, *more))


def begun(record: JobRecord, found: Brought, world: World, now: datetime) -> JobRecord:
    """The record whose placed attempt may run: at once, or once what it waits for is there."""
    attempt = record.current
    if attempt is None:
        return record
    attempt = attempt.model_copy(update={"dataset_uris": found.uris, "stages": found.names})
    if not found.tasks:
        return grant(replace_current(record, attempt), now, world.epochs.get(attempt.region, 0))
    return replace_current(record, attempt.moved(Event.STAGING_BEGAN, now))


def _with_what_is_left(task: StageTask, before: JobRecord | None) -> StageTask:
    """The task with what is known to be there of a copy that lost something."""
    known = before.stage if before is not None else None
    is_left = known is not None and known.kind == task.kind and known.found is not None
    return task.model_copy(update={"found": known.found}) if known is not None and is_left else task


def new_tasks(
    found: Iterable[StageTask], records: Mapping[JobKey, JobRecord], world: World, priority: int, now: datetime
) -> dict[JobKey, JobRecord]:
    """Records of the tasks that there are none of yet; one that came to nothing, lost its copy or is being removed is noted as it
    is wanted now, and taken up again. What is under way or there stays as it is."""
    regions, policy = world.sources.fleet.regions, world.sources.fleet.policy
    stores, fresh = stores_of(regions), {}
    for wanted in found:
        key = key_of(wanted)
        before = records.get(key)
        task = _with_what_is_left(wanted, before)
        if before is None:
            if key in world.ledger.unread:
                continue  # a person has to look at its record first
            image = regions[task.region].profile.stage_image or world.stage_image
            record = admit(key, wanted_task(task, stores, priority, image), now)
            fresh[key] = settle(record.model_copy(update={"stage": task}), policy, now)
        elif before.phase in (Phase.FAILED, Phase.CANCELLED):
            fresh[key] = before.model_copy(update={"stage": task})
        elif before.phase is Phase.SUCCEEDED and (task.kind == "image" or is_lost(before)):
            fresh[key] = once_more(before, task, now)  # an image: too long ago, or into another mirror
        elif before.stage is not None and before.stage.kind == "evict":  # once it is gone it is brought again, as is wanted now
            fresh[key] = before.model_copy(update={"stage": task.model_copy(update={"kind": "evict"})})
    return fresh


def tasks_ahead(
    decisions: Iterable[Decision], snapshot: Snapshot, records: Mapping[JobKey, JobRecord], world: World, now: datetime
) -> dict[JobKey, JobRecord]:
    """Records of the tasks that are begun before those who will want them have a place."""
    decided = tuple(decisions)
    if not any(isinstance(one, Wait) and one.expected is not None for one in decided):
        return {}
    size, usd = spent_ahead(tasks_in(records).values(), now)
    fresh: dict[JobKey, JobRecord] = {}
    for wish in ahead_of_need(decided, snapshot, size, usd):
        task = task_for(wish.source, snapshot.regions[wish.target], wish.jobs)
        if task is not None:
            fresh |= new_tasks([task], records, world, wish.priority, now)
    return fresh


def why_staging(attempt: Attempt, records: Mapping[JobKey, JobRecord]) -> Reason:
    """What a job that waits for its data is told."""
    found = (records.get(JobKey(STAGING_TEAM, name)) for name in attempt.stages)
    tasks = [task for task in found if task is not None]
    lost = next((why for task in tasks if (why := why_lost(task)) is not None), None)
    if lost is not None:
        return lost
    what = " and ".join(sorted(task.stage.what for task in tasks if task.stage is not None))
    return because(Why.STAGING, what=what or "its data", region=attempt.region)
