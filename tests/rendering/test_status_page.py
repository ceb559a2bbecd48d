"""The page of the status branch: what needs a person stands near its top, and is bounded."""

from datetime import UTC, datetime
from typing import Any

import pytest

from reconciler.model.names import JobKey
from reconciler.model.reasons import Reason, Why, because
from reconciler.model.record import Condition, JobRecord, Phase
from reconciler.rendering.records import needs_a_person, status_page

NOW = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)
SPEC = {"job_id": "one", "gpu": {"count": 1}, "image": "reg.example.com/ml/train:1"}


def condition(kind: str, reason: Reason | None, message: str = "") -> Condition:
    return Condition(type=kind, status="False", reason=reason, message=message, since=NOW)


def record(job_id: str, *conditions: Condition, phase: Phase = Phase.RUNNING, why: Reason | None = None) -> JobRecord:
    said: dict[str, Any] = {
        "team": "red",
        "job_id": job_id,
        "phase": phase,
        "why": why,
        "spec": SPEC | {"job_id": job_id},
        "source": {"path": f"jobs/red/{job_id}.yaml", "blob": "0" * 40},
        "run_hash": "0" * 64,
        "submitted_at": NOW,
        "conditions": conditions,
    }
    return JobRecord.model_validate(said)


def page(*records: JobRecord, notices: tuple[str, ...] = ()) -> str:
    return status_page({each.key: each for each in records}, (), notices).decode()


BROKEN = condition("SpecAccepted", because(Why.SPEC_BROKEN), "jobs/red/one.yaml:2:1: Bad: `x`\n is no number")
REFUSED = condition("PlacementHonoured", because(Why.OVERRIDE_REFUSED, region="eu", cause="no room"))
DOUBTED = condition("SpecAccepted", because(Why.SOURCE_SUSPICIOUS, what="5 of 6 live jobs went"))

SAID: dict[str, tuple[JobRecord, list[str]]] = {
    "a condition with reason and message": (
        record("one", BROKEN),
        [
            f"red/one: SpecAccepted: {because(Why.SPEC_BROKEN).text}; jobs/red/one.yaml:2:1: Bad: `x` is no number",
        ],
    ),
    "a condition with a message alone": (record("one", condition("X", None, "words")), ["red/one: X: words"]),
    "two of one job": (
        record("one", REFUSED, DOUBTED),
        [
            "red/one: PlacementHonoured: the placement asks for eu: no room",
            f"red/one: SpecAccepted: {because(Why.SOURCE_SUSPICIOUS, what='5 of 6 live jobs went').text}",
        ],
    ),
    "a job that is held": (
        record("one", phase=Phase.HELD, why=because(Why.HELD)),
        ["red/one: Held: a person holds this job by `veto: all` in its placement"],
    ),
    "a job that has succeeded and was edited since": (
        record("one", condition("RunsWhatItSays", because(Why.EDITED_AFTER_SUCCESS)), phase=Phase.SUCCEEDED),
        ["red/one: RunsWhatItSays: its spec changed after it had succeeded; raise `rerun` to run the new one"],
    ),
    "a job that only runs": (record("one"), []),
}


@pytest.mark.parametrize(("job", "lines"), SAID.values(), ids=SAID.keys())
def test_what_needs_a_person(job: JobRecord, lines: list[str]) -> None:
    assert needs_a_person([job]) == lines


def test_it_stands_before_the_jobs_and_after_the_notices() -> None:
    said = page(record("one", BROKEN), record("two"), notices=("main is in doubt",))
    places = [
        said.index(part) for part in ("> main is in doubt", "## Needs a person\n\n- red/one: ", "## Jobs that are not over")
    ]
    assert places == sorted(places)
    assert "jobs/red/one.yaml:2:1: Bad: 'x' is no number\n" in said


def test_where_nothing_is_asked_there_is_no_such_part() -> None:
    assert "Needs a person" not in page(record("one"))


def test_at_most_a_hundred_are_listed_and_the_rest_is_counted() -> None:
    lines = page(*(record(f"job-{number}", REFUSED) for number in range(103))).splitlines()
    assert sum(line.startswith("- red/job-") for line in lines) == 100
    assert "- … and 3 more" in lines


def test_a_doubt_about_main_as_a_whole_hides_no_other_line() -> None:
    many = [record(f"a-{number:03}", DOUBTED) for number in range(100)]
    lines = needs_a_person([*many, record("z", BROKEN)])
    assert lines[0].startswith("red/z: SpecAccepted: its file is broken")
    assert len(lines) == 101


def test_jobs_are_in_the_order_of_their_names() -> None:
    lines = needs_a_person([record("two", REFUSED), record("one", REFUSED)])
    assert [line.partition(":")[0] for line in lines] == [str(JobKey("red", "one")), str(JobKey("red", "two"))]


def test_how_far_estimates_were_off_stands_below_the_counts() -> None:
    each = record("one")
    said = status_page({each.key: each}, (), (), estimates="estimates of late: none was off").decode()
    assert "| Running | 1 |\n\nEstimates of late: none was off.\n" in said
    assert "stimate" not in page(each)
