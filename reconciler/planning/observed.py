"""What a region's report, or its absence, means for the attempt that stands there.

Decides which event was seen, if any; what main and the rules make of the job then is lifecycle.py's. Pure. Invariant: an attempt
is stopped only where its region said so after it had acted on grants without it, or where rule 3 of the protocol proves it.
"""

from dataclasses import dataclass
from datetime import datetime

from reconciler.model.attempt import MAY_RUN, Attempt, Event, Outcome, State
from reconciler.model.policy import Policy
from reconciler.model.reasons import Reason, Why, because, code_of
from reconciler.model.record import JobRecord
from reconciler.model.report import WorkloadReport
from reconciler.planning.endings import Ending, ending, waits_otherwise
from reconciler.planning.records import released, replace_current, run_limit, withdraw


@dataclass(frozen=True, slots=True)
class Away:
    """What is so of a region that is not heard of, or was given up."""

    reason: Reason
    """As its jobs are told."""
    given_up_at: str | None = None
    """When its lease was revoked, in words; None where it is not. Then it has a new epoch, which nobody has taken yet."""
    forgotten_by: str | None = None
    """Who has said that it never comes back: then nothing waits for it. None where nobody has."""
    by_force: bool = False
    """Whether its lease was taken away at that word alone, so that nobody knows that nothing runs there."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the current attempt's region says of it, in its newest report."""

    workload: WorkloadReport | None
    without_it: bool
    """The region has acted on grants that do not list the attempt any more."""
    refused: str | None = None
    """What the region's sync engine says against the attempt's manifest."""
    away: Away | None = None
    """None: the region is heard of."""
    ungranted: str | None = None
    """Why the region's grants cannot be written."""
    epoch: int = 0
    """The highest epoch that the region's lease was seen to have; 0 for none. It never falls, so an old look does no harm."""


NOTHING_SEEN = Seen(None, without_it=False)


def observe(record: JobRecord, seen: Seen, policy: Policy, now: datetime) -> JobRecord:
    """The record after what was seen of its current attempt."""
    attempt = record.current
    if attempt is None:
        return record
    if attempt.state is State.STOPPING:
        return _stopping(record, attempt, seen, policy, now)
    after = _granted(record, attempt, seen, policy, now) if attempt.state in MAY_RUN else record
    if after is not record:
        return after
    return _lost(record, attempt, seen, now) if _is_lost(attempt, seen) else _bound(record, attempt, seen)


def _is_lost(attempt: Attempt, seen: Seen) -> bool:
    """Rule 3 of the protocol. An attempt runs only under the epoch that it was placed under, and a higher one is made only by a
    revocation, when the region's agent has stopped everything, or taken by that agent after it has.

    One that is bound to none yet was never let run by anybody; with a lease that is given up it never will be.
    """
    given_up = seen.away is not None and seen.away.given_up_at is not None
    return seen.epoch > attempt.epoch > 0 or (attempt.epoch == 0 and given_up)


def _is_forgotten(seen: Seen) -> bool:
    return seen.away is not None and seen.away.forgotten_by is not None


def _lost(record: JobRecord, attempt: Attempt, seen: Seen, now: datetime) -> JobRecord:
    reason = _why_lost(attempt, seen.away)
    waits = record.spec.on_region_lost == "wait" and not _is_forgotten(seen)
    if attempt.state not in MAY_RUN or waits:
        return withdraw(record, Outcome.REGION_LOST, reason, now)
    return replace_current(record, attempt.moved(Event.STOPPED, now, outcome=Outcome.REGION_LOST, reason=reason))


def _bound(record: JobRecord, attempt: Attempt, seen: Seen) -> JobRecord:
    if attempt.state not in MAY_RUN or attempt.epoch or not seen.epoch:
        return record
    return replace_current(record, attempt.model_copy(update={"epoch": seen.epoch}))


def _why_lost(attempt: Attempt, away: Away | None) -> Reason:
    if away is not None and away.by_force:
        return because(Why.FORGOTTEN_BY_FORCE, region=attempt.region, by=away.forgotten_by)
    at = (away.given_up_at if away is not None else None) or f"the end of its epoch {attempt.epoch}"
    return because(Why.REGION_LOST, region=attempt.region, at=at)


