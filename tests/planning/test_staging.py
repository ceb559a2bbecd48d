"""What is brought, for whom, and when it is there."""

from datetime import timedelta
from typing import Any

import pytest

from reconciler.model.attempt import State
from reconciler.model.names import STAGING_TEAM, JobKey, attempt_name
from reconciler.model.reasons import Reason, Why, code_of
from reconciler.model.record import JobRecord, Phase, Source
from reconciler.model.region import StoreAddress
from reconciler.model.stage import StageTask
from reconciler.planning.copies import copies_of
from reconciler.planning.records import replace_current
from reconciler.planning.stage_names import key_of
from reconciler.planning.stage_specs import spec_of
from reconciler.planning.staging import (
    AGAIN,
    intent_of,
    readiness,
    turned,
    unbrought,
    waited_for,
)
from tests.builders import NOW, make_attempt, make_record, make_spec

STORES = {name: StoreAddress(url=f"s3://{name}-bucket/x", endpoint=f"https://{name}.example.com") for name in ("ap", "eu")}


def task_of(name: str = "corpus", version: str = "7", region: str = "eu", source: str = "ap") -> StageTask:
    return StageTask(
        subject=f"{name}@{version}",
        region=region,
        source_region=source,
        source_uri=f"s3://{source}-bucket/x/{name}/",
        target_uri=f"s3://{region}-bucket/x/staged/{name}@{version}/",
        size_bytes=10**9,
    )


def record_of(task: StageTask, phase: Phase, **fields: Any) -> JobRecord:
    said: dict[str, Any] = {"source": Source(path="", blob="0"), "run_hash": "0", "submitted_at": NOW, "stage": task}
    spec = spec_of(task, STORES, 50, "reg.example.com/stage:1")
    return JobRecord(team=STAGING_TEAM, job_id=key_of(task).job_id, phase=phase, spec=spec, **(said | fields))


def waits(job_id: str, *tasks: StageTask, **spec: Any) -> JobRecord:
    """A job whose attempt waits for them."""
    attempt = make_attempt(state=State.STAGING).model_copy(update={"stages": tuple(key_of(task).job_id for task in tasks)})
    return make_record(attempt, spec=make_spec(job_id=job_id, **spec))


def ready(task: StageTask, record: JobRecord | None) -> Any:
    attempt = waits("a", task).current
    assert attempt is not None
    return readiness(attempt, {} if record is None else {record.key: record})


def test_a_task_is_known_by_its_subject_and_its_region() -> None:
    names = [key_of(task).job_id for task in (task_of(), task_of(version="8"), task_of(region="us"), task_of("corpus2"))]
    assert len(set(names)) == 4
    assert key_of(task_of()) == key_of(task_of(source="us")), "wherever it comes from"


@pytest.mark.parametrize("name", ["a", "a--b", "0-digits-first", "x" * 63, "trailing-" + "y" * 50])
def test_its_name_fits_into_an_attempts(name: str) -> None:
    key = key_of(task_of(name))
    assert len(attempt_name(key.job_id, "0" * 64, 12345)) <= 52
    assert spec_of(task_of(name), STORES, 50, "reg.example.com/stage:1").job_id == key.job_id


def test_a_dollar_in_an_address_stays_one() -> None:
    task = task_of().model_copy(update={"source_uri": "s3://ap-bucket/$(HOME)/$$x/"})
    assert spec_of(task, {}, 50, "reg.example.com/stage:1").command[3] == "s3://ap-bucket/$$(HOME)/$$$$x/"


def test_a_store_without_a_secret_lets_its_pods_in_as_they_are() -> None:
    assert spec_of(task_of(), STORES, 50, "reg.example.com/stage:1").secrets == ()
    locked = {**STORES, "ap": STORES["ap"].model_copy(update={"secret": "store-ap"})}
    names = [secret.env for secret in spec_of(task_of(), locked, 50, "reg.example.com/stage:1").secrets]
    assert names == ["SOURCE_AWS_ACCESS_KEY_ID", "SOURCE_AWS_SECRET_ACCESS_KEY"]


def test_the_most_urgent_job_and_the_first_deadline_count() -> None:
    task = task_of()
    jobs = [
        waits("a", task, priority="low", deadline="2026-05-03T00:00:00Z", expected_runtime_seconds=3600),
        waits("b", task, priority="high"),
        waits("c", task, priority="normal", deadline="2026-05-02T12:00:00Z"),
    ]
    (found,) = waited_for({job.key: job for job in jobs}).values()
    assert found.priority == 75
    assert found.deadline is not None
    assert found.deadline.isoformat() == "2026-05-02T12:00:00+00:00"


