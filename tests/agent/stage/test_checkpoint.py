"""Seeding a checkpoint: which one is chosen, in what order it is copied, and what is left when the worker dies."""

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.adapters.file_store import FileStore
from reconciler.agent.stage.checkpoints.newest import newest_complete
from reconciler.agent.stage.checkpoints.seeding import Seeded, is_missing, seed
from reconciler.ports import ObjectStore, Stored, Transient
from tests.agent.stores import FailingStore

OLD, NEW = "ckpt/llm-a/a1", "ckpt/llm-a/a2"


@pytest.fixture(params=["file store", "store in memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    return FileStore(tmp_path) if request.param == "file store" else FailingStore()


def write(store: ObjectStore, prefix: str, *names: str, body: bytes = b"x") -> None:
    for name in names:
        marks = name.endswith("/.metadata")
        store.put(f"{prefix}/{name}", pickle.dumps(["nothing"]) if marks else name.encode() + body, expect=None)


def is_seeded(store: ObjectStore, target: ObjectStore) -> bool:
    newest = newest_complete(store, OLD)
    return newest is None or not is_missing(newest, target, NEW)


def names(store: ObjectStore, prefix: str) -> list[str]:
    return [item.key[len(prefix) + 1 :] for item in store.list(f"{prefix}/")]


@dataclass(frozen=True)
class Case:
    """Objects below the source's prefix, and the folder that is chosen."""

    there: tuple[str, ...]
    want: str | None


CHOICES = {
    "nothing": Case((), None),
    "one that is complete": Case(("step-10/w", "step-10/_COMPLETE"), "step-10"),
    "one that is half written": Case(("step-10/w",), None),
    "the newest is half written, so the one before": Case(("step-10/w", "step-10/_COMPLETE", "step-20/w"), "step-10"),
    "by number, not by letter": Case(("step-9/_COMPLETE", "step-10/_COMPLETE", "step-100/_COMPLETE"), "step-100"),
    "as Hugging Face calls them": Case(("checkpoint-500/_COMPLETE", "checkpoint-1000/_COMPLETE"), "checkpoint-1000"),
    "the last number counts": Case(("epoch=9-step=10/_COMPLETE", "epoch=1-step=1200/_COMPLETE"), "epoch=1-step=1200"),
    "padded with zeros": Case(("iter_0000020/_COMPLETE", "iter_0000100/_COMPLETE"), "iter_0000100"),
    "a PyTorch distributed checkpoint": Case(("step-5/__0_0.distcp", "step-5/.metadata"), "step-5"),
    "a marker deeper down marks nothing": Case(("step-5/model/_COMPLETE", "step-5/model/.metadata"), None),
    "a marker beside the folders marks nothing": Case(("_COMPLETE", "step-5/w", "latest"), None),
    "names without a number come first, then by name": Case(("best/_COMPLETE", "last/_COMPLETE"), "last"),
    "a number beats a name": Case(("last/_COMPLETE", "step-1/_COMPLETE"), "step-1"),
    "the same number: by name": Case(("a-7/_COMPLETE", "b-7/_COMPLETE"), "b-7"),
}


@pytest.mark.parametrize("case", CHOICES.values(), ids=CHOICES.keys())
def test_which_is_chosen(case: Case) -> None:
    store = FailingStore()
    write(store, OLD, *case.there)
    found = newest_complete(store, OLD)
    assert (found.name if found else None) == case.want
    assert seed(store, OLD, store, NEW).checkpoint == case.want


def test_all_of_it_is_copied_and_nothing_else(store: ObjectStore) -> None:
    write(
        store,
        OLD,
        "step-10/_COMPLETE",
        "step-20/a",
        "step-20/deep/b",
        "step-20/.metadata",
        "step-20/_COMPLETE",
        "latest",
        "step-30/half",
    )
    write(store, f"{OLD}0", "step-99/_COMPLETE")
    size = sum(item.size for item in store.list(f"{OLD}/step-20/"))
    assert seed(store, OLD, store, f"{NEW}/") == Seeded("step-20", 4, size)
    assert names(store, NEW) == ["step-20/.metadata", "step-20/_COMPLETE", "step-20/a", "step-20/deep/b"]
    copied = store.get(f"{NEW}/step-20/deep/b")
    assert copied is not None
    assert copied.body == b"step-20/deep/bx"


def test_nothing_to_copy_is_fine(store: ObjectStore) -> None:
    assert seed(store, OLD, store, NEW) == Seeded(None)
    assert names(store, NEW) == []


def test_a_second_time_there_is_nothing_to_do(store: ObjectStore) -> None:
    write(store, OLD, "step-20/a", "step-20/_COMPLETE")
    assert not is_seeded(store, store)
    seed(store, OLD, store, NEW)
    assert is_seeded(store, store)
    assert seed(store, OLD, store, NEW) == Seeded("step-20")


def test_what_the_target_has_itself_and_newer_is_never_touched(store: ObjectStore) -> None:
    write(store, OLD, "step-20/a", "step-20/_COMPLETE")
    write(store, NEW, "step-30/a", "step-30/_COMPLETE")
    before = names(store, NEW)
    assert seed(store, OLD, store, NEW) == Seeded("step-30")
    assert names(store, NEW) == before


def test_an_older_one_in_the_target_stays_beside_the_newer(store: ObjectStore) -> None:
    write(store, OLD, "step-20/a", "step-20/_COMPLETE")
    write(store, NEW, "step-9/a", "step-9/_COMPLETE")
    assert seed(store, OLD, store, NEW).checkpoint == "step-20"
    found = newest_complete(store, NEW)
    assert found is not None
    assert found.name == "step-20"
    assert "step-9/_COMPLETE" in names(store, NEW)


def test_a_half_written_one_of_that_name_in_the_target_is_made_whole() -> None:
    store = FailingStore()
    write(store, OLD, "step-20/a", "step-20/b", "step-20/_COMPLETE")
    write(store, NEW, "step-20/a")
    store.put(f"{NEW}/step-20/b", b"cut", expect=None)
    assert seed(store, OLD, store, NEW).copied_objects == 2
    assert store.objects[f"{NEW}/step-20/b"].body == b"step-20/bx"


def test_as_new_a_one_in_the_target_is_left_whatever_marks_it() -> None:
    store = FailingStore()
    write(store, OLD, "step-20/a", "step-20/.metadata")
    write(store, NEW, "step-20/a", "step-20/_COMPLETE", body=b"own")
    assert seed(store, OLD, store, NEW) == Seeded("step-20")


def test_no_marker_is_written_while_a_part_is_missing() -> None:
    class Leaky(FailingStore):
        """Loses what is written first."""

        def put(self, key: str, body: bytes, *, expect: str | None) -> str:
            etag = super().put(key, body, expect=expect)
            if key.endswith("/a"):
                self.delete(key)
            return etag

    source, target = FailingStore(), Leaky()
    write(source, OLD, "step-20/a", "step-20/_COMPLETE")
    with pytest.raises(Transient):
        seed(source, OLD, target, NEW)
    assert newest_complete(target, NEW) is None


def test_with_one_marker_of_two_it_is_not_done() -> None:
    store = FailingStore()
    write(store, OLD, "step-20/a", "step-20/.metadata", "step-20/_COMPLETE")
    write(store, NEW, "step-20/a", "step-20/.metadata")
    assert seed(store, OLD, store, NEW).copied_objects == 1
    assert "step-20/_COMPLETE" in names(store, NEW)


class Dying(FailingStore):
    """Dies at a write, before or after it was done."""

    die_at = -1
    after = False

    def put(self, key: str, body: bytes, *, expect: str | None) -> str:
        dies = self.writes == self.die_at
        if dies and not self.after:
            raise KeyboardInterrupt
        etag = super().put(key, body, expect=expect)
        if dies:
            raise KeyboardInterrupt
        return etag


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("number", range(5))
def test_stopped_at_any_instant_it_is_complete_nowhere_and_goes_on(number: int, after: bool) -> None:
    source, target = FailingStore(), Dying()
    write(source, OLD, "step-20/a", "step-20/b", "step-20/c", "step-20/.metadata", "step-20/_COMPLETE")
    target.die_at, target.after = number, after
    with pytest.raises(KeyboardInterrupt):
        seed(source, OLD, target, NEW)
    found = newest_complete(target, NEW)
    if found is not None:
        assert {"step-20/a", "step-20/b", "step-20/c"} <= found.objects.keys()
    target.die_at = -1
    there = len(names(target, NEW))
    assert seed(source, OLD, target, NEW).copied_objects == 5 - there
    assert sorted(names(target, NEW)) == sorted(names(source, OLD))


def test_a_checkpoint_that_is_deleted_while_it_is_copied_gives_way_to_the_next() -> None:
    class Cleaning(FailingStore):
        """Somebody keeps the newest only, and writes one more while the copy goes on."""

        def get(self, key: str) -> Stored | None:
            if key == f"{OLD}/step-20/b":
                for name in ("a", "b", "_COMPLETE"):
                    self.delete(f"{OLD}/step-20/{name}")
                write(self, OLD, "step-40/a", "step-40/_COMPLETE")
            return super().get(key)

    source, target = Cleaning(), FailingStore()
    write(source, OLD, "step-20/a", "step-20/b", "step-20/_COMPLETE")
    assert seed(source, OLD, target, NEW).checkpoint == "step-40"
    found = newest_complete(target, NEW)
    assert found is not None
    assert found.name == "step-40"


def test_a_source_that_never_holds_still_is_said_to_do_so() -> None:
    class Restless(FailingStore):
        def get(self, key: str) -> Stored | None:
            found = super().get(key)
            return Stored(found.body + b"!", found.etag) if found else None

    source = Restless()
    write(source, OLD, "step-20/a", "step-20/_COMPLETE")
    with pytest.raises(Transient, match="keep changing"):
        seed(source, OLD, FailingStore(), NEW)


class Crowd(FailingStore):
    """Another worker writes each object just before we do."""

    other = b""

    def put(self, key: str, body: bytes, *, expect: str | None) -> str:
        if key not in self.objects:
            super().put(key, self.other or body, expect=None)
        return super().put(key, body, expect=expect)


def test_several_at_once_copy_the_same() -> None:
    source, target = FailingStore(), Crowd()
    write(source, OLD, "step-20/a", "step-20/_COMPLETE")
    seed(source, OLD, target, NEW)
    assert is_seeded(source, target)


def test_somebody_else_who_writes_something_else_is_an_error() -> None:
    source, target = FailingStore(), Crowd()
    target.other = b"theirs"
    write(source, OLD, "step-20/a", "step-20/_COMPLETE")
    with pytest.raises(Transient, match="somebody else"):
        seed(source, OLD, target, NEW)


def test_folders_that_a_store_shows_as_objects_are_none() -> None:
    store = FailingStore()
    write(store, OLD, "step-20/", "step-20/sub/", "step-20/a", "step-20/_COMPLETE")
    seed(store, OLD, store, NEW)
    assert names(store, NEW) == ["step-20/_COMPLETE", "step-20/a"]


def test_a_whole_bucket_may_be_the_prefix() -> None:
    store = FailingStore()
    store.put("step-3/_COMPLETE", b"", expect=None)
    found = newest_complete(store, "")
    assert found is not None
    assert found.name == "step-3"


folders = st.sampled_from(["step-1", "step-2", "step-10", "best", "half"])
parts = st.sampled_from(["a", "b", "_COMPLETE", ".metadata"])
keys = st.frozensets(st.tuples(folders, parts), max_size=12)


@given(keys, keys)
def test_whatever_is_there_the_target_ends_with_one_at_least_as_new(
    source_keys: frozenset[tuple[str, str]], target_keys: frozenset[tuple[str, str]]
) -> None:
    source, target = FailingStore(), FailingStore()
    write(source, OLD, *sorted("/".join(key) for key in source_keys))
    write(target, NEW, *sorted("/".join(key) for key in target_keys), body=b"own")
    newest = newest_complete(source, OLD)
    complete_before = {key for key in target.objects if _is_complete(target, key)}
    before = dict(target.objects)
    seeded = seed(source, OLD, target, NEW)
    found = newest_complete(target, NEW)
    assert (found.name if found else None) == seeded.checkpoint
    if newest is not None:
        assert found is not None
        assert found.age >= newest.age
    for key in complete_before:
        if newest is None or not key.startswith(f"{NEW}/{newest.name}/"):
            assert target.objects[key] == before[key]
    assert is_seeded(source, target)


def _is_complete(store: FailingStore, key: str) -> bool:
    folder = key.rpartition("/")[0]
    listed: Iterator[str] = (item.key for item in store.list(f"{folder}/"))
    return any(one in (f"{folder}/_COMPLETE", f"{folder}/.metadata") for one in listed)
