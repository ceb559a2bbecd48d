"""One cycle's decisions: from everything observed to the records, placements and proposals that are to be published. Pure.

The order is fixed: what the regions report and main says moves each job's record (planning/lifecycle.py); what people wrote into
placements is honoured or refused (review.py); then the pass places what waits (planning/plan.py). The outputs are values.
"""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from reconciler.hub.intents import intents
from reconciler.hub.ledger import Ledger, Suspicion
from reconciler.hub.regions import RegionSeen
from reconciler.hub.review import NeverIn, PlacementFile, approval_needed, approved_region, review
from reconciler.hub.sources import Fleet, Sources
from reconciler.model.attempt import HOLDS_GPUS, Attempt, State
from reconciler.model.attempt import Outcome as HowEnded
from reconciler.model.names import JobKey, attempt_name, manifest_path, proposal_branch
from reconciler.model.placement import DecisionView, Placement
from reconciler.model.reasons import Reason, Why, because
from reconciler.model.record import JobRecord, Phase
from reconciler.planning.decisions import Candidate, Impossible, Place, Wait
from reconciler.planning.lifecycle import NOTHING_SEEN, Intent, Seen, admit, advance, avoided_regions, settle
from reconciler.planning.override import never_in
from reconciler.planning.plan import plan, refused_view
from reconciler.planning.records import (
    approve,
    grant,
    next_number,
    run_limit,
    run_seconds_used,
    with_attempt,
    withdraw,
)
from reconciler.planning.snapshot import Holding, JobView, RegionView, Snapshot


@dataclass(frozen=True, slots=True)
class World:
    """Everything that a cycle has observed."""

    sources: Sources
    ledger: Ledger
    suspicion: Suspicion | None
    regions: Mapping[str, RegionSeen]
    ages: Mapping[str, float | None]
    withdrawn_at: Mapping[str, int]
    """Attempt that is being stopped → the first version of its region's grants that is known not to list it."""
    placements: Mapping[JobKey, PlacementFile | None]
    """Placement files that are not as their job's record has them: changed, new, or (None) gone."""
    declined: frozenset[JobKey]
    """Jobs whose proposal branch a person deleted unmerged."""
    closed: Mapping[str, Reason]
    """Regions that get nothing new at present for reasons of the hub's, and why."""
    inputs: str
    """Digest of all of the above, to be published with each decision."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is to be published."""

    records: Mapping[JobKey, JobRecord]
    """All records; those that did not change are the very same objects."""
    placements: Mapping[JobKey, Placement]
    """Placements that are in force from now on, of this cycle's decisions."""
    proposals: Mapping[JobKey, Placement]
    """Placements that wait for approval, of this cycle's decisions."""
    events: tuple[str, ...]
    """What happened, a line each, for the commit message."""


def decide(world: World, now: datetime) -> Outcome:
    """The records and placements after this cycle."""
    advanced = _advanced(world, now)
    asked = _never_in(world, advanced)
    records = {key: _reviewed(record, world, asked, now) for key, record in advanced.items()}
    snapshot = snapshot_of(world, records)
    placements: dict[JobKey, Placement] = {}
    proposals: dict[JobKey, Placement] = {}
    for decision in plan(snapshot, now):
        record = records[decision.key]
        if isinstance(decision, Place):
            record, placement, proposed = _placed(record, decision, world, now)
            if placement is not None:
                (proposals if proposed else placements)[decision.key] = placement
        else:
            record = _waiting(record, decision)
        records[decision.key] = record
    return Outcome(records, placements, proposals, tuple(_events(world.ledger.records, records)))


# ---- records ------------------------------------------------------------------------------------------------------


def _advanced(world: World, now: datetime) -> dict[JobKey, JobRecord]:
    policy = world.sources.fleet.policy
    old = world.ledger.records
    corrupt = {path.removeprefix("jobs/").removesuffix(".json") for path in world.ledger.corrupt}
    records: dict[JobKey, JobRecord] = {}
    for key, intent in intents(old, world.sources, world.suspicion).items():
        record = old.get(key)
        if record is None:
            # A record that cannot be read may be of a job that runs: it is left alone until a person has looked.
            if intent.wanted is not None and str(key) not in corrupt:
                records[key] = settle(admit(key, intent.wanted, now), policy, now)
            continue
        if not record.live and intent == Intent(None) and record.source is None:
            records[key] = record
            continue
        after = advance(record, intent, _seen(record, world), policy, now)
        records[key] = record if after == record else after
    return records


def _seen(record: JobRecord, world: World) -> Seen:
    attempt = record.current
    region = world.regions.get(attempt.region) if attempt is not None else None
    if attempt is None or region is None:
        return NOTHING_SEEN
    version = world.withdrawn_at.get(attempt.name)
    path = manifest_path(record.team, attempt.name)
    refused = next((said for where, said in region.sync_errors.items() if path.endswith(where) or attempt.name in where), None)
    without_it = version is not None and region.grants_version >= version
    return Seen(region.workloads.get(attempt.name), without_it, refused)


def _reviewed(record: JobRecord, world: World, asked: NeverIn, now: datetime) -> JobRecord:
    if record.key in world.declined and record.current is not None and record.current.state is State.PROPOSED:
        record = _declined(record, now)
    if record.key not in world.placements:
        return record
    after = review(record, world.placements[record.key], asked, now)
    return record if after is record else settle(after, world.sources.fleet.policy, now)


