"""What a run's first attempt settles: the later ones read the same versions, whatever becomes of the registry."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from reconciler.model.attempt import Attempt, Inputs, State
from reconciler.model.fleet import Dataset
from reconciler.model.record import JobRecord
from reconciler.planning.decisions import Impossible, Place, Wait
from reconciler.planning.kept import kept_datasets, with_inputs
from reconciler.planning.plan import plan
from tests.builders import (
    NOW,
    make_attempt,
    make_dataset,
    make_job,
    make_link,
    make_record,
    make_region,
    make_snapshot,
    make_spec,
)

V7 = make_dataset("corpus-a", "eu", version="7", uri="s3://data/corpus-a/7/", replicas=[{"region": "eu", "uri": "s3://eu/7/"}])
V8 = make_dataset("corpus-a", "eu", version="8", uri="s3://data/corpus-a/8/", replicas=[{"region": "eu", "uri": "s3://eu/8/"}])
V7_MOVED = V7.model_copy(update={"replicas": (V7.replicas[0].model_copy(update={"uri": "s3://eu/seven/"}),)})
V8_CLOSED = V8.model_copy(update={"residency": ("gdpr",)})
UNVERSIONED = V7.model_copy(update={"version": None})
UNVERSIONED_MOVED = V7_MOVED.model_copy(update={"version": None})

READS: dict[str, Any] = {"name": "corpus-a"}


def read_from(dataset: Any, registered: Dataset | None, kept: Dataset | None) -> str:
    """Where the next attempt reads it, or why it cannot."""
    job = replace(make_job(dataset=dataset), kept=(kept,) if kept is not None else ())
    snapshot = make_snapshot(make_region("eu", a100=8), jobs=[job], datasets=[registered] if registered is not None else [])
    (decision,) = plan(snapshot, NOW)
    if isinstance(decision, Place):
        return decision.chosen.dataset_uris[0]
    assert isinstance(decision, Impossible | Wait)
    return decision.refused["eu"].code


NEXT: dict[str, tuple[Any, Dataset | None, Dataset | None, str]] = {
    "the first attempt goes by the registry": (READS, V8, None, "s3://eu/8/"),
    "a later one reads the version of the first": (READS, V8, V7, "s3://eu/7/"),
    "also where the registry has it no more": (READS, None, V7, "s3://eu/7/"),
    "of the same version the registry knows the addresses": (READS, V7_MOVED, V7, "s3://eu/seven/"),
    "where no version is declared, there is none to keep": (READS, UNVERSIONED_MOVED, UNVERSIONED, "s3://eu/seven/"),
    "a version that is declared since is another": (READS, V8, UNVERSIONED, "s3://eu/7/"),
    "a version that the spec asks for goes before": ({**READS, "version": "8"}, V8, V7, "s3://eu/8/"),
    "a version that the spec asked for all along is kept": ({**READS, "version": "7"}, V8, V7, "s3://eu/7/"),
    "a dataset by its address is the same dataset": ("s3://eu/7", V8, V7, "s3://eu/7/"),
    "another dataset's version is not this one's": ({"name": "corpus-b", "uri": "s3://b/"}, V8, V7, "s3://b/"),
    "where data may be is for the registry to say today": (READS, V8_CLOSED, V7, "DataMayNotLeave"),
}


@pytest.mark.parametrize(("dataset", "registered", "kept", "wanted"), NEXT.values(), ids=NEXT.keys())
def test_what_the_next_attempt_reads(dataset: Any, registered: Dataset | None, kept: Dataset | None, wanted: str) -> None:
    assert read_from(dataset, registered, kept) == wanted


def test_two_jobs_alike_but_for_what_they_keep_are_not_of_one_class() -> None:
    old, new = replace(make_job("old", dataset=READS), kept=(V7,)), make_job("new", dataset=READS)
    snapshot = make_snapshot(make_region("eu", a100=16), jobs=[old, new], datasets=[V8])
    placed = {
        decision.key.job_id: decision.chosen.dataset_uris for decision in plan(snapshot, NOW) if isinstance(decision, Place)
    }
    assert placed == {"old": ("s3://eu/7/",), "new": ("s3://eu/8/",)}


def test_the_kept_version_is_copied_from_where_it_was() -> None:
    job = replace(make_job(dataset=READS, allowed_regions=["us"]), kept=(V7,))
    snapshot = make_snapshot(
        make_region("eu", a100=8), make_region("us", a100=8), jobs=[job], datasets=[V8], links=[make_link("eu", "us")]
    )
    (decision,) = plan(snapshot, NOW)
    assert isinstance(decision, Place)
    assert decision.chosen.dataset_uris == ("s3://eu/7/",)
    assert decision.chosen.move_bytes == 500 * 10**9


# ---- what is noted ------------------------------------------------------------------------------------------------

SPEC = make_spec(
    dataset=[READS, "s3://anywhere/x/"],
    code={"git": "https://git.example.com/ml.git", "ref": "main"},
    outputs=[{"path": "/out", "uri": "s3://results/llm-a/"}, {"path": "/plots", "uri": "s3://results/plots"}],
)
DESCRIBED = V7.model_copy(update={"description": "for people"})


def noted(record: JobRecord, registered: Dataset, number: int, state: State = State.PLACED, **fields: Any) -> Attempt:
    attempt = with_inputs(make_attempt(number, spec=SPEC), record, {registered.name: registered})
    return make_attempt(number, state, spec=SPEC, **(fields | {"inputs": attempt.inputs, "outputs": attempt.outputs}))


def test_an_attempt_notes_what_it_is_made_from_and_has_prefixes_of_its_own() -> None:
    attempt = noted(make_record(spec=SPEC), DESCRIBED, 2)
    assert attempt.inputs == Inputs(code=SPEC.code, datasets=(V7,))
    assert attempt.outputs == (f"s3://results/llm-a/{attempt.name}/", f"s3://results/plots/{attempt.name}/")


def test_what_the_first_had_is_handed_on() -> None:
    record = make_record(noted(make_record(spec=SPEC), V7, 1, State.FAILED), spec=SPEC)
    for number in (2, 3, 4):
        record = make_record(*record.attempts, noted(record, V8, number, State.STOPPED), spec=SPEC)
        assert kept_datasets(record) == (V7,)


NOTHING_KEPT = {
    "an attempt that was only proposed": (State.STOPPED, {"granted_at": None, "started_at": None}, {}),
    "an attempt of the run before": (State.SUCCEEDED, {}, {"first_attempt": 2}),
    "an attempt that noted nothing": (State.FAILED, {"inputs": None}, {}),
}


@pytest.mark.parametrize(("state", "fields", "of_record"), NOTHING_KEPT.values(), ids=NOTHING_KEPT.keys())
def test_nothing_is_kept_from(state: State, fields: dict[str, Any], of_record: dict[str, Any]) -> None:
    attempt = noted(make_record(spec=SPEC), V7, 1).model_copy(
        update={"state": state, "granted_at": NOW - timedelta(hours=1), **fields}
    )
    assert kept_datasets(make_record(attempt, spec=SPEC, **of_record)) == ()
