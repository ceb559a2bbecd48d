"""A job's life on real clusters where users of such systems were hurt: edits, failures that take time, deadlines, images."""

from typing import Any

from reconciler.model.attempt import State
from reconciler.model.record import Phase
from tests.e2e.fleet.up import Fleet, RegionUp
from tests.e2e.person import LASTS, job_text
from tests.waiting import until

TEAM, REGION = "vision", "us-east"
TWO_NODES = """\
import os, signal, sys, time
def stop(*_):
    print('stopping'); time.sleep(6); print('stopped'); sys.exit(143)
signal.signal(signal.SIGTERM, stop)
if os.environ['NODE_RANK'] == '1' and os.environ['ATTEMPT_NUMBER'] == '1':
    time.sleep(2); print('no such layer'); sys.exit(1)
time.sleep(8 if os.environ['ATTEMPT_NUMBER'] == '2' else 300)
"""


def push(fleet: Fleet, job: str, script: str, **fields: Any) -> None:
    text = job_text(job, script, allowed_regions=[REGION], **fields)
    fleet.person.push({f"jobs/{TEAM}/{job}.yaml": text})


def running(fleet: Fleet, job: str, number: int = 1) -> str:
    """Wait until that attempt of a job runs; its name."""

    def found() -> str | None:
        record = fleet.person.record(TEAM, job)
        last = record.last if record is not None else None
        runs = record is not None and record.phase is Phase.RUNNING
        return last.name if runs and last is not None and last.number == number else None

    return until(found, 120.0, 0.3)


def pods(region: RegionUp, attempt: str) -> list[str]:
    return sorted(pod["metadata"]["uid"] for pod in region.pods(TEAM, attempt))


def test_an_edit_of_what_runs_is_another_attempt_and_any_other_edit_touches_nothing(fleet: Fleet) -> None:
    region = fleet.regions[REGION]
    push(fleet, "edited", LASTS.format(seconds=300), priority="normal")
    first = running(fleet, "edited")
    before = pods(region, first)
    push(fleet, "edited", LASTS.format(seconds=300), priority="high", description="with another priority")
    until(lambda: (record := fleet.person.record(TEAM, "edited")) is not None and record.spec.priority == "high", 60.0, 0.3)
    assert (pods(region, first), running(fleet, "edited")) == (before, first)
    push(fleet, "edited", LASTS.format(seconds=300), image="registry.example.com/ml/train:1.5")
    second = running(fleet, "edited", number=2)
    assert [run.attempt for run in fleet.witness.of("edited")] == [first, second]
    fleet.person.push({f"jobs/{TEAM}/edited.yaml": None})
    fleet.person.until_phase(TEAM, "edited", Phase.CANCELLED, within_seconds=120.0)


def test_a_failed_job_whose_pods_still_end_holds_its_place_and_is_retried_only_after_them(fleet: Fleet) -> None:
    push(fleet, "half", TWO_NODES, nodes=2, communication_mode="sync", retries=1, grace_seconds=60)
    record = fleet.person.until_phase(TEAM, "half", Phase.SUCCEEDED, Phase.FAILED, within_seconds=180.0)
    assert [attempt.state for attempt in record.attempts] == [State.FAILED, State.SUCCEEDED]
    runs = fleet.witness.of("half")
    first, second = (record.attempts[number].name for number in (0, 1))
    assert sorted((run.attempt, run.index) for run in runs) == [(first, "0"), (first, "1"), (second, "0"), (second, "1")]
    ends = [run.ended for run in runs if run.attempt == first]
    begins = [run.began for run in runs if run.attempt == second]
    assert max(end or float("inf") for end in ends) < min(begins)


def test_the_run_time_counts_from_the_release_and_over_all_attempts(fleet: Fleet) -> None:
    region, limit = fleet.regions[REGION], 20
    push(fleet, "limited", LASTS.format(seconds=300), max_runtime_seconds=limit)
    first = running(fleet, "limited")
    fleet.person.fetched(f"region/{REGION}")
    manifest = fleet.person.read(f"region/{REGION}", f"manifests/{TEAM}/{first}.yaml") or ""
    assert "activeDeadlineSeconds" not in manifest
    job = region.job(TEAM, first)
    assert job is not None
    assert job["spec"]["activeDeadlineSeconds"] == limit
    began = fleet.witness.of("limited")[0].began
    until(lambda: fleet.witness.now() > began + 5, 30.0, 0.2)
    push(fleet, "limited", LASTS.format(seconds=300), max_runtime_seconds=limit, suspend=True)
    fleet.person.until_phase(TEAM, "limited", Phase.SUSPENDED, within_seconds=90.0)
    push(fleet, "limited", LASTS.format(seconds=300), max_runtime_seconds=limit)
    second = running(fleet, "limited", number=2)
    job = region.job(TEAM, second)
    assert job is not None
    assert 1 <= job["spec"]["activeDeadlineSeconds"] <= limit - 5
    record = fleet.person.until_phase(TEAM, "limited", Phase.FAILED, within_seconds=90.0)
    assert (record.why.code if record.why else "", len(record.attempts)) == ("DeadlineExceeded", 2)


def test_a_log_and_an_exit_code_reach_the_ledger(fleet: Fleet) -> None:
    push(fleet, "words", "print('loading'); raise SystemExit(7)")
    record = fleet.person.until_phase(TEAM, "words", Phase.FAILED, within_seconds=90.0)
    assert record.last is not None
    assert (record.last.exit_code, record.last.log_tail.strip()) == (7, "loading")


def test_a_job_that_nothing_can_run_now_is_started_when_there_is_room(fleet: Fleet) -> None:
    both = {"gpu": {"count": 8, "model": "H100-80GB"}, "nodes": 2, "communication_mode": "sync"}
    push(fleet, "first-in", LASTS.format(seconds=6), **both)
    running(fleet, "first-in")
    push(fleet, "then-in", LASTS.format(seconds=1), **both)
    waiting = fleet.person.until_phase(TEAM, "then-in", Phase.PENDING, Phase.STARTING)
    assert waiting.phase is Phase.PENDING
    fleet.person.until_phase(TEAM, "then-in", Phase.SUCCEEDED, within_seconds=120.0)
    ended, begun = fleet.witness.of("first-in"), fleet.witness.of("then-in")
    assert max(run.ended or float("inf") for run in ended) < min(run.began for run in begun)
