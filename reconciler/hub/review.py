"""A person's word on placements: pins, overrides, vetoes, approvals, read from the placements branch.

The hub knows its own writing by the blob that it noted in the job's record; any other blob is a person's. It honours what is
said there or notes why it cannot, and never writes over it to have its own way.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from reconciler.model.attempt import Outcome, State
from reconciler.model.names import JobKey
from reconciler.model.placement import Placement
from reconciler.model.policy import Policy
from reconciler.model.problem import Invalid
from reconciler.model.reasons import Reason, Why, because
from reconciler.model.record import JobRecord, PlacementSeen
from reconciler.planning.decisions import Candidate
from reconciler.planning.records import see_placement, with_condition, withdraw

HONOURED = "PlacementHonoured"


@dataclass(frozen=True, slots=True)
class PlacementFile:
    """A placement as it stands on the branch: its blob, and its content or what is wrong with it."""

    blob: str
    content: Placement | Invalid


NeverIn = Callable[[JobRecord, str], Reason | None]
"""Why a job can never run in a region; None where it could."""


def review(record: JobRecord, file: PlacementFile | None, never_in: NeverIn, now: datetime) -> JobRecord:
    """The record after reading its placement file, if a person changed it since it was last read."""
    before = record.placement
    if (file.blob if file is not None else None) == before.blob:
        return record
    if file is None:
        # Somebody deleted it: whatever was pinned or vetoed there is no longer said. What runs, runs on.
        return see_placement(record, PlacementSeen(blob=None, declined=before.declined))
    if isinstance(file.content, Invalid):
        seen = before.model_copy(update={"blob": file.blob})
        return with_condition(see_placement(record, seen), HONOURED, because(Why.PLACEMENT_BROKEN), now, str(file.content))
    if (file.content.team, file.content.job_id) != record.key:
        seen = before.model_copy(update={"blob": file.blob})
        words = f"it is the placement of {file.content.team}/{file.content.job_id}; restore `team` and `job_id`"
        return with_condition(see_placement(record, seen), HONOURED, because(Why.PLACEMENT_BROKEN), now, words)
    return _said(record, file.blob, file.content, never_in, now)


def _said(record: JobRecord, blob: str, said: Placement, never_in: NeverIn, now: datetime) -> JobRecord:
    last = record.last
    approves = last is not None and last.state is State.PROPOSED and said.attempt == last.name
    elsewhere = last is None or said.region != last.region
    wanted = said.pin or (said.region if (approves or elsewhere) and said.region not in said.veto else None)
    cause = never_in(record, wanted) if wanted is not None else None
    if cause is not None and wanted is not None:
        seen = record.placement.model_copy(update={"blob": blob, "veto": said.veto})
        reason = because(Why.OVERRIDE_REFUSED, region=wanted, cause=cause.text)
        return with_condition(see_placement(record, seen), HONOURED, reason, now)
    agreed = _agreed(record)
    seen = PlacementSeen(
        blob=blob,
        pin=said.pin,
        veto=said.veto,
        approved=wanted,
        agreed=agreed,
        run_hash=record.run_hash if wanted is not None or agreed is not None else None,
    )
    record = with_condition(see_placement(record, seen), HONOURED, None, now)
    return _carry_out(record, wanted, now)


def _carry_out(record: JobRecord, wanted: str | None, now: datetime) -> JobRecord:
    """Stop what runs where a person does not want it. A proposal is only overtaken by another region."""
    attempt = record.current
    if attempt is None:
        return record
    if "all" in record.placement.veto:
        return withdraw(record, Outcome.WITHDRAWN, because(Why.HELD), now)
    if attempt.region in record.placement.veto:
        return withdraw(record, Outcome.MOVED, because(Why.VETOED, region=attempt.region), now)
    if wanted is not None and wanted != attempt.region:
        return withdraw(record, Outcome.MOVED, because(Why.MOVED, region=wanted), now)
    return record


def approved_region(record: JobRecord) -> str | None:
    """The region that a person approved for the spec in force; None where nobody did."""
    placement = record.placement
    if placement.pin is not None:
        return placement.pin
    return placement.approved if placement.run_hash == record.run_hash else None


def _agreed(record: JobRecord) -> str | None:
    return record.placement.agreed if record.placement.run_hash == record.run_hash else None


def use_choice(record: JobRecord) -> JobRecord:
    """The record once an attempt stands where a person chose: later ones may go elsewhere, and need no word to come back."""
    placement = record.placement
    agreed = _agreed(record)
    if placement.approved is not None and placement.run_hash == record.run_hash:
        agreed = placement.approved
    run_hash = record.run_hash if agreed is not None else None
    used = placement.model_copy(update={"approved": None, "agreed": agreed, "run_hash": run_hash})
    return record.model_copy(update={"placement": used})


def approval_needed(key: JobKey, record: JobRecord, chosen: Candidate, policy: Policy) -> str | None:
    """The rule by which this placement must wait for a person; None where none does, or a person has spoken already."""
    if chosen.region in (approved_region(record), _agreed(record)):
        return None
    rules = policy.approval
    if rules.always:
        return "always"
    if key.team in rules.teams:
        return f"team {key.team}"
    if chosen.region in rules.regions:
        return f"region {chosen.region}"
    if rules.priority_at_least is not None and record.spec.priority_value >= rules.priority_at_least:
        return f"priority at least {rules.priority_at_least}"
    if rules.price_above is not None and (chosen.price_usd is None or chosen.price_usd > rules.price_above):
        return f"price above {rules.price_above:.15g} USD"
    return None
