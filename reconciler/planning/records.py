"""Small steps on a job's record that the others are made of. Each returns a new record; none decides anything."""

from datetime import datetime

from reconciler.model.attempt import ENDED, Attempt, Event, Outcome, State
from reconciler.model.job import JobSpec
from reconciler.model.policy import Policy
from reconciler.model.reasons import Reason, Why, because
from reconciler.model.record import RELEASE_HONOURED, Condition, JobRecord, Phase, PlacementSeen


def run_limit(spec: JobSpec, policy: Policy) -> int | None:
    """Run time that all attempts of a run may use together, in seconds; None for no limit."""
    own, most = spec.max_runtime_seconds, policy.limits.max_runtime_seconds
    return min(own, most) if own is not None and most is not None else own if own is not None else most


def run_seconds_used(record: JobRecord) -> float:
    """Run time of the ended attempts of this run, in seconds. Waiting does not count, for a lost region's return neither."""
    return sum(_ran_seconds(attempt) for attempt in record.this_run if attempt.ended)


def _ran_seconds(attempt: Attempt) -> float:
    # The end of one that waits for its region is known when that is back, a day later perhaps; nothing ran after the revocation.
    is_lost = attempt.outcome is Outcome.REGION_LOST and attempt.stopping_at is not None
    until = attempt.stopping_at if is_lost else attempt.ended_at
    return max(0.0, (until - attempt.started_at).total_seconds()) if until is not None and attempt.started_at is not None else 0.0


def run_seconds_left(record: JobRecord, policy: Policy) -> int | None:
    """Run time that the current or next attempt may use, in seconds; None for no limit, never below zero."""
    limit = run_limit(record.spec, policy)
    return None if limit is None else max(0, limit - int(run_seconds_used(record)))


def withdraw(record: JobRecord, outcome: Outcome | None, reason: Reason, now: datetime, **changes: object) -> JobRecord:
    """Take the current attempt's right to run away; nothing happens where it is being stopped already or there is none."""
    attempt = record.current
    if attempt is None or attempt.state is State.STOPPING:
        return record
    return replace_current(record, attempt.moved(Event.WITHDRAWN, now, outcome=outcome, reason=reason, **changes))


def released(record: JobRecord) -> int:
    """Number of the last attempt after which a person lets the job go on; 0 for none."""
    ahead = any(one.type == RELEASE_HONOURED for one in record.conditions)
    return 0 if ahead else record.spec.release


def note_release(record: JobRecord, now: datetime) -> JobRecord:
    """The record that says whether its spec's `release` counts: not where it named an attempt that was not there when it was
    read, also not once it is.
    """
    old = next((one.reason for one in record.conditions if one.type == RELEASE_HONOURED), None)
    if old is not None and old.numbers.get("release") == record.spec.release:
        return record
    last = record.last.number if record.last is not None else 0
    ahead = because(Why.RELEASE_AHEAD, release=record.spec.release, last=last, job=str(record.key))
    return with_condition(record, RELEASE_HONOURED, ahead if record.spec.release > last else None, now)


def with_condition(record: JobRecord, kind: str, trouble: Reason | None, now: datetime, message: str = "") -> JobRecord:
    """The record with a condition of that type: False with its reason, or none where there is no trouble."""
    old = next((condition for condition in record.conditions if condition.type == kind), None)
    others = tuple(condition for condition in record.conditions if condition.type != kind)
    if trouble is None:
        return record if old is None else record.model_copy(update={"conditions": others})
    if old is not None and (old.reason, old.message) == (trouble, message):
        return record
    since = old.since if old is not None and old.reason is not None and old.reason.code == trouble.code else now
    new = Condition(type=kind, status="False", reason=trouble, message=message, since=since)
    conditions = tuple(sorted((*others, new), key=lambda condition: condition.type))
    return record.model_copy(update={"conditions": conditions})


def replace_current(record: JobRecord, attempt: Attempt) -> JobRecord:
    """The record with its newest attempt exchanged."""
    return record.model_copy(update={"attempts": (*record.attempts[:-1], attempt)})


def next_number(record: JobRecord) -> int:
    """Number of the attempt to come; never one that was given before."""
    return record.attempts[-1].number + 1 if record.attempts else 1


KEPT_FROM_EARLIER_RUNS = 20


def with_attempt(record: JobRecord, attempt: Attempt) -> JobRecord:
    """The record with one more attempt. Raises ValueError where another has not ended, or the number is not new."""
    if record.current is not None or attempt.number != next_number(record) or attempt.state in ENDED:
        raise ValueError(f"{record.key}: attempt {attempt.number} cannot follow {[old.number for old in record.attempts]}")
    earlier = [old for old in record.attempts if old.number < record.first_attempt]
    kept = (*earlier[-KEPT_FROM_EARLIER_RUNS:], *record.this_run)
    return record.model_copy(update={"attempts": (*kept, attempt), "waits": {}, "waits_more": {}})


def approve(record: JobRecord, now: datetime) -> JobRecord:
    """The proposed attempt becomes placed."""
    attempt = record.current
    if attempt is None:
        return record
    return replace_current(record, attempt.moved(Event.APPROVED, now))


def grant(record: JobRecord, now: datetime, epoch: int = 0) -> JobRecord:
    """Note that the attempt may run, under that epoch of its region's lease (0: not known yet). The grants are written only after
    this record is published.
    """
    attempt = record.current
    if attempt is None:
        return record
    return replace_current(record, attempt.moved(Event.GRANT_RECORDED, now, epoch=epoch))


def see_placement(record: JobRecord, seen: PlacementSeen) -> JobRecord:
    """The record with what its placement file said when it was last read."""
    return record if seen == record.placement else record.model_copy(update={"placement": seen})


def is_stuck(record: JobRecord) -> bool:
    """Whether regions that could have run it refused it when it was there: a person may have mended them since."""
    return record.phase is Phase.IMPOSSIBLE and bool(record.this_run)
