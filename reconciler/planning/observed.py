"""What a region's report, or its absence, means for the attempt that stands there.

Decides which event was seen, if any; what main and the rules make of the job then is lifecycle.py's. Pure. Invariant: an attempt
is stopped only where its region said so after it had acted on grants without it, or where rule 3 of the protocol proves it.
"""

from dataclasses import dataclass
from datetime import datetime

from reconciler.model.attempt import MAY_RUN, Attempt, Event, Outcome, State
from reconciler.model.policy import Policy
from reconciler.model.reasons import Reason, Why, because
from reconciler.model.record import JobRecord
from reconciler.model.report import WorkloadReport
from reconciler.planning.endings import Ending, ending, waits_otherwise
from reconciler.planning.records import replace_current, run_limit, withdraw


@dataclass(frozen=True, slots=True)
class Away:
    """What is so of a region that is not heard of, or was given up."""

    reason: Reason
    """As its jobs are told."""
    given_up_at: str | None = None
    """When its lease was revoked, in words; None where it is not. What was granted there ends then."""
    proven: bool = False
    """Rule 3 of the protocol: its lease was shown to be revoked after the right was withdrawn, so nothing of it runs."""
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


NOTHING_SEEN = Seen(None, without_it=False)


def observe(record: JobRecord, seen: Seen, policy: Policy, now: datetime) -> JobRecord:
    """The record after what was seen of its current attempt."""
    attempt = record.current
    if attempt is None:
        return record
    if attempt.state is State.STOPPING:
        return _stopping(record, attempt, seen, policy, now)
    after = _granted(record, attempt, seen, policy, now) if attempt.state in MAY_RUN else record
    if after is record and seen.away is not None and seen.away.given_up_at is not None:
        return withdraw(record, Outcome.REGION_LOST, _why_lost(attempt.region, seen.away), now)
    return after


def _why_lost(region: str, away: Away) -> Reason:
    if away.by_force:
        return because(Why.FORGOTTEN_BY_FORCE, region=region, by=away.forgotten_by)
    return because(Why.REGION_LOST, region=region, at=away.given_up_at)


def _stopping(record: JobRecord, attempt: Attempt, seen: Seen, policy: Policy, now: datetime) -> JobRecord:
    workload = seen.workload
    found = ending(workload, record.spec, run_limit(record.spec, policy)) if workload is not None else None
    if found is not None and found.event is Event.SUCCEEDED:
        return _ended(record, found, workload, now)
    # Rule 5 of the protocol: a report that has acted on grants without the attempt says that nothing of it runs.
    said = seen.without_it and (workload is None or workload.stopped)
    away = seen.away
    proven = away is not None and away.proven and (away.forgotten_by is not None or not waits_for_region(record))
    return replace_current(record, attempt.moved(Event.STOPPED, now)) if said or proven else record


def _granted(record: JobRecord, attempt: Attempt, seen: Seen, policy: Policy, now: datetime) -> JobRecord:
    workload = seen.workload
    if workload is None:
        return record
    found = ending(workload, record.spec, run_limit(record.spec, policy))
    if found is not None:
        return _ended(record, found, workload, now)
    if attempt.state is State.GRANTED and any(pod.phase == "Running" for pod in workload.pods):
        return replace_current(record, attempt.moved(Event.STARTED, now, reason=None))
    if workload.replaced or (workload.state == "Absent" and workload.uid is not None):
        why = Why.OBJECT_REPLACED if workload.replaced else Why.OBJECT_LOST
        return withdraw(record, Outcome.DISRUPTED, because(why, region=attempt.region), now)
    waits = waits_otherwise(attempt, workload)
    return record if waits is None else replace_current(record, attempt.model_copy(update={"reason": waits}))


def waits_for_region(record: JobRecord) -> bool:
    """Whether only the word of the lost region, or of a person, ends the current attempt."""
    attempt = record.current
    if attempt is None or attempt.state is not State.STOPPING or attempt.outcome is not Outcome.REGION_LOST:
        return False
    return record.spec.on_region_lost == "wait" and record.spec.release < attempt.number and not record.cancelled


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
