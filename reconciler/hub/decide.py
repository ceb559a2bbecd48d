"""One cycle's decisions: from everything observed to the records, placements and proposals that are to be published. Pure.

The order is fixed: what the regions report and main says moves each job's record (planning/lifecycle.py); what people wrote into
placements is honoured or refused (review.py); then the pass places what waits (planning/plan.py). The outputs are values.
"""

from collections import ChainMap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from reconciler.hub.draining import drained, emptied
from reconciler.hub.events import events_of
from reconciler.hub.foreseen import with_foreseen
from reconciler.hub.index import Index, job_view
from reconciler.hub.intents import intent_for
from reconciler.hub.placing import placed, waiting, what_to_bring
from reconciler.hub.regions import RegionSeen
from reconciler.hub.returning import returned, with_returns
from reconciler.hub.review import NeverIn, approved_region, review
from reconciler.hub.staging import new_tasks, staged, staging_intents, tasks_ahead, tasks_in, why_staging, with_progress
from reconciler.hub.steady import Steady
from reconciler.hub.transfers import NO_LINES, Lines, at_its_pace, has_its_turn, lines_of, paced
from reconciler.hub.troubles import told_ungranted
from reconciler.hub.world import Outcome, Unrendered, World
from reconciler.model.attempt import Attempt, State
from reconciler.model.attempt import Outcome as HowEnded
from reconciler.model.names import JobKey, manifest_path, region_branch
from reconciler.model.placement import Placement
from reconciler.model.reasons import Reason, Why, because
from reconciler.model.record import JobRecord
from reconciler.model.region_state import NOT_HEARD
from reconciler.planning.decisions import Place
from reconciler.planning.images import image_seconds
from reconciler.planning.lifecycle import admit, advance, settle
from reconciler.planning.observed import NOTHING_SEEN, Seen
from reconciler.planning.override import never_in
from reconciler.planning.plan import plan
from reconciler.planning.records import (
    run_limit,
    withdraw,
)
from reconciler.planning.rooms import Rooms
from reconciler.planning.snapshot import JobView, RegionView, Snapshot
from reconciler.planning.staging import waited_for

MOST_PLACED = 1000
"""Placements of one cycle: enough for any day, and one push of ten thousand files helps nobody."""


@dataclass(slots=True)
class Memory:
    """What makes a cycle cheap after the one before. May vanish at any time; nothing hangs on it."""

    index: Index = field(default_factory=Index)
    steady: Steady = field(default_factory=Steady)
    rooms: Rooms = field(default_factory=Rooms)


def decide(world: World, now: datetime, memory: Memory | None = None) -> Outcome:
    """The records and placements after this cycle."""
    memory = memory or Memory()
    policy = world.sources.fleet.policy
    records = _advanced(world, memory.steady, now)
    records |= staged(records, world, now)
    records |= returned(records, world, now)
    lines = _lines(records, world, now)
    memory.index.update(records, policy)
    spoken = [key for key in [*world.placements, *world.declined] if key in records]
    for key in spoken:
        records[key] = _reviewed(records[key], world, memory.index, now)
    if spoken:
        memory.index.update(records, policy)
    decided = _passed(records, world, memory, lines, now)
    records |= decided.records
    if world.conditions or drained(world.sources.fleet.regions):
        memory.index.update(records, policy)
        left = replace(snapshot_of(world, memory.index, lines), asks_images=False)  # of jobs that do not wait nobody asks
        records |= emptied(records, left, world.away, now)
        records |= with_foreseen(records, world, left, now, MOST_PLACED)
    events = events_of(world.ledger.records, records)
    return replace(decided, records=records, crowded=lines.crowded, full=lines.full, events=events)


def _lines(records: dict[JobKey, JobRecord], world: World, now: datetime) -> Lines:
    """What is so of the links; the tasks' records are brought to it."""
    tasks = tasks_in(records)
    if not tasks:
        return NO_LINES
    lines = lines_of(tasks, waited_for(records), world, now)
    records |= paced(tasks, lines)
    return lines


