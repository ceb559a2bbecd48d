"""Seeding a checkpoint: which one is chosen, in what order it is copied, and what is left when the worker dies."""

import pickle
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.adapters.clock import SystemClock
from reconciler.agent.stage.checkpoints.newest import newest_complete
from reconciler.agent.stage.checkpoints.seeding import Seeded, is_missing, seed
from reconciler.ports import Refused, Transient
from tests.agent.stage.memory import MemoryEnds
from tests.agent.stage.transfer.ends import Ends

OLD, NEW = "ckpt/llm-a/a1", "ckpt/llm-a/a2"
Store = Ends | MemoryEnds


@pytest.fixture(params=["folder", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return Ends("file", "", tmp_path) if request.param == "folder" else MemoryEnds()


def write(store: Store, prefix: str, *names: str, body: bytes = b"x") -> None:
    for name in names:
        marks = name.endswith("/.metadata")
        store.write(prefix, {name: pickle.dumps(["nothing"]) if marks else name.encode() + body})


def seeded_from(source: Store, target: Store) -> Seeded:
    with closing(source.end(OLD)) as one, closing(target.end(NEW)) as other:
        return seed(one, other, SystemClock(), lambda _: None)


def is_seeded(source: Store, target: Store) -> bool:
    newest = newest_complete(source.end(OLD))
    return newest is None or not is_missing(newest, target.end(NEW))


def names(store: Store, prefix: str) -> list[str]:
    return sorted(store.read(prefix))


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
    store = MemoryEnds()
    write(store, OLD, *case.there)
    found = newest_complete(store.end(OLD))
    assert (found.name if found else None) == case.want
    assert seeded_from(store, store).checkpoint == case.want


def test_all_of_it_is_copied_and_nothing_else(store: Store) -> None:
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
    size = sum(len(body) for body in store.read(f"{OLD}/step-20").values())
    assert seeded_from(store, store) == Seeded("step-20", 4, size)
    assert names(store, NEW) == ["step-20/.metadata", "step-20/_COMPLETE", "step-20/a", "step-20/deep/b"]
    assert store.read(NEW)["step-20/deep/b"] == b"step-20/deep/bx"


def test_nothing_to_copy_is_fine(store: Store) -> None:
    assert seeded_from(store, store) == Seeded(None)
    assert names(store, NEW) == []


def test_a_second_time_there_is_nothing_to_do(store: Store) -> None:
    write(store, OLD, "step-20/a", "step-20/_COMPLETE")
    assert not is_seeded(store, store)
    seeded_from(store, store)
    assert is_seeded(store, store)
    assert seeded_from(store, store) == Seeded("step-20")


def test_what_the_target_has_itself_and_newer_is_never_touched(store: Store) -> None:
    write(store, OLD, "step-20/a", "step-20/_COMPLETE")
    write(store, NEW, "step-30/a", "step-30/_COMPLETE")
    before = names(store, NEW)
    assert seeded_from(store, store) == Seeded("step-30")
    assert names(store, NEW) == before


def test_an_older_one_in_the_target_stays_beside_the_newer(store: Store) -> None:
    write(store, OLD, "step-20/a", "step-20/_COMPLETE")
    write(store, NEW, "step-9/a", "step-9/_COMPLETE")
    assert seeded_from(store, store).checkpoint == "step-20"
    found = newest_complete(store.end(NEW))
    assert found is not None
    assert found.name == "step-20"
    assert "step-9/_COMPLETE" in names(store, NEW)


def test_a_half_written_one_of_that_name_in_the_target_is_made_whole() -> None:
    store = MemoryEnds()
    write(store, OLD, "step-20/a", "step-20/b", "step-20/_COMPLETE")
    write(store, NEW, "step-20/a")
    store.write(NEW, {"step-20/b": b"cut"})
    seeded_from(store, store)
    assert store.read(NEW)["step-20/b"] == b"step-20/bx"


def test_as_new_a_one_in_the_target_is_left_whatever_marks_it() -> None:
    store = MemoryEnds()
    write(store, OLD, "step-20/a", "step-20/.metadata")
    write(store, NEW, "step-20/a", "step-20/_COMPLETE", body=b"own")
    assert seeded_from(store, store) == Seeded("step-20")


def test_no_marker_is_written_while_a_part_is_missing() -> None:
    source, target = MemoryEnds(), MemoryEnds()
    write(source, OLD, "step-20/a", "step-20/_COMPLETE")

    def lose(call: str, key: str) -> None:
        if call == "put" and key.endswith("/a"):
            target.remove(NEW, "step-20/a")

    target.after = lose
    with pytest.raises(Refused, match="are not there as they were sent"):
        seeded_from(source, target)
    assert names(target, NEW) == []


def test_no_marker_is_written_when_a_part_is_lost_just_before_it() -> None:
    source, target = MemoryEnds(), MemoryEnds()
    write(source, OLD, "step-20/a", "step-20/.metadata", "step-20/_COMPLETE")
    seen: list[list[str]] = []

    def lose(call: str, key: str) -> None:
        if call == "put":
            seen.append(names(target, NEW))
            if key.endswith("/.metadata") and len(seen) == 2:
                target.remove(NEW, "step-20/a")

    target.before = lose
    assert seeded_from(source, target).checkpoint == "step-20"
    assert seen == [
        [],
        ["step-20/a"],
        [],  # the marker that had been written without it was taken back
        ["step-20/a"],
        ["step-20/.metadata", "step-20/a"],
    ]
    assert names(target, NEW) == names(source, OLD)


def test_with_one_marker_of_two_it_is_not_done() -> None:
    store = MemoryEnds()
    write(store, OLD, "step-20/a", "step-20/.metadata", "step-20/_COMPLETE")
    seeded_from(store, store)
    store.remove(NEW, "step-20/_COMPLETE")
    assert seeded_from(store, store).copied_objects == 1
    assert "step-20/_COMPLETE" in names(store, NEW)


WRITES = ("put", "copy")


class Death:
    """Comes at a write, before or after it was done; nothing is done after it."""

    def __init__(self, store: MemoryEnds, at: int, *, after: bool) -> None:
        self._at, self._calls, self._dead = at, 0, False
        store.before = lambda call, _key: self._come(call, is_first=True, dies=not after)
        store.after = lambda call, _key: self._come(call, is_first=False, dies=after)

    def _come(self, call: str, *, is_first: bool, dies: bool) -> None:
        if call in WRITES:
            self._dead = self._dead or (dies and self._calls == self._at)
            self._calls += not is_first
        if self._dead:
            raise KeyboardInterrupt


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("number", range(5))
def test_stopped_at_any_instant_it_is_complete_nowhere_and_goes_on(number: int, after: bool) -> None:
    source, target = MemoryEnds(), MemoryEnds()
    write(source, OLD, "step-20/a", "step-20/b", "step-20/c", "step-20/.metadata", "step-20/_COMPLETE")
    Death(target, number, after=after)
    with pytest.raises(KeyboardInterrupt):
        seeded_from(source, target)
    target.before = target.after = lambda _call, _key: None
    found = newest_complete(target.end(NEW))
    if found is not None:
        assert {"step-20/a", "step-20/b", "step-20/c"} <= found.objects.keys()
    there = len(names(target, NEW))
    assert seeded_from(source, target).copied_objects == 5 - there
    assert target.read(NEW) == source.read(OLD)


def test_a_checkpoint_that_is_deleted_while_it_is_copied_gives_way_to_the_next() -> None:
    """Somebody keeps the newest only, and writes one more while the copy goes on."""
    source, target = MemoryEnds(), MemoryEnds()
    write(source, OLD, "step-20/a", "step-20/b", "step-20/_COMPLETE")

    def clean(call: str, key: str) -> None:
        if (call, key) == ("open", f"{OLD}/step-20/b"):
            for name in ("a", "b", "_COMPLETE"):
                source.remove(OLD, f"step-20/{name}")
            write(source, OLD, "step-40/a", "step-40/_COMPLETE")

    source.before = clean
    assert seeded_from(source, target).checkpoint == "step-40"
    assert names(target, NEW) == ["step-40/_COMPLETE", "step-40/a"], "what was given up is taken back"


def test_one_that_vanishes_at_its_end_gives_way_to_the_one_before() -> None:
    source, target = MemoryEnds(), MemoryEnds()
    write(source, OLD, "step-20/a", "step-20/_COMPLETE", "step-10/a", "step-10/_COMPLETE")

    def vanish(call: str, key: str) -> None:
        if (call, key) == ("put", f"{NEW}/step-20/a"):
            source.remove(OLD, "step-20/_COMPLETE")

    target.after = vanish
    assert seeded_from(source, target).checkpoint == "step-10"
    assert names(target, NEW) == ["step-10/_COMPLETE", "step-10/a"]


def test_a_source_that_never_holds_still_is_said_to_do_so() -> None:
    source = MemoryEnds()
    write(source, OLD, "step-20/a", "step-20/_COMPLETE")
    source.before = lambda call, _key: write(source, OLD, "step-20/a") if call == "open" else None
    with pytest.raises(Transient, match="keep changing while they are copied; stop who writes there") as told:
        seeded_from(source, MemoryEnds())
    assert "dataset" not in str(told.value)


@pytest.mark.parametrize("again", [("a", "b", "_COMPLETE"), ("a",)], ids=["all of it", "a part that was copied"])
def test_one_that_is_written_again_while_it_is_copied_is_chosen_again(again: tuple[str, ...]) -> None:
    source, target = MemoryEnds(), MemoryEnds()
    write(source, OLD, "last.ckpt/a", "last.ckpt/b", "last.ckpt/_COMPLETE")
    times = []

    def rewrite(call: str, key: str) -> None:
        if call == "put" and len(target.read(NEW)) == 2 and not times:
            assert key.endswith(("/a", "/b"))
            times.append(key)
            write(source, OLD, *(f"last.ckpt/{name}" for name in again), body=b"y")
            assert target.read(NEW)["last.ckpt/a"] == b"last.ckpt/ax"

    target.after = rewrite
    assert seeded_from(source, target).checkpoint == "last.ckpt"
    assert target.read(NEW) == source.read(OLD)


def test_several_at_once_copy_the_same() -> None:
    """Another worker writes each object just before we do."""
    source, target = MemoryEnds(), MemoryEnds()
    write(source, OLD, "step-20/a", "step-20/_COMPLETE")

    def write_too(call: str, key: str) -> None:
        if call == "put":
            target.write("", {key: source.read(OLD)[key.removeprefix(f"{NEW}/")]})

    target.before = write_too
    seeded_from(source, target)
    assert is_seeded(source, target)
    assert target.read(NEW) == source.read(OLD)


def test_somebody_else_who_writes_something_else_is_an_error() -> None:
    source, target = MemoryEnds(), MemoryEnds()
    write(source, OLD, "step-20/a", "step-20/_COMPLETE")
    target.after = lambda call, key: target.write("", {key: b"theirs"}) if call == "put" else None
    with pytest.raises(Refused, match=r"see whether .* something else writes there"):
        seeded_from(source, target)
    assert newest_complete(target.end(NEW)) is None


def test_folders_that_a_store_shows_as_objects_are_none() -> None:
    store = MemoryEnds()
    write(store, OLD, "step-20/a", "step-20/_COMPLETE")
    store.write(OLD, {"step-20/": b"", "step-20/sub/": b"", "step-30/": b"x"})
    seeded_from(store, store)
    assert names(store, NEW) == ["step-20/_COMPLETE", "step-20/a"]


def test_a_whole_bucket_may_be_the_prefix() -> None:
    store = MemoryEnds()
    store.write("", {"step-3/_COMPLETE": b""})
    found = newest_complete(store.end(""))
    assert found is not None
    assert found.name == "step-3"


folders = st.sampled_from(["step-1", "step-2", "step-10", "best", "half"])
parts = st.sampled_from(["a", "b", "_COMPLETE", ".metadata"])
keys = st.frozensets(st.tuples(folders, parts), max_size=12)


@given(keys, keys)
def test_whatever_is_there_the_target_ends_with_one_at_least_as_new(
    source_keys: frozenset[tuple[str, str]], target_keys: frozenset[tuple[str, str]]
) -> None:
    source, target = MemoryEnds(), MemoryEnds()
    write(source, OLD, *sorted("/".join(key) for key in source_keys))
    write(target, NEW, *sorted("/".join(key) for key in target_keys), body=b"own")
    newest = newest_complete(source.end(OLD))
    complete_before = {key for key in target.objects if _is_complete(target, key)}
    before = dict(target.objects)
    seeded = seeded_from(source, target)
    found = newest_complete(target.end(NEW))
    assert (found.name if found else None) == seeded.checkpoint
    if newest is not None:
        assert found is not None
        assert found.age >= newest.age
    for key in complete_before:
        if newest is None or not key.startswith(f"{NEW}/{newest.name}/"):
            assert target.objects[key] == before[key]
    assert is_seeded(source, target)


def _is_complete(store: MemoryEnds, key: str) -> bool:
    folder = key.rpartition("/")[0]
    return any(one in store.objects for one in (f"{folder}/_COMPLETE", f"{folder}/.metadata"))
