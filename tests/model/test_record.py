"""The ledger's record of a job: what it says of its attempts, and that it reads back as it was written."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from reconciler.hub.ledger import written
from reconciler.model.attempt import ENDED, Outcome, State
from reconciler.model.identity import run_hash, spec_hash
from reconciler.model.job import JobSpec
from reconciler.model.reasons import Reason, Why, because
from reconciler.model.record import FINISHED, Condition, JobRecord, Phase, PlacementSeen
from tests.builders import NOW, TEAM, make_attempt, make_record, make_spec
from tests.examples import examples
from tests.rendering.strategies import specs

SHAPES = sorted((Path(__file__).parents[1] / "cases" / "shapes").glob("*.yaml"))

words = st.text(max_size=30)
amounts = st.one_of(st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False), words, st.none())
reasons = st.builds(Reason, code=st.sampled_from(["NoCapacity", "Exited"]), numbers=st.dictionaries(words, amounts, max_size=3))


def read_back(record: JobRecord) -> JobRecord:
    return JobRecord.model_validate_json(written(record))


def spec_reads_back(spec: JobSpec) -> None:
    record = make_record(make_attempt(spec=spec), spec=spec)
    again = read_back(record)
    assert again == record
    assert (run_hash(TEAM, again.spec), spec_hash(again.spec)) == (record.run_hash, spec_hash(spec))
    assert written(again) == written(record)


@pytest.mark.parametrize("path", SHAPES, ids=lambda path: path.stem)
def test_jobs_as_people_write_them_read_back(path: Path) -> None:
    spec_reads_back(JobSpec.model_validate(yaml.safe_load(path.read_text(encoding="utf-8"))))


@pytest.mark.slow
@settings(max_examples=examples(100), deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(specs())
def test_any_spec_reads_back(spec: JobSpec) -> None:
    spec_reads_back(spec)


@settings(max_examples=examples(100), deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(st.sampled_from(sorted(ENDED)), st.sampled_from([None, *Outcome]), reasons, words), max_size=3),
    st.sampled_from(Phase),
    st.dictionaries(words, reasons, max_size=2),
    st.integers(0, 10**9).map(lambda micro: timedelta(microseconds=micro)),
)
def test_any_life_reads_back(
    ends: list[tuple[State, Outcome | None, Reason, str]], phase: Phase, waits: dict[str, Reason], span: timedelta
) -> None:
    attempts = [
        make_attempt(number, state, outcome=outcome, reason=reason, log_tail=tail, ended_at=NOW + span, exit_code=number)
        for number, (state, outcome, reason, tail) in enumerate(ends, start=1)
    ]
    record = make_record(
        *attempts,
        phase=phase,
        waits=waits,
        why=because(Why.EXITED, code=3),
        conditions=[Condition(type="Synced", status="False", reason=because(Why.HELD), message="é\n\u2028", since=NOW + span)],
        placement=PlacementSeen(blob="b", pin="eu", veto=("us",), approved="eu", run_hash="x", declined="y"),
    )
    assert read_back(record) == record
    assert written(read_back(record)) == written(record)


def test_what_is_written_is_small_sorted_and_says_its_version() -> None:
    text = written(make_record())
    said = json.loads(text)
    assert said["schema_version"] == 1
    assert list(said) == sorted(said)
    assert "waits" not in said
    assert "nodes" not in said["spec"]
    assert text.endswith(b"}\n")


@pytest.mark.parametrize("broken", ["", "{}", "[]", '{"schema_version": 2}', "null"])
def test_what_is_no_record(broken: str) -> None:
    with pytest.raises(ValidationError):
        JobRecord.model_validate_json(broken)


def test_a_field_that_nobody_knows_is_refused() -> None:
    said = json.loads(written(make_record())) | {"colour": "blue"}
    with pytest.raises(ValidationError, match="colour"):
        JobRecord.model_validate_json(json.dumps(said))


def test_the_attempt_that_has_not_ended_and_the_newest() -> None:
    old, now = make_attempt(1, State.FAILED), make_attempt(2, State.RUNNING)
    assert make_record().current is make_record().last is None
    assert (make_record(old).current, make_record(old).last) == (None, old)
    assert make_record(old, now).current == make_record(old, now).last == now


def test_attempts_of_this_run() -> None:
    attempts = [make_attempt(number, State.FAILED) for number in (3, 4, 5)]
    assert make_record(*attempts, first_attempt=4).this_run == tuple(attempts[1:])
    assert make_record(*attempts, first_attempt=6).this_run == ()


@pytest.mark.parametrize("phase", Phase)
def test_a_job_is_live_until_it_has_finished(phase: Phase) -> None:
    assert make_record(phase=phase).live == (phase not in FINISHED)
    assert {Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED} == FINISHED


def test_identity_is_team_and_job() -> None:
    assert str(make_record(spec=make_spec("b")).key) == f"{TEAM}/b"