def test_who_runs_already_waits_for_nothing() -> None:
    record = waits("a", task_of())
    assert record.current is not None
    assert waited_for({record.key: replace_current(record, record.current.model_copy(update={"state": State.GRANTED}))}) == {}


WANTED: dict[str, tuple[Phase, bool, bool]] = {
    "waits and is waited for: it goes on": (Phase.PENDING, True, True),
    "runs and is waited for: it goes on": (Phase.RUNNING, True, True),
    "runs, and nobody waits any more: it ends": (Phase.RUNNING, False, False),
    "failed, and nobody waits: it stays so": (Phase.FAILED, False, False),
    "failed, and somebody waits again": (Phase.FAILED, True, True),
    "is there: it stays so": (Phase.SUCCEEDED, False, True),
}


@pytest.mark.parametrize("case", WANTED)
def test_what_is_wanted(case: str) -> None:
    phase, waited, wanted = WANTED[case]
    task = task_of()
    waiting = waited_for({record.key: record for record in [waits("a", task)]})[key_of(task).job_id] if waited else None
    intent = intent_of(record_of(task, phase), waiting, STORES)
    assert (intent.wanted is not None) == wanted
    if intent.wanted is not None:
        assert intent.wanted.spec.rerun == (1 if phase is Phase.FAILED else 0)


READY: dict[str, tuple[JobRecord | None, object]] = {
    "nobody has begun": (None, "waiting"),
    "it runs": (record_of(task_of(), Phase.RUNNING), "waiting"),
    "it is there": (record_of(task_of(), Phase.SUCCEEDED), "ready"),
    "it was there and is being removed": (
        record_of(task_of(), Phase.RUNNING).model_copy(update={"stage": task_of().model_copy(update={"kind": "evict"})}),
        "waiting",
    ),
    "its removal has succeeded": (
        record_of(task_of(), Phase.SUCCEEDED).model_copy(update={"stage": task_of().model_copy(update={"kind": "evict"})}),
        "waiting",
    ),
}


@pytest.mark.parametrize("case", READY)
def test_when_an_attempt_may_run(case: str) -> None:
    record, answer = READY[case]
    assert ready(task_of(), record) == answer


@pytest.mark.parametrize("phase", [Phase.FAILED, Phase.CANCELLED, Phase.HELD, Phase.IMPOSSIBLE])
def test_what_will_not_come_is_told(phase: Phase) -> None:
    found = ready(task_of(), record_of(task_of(), phase))
    assert isinstance(found, Reason)
    assert found.code == code_of(Why.STAGING_FAILED)
    assert found.text.startswith("corpus@7 could not be brought to eu: ")


def test_only_what_is_there_is_a_copy() -> None:
    there, comes = record_of(task_of(), Phase.SUCCEEDED), record_of(task_of("other"), Phase.RUNNING)
    assert copies_of([there, comes]) == {"corpus@7": {"eu": "s3://eu-bucket/x/staged/corpus@7/"}}
    assert copies_of([turned(there, waited_for=False, evict=True)]) == {}


def test_what_is_under_way_is_not_turned() -> None:
    runs = record_of(task_of(), Phase.RUNNING)
    assert turned(runs, waited_for=False, evict=True) is runs


def failed_at_now() -> JobRecord:
    """A task that has failed for good, at NOW."""
    ended = make_attempt(state=State.FAILED).model_copy(update={"ended_at": NOW})
    return record_of(task_of(), Phase.FAILED, attempts=(ended,))


CAUSES = {Why.STAGING_FAILED: {"what": "corpus@7", "region": "eu", "message": "its worker failed"}}
"""Reasons that staging gives, and their numbers."""


def test_what_could_not_be_brought_is_told_for_a_while() -> None:
    found = unbrought([failed_at_now()], NOW + AGAIN - timedelta(seconds=1))
    assert {key: dict(reason.numbers) for key, reason in found.items()} == {("corpus@7", "eu"): CAUSES[Why.STAGING_FAILED]}
    assert unbrought([failed_at_now()], NOW + AGAIN) == {}


def test_a_region_that_can_run_no_worker_is_not_asked() -> None:
    found = unbrought([record_of(task_of(), Phase.IMPOSSIBLE)], NOW)
    assert found.keys() == {("corpus@7", "eu")}


def test_what_is_under_way_goes_on_as_it_began_whatever_is_declared_since() -> None:
    task = task_of()
    runs = record_of(task, Phase.RUNNING, attempts=(make_attempt(),))
    intent = intent_of(runs, waited_for({record.key: record for record in [waits("a", task)]})[runs.job_id], {})
    assert intent.wanted is not None
    assert intent.wanted.spec.env == runs.spec.env


def test_a_key_is_a_jobs() -> None:
    assert key_of(task_of()) == JobKey(STAGING_TEAM, key_of(task_of()).job_id)
