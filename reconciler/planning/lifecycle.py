"""A job's record after one more look at the world: what main wants, what its region reports, what time it is.

`advance` is pure and may be repeated: with nothing new it returns an equal record. It moves attempts only through the table in
model/attempt.py. It never starts anything (the pass does) and never grants (publishing the ledger does): it notes what is so.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from reconciler.model.attempt import Attempt, Outcome, State
from reconciler.model.identity import changed_fields
from reconciler.model.job import JobSpec
from reconciler.model.names import JobKey
from reconciler.model.policy import Policy
from reconciler.model.reasons import Reason, Why, because
from reconciler.model.record import FINISHED, REACHABLE, JobRecord, Phase, Source
from reconciler.planning.copies import why_lost
from reconciler.planning.endings import not_started
from reconciler.planning.observed import Seen, observe, waits_for_region
from reconciler.planning.records import is_stuck, note_release, released, run_limit, run_seconds_left, with_condition, withdraw

DEADLINE_SLACK = timedelta(seconds=15)
"""The region enforces the run time itself; the hub steps in when it has not."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A job as main has it."""

    spec: JobSpec
    source: Source
    run_hash: str


@dataclass(frozen=True, slots=True)
class Intent:
    """What main says of a job. `wanted` None and `doubt` None: it is surely gone."""

    wanted: Wanted | None
    doubt: Reason | None = None
    """Why its file cannot be believed at present; what runs then stays as it is."""


_UNSTARTED = frozenset({State.PLACED, State.STAGING, State.GRANTED})


def admit(key: JobKey, wanted: Wanted, now: datetime) -> JobRecord:
    """The record of a job that is new."""
    record = JobRecord(
        team=key.team,
        job_id=key.job_id,
        phase=Phase.PENDING,
        spec=wanted.spec,
        source=wanted.source,
        run_hash=wanted.run_hash,
        rerun=wanted.spec.rerun,
        submitted_at=now,
    )
    return note_release(record, now)


def advance(record: JobRecord, intent: Intent, seen: Seen, policy: Policy, now: datetime) -> JobRecord:
    """The record after this look."""
    after = observe(record, seen, policy, now)
    after = _take_in(after, intent, now)
    after = _enforce(after, seen, policy, now)
    away = seen.away if after.current is not None else None
    foreseen = next((one.message for one in record.conditions if one.type == REACHABLE), "")
    after = with_condition(after, REACHABLE, away.reason if away is not None else None, now, foreseen)
    return settle(after, policy, now)


# ---- what main says -----------------------------------------------------------------------------------------------


def _take_in(record: JobRecord, intent: Intent, now: datetime) -> JobRecord:
    if intent.doubt is not None:
        return with_condition(record, "SpecAccepted", intent.doubt, now)
    record = with_condition(record, "SpecAccepted", None, now)
    if intent.wanted is None:
        return _cancel(record, now)
    return _follow(record, intent.wanted, now)


def _cancel(record: JobRecord, now: datetime) -> JobRecord:
    if record.source is None and (record.cancelled or record.phase in FINISHED):
        return record
    finished = record.phase in FINISHED
    after = record.model_copy(update={"source": None, "cancelled": record.cancelled or not finished})
    return withdraw(after, Outcome.CANCELLED, _why_cancelled(record), now)


def _why_cancelled(record: JobRecord) -> Reason:
    return because(Why.CANCELLED if record.stage is None else Why.NOT_WANTED)


def _follow(record: JobRecord, wanted: Wanted, now: datetime) -> JobRecord:
    """The spec in force becomes main's; a new run starts where the change asks for one."""
    edited = wanted.run_hash != record.run_hash
    fields = ", ".join(changed_fields(record.spec, wanted.spec)) if edited else ""
    if wanted.spec != record.spec or wanted.source != record.source:
        record = record.model_copy(update={"spec": wanted.spec, "source": wanted.source, "run_hash": wanted.run_hash})
    record = note_release(record, now)
    # It may end well before the stop reaches it, and what has succeeded runs again only where `rerun` says so: judged at its end.
    back = record.cancelled and record.current is None
    added_again = back and not (record.this_run and record.this_run[-1].state is State.SUCCEEDED)
    if back:
        record = record.model_copy(update={"cancelled": False})
    if added_again or _asks_anew(record, wanted):
        record = new_run(record, now)
    current = record.current
    if current is not None and current.run_hash != wanted.run_hash:
        record = withdraw(record, Outcome.SUPERSEDED, because(Why.SUPERSEDED, changed=fields or "what it runs"), now)
    return record


