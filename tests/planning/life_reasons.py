"""For every reason that a job's life can give, a record that calls for it."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from reconciler.model.attempt import Outcome, State
from reconciler.model.policy import Policy
from reconciler.model.reasons import Reason, Why, because
from reconciler.model.record import JobRecord, Phase, PlacementSeen
from reconciler.model.stage import StageTask
from reconciler.planning.lifecycle import Intent, Wanted, advance, settle
from reconciler.planning.observed import Away, Seen
from tests.builders import (
    NOW,
    make_attempt,
    make_pod,
    make_record,
    make_spec,
    make_workload,
)

Numbers = Mapping[str, Any]


def running(**fields: Any) -> JobRecord:
    return make_record(make_attempt(spec=make_spec(**fields)), spec=make_spec(**fields), phase=Phase.RUNNING)


def granted(minutes_ago: int = 0, **fields: Any) -> JobRecord:
    spec = make_spec(**fields)
    attempt = make_attempt(state=State.GRANTED, spec=spec, granted_at=NOW - timedelta(minutes=minutes_ago))
    return make_record(attempt, spec=spec, phase=Phase.STARTING)


def looked_at(record: JobRecord, workload: Any = None, policy: Policy | None = None, **fields: Any) -> JobRecord:
    """The record after a look with nothing new on main."""
    wanted = Wanted(record.spec, record.source, record.run_hash) if record.source is not None else None
    intent = fields.pop("intent", Intent(wanted))
    return advance(record, intent, Seen(workload, without_it=False, **fields), policy or Policy(), NOW)


def ended_with(**pod: Any) -> Any:
    return make_workload("x", make_pod(phase="Failed", **pod), state="Ended")


def edited(record: JobRecord, **fields: Any) -> Intent:
    spec = make_spec(**fields)
    assert record.source is not None
    return Intent(Wanted(spec, record.source, make_record(spec=spec).run_hash))


def failed_attempts(count: int, **fields: Any) -> tuple[Any, ...]:
    return tuple(make_attempt(number, State.FAILED, **fields) for number in range(1, count + 1))


def of_attempt(record: JobRecord) -> Reason | None:
    return record.attempts[-1].reason


def of_job(record: JobRecord) -> Reason | None:
    return record.why


PULL = make_workload("x", make_pod(phase="Pending", waiting="ErrImagePull: no such tag"))
CONFIG = make_workload("x", make_pod(phase="Pending", waiting="CreateContainerConfigError: secret `s` not found"))
OVERTIME = make_workload("x", state="Ended", failed="DeadlineExceeded")
GONE = make_workload("x", state="Absent", stopped=False)
REPLACED = make_workload("x", state="Held", stopped=False, replaced=True)
TASK = StageTask(subject="corpus@7", region="eu", source_region="us", source_uri="s3://us/corpus/", target_uri="s3://eu/corpus/")
HELD_BACK = PlacementSeen(blob=None, veto=("all",))
DECLINED = PlacementSeen(blob=None, declined=make_record().run_hash)
SUCCEEDED = make_record(make_attempt(state=State.SUCCEEDED), phase=Phase.SUCCEEDED)

LIVES: dict[Why, tuple[JobRecord, Any, Numbers]] = {
    Why.SUCCEEDED: (looked_at(running(), make_workload("x", state="Ended", succeeded=True)), of_attempt, {}),
    Why.EXITED: (looked_at(running(), ended_with(exit_code=3)), of_attempt, {"code": 3}),
    Why.KILLED: (looked_at(running(), ended_with(exit_code=139, signal=11)), of_attempt, {"signal": 11}),
    Why.OUT_OF_MEMORY: (looked_at(running(), ended_with(exit_code=137, reason="OOMKilled")), of_attempt, {}),
    Why.PROGRAM_NOT_STARTED: (
        looked_at(running(), ended_with(exit_code=128, reason="StartError", message='exec: "trian": not found')),
        of_attempt,
        {"message": 'exec: "trian": not found'},
    ),
    Why.DISRUPTED: (
        looked_at(running(), ended_with(exit_code=137, reason="Evicted", message="low on disk")),
        of_attempt,
        {"message": "low on disk"},
    ),
    Why.IMAGE_PULL: (looked_at(granted(16), PULL), of_attempt, {"message": "ErrImagePull: no such tag"}),
    Why.START_REFUSED: (looked_at(granted(16), CONFIG), of_attempt, {"message": CONFIG.pods[0].waiting}),
    Why.START_TIMEOUT: (
        looked_at(granted(16)),
        of_attempt,
        {"limit_seconds": 900, "message": "the sync engine has not made its object"},
    ),
    Why.DEADLINE_EXCEEDED: (looked_at(running(max_runtime_seconds=3600), OVERTIME), of_attempt, {"limit_seconds": 3600}),
    Why.REGION_LOST: (
        looked_at(running(), away=Away(because(Why.REGION_AWAY, region="eu"), "10:05:00 UTC")),
        of_attempt,
        {"region": "eu", "at": "10:05:00 UTC"},
    ),
    Why.FORGOTTEN_BY_FORCE: (
        looked_at(running(), away=Away(because(Why.REGION_AWAY, region="eu"), "10:05:00 UTC", forgotten_by="ann", by_force=True)),
        of_attempt,
        {"region": "eu", "by": "ann"},
    ),
    Why.REGION_LOST_WAITS: (
        looked_at(running(on_region_lost="wait"), away=Away(because(Why.REGION_AWAY, region="eu"), "10:05:00 UTC")),
        of_job,
        {"region": "eu", "job": str(make_record().key)},
    ),
    Why.REGION_LOST_HELD: (
        settle(
            make_record(make_attempt(state=State.STOPPED, outcome=Outcome.REGION_LOST), spec=make_spec(on_region_lost="hold")),
            Policy(),
            NOW,
        ),
        of_job,
        {"region": "eu", "job": str(make_record().key)},
    ),
    Why.OBJECT_LOST: (looked_at(running(), GONE), of_attempt, {"region": "eu"}),
    Why.OBJECT_REPLACED: (looked_at(running(), REPLACED), of_attempt, {"region": "eu"}),
    Why.CANCELLED: (looked_at(running(), intent=Intent(None)), of_attempt, {}),
    Why.NOT_WANTED: (looked_at(running().model_copy(update={"stage": TASK}), intent=Intent(None)), of_attempt, {}),
    Why.SUSPENDED: (looked_at(running(suspend=True)), of_attempt, {}),
    Why.SUPERSEDED: (
        looked_at(running(), intent=edited(running(), args=["x"], env={"A": "1"})),
        of_attempt,
        {"changed": "args, env"},
    ),
    Why.NOT_YET_TOLD: (looked_at(granted(), PULL, ungranted="no answer"), of_job, {"region": "eu", "message": "no answer"}),
    Why.NOT_YET_RUNNING: (
        looked_at(granted(), PULL),
        of_attempt,
        {"region": "eu", "message": "ErrImagePull: no such tag"},
    ),
    Why.NOT_SYNCED: (
        looked_at(granted(), refused="spec.x: unknown field"),
        of_attempt,
        {"region": "eu", "message": "spec.x: unknown field"},
    ),
    Why.RETRIES_EXHAUSTED: (
        settle(make_record(*failed_attempts(2, counts_as_failure=True), spec=make_spec(retries=1)), Policy(), NOW),
        of_job,
        {"failures": 2, "retries": 1},
    ),
    Why.TOO_MANY_DISRUPTIONS: (
        settle(make_record(*failed_attempts(21, outcome=Outcome.DISRUPTED)), Policy(), NOW),
        of_job,
        {"count": 21, "job": "team-a/llm-a"},
    ),
    Why.HELD: (settle(make_record(placement=HELD_BACK), Policy(), NOW), of_job, {}),
    Why.DECLINED: (settle(make_record(placement=DECLINED), Policy(), NOW), of_job, {"into": "placements"}),
    Why.RELEASE_AHEAD: (
        looked_at(running(), intent=edited(running(), release=77)),
        lambda record: record.conditions[0].reason,
        {"release": 77, "last": 1, "job": str(make_record().key)},
    ),
    Why.EDITED_AFTER_SUCCESS: (
        looked_at(SUCCEEDED, intent=edited(SUCCEEDED, args=["x"])),
        lambda record: record.conditions[0].reason,
        {},
    ),
}