def _passed(records: dict[JobKey, JobRecord], world: World, memory: Memory, lines: Lines, now: datetime) -> Outcome:
    """The records that the pass changes, with the placements of its decisions; its events are told later."""
    fresh: dict[JobKey, JobRecord] = {}
    placements: dict[JobKey, Placement] = {}
    proposals: dict[JobKey, Placement] = {}
    tasks: list[JobKey] = []
    known = ChainMap(fresh, records)
    snapshot = snapshot_of(world, memory.index, lines)
    decisions = plan(snapshot, now, memory.rooms, MOST_PLACED)
    for decision in decisions:
        record = records[decision.key]
        if not isinstance(decision, Place):
            fresh[decision.key] = waiting(record, decision)
            continue
        found = what_to_bring(record, decision, snapshot, known, world, now)
        record, placement, proposed = placed(record, decision, found, world, now)
        record = record if proposed else with_returns(record, snapshot)
        if placement is not None:
            (proposals if proposed else placements)[decision.key] = placement
        elif record.stage is not None:
            record = at_its_pace(record, lines)
            tasks.append(decision.key)
        if record.current is not None and record.current.state is State.STAGING:
            fresh |= new_tasks(found.tasks, known, world, record.spec.priority_value, now)
            record = record.model_copy(update={"why": why_staging(record.current, known)})
        fresh[decision.key] = record
    fresh |= tasks_ahead(decisions, snapshot, known, world, now)
    return Outcome(fresh, placements, proposals, (), tasks=tuple(tasks))


# ---- records ------------------------------------------------------------------------------------------------------


def _advanced(world: World, steady: Steady, now: datetime) -> dict[JobKey, JobRecord]:
    policy = world.sources.fleet.policy
    old, jobs, conflicts = world.ledger.records, world.sources.jobs, world.sources.conflicts
    steady.under(policy)
    steady.keep_only(old)
    unread, ungranted = world.ledger.unread, told_ungranted(world.ledger.hub.troubles)
    staging = staging_intents(old, world.sources.fleet.regions, now, world.listings)
    records: dict[JobKey, JobRecord] = {}
    for key, record in old.items():
        if record.stage is not None and key not in staging:
            records[key] = record
            continue
        seen = _seen(record, world, ungranted)
        if record.stage is not None:
            turned, intent = staging[key]
            after = with_progress(advance(turned, intent, seen, policy, now), seen.workload)
            records[key] = record if after == record else after
            continue
        file = jobs.get(key)
        sound = file is not None and world.suspicion is None and key not in conflicts
        if sound and file is not None and steady.holds(key, record, file, seen, now):
            records[key] = record
            continue
        after = advance(record, intent_for(key, record, world.sources, world.suspicion, world.ledger.rejected), seen, policy, now)
        if after is not record and after != record:
            records[key] = after
            continue
        records[key] = record
        if sound and file is not None:
            steady.note(record, file, seen, policy)
    for key in sorted(jobs.keys() - old.keys()):
        # A record that cannot be read may be of a job that runs: it is left alone until a person has looked.
        intent = intent_for(key, None, world.sources, world.suspicion)
        if intent.wanted is not None and key not in unread:
            records[key] = settle(admit(key, intent.wanted, now), policy, now)
    return records


def _seen(record: JobRecord, world: World, ungranted: Mapping[str, str]) -> Seen:
    attempt = record.current
    if attempt is None:
        return NOTHING_SEEN
    region, away = world.regions.get(attempt.region), world.away.get(attempt.region)
    version = world.withdrawn_at.get(attempt.name)
    epoch = world.epochs.get(attempt.region, 0)
    if region is None:
        return Seen(None, without_it=False, away=away, ungranted=ungranted.get(attempt.region), epoch=epoch)
    without_it = version is not None and region.grants_version >= version
    refused = _refused(record.team, attempt, region.sync_errors) if region.sync_errors else None
    return Seen(region.workloads.get(attempt.name), without_it, refused, away, ungranted.get(attempt.region), epoch)