def _asks_anew(record: JobRecord, wanted: Wanted) -> bool:
    """Whether a job that is over, or held for a person, is to run again: `rerun` was raised, or a failed spec was mended."""
    over = record.current is None and (record.phase in FINISHED or record.phase is Phase.HELD or is_stuck(record))
    mended = record.phase is Phase.FAILED and record.last is not None and record.last.run_hash != wanted.run_hash
    return over and (wanted.spec.rerun > record.rerun or mended)


def new_run(record: JobRecord, now: datetime) -> JobRecord:
    """The record with a run of its own before it."""
    last = record.last
    return record.model_copy(
        update={
            "phase": Phase.PENDING,
            "why": None,
            "rerun": max(record.rerun, record.spec.rerun),
            "first_attempt": last.number + 1 if last is not None else 1,
            "submitted_at": now,
        }
    )


# ---- what rules say -----------------------------------------------------------------------------------------------


def _enforce(record: JobRecord, seen: Seen, policy: Policy, now: datetime) -> JobRecord:
    attempt = record.current
    if attempt is None:
        return record
    if seen.refused is not None and attempt.state in _UNSTARTED:
        # Its file holds others up there; where else it may go is for the pass, which asks this region no more for this spec.
        return withdraw(record, Outcome.DISRUPTED, because(Why.NOT_SYNCED, region=attempt.region, message=seen.refused), now)
    if record.spec.suspend:
        return withdraw(record, Outcome.SUSPENDED, because(Why.SUSPENDED), now)
    return _timed_out(record, attempt, seen, policy, now)


def _timed_out(record: JobRecord, attempt: Attempt, seen: Seen, policy: Policy, now: datetime) -> JobRecord:
    """Without what ran out of time. Not while its region is not heard of: it may have started, or ended well, in time."""
    if seen.away is not None:
        return record
    if attempt.state is State.GRANTED and attempt.granted_at is not None:
        limit = record.spec.start_timeout_seconds or policy.limits.start_timeout_seconds
        if now - attempt.granted_at > timedelta(seconds=limit):
            found = not_started(seen.workload, limit)
            return withdraw(record, found.outcome, found.reason, now, counts_as_failure=found.counts, final=found.final)
    left = run_seconds_left(record, policy)
    if (
        left is not None
        and attempt.started_at is not None
        and now - attempt.started_at > timedelta(seconds=left) + DEADLINE_SLACK
    ):
        reason = because(Why.DEADLINE_EXCEEDED, limit_seconds=run_limit(record.spec, policy))
        return withdraw(record, Outcome.DEADLINE_EXCEEDED, reason, now, final=True)
    return record


# ---- what follows -------------------------------------------------------------------------------------------------


def settle(record: JobRecord, policy: Policy, now: datetime) -> JobRecord:
    """The phase and its reason, derived from the attempts and the spec."""
    phase, why = _phase(record, policy)
    if phase in FINISHED or record.current is not None:
        record = (
            record if not record.waits and not record.waits_more else record.model_copy(update={"waits": {}, "waits_more": {}})
        )
    record = _note_edit_after_success(record, phase, now)
    keep = phase in (Phase.PENDING, Phase.IMPOSSIBLE) and record.phase in (Phase.PENDING, Phase.IMPOSSIBLE)
    if keep:  # the pass decides between these two, and says why
        return record
    return record if (phase, why) == (record.phase, record.why) else record.model_copy(update={"phase": phase, "why": why})


_OF_STATE = {
    State.PROPOSED: Phase.PROPOSED,
    State.PLACED: Phase.STARTING,
    State.STAGING: Phase.STARTING,
    State.GRANTED: Phase.STARTING,
    State.RUNNING: Phase.RUNNING,
    State.STOPPING: Phase.STOPPING,
}