def _declined(record: JobRecord, now: datetime) -> JobRecord:
    after = withdraw(record, HowEnded.WITHDRAWN, because(Why.DECLINED, into="placements"), now)
    return after.model_copy(update={"placement": after.placement.model_copy(update={"declined": after.run_hash})})


def _never_in(world: World, records: Mapping[JobKey, JobRecord]) -> NeverIn:
    # Few cycles have a person's word to judge, and only those pay for this snapshot.
    made = functools.cache(lambda: snapshot_of(world, records))

    def ask(record: JobRecord, region: str) -> Reason | None:
        snapshot = made()
        return never_in(job_view(record, run_limit(record.spec, snapshot.policy)), region, snapshot)

    return ask


# ---- the pass -----------------------------------------------------------------------------------------------------


def snapshot_of(world: World, records: Mapping[JobKey, JobRecord]) -> Snapshot:
    """What the pass decides from: the fleet, what is held in it, and the jobs that want an attempt."""
    fleet = world.sources.fleet
    holdings: dict[str, list[Holding]] = {}
    used: dict[str, int] = {}
    pending: list[JobView] = []
    for record in records.values():
        attempt = record.current
        if attempt is not None and attempt.state in HOLDS_GPUS:
            holdings.setdefault(attempt.region, []).append(_holding(record, attempt, fleet))
            used[record.team] = used.get(record.team, 0) + attempt.total_gpus
        if wants_attempt(record):
            pending.append(job_view(record, run_limit(record.spec, fleet.policy)))
    regions = {
        name: RegionView(
            region,
            seen.facts if (seen := world.regions.get(name)) is not None else None,
            world.ages.get(name),
            tuple(holdings.get(name, ())),
            world.closed.get(name),
        )
        for name, region in sorted(fleet.regions.items())
    }
    if "policy.yaml" in world.sources.unread:
        pending = []
    return Snapshot(regions, fleet.links, fleet.datasets, fleet.teams, fleet.policy, tuple(pending), used)


def wants_attempt(record: JobRecord) -> bool:
    """Whether the pass is to place it: it waits, or a person has approved its proposal."""
    current = record.current
    if current is None:
        return record.phase in (Phase.PENDING, Phase.IMPOSSIBLE)
    return current.state is State.PROPOSED and approved_region(record) == current.region


def _holding(record: JobRecord, attempt: Attempt, fleet: Fleet) -> Holding:
    expected = _expected_seconds(record, run_limit(record.spec, fleet.policy))
    since = attempt.started_at or attempt.granted_at or attempt.placed_at
    ends = since + timedelta(seconds=expected) if since is not None and expected is not None else None
    return Holding(attempt.name, attempt.nodes, attempt.needs, attempt.gpu_model, ends)


def _expected_seconds(record: JobRecord, limit: int | None) -> int | None:
    whole = record.spec.expected_runtime_seconds or limit
    return None if whole is None else max(0, whole - int(run_seconds_used(record)))


def job_view(record: JobRecord, limit: int | None) -> JobView:
    """The job as the pass sees it. `limit`: its run time over all attempts, in seconds."""
    return JobView(
        key=record.key,
        spec=record.spec,
        submitted_at=record.submitted_at,
        pin=approved_region(record),
        veto=frozenset(record.placement.veto),
        avoid=avoided_regions(record),
        run_seconds=_expected_seconds(record, limit),
    )


def _placed(record: JobRecord, decision: Place, world: World, now: datetime) -> tuple[JobRecord, Placement | None, bool]:
    """The record with its new attempt, the placement to publish, and whether it still has to be approved."""
    current = record.current
    if current is not None:  # a proposal, approved and now with room
        return settle(grant(approve(record, now), now), world.sources.fleet.policy, now), None, False
    rule = approval_needed(record.key, record, decision.chosen, world.sources.fleet.policy)
    attempt = new_attempt(record, decision.chosen, now, proposed=rule is not None)
    after = with_attempt(record, attempt)
    placement = _placement(after, attempt, decision, world.inputs, now)
    if rule is not None:
        why = because(Why.APPROVAL_NEEDED, rule=rule, branch=proposal_branch(record.key), into="placements")
        return after.model_copy(update={"phase": Phase.PROPOSED, "why": why}), placement, True
    after = after.model_copy(update={"placement": after.placement.model_copy(update={"approved": None, "run_hash": None})})
    return settle(grant(after, now), world.sources.fleet.policy, now), placement, False


def new_attempt(record: JobRecord, chosen: Candidate, now: datetime, *, proposed: bool) -> Attempt:
    """The next attempt of a job, in the chosen region."""
    number = next_number(record)
    name = attempt_name(record.job_id, record.run_hash, number)
    base = record.spec.checkpoint_path.rstrip("/") if record.spec.checkpoint_path is not None else None
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
        checkpoint=f"{base}/{name}/" if base is not None else None,
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


def _events(before: Mapping[JobKey, JobRecord], after: Mapping[JobKey, JobRecord]) -> Iterable[str]:
    for key in sorted(after):
        old, new = before.get(key), after[key]
        if old is new or (old is not None and old.phase is new.phase and old.last == new.last):
            continue
        where = f" in {new.last.region}" if new.last is not None and new.current is not None else ""
        why = f": {new.why.text}" if new.why is not None and new.phase not in (Phase.RUNNING, Phase.STARTING) else ""
        yield f"{key} {new.phase.value.lower()}{where}{why}"
