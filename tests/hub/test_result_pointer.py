"""Where a job's result is: moved once the ledger says so, by compare-and-swap, never back; and healed by the next hub."""

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from reconciler.adapters.file_store import FileStore
from reconciler.hub import result_pointer
from reconciler.hub.result_pointer import ResultPointers, move, read_result
from reconciler.model.attempt import Attempt, State
from reconciler.model.names import JobKey
from reconciler.model.record import JobRecord
from reconciler.model.result import ResultPointer, result_key
from reconciler.ports import Conflict, ObjectStore, Refused, Stored
from tests.adapters.s3_server import make_bucket, moto_app, s3_store, serving
from tests.agent.stores import FailingStore
from tests.builders import NOW, TEAM, make_attempt, make_record, make_spec
from tests.hub.rig import Rig
from tests.hub.words import failed, running, succeeded

KEY = JobKey(TEAM, "llm-a")


def won(number: int, **fields: Any) -> Attempt:
    return make_attempt(number, State.SUCCEEDED, outputs=[f"s3://results/llm-a/a{number}/"], **fields)


def record(*attempts: Attempt, **fields: Any) -> JobRecord:
    return make_record(*attempts, **fields)


@pytest.fixture(params=["file", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectStore]:
    if request.param == "file":
        yield FileStore(tmp_path)
        return
    with ExitStack() as stack:
        url = stack.enter_context(serving(moto_app()))
        bucket = f"b-{uuid.uuid4().hex}"
        make_bucket(url, bucket)
        yield stack.enter_context(s3_store(url, bucket, "fleet"))


# ---- one pointer --------------------------------------------------------------------------------------------------


def test_it_says_which_attempt_and_where(store: ObjectStore) -> None:
    attempt = won(3, checkpoint="s3://ckpt/llm-a/a3/")
    assert read_result(store, KEY) is None
    assert move(store, KEY, attempt)
    assert read_result(store, KEY) == ResultPointer(
        team=TEAM,
        job_id="llm-a",
        attempt=attempt.name,
        number=3,
        region="eu",
        outputs=("s3://results/llm-a/a3/",),
        checkpoint="s3://ckpt/llm-a/a3/",
        succeeded_at=NOW,
    )


@pytest.mark.parametrize("late", [1, 2, 3])
def test_it_never_goes_back(store: ObjectStore, late: int) -> None:
    move(store, KEY, won(3))
    assert not move(store, KEY, won(late))
    found = read_result(store, KEY)
    assert found is not None
    assert found.number == 3
    assert move(store, KEY, won(4))


def test_of_two_that_write_at_once_one_loses() -> None:
    class Crowd(FailingStore):
        """Another hub points to a later attempt, just after we have read."""

        def get(self, key: str) -> Stored | None:
            found = super().get(key)
            if found is None:
                super().put(key, result_pointer.pointer_to(KEY, won(5)).model_dump_json().encode(), expect=None)
            return found

    store = Crowd()
    with pytest.raises(Conflict):
        move(store, KEY, won(4))
    found = read_result(store, KEY)
    assert found is not None
    assert found.number == 5


def test_another_attempt_of_the_same_number_is_for_a_person() -> None:
    store = FailingStore()
    move(store, KEY, won(3, name="llm-a-abcdef-a3"))
    with pytest.raises(Refused, match="which has the number of"):
        move(store, KEY, won(3))


def test_what_is_no_pointer_is_never_overwritten() -> None:
    store = FailingStore()
    store.put(result_key(KEY), b"{}", expect=None)
    with pytest.raises(Refused, match="is no result pointer"):
        move(store, KEY, won(1))
    assert store.objects[result_key(KEY)].body == b"{}"


# ---- of all jobs --------------------------------------------------------------------------------------------------

POINTED: dict[str, tuple[JobRecord, int | None]] = {
    "a job that runs": (record(make_attempt(1)), None),
    "a job that failed": (record(make_attempt(1, State.FAILED)), None),
    "an attempt that was stopped": (record(make_attempt(1, State.STOPPED)), None),
    "a job that succeeded": (record(won(1)), 1),
    "at the second attempt": (record(make_attempt(1, State.FAILED), won(2)), 2),
    "a job that runs again keeps the result that it has": (record(won(1), make_attempt(2), first_attempt=2), 1),
    "a job that failed when it ran again keeps it too": (record(won(1), make_attempt(2, State.FAILED), first_attempt=2), 1),
    "a job that succeeded again": (record(won(1), won(2), first_attempt=2), 2),
}


@pytest.mark.parametrize(("of_job", "number"), POINTED.values(), ids=POINTED.keys())
def test_what_is_pointed_to(of_job: JobRecord, number: int | None) -> None:
    store = FailingStore()
    assert ResultPointers(store).follow({KEY: of_job}) == ()
    found = read_result(store, KEY)
    assert (found.number if found is not None else None) == number


@pytest.mark.parametrize(("before", "after"), [(None, record(won(1))), (won(1), record(won(1), won(2), first_attempt=2))])
def test_what_a_hub_that_died_left_undone_is_done_by_the_next(before: Attempt | None, after: JobRecord) -> None:
    store = FailingStore()
    if before is not None:
        move(store, KEY, before)
    ResultPointers(store).follow({KEY: after})
    found = read_result(store, KEY)
    assert found is not None
    assert found.attempt == after.attempts[-1].name


def test_a_store_that_does_not_answer_is_told_and_asked_again() -> None:
    store = FailingStore()
    pointers = ResultPointers(store)
    store.down = True
    assert [trouble.code for trouble in pointers.follow({KEY: record(won(1))})] == ["ResultNotWritten"]
    store.down = False
    assert pointers.follow({KEY: record(won(1))}) == ()
    assert read_result(store, KEY) is not None


def test_an_answer_that_was_lost_harms_nothing() -> None:
    store = FailingStore()
    pointers, of_job = ResultPointers(store), record(won(1))
    store.lose_answers = True
    assert [trouble.subject for trouble in pointers.follow({KEY: of_job})] == [result_key(KEY)]
    store.lose_answers = False
    assert pointers.follow({KEY: of_job}) == ()
    assert store.writes == 1


def many(count: int) -> dict[JobKey, JobRecord]:
    specs = [make_spec(f"job-{at:03}") for at in range(count)]
    return {JobKey(TEAM, spec.job_id): make_record(make_attempt(1, State.SUCCEEDED, spec=spec), spec=spec) for spec in specs}


def test_many_are_written_some_at_a_time_and_one_that_is_broken_stands_in_nobodys_way() -> None:
    store, records = FailingStore(), many(120)
    broken = next(iter(records))
    store.put(result_key(broken), b"{}", expect=None)
    records[broken] = records[broken].model_copy(update={"first_attempt": 2})
    pointers = ResultPointers(store)
    for _ in range(3):
        pointers.follow(records)
    assert sum(read_result(store, key) is not None for key in records if key != broken) == 119


def test_a_quiet_hub_asks_the_store_nothing() -> None:
    store, records = FailingStore(), many(3)
    pointers = ResultPointers(store)
    pointers.follow(records)
    store.down = True
    assert pointers.follow(records) == ()
    assert pointers.follow(dict(list(records.items())[1:])) == ()


def test_a_new_leader_reads_no_pointer_that_must_be_right() -> None:
    store, records = FailingStore(), many(30)
    ResultPointers(store).follow(records)

    class Counting(FailingStore):
        gets = 0

        def get(self, key: str) -> Any:
            self.gets += 1
            return super().get(key)

    after = Counting()
    after.objects = store.objects
    ResultPointers(after).follow(records)
    assert after.gets == 0


# ---- through the hub ----------------------------------------------------------------------------------------------

FIELDS: dict[str, Any] = {"outputs": [{"path": "/out", "uri": "s3://results/llm-a/"}], "retries": 3}


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    made = Rig(tmp_path)
    made.tell("eu")
    made.tell("us")
    return made


def pointed(rig: Rig) -> ResultPointer | None:
    return read_result(rig.store.inner, KEY)


def test_two_attempts_write_to_two_places_and_the_pointer_tells_which_counts(rig: Rig) -> None:
    rig.job(**FIELDS)
    rig.settle()
    first = rig.attempt()
    rig.tell("eu", failed(first.name))
    rig.settle()
    second = rig.attempt()
    assert (first.outputs, second.outputs) == ((f"s3://results/llm-a/{first.name}/",), (f"s3://results/llm-a/{second.name}/",))
    manifest = rig.text(f"region/{second.region}", f"manifests/{TEAM}/{second.name}.yaml")
    assert manifest is not None
    assert second.outputs[0] in manifest
    assert pointed(rig) is None
    rig.tell("eu", running(second.name))
    rig.settle()
    assert pointed(rig) is None
    rig.tell("eu", succeeded(second.name))
    rig.settle()
    found = pointed(rig)
    assert found is not None
    assert (found.attempt, found.number, found.outputs) == (second.name, 2, second.outputs)


def test_a_hub_that_cannot_write_it_says_so_and_writes_it_once_that_is_mended(rig: Rig) -> None:
    rig.job(**FIELDS)
    rig.settle()
    rig.tell("eu", succeeded(rig.attempt().name))
    rig.store.inner.put(result_key(KEY), b"not ours", expect=None)
    rig.settle()
    rig.clock.seconds += 11
    rig.tell_again("eu")
    rig.tell_again("us")
    rig.settle()
    (trouble,) = (one for one in rig.hub_file().troubles if one.code == "ResultNotWritten")
    assert (trouble.subject, "is no result pointer" in trouble.what) == (result_key(KEY), True)
    rig.store.inner.delete(result_key(KEY))
    rig.restart()
    rig.settle()
    found = pointed(rig)
    assert found is not None
    assert found.number == 1


def test_the_second_attempt_reads_the_version_of_the_first_and_a_new_run_the_newest(rig: Rig) -> None:
    registered = "name: corpus\nuri: s3://data/{0}/\nversion: '{0}'\nsize_gb: 1\nreplicas: [{{region: eu}}, {{region: us}}]\n"
    rig.put({"datasets/corpus.yaml": registered.format(7)})
    rig.job(**FIELDS, dataset={"name": "corpus"})
    rig.settle()
    first = rig.attempt()
    rig.put({"datasets/corpus.yaml": registered.format(8)})
    rig.tell("eu", failed(first.name))
    rig.settle()
    second = rig.attempt()
    assert (first.number, second.number) == (1, 2)
    assert first.dataset_uris == second.dataset_uris == ("s3://data/7/",)
    manifest = rig.text(f"region/{second.region}", f"manifests/{TEAM}/{second.name}.yaml")
    assert manifest is not None
    assert '"s3://data/7/"' in manifest
    rig.tell("eu", succeeded(second.name))
    rig.settle()
    rig.job(**FIELDS, dataset={"name": "corpus"}, rerun=1)
    rig.settle()
    assert rig.attempt().dataset_uris == ("s3://data/8/",)


def test_the_pointer_of_a_job_that_runs_again_stays_until_that_has_succeeded(rig: Rig) -> None:
    rig.job(**FIELDS)
    rig.settle()
    first = rig.attempt()
    rig.tell("eu", succeeded(first.name))
    rig.settle()
    rig.job(**FIELDS, rerun=1)
    rig.settle()
    second = rig.attempt()
    assert second.number == 2
    found = pointed(rig)
    assert found is not None
    assert found.attempt == first.name
    rig.tell("eu", succeeded(second.name))
    rig.settle()
    found = pointed(rig)
    assert found is not None
    assert found.attempt == second.name