def _phase(record: JobRecord, policy: Policy) -> tuple[Phase, Reason | None]:
    current = record.current
    if current is not None:
        return _OF_STATE[current.state], _why_current(record, current)
    run = record.this_run
    last = run[-1] if run else None
    if last is not None and last.state is State.SUCCEEDED:
        return Phase.SUCCEEDED, why_lost(record) or last.reason
    if record.cancelled:
        return Phase.CANCELLED, _why_cancelled(record)
    over = _over(record, run, last, policy)
    if over is not None:
        return over
    if record.spec.suspend:
        return Phase.SUSPENDED, because(Why.SUSPENDED)
    if "all" in record.placement.veto:
        return Phase.HELD, because(Why.HELD)
    if record.placement.declined == record.run_hash:
        return Phase.HELD, because(Why.DECLINED, into="placements")
    return Phase.PENDING, last.reason if last is not None else None


def _why_current(record: JobRecord, current: Attempt) -> Reason | None:
    if waits_for_region(record):
        return because(Why.REGION_LOST_WAITS, region=current.region, job=str(record.key))
    return record.why if current.state in (State.PROPOSED, State.STAGING) else current.reason or why_lost(record)


def _over(
    record: JobRecord, run: tuple[Attempt, ...], last: Attempt | None, policy: Policy
) -> tuple[Phase, Reason | None] | None:
    """Whether the run is over without success: a final end, no retries left, no run time left, too many disruptions."""
    if last is None:
        return None
    if last.final:
        return Phase.FAILED, last.reason
    failures = sum(attempt.counts_as_failure for attempt in run)
    if failures > record.spec.retries:
        only = last.reason if failures == 1 else because(Why.RETRIES_EXHAUSTED, failures=failures, retries=record.spec.retries)
        return Phase.FAILED, only
    may_have_run = last.granted_at is not None and released(record) < last.number
    if last.outcome is Outcome.REGION_LOST and record.spec.on_region_lost == "hold" and may_have_run:
        return Phase.HELD, because(Why.REGION_LOST_HELD, region=last.region, job=str(record.key))
    if run_seconds_left(record, policy) == 0:  # which counts the silence of a lost region too
        return Phase.FAILED, because(Why.DEADLINE_EXCEEDED, limit_seconds=run_limit(record.spec, policy))
    since = [attempt for attempt in run if attempt.number > released(record)]
    disruptions = sum(attempt.outcome in _DISRUPTIVE or _rescheduled(attempt) for attempt in since)
    if disruptions > policy.thresholds.reschedules and record.stage is not None:
        return Phase.FAILED, last.reason  # nobody could release it, as it has no file; who wants it asks for it anew
    if disruptions > policy.thresholds.reschedules:
        return Phase.HELD, because(Why.TOO_MANY_DISRUPTIONS, count=disruptions, job=str(record.key))
    return None


_DISRUPTIVE = frozenset({Outcome.DISRUPTED, Outcome.START_TIMEOUT, Outcome.REGION_LOST})


def _rescheduled(attempt: Attempt) -> bool:
    return attempt.state is State.FAILED and not attempt.counts_as_failure


def avoided_regions(record: JobRecord) -> frozenset[str]:
    """Regions that the run's last attempt gives reason to avoid, if there is another."""
    last = record.this_run[-1] if record.this_run else None
    if last is None or not (last.outcome in _DISRUPTIVE or _rescheduled(last)):
        return frozenset()
    if last.outcome is Outcome.REGION_LOST and record.spec.on_region_lost == "wait" and released(record) < last.number:
        return frozenset()  # it waited for that very region
    return frozenset({last.region})


def _note_edit_after_success(record: JobRecord, phase: Phase, now: datetime) -> JobRecord:
    edited = phase is Phase.SUCCEEDED and record.last is not None and record.last.run_hash != record.run_hash
    return with_condition(record, "RunsWhatItSays", because(Why.EDITED_AFTER_SUCCESS) if edited else None, now)
