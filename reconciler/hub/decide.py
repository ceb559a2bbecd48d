"""One cycle's decisions: from everything observed to the records, placements and proposals that are to be published. Pure.

The order is fixed: what the regions report and main says moves each job's record (planning/lifecycle.py); what people wrote into
placements is honoured or refused (review.py); then the pass places what waits (planning/plan.py). The outputs are values.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from reconciler.hub.draining import drained, emptied
from reconciler.hub.events import events_of
from reconciler.hub.foreseen import with_foreseen
from reconciler.hub.index import Index, job_view
from reconciler.hub.intents import intent_for
from reconciler.hub.regions import RegionSeen
from reconciler.hub.review import NeverIn, approval_needed, approved_region, review, use_choice
from reconciler.hub.steady import Steady
from reconciler.hub.world import Outcome, Unrendered, World
from reconciler.model.attempt import Attempt, State, own_prefix
from reconciler.model.attempt import Outcome as HowEnded
from reconciler.model.names import JobKey, attempt_name, manifest_path, proposal_branch, region_branch
from reconciler.model.placement import DecisionView, Placement
from reconciler.model.reasons import Reason, Why, because
from reconciler.model.record import JobRecord, Phase
from reconciler.model.region_state import NOT_HEARD
from reconciler.planning.decisions import Candidate, Impossible, Place, Wait
from reconciler.planning.images import image_seconds
from reconciler.planning.kept import with_inputs
from reconciler.planning.lifecycle import admit, advance, settle
from reconciler.planning.observed import NOTHING_SEEN, Seen
from reconciler.planning.override import never_in
from reconciler.planning.plan import plan, refused_view
from reconciler.planning.records import (
    approve,
    grant,
    next_number,
    run_limit,
    with_attempt,
    withdraw,
)
from reconciler.planning.rooms import Rooms
from reconciler.planning.snapshot import JobView, RegionView, Snapshot

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
    memory.index.update(records, policy)
    spoken = [key for key in [*world.placements, *world.declined] if key in records]
    for key in spoken:
        records[key] = _reviewed(records[key], world, memory.index, now)
    if spoken:
        memory.index.update(records, policy)
    placements: dict[JobKey, Placement] = {}
    proposals: dict[JobKey, Placement] = {}
    for decision in plan(snapshot_of(world, memory.index), now, memory.rooms, MOST_PLACED):
        record = records[decision.key]
        if isinstance(decision, Place):
            record, placement, proposed = _placed(record, decision, world, now)
            if placement is not None:
                (proposals if proposed else placements)[decision.key] = placement
        else:
            record = _waiting(record, decision)
        records[decision.key] = record
    if world.conditions or drained(world.sources.fleet.regions):
        memory.index.update(records, policy)
        left = replace(snapshot_of(world, memory.index), asks_images=False)  # of jobs that do not wait nobody asks
        records |= emptied(records, left, world.away, now)
        records |= with_foreseen(records, world, left, now, MOST_PLACED)
    return Outcome(records, placements, proposals, events_of(world.ledger.records, records))


# ---- records ------------------------------------------------------------------------------------------------------


def _advanced(world: World, steady: Steady, now: datetime) -> dict[JobKey, JobRecord]:
    policy = world.sources.fleet.policy
    old, jobs, conflicts = world.ledger.records, world.sources.jobs, world.sources.conflicts
    steady.under(policy)
    steady.keep_only(old)
    unread = world.ledger.unread
    records: dict[JobKey, JobRecord] = {}
    for key, record in old.items():
        file = jobs.get(key)
        seen = _seen(record, world)
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
    for key in jobs.keys() - old.keys():
        # A record that cannot be read may be of a job that runs: it is left alone until a person has looked.
        intent = intent_for(key, None, world.sources, world.suspicion)
        if intent.wanted is not None and key not in unread:
            records[key] = settle(admit(key, intent.wanted, now), policy, now)
    return records


def _seen(record: JobRecord, world: World) -> Seen:
    attempt = record.current
    if attempt is None:
        return NOTHING_SEEN
    region, away = world.regions.get(attempt.region), world.away.get(attempt.region)
    version = world.withdrawn_at.get(attempt.name)
    epoch = world.epochs.get(attempt.region, 0)
    if region is None:
        return Seen(None, without_it=False, away=away, epoch=epoch)
    without_it = version is not None and region.grants_version >= version
    refused = _refused(record.team, attempt, region.sync_errors) if region.sync_errors else None
    return Seen(region.workloads.get(attempt.name), without_it, refused, away, epoch)


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


def snapshot_of(world: World, index: Index) -> Snapshot:
    """What the pass decides from: the fleet, what is held in it, and the jobs that want an attempt."""
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
    pending = () if "policy.yaml" in world.sources.unread else tuple(_views(world, index))
    return Snapshot(
        regions,
        fleet.links,
        fleet.datasets,
        fleet.teams,
        fleet.policy,
        pending,
        index.used_gpus,
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


def _views(world: World, index: Index) -> Iterable[JobView]:
    if not world.unrendered:
        return index.pending.values()
    return [_view(view, world.unrendered.get(view.key)) for view in index.pending.values()]


def _view(view: JobView, known: Unrendered | None) -> JobView:
    if known is None or known.spec != view.spec:
        return view
    return replace(view, unrendered=tuple(sorted({**dict(view.unrendered), **known.regions}.items())))


def _placed(record: JobRecord, decision: Place, world: World, now: datetime) -> tuple[JobRecord, Placement | None, bool]:
    """The record with its new attempt, the placement to publish, and whether it still has to be approved."""
    current = record.current
    if current is not None:  # a proposal, approved and now with room
        epoch = world.epochs.get(current.region, 0)
        return settle(grant(use_choice(approve(record, now)), now, epoch), world.sources.fleet.policy, now), None, False
    rule = approval_needed(record.key, record, decision.chosen, world.sources.fleet.policy)
    refused = world.refused.get(proposal_branch(record.key)) if rule is not None else None
    if refused is not None:
        return _waiting(record, Wait(record.key, refused, {})), None, False
    attempt = new_attempt(record, decision.chosen, now, proposed=rule is not None)
    attempt = with_inputs(attempt, record, world.sources.fleet.datasets, world.images)
    after = with_attempt(record, attempt)
    placement = _placement(after, attempt, decision, world.inputs, now)
    if rule is not None:
        why = because(Why.APPROVAL_NEEDED, rule=rule, branch=proposal_branch(record.key), into="placements")
        return after.model_copy(update={"phase": Phase.PROPOSED, "why": why}), placement, True
    after = grant(use_choice(after), now, world.epochs.get(attempt.region, 0))
    return settle(after, world.sources.fleet.policy, now), placement, False


def new_attempt(record: JobRecord, chosen: Candidate, now: datetime, *, proposed: bool) -> Attempt:
    """The next attempt of a job, in the chosen region."""
    number = next_number(record)
    name = attempt_name(record.job_id, record.run_hash, number)
    base = record.spec.checkpoint_path
    # An attempt that never started wrote nothing; one that did had the checkpoint before it copied to its own prefix.
    earlier = next((old for old in reversed(record.this_run) if old.started_at is not None and old.checkpoint is not None), None)
    return Attempt(
        number=number,
        name=name,
        region=chosen.region,
        state=State.PROPOSED if proposed else State.PLACED,
        run_hash=record.run_hash,
        nodes=record.spec.nodes,
        needs=chosen.needs,
        gpu_model=chosen.node_model,
        gpu_products=chosen.gpu_products,
        dataset_uris=chosen.dataset_uris,
        checkpoint=own_prefix(base, name) if base is not None else None,
        seeded_from=earlier.checkpoint if earlier is not None and base is not None else None,
        price_usd=chosen.price_usd,
        decided_at=now,
        placed_at=None if proposed else now,
    )


def _placement(record: JobRecord, attempt: Attempt, decision: Place, inputs: str, now: datetime) -> Placement:
    refused, more = refused_view(decision.refused)
    return Placement(
        team=record.team,
        job_id=record.job_id,
        region=attempt.region,
        attempt=attempt.name,
        pin=record.placement.pin,
        veto=record.placement.veto,
        decided_at=now,
        decision=DecisionView(
            reason=decision.reason,
            chosen=decision.chosen.view(),
            runners_up=tuple(candidate.view() for candidate in decision.runners_up),
            refused=refused,
            refused_more=more,
            strategy=decision.strategy,
            inputs=inputs,
        ),
    )


def _waiting(record: JobRecord, decision: Wait | Impossible) -> JobRecord:
    """Note why it waits; unless only the numbers changed, so that a busy fleet does not rewrite every waiting job's record."""
    phase = Phase.IMPOSSIBLE if isinstance(decision, Impossible) else Phase.PENDING
    if record.current is not None:
        phase = record.phase
    waits, more = refused_view(decision.refused)
    same = _codes(waits) == _codes(record.waits) and more == record.waits_more
    if same and record.phase is phase and record.why is not None and record.why.code == decision.reason.code:
        return record
    return record.model_copy(update={"phase": phase, "why": decision.reason, "waits": waits, "waits_more": more})


def _codes(reasons: Mapping[str, Reason]) -> dict[str, str]:
    return {region: reason.code for region, reason in reasons.items()}
