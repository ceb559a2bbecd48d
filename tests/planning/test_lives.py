"""Whole lives of a job, at random: edits, removals, reports of every kind, time. What holds after every look."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.hub.ledger import written
from reconciler.model.attempt import TABLE, Outcome, State
from reconciler.model.identity import run_hash
from reconciler.model.names import attempt_name
from reconciler.model.policy import Policy
from reconciler.model.reasons import Why, because
from reconciler.model.record import FINISHED, JobRecord, Phase, PlacementSeen, Source
from reconciler.planning.lifecycle import Intent, Wanted, admit, advance, settle
from reconciler.planning.observed import Seen
from reconciler.planning.records import approve, grant, next_number, run_seconds_left, with_attempt, withdraw
from tests.builders import NOW, TEAM, make_attempt, make_pod, make_record, make_spec, make_workload
from tests.examples import examples

POLICY = Policy.model_validate({"thresholds": {"reschedules": 3}, "limits": {"max_runtime_seconds": 86_400}})


def reachable() -> set[tuple[State, State]]:
    """Pairs of states of which the second can follow on the first, at once or in steps."""
    pairs = {(state, target) for (state, _), target in TABLE.items()} | {(state, state) for state in State}
    while more := {(one, last) for one, middle in pairs for first, last in pairs if middle is first} - pairs:
        pairs |= more
    return pairs


REACHABLE = reachable()

SPECS: tuple[dict[str, Any], ...] = (
    {},
    {"args": ["x"]},
    {"suspend": True},
    {"rerun": 1},
    {"rerun": 2, "retries": 1},
    {"retries": 2, "priority": "high"},
    {"max_runtime_seconds": 3600, "expected_runtime_seconds": 600},
    {"on_exit": {"3": "reschedule", "4": "fail", "5": "succeed"}},
    {"start_timeout_seconds": 60},
)
WORKLOADS: tuple[dict[str, Any] | None, ...] = (
    None,
    {"pods": []},
    {"pods": [{}]},
    {"pods": [{"started": NOW}]},
    {"pods": [{"phase": "Pending", "waiting": "ErrImagePull: no"}]},
    {"pods": [{"phase": "Pending", "waiting": "Unschedulable"}]},
    {"pods": [{"terminating": True}], "failed": "FailureTarget"},
    {"pods": [{"phase": "Succeeded"}], "state": "Ended", "succeeded": True},
    {"pods": [{"phase": "Failed", "exit_code": 3}], "state": "Ended", "log_tail": 'trace\u2028back "quoted"'},
    {"pods": [{"phase": "Failed", "exit_code": 4}], "state": "Ended"},
    {"pods": [{"phase": "Failed", "exit_code": 5}], "state": "Ended"},
    {"pods": [{"phase": "Failed", "exit_code": 137, "reason": "Evicted"}], "state": "Ended"},
    {"pods": [], "state": "Ended"},
    {"pods": [], "state": "Ended", "failed": "DeadlineExceeded"},
    {"pods": [], "state": "Absent", "stopped": False},
    {"pods": [], "state": "Held", "replaced": True},
)
PLACEMENTS = (PlacementSeen(blob=None), PlacementSeen(blob="b", veto=("all",)), PlacementSeen(blob="b", pin="us", approved="us"))
DOUBT = because(Why.SPEC_BROKEN)


@dataclass(frozen=True)
class Moment:
    """One look: what main says (None: the file is gone; -1: it cannot be believed), what is seen, and how long after the last."""

    spec: int | None
    workload: int
    without_it: bool
    refused: bool
    seconds: int
    step: str
    """What else happens: the pass places it, proposes it, a person approves, moves or holds it."""
    placement: int


steps = st.sampled_from(("place", "place", "place", "propose", "approve", "move", "nothing"))
moments = st.builds(
    Moment,
    spec=st.sampled_from((None, -1, *range(len(SPECS)))),
    workload=st.integers(0, len(WORKLOADS) - 1),
    without_it=st.booleans(),
    refused=st.sampled_from((False, False, False, True)),
    seconds=st.sampled_from((0, 1, 30, 61, 901, 4000, 90_000)),
    step=steps,
    placement=st.sampled_from((0, 0, 0, 1, 2)),
)


def intent_of(moment: Moment) -> Intent:
    if moment.spec is None:
        return Intent(None)
    if moment.spec < 0:
        return Intent(None, DOUBT)
    spec = make_spec(**SPECS[moment.spec])
    return Intent(Wanted(spec, Source(path=f"jobs/{TEAM}/llm-a.yaml", blob=f"b{moment.spec}"), run_hash(TEAM, spec)))


def seen_in(moment: Moment, record: JobRecord) -> Seen:
    """What the region shows. That it acted on grants without the attempt can only be said once these were written."""
    fields = WORKLOADS[moment.workload]
    workload = None
    if fields is not None:
        pods = [make_pod(f"p{at}", **pod) for at, pod in enumerate(fields["pods"])]
        workload = make_workload("x", *pods, **{word: value for word, value in fields.items() if word != "pods"})
    stopping = record.current is not None and record.current.state is State.STOPPING
    return Seen(workload, moment.without_it and stopping, "unknown field" if moment.refused else None)


def look(record: JobRecord, moment: Moment, now: datetime, seen: Seen | None = None) -> JobRecord:
    return advance(record, intent_of(moment), seen or seen_in(moment, record), POLICY, now)


def act(record: JobRecord, moment: Moment, now: datetime) -> JobRecord:
    """What the hub does after a look: places what waits, carries out a person's word."""
    current = record.current
    if moment.step in ("place", "propose") and current is None and record.phase in (Phase.PENDING, Phase.IMPOSSIBLE):
        number, proposed = next_number(record), moment.step == "propose"
        attempt = make_attempt(
            number,
            State.PROPOSED if proposed else State.PLACED,
            name=attempt_name(record.job_id, record.run_hash, number),
            run_hash=record.run_hash,
            region=("eu", "us")[number % 2],
            decided_at=now,
            placed_at=None if proposed else now,
        )
        placed = with_attempt(record, attempt)
        return settle(placed if proposed else grant(placed, now), POLICY, now)
    if moment.step == "approve" and current is not None and current.state is State.PROPOSED:
        return settle(grant(approve(record, now), now), POLICY, now)
    if moment.step == "move":
        return settle(withdraw(record, Outcome.MOVED, because(Why.MOVED, region="us"), now), POLICY, now)
    return record