def _stopping(record: JobRecord, attempt: Attempt, seen: Seen, policy: Policy, now: datetime) -> JobRecord:
    workload = seen.workload
    found = ending(workload, record.spec, run_limit(record.spec, policy)) if workload is not None else None
    if found is not None and found.event is Event.SUCCEEDED:
        return _ended(record, found, workload, now)
    # Rule 5 of the protocol: a report that has acted on grants without the attempt says that nothing of it runs.
    if seen.without_it and (workload is None or workload.stopped):
        return replace_current(record, attempt.moved(Event.STOPPED, now))
    if not _is_lost(attempt, seen):
        return record
    record = _lost_while_stopping(record, attempt, seen)
    waits = waits_for_region(record) and not _is_forgotten(seen)
    return record if waits or record.current is None else replace_current(record, record.current.moved(Event.STOPPED, now))


def _lost_while_stopping(record: JobRecord, attempt: Attempt, seen: Seen) -> JobRecord:
    """It may have ended well before the stop reached it, whatever that was for, and nobody was told: so what the job says of a
    lost region counts. Not where the job itself is given up.
    """
    if record.cancelled or record.spec.on_region_lost == "rerun" or attempt.outcome is Outcome.REGION_LOST:
        return record
    return replace_current(
        record, attempt.model_copy(update={"outcome": Outcome.REGION_LOST, "reason": _why_lost(attempt, seen.away)})
    )


def _granted(record: JobRecord, attempt: Attempt, seen: Seen, policy: Policy, now: datetime) -> JobRecord:
    workload = seen.workload
    if workload is None:
        return _told(record, attempt, seen, None)
    found = ending(workload, record.spec, run_limit(record.spec, policy))
    if found is not None:
        return _ended(record, found, workload, now)
    if attempt.state is State.GRANTED and any(pod.phase == "Running" for pod in workload.pods):
        return replace_current(record, attempt.moved(Event.STARTED, now, reason=None))
    if workload.replaced or (workload.state == "Absent" and workload.uid is not None):
        why = Why.OBJECT_REPLACED if workload.replaced else Why.OBJECT_LOST
        return withdraw(record, Outcome.DISRUPTED, because(why, region=attempt.region), now)
    return _told(record, attempt, seen, waits_otherwise(attempt, workload))


def _told(record: JobRecord, attempt: Attempt, seen: Seen, waits: Reason | None) -> JobRecord:
    """Why it does not run yet: for want of its grant, before all that its region says. `waits`: None where nothing is new."""
    untold = attempt.reason is not None and attempt.reason.code == code_of(Why.NOT_YET_TOLD)
    if attempt.state is State.GRANTED and seen.ungranted is not None:
        waits = because(Why.NOT_YET_TOLD, region=attempt.region, message=seen.ungranted)
    elif waits is None and not untold:
        return record
    return record if waits == attempt.reason else replace_current(record, attempt.model_copy(update={"reason": waits}))


def waits_for_region(record: JobRecord) -> bool:
    """Whether only the word of the lost region, or of a person, ends the current attempt."""
    attempt = record.current
    if attempt is None or attempt.state is not State.STOPPING or attempt.outcome is not Outcome.REGION_LOST:
        return False
    return record.spec.on_region_lost == "wait" and released(record) < attempt.number and not record.cancelled


def _ended(record: JobRecord, found: Ending, workload: WorkloadReport | None, now: datetime) -> JobRecord:
    attempt = record.current
    if attempt is None:
        return record
    started = attempt.started_at or _first_start(workload, now)
    changes = {"reason": found.reason, "exit_code": found.exit_code, "counts_as_failure": found.counts, "final": found.final}
    tail = workload.log_tail if workload is not None and found.event is Event.FAILED else ""
    ended = attempt.moved(found.event, now, outcome=found.outcome, log_tail=tail, started_at=started, **changes)
    return replace_current(record, ended)


def _first_start(workload: WorkloadReport | None, now: datetime) -> datetime | None:
    """A program that started and ended between two reports did start: seen by its length, counted back from now."""
    if workload is None:
        return None
    times = [(pod.started_at, pod.ended_at) for pod in workload.pods if pod.started_at is not None]
    lengths = [(end or start) - start for start, end in times if start is not None]
    return now - max(lengths) if lengths else None