def _refused(team: str, attempt: Attempt, errors: Mapping[str, str]) -> str | None:
    """What the sync engine says against the attempt's manifest. It names the file, by more or less of its path, or the object."""
    path, of_object = f"/{manifest_path(team, attempt.name)}", f"/{team}/{attempt.name}"
    return next((said for where, said in errors.items() if path.endswith(f"/{where}") or where.endswith(of_object)), None)


def _reviewed(record: JobRecord, world: World, index: Index, now: datetime) -> JobRecord:
    current = record.current
    waits_for_room = current is not None and approved_region(record) == current.region  # forges delete a branch once it is merged
    if record.key in world.declined and current is not None and current.state is State.PROPOSED and not waits_for_room:
        record = _declined(record, now)
    if record.key not in world.placements:
        return settle(record, world.sources.fleet.policy, now)
    after = review(record, world.placements[record.key], _never_in(world, index), now)
    return record if after is record else settle(after, world.sources.fleet.policy, now)


def _declined(record: JobRecord, now: datetime) -> JobRecord:
    after = withdraw(record, HowEnded.WITHDRAWN, because(Why.DECLINED, into="placements"), now)
    return after.model_copy(update={"placement": after.placement.model_copy(update={"declined": after.run_hash})})


def _never_in(world: World, index: Index) -> NeverIn:
    def ask(record: JobRecord, region: str) -> Reason | None:
        snapshot = snapshot_of(world, index)
        return never_in(job_view(record, run_limit(record.spec, snapshot.policy)), region, snapshot)

    return ask


# ---- the pass -----------------------------------------------------------------------------------------------------


def snapshot_of(world: World, index: Index, lines: Lines = NO_LINES) -> Snapshot:
    """What the pass decides from: the fleet, what is held in it and of its links, and the jobs that want an attempt."""
    fleet = world.sources.fleet
    unplaced = world.refused.get(fleet.settings.branches.placements)
    regions = {
        name: RegionView(
            region,
            seen.facts if (seen := world.regions.get(name)) is not None else None,
            world.ages.get(name),
            index.holdings(name),
            unplaced or world.refused.get(region_branch(name)) or _silent(name, world) or _halted(name, seen),
        )
        for name, region in sorted(fleet.regions.items())
    }
    pending = () if "policy.yaml" in world.sources.unread else tuple(_views(world, index, lines))
    return Snapshot(
        regions,
        fleet.links,
        fleet.datasets,
        fleet.teams,
        fleet.policy,
        pending,
        index.used_gpus,
        measured=world.measured,
        held=lines.held,
        queued=lines.queued,
        full=lines.full,
        copies=lines.copies,
        parts=lines.parts,
        arriving=lines.arriving,
        unbrought=lines.unbrought,
        images=world.images,
        asks_images=world.images is not None,
        image_seconds=image_seconds(world.images, fleet.regions),
    )


def _silent(name: str, world: World) -> Reason | None:
    """Why a region that is not heard of gets no new jobs: its own times say when, however long a report counts as fresh."""
    condition = world.conditions.get(name)
    return condition.reason if condition is not None and condition.state in NOT_HEARD else None


_HALTED = ("RegionTaken", "Fenced", "LeaseRevoked")
"""What a region says of itself while it may run nothing."""


def _halted(name: str, seen: RegionSeen | None) -> Reason | None:
    health = seen.health if seen is not None else {}
    words = next((health[code] for code in _HALTED if code in health), None)
    return because(Why.REGION_HALTED, region=name, message=words) if words is not None else None


def _views(world: World, index: Index, lines: Lines) -> Iterable[JobView]:
    if not world.unrendered and not lines.rates:
        return index.pending.values()
    return [_view(view, world.unrendered.get(key)) for key, view in index.pending.items() if has_its_turn(key, lines)]


def _view(view: JobView, known: Unrendered | None) -> JobView:
    if known is None or known.spec != view.spec:
        return view
    return replace(view, unrendered=tuple(sorted({**dict(view.unrendered), **known.regions}.items())))
