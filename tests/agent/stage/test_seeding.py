"""Seeding checkpoints of any size: by parts, inside the store, resumed after a kill at any call, by several at once."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.adapters.clock import SystemClock
from reconciler.agent.stage.checkpoints.newest import newest_complete
from reconciler.agent.stage.checkpoints.seeding import SEEDING, Seeded, seed
from reconciler.agent.stage.transfer.work import Options
from reconciler.bulk_port import mark_of
from reconciler.model.progress import Progress
from reconciler.ports import Transient
from tests.agent.stage import layouts
from tests.agent.stage.memory import MemoryEnds
from tests.agent.stage.transfer.ends import PART, Ends, Killed, Knife

OLD, NEW = "ckpt/llm-a/a1", "ckpt/llm-a/a2"
TINY = replace(SEEDING, part_bytes=7, copied_part_bytes=7, in_flight_bytes=200_000, threads=3, patience_seconds=0.0)
"""Everything is large."""
BY_PARTS = replace(SEEDING, part_bytes=PART, copied_part_bytes=PART, in_flight_bytes=2 * PART, patience_seconds=1.0)
LARGE = b"0123456789abcdef" * (2 * PART // 16) + b"end"
WRITTEN = {
    "step-20/a": b"0123456789",
    "step-20/b": b"a" * 40,
    "step-20/deep/c": b"",
    "step-20/.metadata": b"\x80 nothing of interest.",
    "step-20/_COMPLETE": b"",
    "step-10/a": b"older",
    "step-10/_COMPLETE": b"",
    "latest": b"step-20",
}
WANTED = {name: body for name, body in WRITTEN.items() if name.startswith("step-20/")}


def seeded(source: Any, target: Any, options: Options = TINY, said: list[Progress] | None = None) -> Seeded:
    return seed(source, target, SystemClock(), (said if said is not None else []).append, options)


def written(*, copies: bool = True, objects: dict[str, bytes] = WRITTEN) -> MemoryEnds:
    store = MemoryEnds(copies=copies)
    store.write(OLD, objects)
    return store


# ---- killed ---------------------------------------------------------------------------------------------------------


def check_whole_or_incomplete(store: MemoryEnds) -> None:
    """Markers stand in the target only when all that they vouch for does."""
    if newest_complete(store.end(NEW)) is not None:
        there = store.read(NEW)
        assert {name: body for name, body in WANTED.items() if name in there} == there
        assert {"step-20/a", "step-20/b", "step-20/deep/c"} <= there.keys()


@pytest.mark.parametrize("after", [False, True], ids=["before it is done", "just after"])
@pytest.mark.parametrize("copies", [True, False], ids=["inside the store", "by streams"])
def test_killed_at_every_call_it_goes_on(copies: bool, after: bool) -> None:
    at, lives = 1, 0
    while True:
        store = written(copies=copies)
        knife = Knife(store.end(NEW), at, after=after)
        try:
            seeded(store.end(OLD), knife)
        except Killed:
            lives += 1
        else:
            break
        check_whole_or_incomplete(store)
        before = set(store.read(NEW))
        again = seeded(store.end(OLD), store.end(NEW))
        assert again.checkpoint == "step-20"
        assert again.copied_objects == len(WANTED.keys() - before)
        assert store.read(NEW) == WANTED
        assert store.read(OLD) == WRITTEN
        assert (store.begun, store.beside) == ({}, {}), "what was unfinished is removed"
        at += 1
    assert lives >= 30


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["s3", "file"])
def test_killed_at_every_call_to_a_real_store(s3_url: str, tmp_path: Path, kind: str) -> None:
    ends = Ends(kind, s3_url, tmp_path)
    objects = {"step-20/large": LARGE, "step-20/small": b"1", "step-20/_COMPLETE": b""}
    ends.write(OLD, objects)
    at = 1
    while True:
        name = f"ckpt/llm-a/b{at}"
        with closing(ends.end(OLD)) as one, closing(ends.end(name)) as other:
            try:
                seeded(one, Knife(other, at, after=at % 2 == 0), BY_PARTS)
            except Killed:
                pass
            else:
                break
            if newest_complete(other) is not None:
                assert ends.read(name) == objects
            assert seeded(one, other, BY_PARTS).checkpoint == "step-20"
            assert list(other.uploads()) == []
            assert other.note.read() is None
        assert ends.read(name) == objects
        assert not (tmp_path / f"{name}.staging").exists()
        at += 1
    assert at > 12


def test_parts_that_are_there_are_not_copied_again() -> None:
    store = written()
    parts: list[str] = []

    def count(call: str, _key: str) -> None:
        if call == "copy_part":
            parts.append(call)
            if len(parts) == 4:
                raise KeyboardInterrupt

    store.before = count
    one_by_one = replace(TINY, threads=1)
    with pytest.raises(KeyboardInterrupt):
        seeded(store.end(OLD), store.end(NEW), one_by_one)
    kept = len(store.begun[next(iter(store.begun))].parts) + ("step-20/a" in store.read(NEW)) * 2
    parts[:] = ["again"] * 100
    seeded(store.end(OLD), store.end(NEW), one_by_one)
    whole = sum(-(-len(body) // 7) for body in WANTED.values() if len(body) > 7)
    assert kept >= 1
    assert len(parts) - 100 == whole - kept


def test_what_was_unfinished_of_another_checkpoint_is_removed() -> None:
    store = written()
    knife = Knife(store.end(NEW), 9, after=True)
    with pytest.raises(Killed):
        seeded(store.end(OLD), knife)
    assert store.begun
    for name in WRITTEN:
        store.remove(OLD, name)
    store.write(OLD, {"step-40/x": b"1" * 20, "step-40/_COMPLETE": b""})
    assert seeded(store.end(OLD), store.end(NEW)).checkpoint == "step-40"
    assert (store.begun, store.beside) == ({}, {})


def test_what_was_unfinished_is_removed_also_where_nothing_is_left_to_bring() -> None:
    store = written()
    with pytest.raises(Killed):
        seeded(store.end(OLD), Knife(store.end(NEW), 9, after=True))
    assert store.begun
    for name in WRITTEN:
        store.remove(OLD, name)
    assert seeded(store.end(OLD), store.end(NEW)) == Seeded(None)
    assert (store.begun, store.beside) == ({}, {})


def test_an_upload_of_the_program_is_left_alone() -> None:
    store = written()
    seeded(store.end(OLD), store.end(NEW))
    (found,) = [one for one in store.end(OLD).list() if one.key == "latest"]
    upload = store.end(NEW).begin(replace(found, key="step-30/large"), {})
    assert seeded(store.end(OLD), store.end(NEW)) == Seeded("step-20")
    assert [one.key for one in store.end(NEW).uploads()] == [upload.key]


# ---- several at once --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["file", "s3", "memory", "memory by streams"])
def test_several_at_once_end_in_one_right_copy(request: pytest.FixtureRequest, tmp_path: Path, kind: str) -> None:
    ends: Ends | MemoryEnds
    if kind.startswith("memory"):
        ends, options, objects = MemoryEnds(copies=kind == "memory"), TINY, WANTED
    else:
        ends = Ends(kind, request.getfixturevalue("s3_url") if kind == "s3" else "", tmp_path)
        options, objects = BY_PARTS, {"step-20/large": LARGE, "step-20/small": b"1", "step-20/_COMPLETE": b""}
    ends.write(OLD, objects)
    start = threading.Barrier(3)

    def run(_: int) -> Seeded:
        with closing(ends.end(OLD)) as one, closing(ends.end(NEW)) as other:
            start.wait()
            return seeded(one, other, replace(options, patience_seconds=10.0))

    with ThreadPoolExecutor(3) as pool:
        assert {done.checkpoint for done in pool.map(run, range(3))} == {"step-20"}
    assert ends.read(NEW) == objects
    with closing(ends.end(NEW)) as other:
        assert seeded(other, other) == Seeded("step-20")


# ---- whole or not -----------------------------------------------------------------------------------------------------

CUT = {
    "safetensors": [
        *(one for one in layouts.trainer(40, shards=1) if not one[0].endswith("model.safetensors")),
        ("checkpoint-40/model.safetensors", layouts.tensors(4_000_000)[:-1]),
    ],
    "an archive": [("epoch=4-step=40.ckpt", layouts.archive(4_000_000)[:-1])],
}


@pytest.mark.parametrize("cut", CUT.values(), ids=CUT.keys())
def test_what_is_cut_short_is_known_by_its_ends_before_anything_is_copied(cut: layouts.Written) -> None:
    store = MemoryEnds()
    store.write(OLD, {**dict(cut), **dict(layouts.lightning("epoch=1-step=10.ckpt"))})
    wrote: list[str] = []
    store.before = lambda call, key: wrote.append(key) if call in {"put", "begin", "copy", "copy_part"} else None
    done = seeded(store.end(OLD), store.end(NEW), SEEDING)
    assert done.checkpoint == "epoch=1-step=10.ckpt"
    assert list(done.passed_over) == [cut[-1][0].partition("/")[0]]
    assert wrote == [f"{NEW}/epoch=1-step=10.ckpt"]
    assert store.read_bytes < 200_000


def test_what_an_older_worker_had_copied_of_one_that_is_cut_short_is_taken_back(tmp_path: Path) -> None:
    ends = Ends("file", "", tmp_path)
    cut = dict(CUT["safetensors"])
    ends.write(OLD, {**cut, **dict(layouts.lightning("epoch=1-step=10.ckpt"))})
    ends.write(NEW, {"checkpoint-40/model.safetensors": cut["checkpoint-40/model.safetensors"]})
    assert seeded(ends.end(OLD), ends.end(NEW), SEEDING).checkpoint == "epoch=1-step=10.ckpt"
    assert [path.name for path in (tmp_path / NEW).iterdir()] == ["epoch=1-step=10.ckpt"], "not even a folder is left"


# ---- what is equal ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["file", "s3"])
def test_what_an_older_worker_had_half_copied_without_marks_is_no_fault(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    ends = Ends(kind, request.getfixturevalue("s3_url") if kind == "s3" else "", tmp_path)
    ends.write(OLD, WRITTEN)
    ends.write(NEW, {name: body for name, body in WANTED.items() if not name.endswith("_COMPLETE")})
    with closing(ends.end(OLD)) as one, closing(ends.end(NEW)) as other:
        assert seeded(one, other, SEEDING).checkpoint == "step-20"
        assert ends.read(NEW) == WANTED
        assert seeded(one, other, SEEDING) == Seeded("step-20")


def test_an_object_of_the_right_size_and_other_bytes_is_no_copy() -> None:
    store = written()
    store.write(NEW, {"step-20/b": b"x" * 40})
    seeded(store.end(OLD), store.end(NEW))
    assert store.read(NEW) == WANTED


def test_a_large_copy_is_known_by_its_mark_and_not_copied_again() -> None:
    store = written()
    (found,) = [one for one in store.end(OLD).list() if one.key == "step-20/b"]
    store.hold(f"{NEW}/step-20/b", WANTED["step-20/b"], mark_of(found))
    assert seeded(store.end(OLD), store.end(NEW)).copied_objects == len(WANTED) - 1


def test_a_store_whose_etags_look_like_checksums_and_are_none_is_believed() -> None:
    store = written(copies=False)
    store.md5 = "0" * 32
    assert seeded(store.end(OLD), store.end(NEW), SEEDING).checkpoint == "step-20"
    assert store.read(NEW) == WANTED


def test_bytes_that_come_differently_each_time_are_not() -> None:
    store = written(copies=False)
    store.md5 = "0" * 32
    bodies = [b"0123456789", b"0123456780"]

    def damage(call: str, key: str) -> None:
        if call == "open" and key == f"{OLD}/step-20/a":
            held = store.objects[key]
            bodies.reverse()
            store.objects[key] = type(held)(bodies[0], held.etag)

    store.before = damage
    with pytest.raises(Transient, match="step-20/a: it came twice, each time with other bytes"):
        seeded(store.end(OLD), store.end(NEW), SEEDING)
