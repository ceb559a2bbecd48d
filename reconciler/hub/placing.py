"""What the pass has decided of a job becomes its record: a new attempt with its placement, or why it waits. Pure.

Which region it is, or why none, is planning's to say; what must be brought there first is staging.py's.
"""

from collections.abc import Mapping
from datetime import datetime

from reconciler.hub.review import approval_needed, use_choice
from reconciler.hub.staging import Brought, begun, brought
from reconciler.hub.world import World
from reconciler.model.attempt import Attempt, Outcome, State
from reconciler.model.names import JobKey, proposal_branch
from reconciler.model.placement import DecisionView, Placement
from reconciler.model.policy import Policy
from reconciler.model.reasons import Reason, Why, because
from reconciler.model.record import JobRecord, Phase
from reconciler.planning.decisions import Candidate, Impossible, Place, Wait
from reconciler.planning.kept import with_inputs
from reconciler.planning.lifecycle import settle
from reconciler.planning.mirroring import image_task
from reconciler.planning.plan import refused_view
from reconciler.planning.records import approve, next_number, replace_current, with_attempt, withdraw
from reconciler.planning.seeding import checkpoint_task, seed_of
from reconciler.planning.snapshot import Snapshot
from reconciler.planning.stage_names import key_of
from reconciler.planning.staging import estimate_of


def what_to_bring(
    record: JobRecord, decision: Place, snapshot: Snapshot, known: Mapping[JobKey, JobRecord], world: World, now: datetime
) -> Brought:
    """What must come to the chosen region first, and where the job reads its datasets then. `known`: all records."""
    view = snapshot.regions[decision.chosen.region]
    wished = image_task(record, view, snapshot, known, now), checkpoint_task(record, view.region.name, snapshot)
    # Of one whose record cannot be read a person has to look first, and the job can do without it.
    tasks = [task for task in wished if task is not None and key_of(task) not in world.ledger.unread]
    return brought(decision.chosen, view, tasks)


def placed(
    record: JobRecord, decision: Place, found: Brought, world: World, now: datetime
) -> tuple[JobRecord, Placement | None, bool]:
    """The record with its new attempt, the placement to publish, and whether it still has to be approved."""
    policy = world.sources.fleet.policy
    if record.current is not None:  # a proposal, approved and now with room; how long people took was nobody's estimate
        record = replace_current(record, _estimated(record.current, record, decision.chosen))
        return settle(begun(use_choice(approve(record, now)), found, world, now), policy, now), None, False
    if record.stage is not None:  # nobody is asked about it: it was agreed to with the job that waits for it
        attempt = new_attempt(record, decision.chosen, now, proposed=False)
        return settle(begun(with_attempt(record, attempt), found, world, now), policy, now), None, False
    rule = approval_needed(record.key, record, decision.chosen, policy)
    refused = world.refused.get(proposal_branch(record.key)) if rule is not None else None
    if refused is not None:
        return waiting(record, Wait(record.key, refused, {})), None, False
    attempt = new_attempt(record, decision.chosen, now, proposed=rule is not None)
    attempt = with_inputs(attempt, record, world.sources.fleet.datasets, world.images)
    after = with_attempt(record, attempt)
    placement = _placement(after, attempt, decision, world.inputs, now)
    if rule is not None:
        why = because(Why.APPROVAL_NEEDED, rule=rule, branch=proposal_branch(record.key), into="placements")
        return after.model_copy(update={"phase": Phase.PROPOSED, "why": why}), placement, True
    return settle(begun(use_choice(after), found, world, now), policy, now), placement, False


def new_attempt(record: JobRecord, chosen: Candidate, now: datetime, *, proposed: bool) -> Attempt:
    """The next attempt of a job, in the chosen region."""
    seed = seed_of(record)
    attempt = Attempt(
        number=next_number(record),
        name=seed.attempt,
        region=chosen.region,
        state=State.PROPOSED if proposed else State.PLACED,
        run_hash=record.run_hash,
        nodes=record.spec.nodes,
        needs=chosen.needs,
        gpu_model=chosen.node_model,
        gpu_products=chosen.gpu_products,
        dataset_uris=chosen.dataset_uris,
        checkpoint=seed.target,
        seeded_from=seed.source,
        price_usd=chosen.price_usd,
        estimated_transfer=estimate_of(record),
        decided_at=now,
        placed_at=None if proposed else now,
    )
    return _estimated(attempt, record, chosen)


def _estimated(attempt: Attempt, record: JobRecord, chosen: Candidate) -> Attempt:
    """The attempt with when it is to start and end, as far as anybody knows."""
    known = record.spec.expected_runtime_seconds is not None
    return attempt.model_copy(
        update={"estimated_start_at": chosen.start_at, "estimated_end_at": chosen.end_at if known else None}
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


def waiting(record: JobRecord, decision: Wait | Impossible) -> JobRecord:
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


def unapproved(
    records: Mapping[JobKey, JobRecord],
    refused: Mapping[JobKey, str],
    before: Mapping[JobKey, JobRecord],
    policy: Policy,
    now: datetime,
) -> dict[JobKey, JobRecord]:
    """Of the jobs whose manifests cannot be made, those that were approved in this cycle, withdrawn: their numbers are known."""
    undone = {}
    for key, words in refused.items():
        old = before.get(key)
        proposed = old.current if old is not None else None
        if proposed is not None and proposed.state is State.PROPOSED:
            record = replace_current(records[key], proposed)
            record = withdraw(record, Outcome.WITHDRAWN, because(Why.START_REFUSED, message=words), now)
            undone[key] = settle(record, policy, now)
    return undone