def first_record() -> JobRecord:
    intent = intent_of(Moment(0, 0, False, False, 0, "nothing", 0))
    assert intent.wanted is not None
    return admit(make_record().key, intent.wanted, NOW)


def holds(record: JobRecord) -> None:
    """What is true of every record."""
    assert all(attempt.ended for attempt in record.attempts[:-1]), "never two attempts at once"
    numbers = [attempt.number for attempt in record.attempts]
    assert numbers == sorted(set(numbers))
    assert len({attempt.name for attempt in record.attempts}) == len(numbers)
    assert not (record.phase in FINISHED and record.current is not None)
    assert (record.phase in (Phase.STARTING, Phase.RUNNING, Phase.STOPPING, Phase.PROPOSED)) == (record.current is not None)
    assert record.phase is not Phase.FAILED or record.why is not None
    for reason in (record.why, *(attempt.reason for attempt in record.attempts), *(one.reason for one in record.conditions)):
        assert reason is None or reason.text
    left = run_seconds_left(record, POLICY)
    assert left is None or left >= 0
    assert JobRecord.model_validate_json(written(record)) == record
    assert written(JobRecord.model_validate_json(written(record))) == written(record)


def follows(before: JobRecord, after: JobRecord) -> None:
    """What is true of a record and the one after it."""
    old = {attempt.number: attempt for attempt in before.attempts}
    for attempt in after.attempts:
        earlier = old.get(attempt.number)
        assert earlier is None or (earlier.state, attempt.state) in REACHABLE
        assert earlier is None or not earlier.ended or earlier == attempt, "what has ended stays as it was"
    assert {number for number in old if number >= after.first_attempt} <= {attempt.number for attempt in after.attempts}
    assert after.rerun >= before.rerun
    assert after.first_attempt >= before.first_attempt


@settings(max_examples=examples(250), deadline=None, derandomize=True)
@given(st.lists(moments, min_size=1, max_size=14))
def test_a_life(life: list[Moment]) -> None:
    record, now = first_record(), NOW
    holds(record)
    for moment in life:
        now += timedelta(seconds=moment.seconds)
        before = record.model_copy(update={"placement": PLACEMENTS[moment.placement]})
        after = look(before, moment, now)
        holds(after)
        follows(before, after)
        new_run = after.first_attempt > before.first_attempt
        assert not new_run or moment.spec not in (None, -1), "a run begins because main asks for one"
        assert moment.spec == -1 or after.source is None or after.spec == make_spec(**SPECS[moment.spec or 0])
        record = act(after, moment, now)
        holds(record)
        follows(after, record)


@settings(max_examples=examples(250), deadline=None, derandomize=True)
@given(st.lists(moments, min_size=1, max_size=10))
def test_a_second_look_at_the_same_world_changes_nothing(life: list[Moment]) -> None:
    """But for a run that was asked for while another was on, and begins when that has ended; and an end is read by the spec that
    was in force when it was seen first."""
    record, now = first_record(), NOW
    for moment in life:
        now += timedelta(seconds=moment.seconds)
        seen = seen_in(moment, record)
        once = look(record, moment, now, seen)
        twice = look(once, moment, now, seen)
        if twice != once and once.spec.on_exit == record.spec.on_exit:
            assert once.phase in FINISHED or once.phase is Phase.HELD
            assert twice.first_attempt > once.first_attempt
        assert look(twice, moment, now, seen) == twice
        record = act(once, moment, now)


@settings(max_examples=examples(250), deadline=None, derandomize=True)
@given(st.lists(moments, min_size=1, max_size=14))
def test_what_has_succeeded_runs_again_only_when_asked(life: list[Moment]) -> None:
    record, now = first_record(), NOW
    for moment in life:
        now += timedelta(seconds=moment.seconds)
        done = bool(record.this_run) and record.this_run[-1].state is State.SUCCEEDED
        after = look(record, moment, now)
        if done and after.first_attempt > record.first_attempt:
            assert after.rerun > record.rerun
        record = act(after, moment, now)


@settings(max_examples=examples(250), deadline=None, derandomize=True)
@given(st.lists(moments, min_size=1, max_size=14))
def test_nothing_is_granted_while_something_may_still_run(life: list[Moment]) -> None:
    """An attempt that was granted ends only by what was seen: its success, its failure, or the proof that it has stopped."""
    record, now = first_record(), NOW
    for moment in life:
        now += timedelta(seconds=moment.seconds)
        seen = seen_in(moment, record)
        after = look(record, moment, now, seen)
        current = record.current
        if current is not None and current.state in (State.GRANTED, State.RUNNING, State.STOPPING):
            same = next(attempt for attempt in after.attempts if attempt.number == current.number)
            ended_itself = seen.workload is not None and (
                seen.workload.succeeded or (seen.workload.state == "Ended" and seen.workload.stopped)
            )
            proved = seen.without_it and (seen.workload is None or seen.workload.stopped)
            assert not same.ended or ended_itself or (proved and current.state is State.STOPPING)
        record = act(after, moment, now)
