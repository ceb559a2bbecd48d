"""A store of files under writers that race, and under writers that are killed at any instant; all with real programs."""

import multiprocessing
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from reconciler.adapters.file_store import FileStore
from tests.adapters.writers import KEYS, is_whole, race, race_in_a_program

ROOT = Path(__file__).parents[2]
RACERS, ROUNDS = 8, 40


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    folder.mkdir()
    return folder


def keys(store: FileStore) -> list[str]:
    return [listed.key for listed in store.list("")]


def unfinished(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / ".partial").iterdir())


def check_race(folder: Path, won: dict[str, dict[str, list[int]]]) -> None:
    everyone = range(ROUNDS)
    for kind in ("create", "replace"):
        assert sorted(number for racer in won.values() for number in racer[kind]) == list(everyone), kind
    store = FileStore(folder)
    for name, racer in won.items():
        for number in racer["replace"]:
            stored = store.get(f"rounds/{number}")
            assert stored is not None
            assert stored.body == f"replace by {name}".encode()
    assert sorted(number for racer in won.values() for number in racer["count"]) == list(range(1, RACERS * ROUNDS + 1))
    assert unfinished(folder) == []


def test_of_eight_threads_exactly_one_wins_each_round(folder: Path) -> None:
    barrier, names = threading.Barrier(RACERS), [f"thread {number}" for number in range(RACERS)]
    with ThreadPoolExecutor(RACERS) as pool:
        won = dict(zip(names, pool.map(lambda name: race(folder, barrier, name, ROUNDS), names), strict=True))
    check_race(folder, won)


def test_of_eight_programs_exactly_one_wins_each_round(folder: Path) -> None:
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(RACERS), context.Queue()
    racers = [
        context.Process(target=race_in_a_program, args=(folder, barrier, f"program {number}", ROUNDS, answers), daemon=True)
        for number in range(RACERS)
    ]
    for racer in racers:
        racer.start()
    won = dict(answers.get(timeout=100) for _ in racers)
    for racer in racers:
        racer.join(20)
        assert racer.exitcode == 0
        racer.close()
    check_race(folder, won)
    answers.close()
    answers.join_thread()


# ---- kills --------------------------------------------------------------------------------------------------------


@contextmanager
def program(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """One of the programs of `writers`; ends with the block at the latest."""
    command = [sys.executable, "-m", "tests.adapters.writers", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            yield child
        finally:
            child.kill()


@pytest.mark.slow
def test_a_writer_killed_at_any_line_leaves_the_old_object_or_the_new(folder: Path) -> None:
    seen: list[bytes] = []
    for line in range(1, 1000):
        store = FileStore(folder, lock_wait_seconds=0.0)
        before = store.get("lease.json")
        etag = store.put("lease.json", b"old", expect=before.etag if before else None)
        status = die_at(folder, line, "lease.json", etag)
        stored = store.get("lease.json")
        assert stored is not None
        assert stored.body in (b"old", b"new"), line
        assert keys(store) == ["lease.json"], line
        # The lock is free at once, and compare-and-swap goes on from what is there.
        assert (stored.etag == etag) == (stored.body == b"old")
        store.put("lease.json", b"next", expect=stored.etag)
        FileStore(folder)
        assert unfinished(folder) == [], line
        seen.append(stored.body)
        if status == 0:
            break
    assert seen == sorted(seen, reverse=True), "old up to the rename, new from then on"
    assert (seen[0], seen[-1]) == (b"old", b"new")
    assert len(seen) > 40


@pytest.mark.slow
def test_a_first_writer_killed_at_any_line_leaves_nothing_or_the_object(folder: Path) -> None:
    seen: list[bool] = []
    for line in range(1, 1000):
        fresh = folder / str(line)
        fresh.mkdir()
        status = die_at(fresh, line, "regions/eu/lease.json", "")
        store = FileStore(fresh, lock_wait_seconds=0.0)
        stored = store.get("regions/eu/lease.json")
        assert stored is None or stored.body == b"new", line
        store.put("regions/eu/lease.json", b"next", expect=stored.etag if stored else None)
        assert keys(store) == ["regions/eu/lease.json"], line
        assert unfinished(fresh) == [], line
        seen.append(stored is not None)
        if status == 0:
            break
    assert seen == sorted(seen)
    assert (seen[0], seen[-1]) == (False, True)
    assert len(seen) > 40


def die_at(folder: Path, line: int, key: str, etag: str) -> int:
    """Let a program write `new` and be killed at that line of the store's code; 0 where it had ended before."""
    with program("die-at-line", str(folder), str(line), key, etag) as child:
        status = child.wait(30)
    assert status in (0, -signal.SIGKILL), line
    return status


@pytest.mark.slow
def test_writers_killed_at_random_leave_only_whole_objects(folder: Path) -> None:
    lot, store = random.Random(20), FileStore(folder)
    killed = 0
    while killed < 40:
        with program("write-on", str(folder)) as one, program("write-on", str(folder)) as two:
            for child in (one, two):
                assert child.stdout is not None
                for _ in range(lot.randrange(1, 25)):
                    assert child.stdout.readline()
            threading.Event().wait(lot.random() / 500)  # somewhere in the middle of the next write
            for child in (one, two):
                child.kill()
                killed += child.wait(20) == -signal.SIGKILL
        for key in KEYS:
            stored = store.get(key)
            if stored is not None:
                assert is_whole(stored.body), key
                store.put(key, stored.body, expect=stored.etag)
        assert set(keys(store)) <= set(KEYS)
    FileStore(folder)
    assert unfinished(folder) == []


def test_readers_never_see_half_an_object_while_writers_write(folder: Path) -> None:
    store = FileStore(folder)
    with program("write-on", str(folder)) as one, program("write-on", str(folder)):
        assert one.stdout is not None
        assert one.stdout.readline()
        etags: set[str] = set()
        while len(etags) < 30:
            stored = store.get(KEYS[0])
            if stored is not None:
                assert is_whole(stored.body)
                etags.add(stored.etag)


def test_a_child_forked_in_the_lock_does_not_keep_it(folder: Path) -> None:
    with program("fork-in-the-lock", str(folder)) as child:
        assert child.wait(30) == 0
    assert keys(FileStore(folder)) == ["first", "second"]
