"""Looks at a record, for the tests of a job's life."""

from datetime import timedelta
from typing import Any

from reconciler.model.attempt import ENDED, Attempt, State
from reconciler.model.identity import run_hash
from reconciler.model.job import JobSpec
from reconciler.model.policy import Policy
from reconciler.model.record import JobRecord, Phase, Source
from reconciler.planning.lifecycle import Intent, Wanted, advance
from reconciler.planning.observed import NOTHING_SEEN, Seen
from tests.builders import NOW, TEAM, make_attempt, make_record, make_spec, make_workload

MINUTE = timedelta(minutes=1)
LIVE = [state for state in State if state not in ENDED]


def wants(spec: JobSpec, source: Source | None = None) -> Intent:
    of_run = run_hash(TEAM, spec)
    return Intent(Wanted(spec, source or Source(path=f"jobs/{TEAM}/{spec.job_id}.yaml", blob="b1"), of_run))


def look(
    record: JobRecord, intent: Intent | None = None, seen: Seen = NOTHING_SEEN, policy: Policy | None = None, now: Any = NOW
) -> JobRecord:
    """One look; main says what it said before unless `intent` says otherwise."""
    return advance(record, intent or wants(record.spec, record.source), seen, policy or Policy(), now)


def shows(*pods: Any, without_it: bool = False, **fields: Any) -> Seen:
    return Seen(make_workload("x", *pods, **fields), without_it=without_it)


def in_state(state: State, **fields: Any) -> JobRecord:
    spec = make_spec(**fields)
    return make_record(make_attempt(state=state, spec=spec), spec=spec, phase=Phase.RUNNING)


def granted(minutes_ago: float, **fields: Any) -> JobRecord:
    spec = make_spec(**fields)
    attempt = make_attempt(state=State.GRANTED, spec=spec, granted_at=NOW - timedelta(minutes=minutes_ago))
    return make_record(attempt, spec=spec, phase=Phase.STARTING)


def stint(number: int, minutes: float, state: State = State.STOPPED, **fields: Any) -> Attempt:
    """An ended attempt that ran so long."""
    return make_attempt(number, state, started_at=NOW - timedelta(minutes=minutes), ended_at=NOW, **fields)
