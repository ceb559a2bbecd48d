"""What only a store of files can get wrong: its folder, ways out of it, what lies around in it, who holds its lock."""

import fcntl
import os
import resource
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from reconciler.adapters.file_store import FileStore
from reconciler.ports import Conflict, Refused, Transient
from tests.waiting import until


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    folder.mkdir()
    return folder


@pytest.fixture
def store(folder: Path) -> FileStore:
    return FileStore(folder)


def keys(store: FileStore, prefix: str = "") -> list[str]:
    return [listed.key for listed in store.list(prefix)]


def unfinished(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / ".partial").iterdir())


# ---- the folder ---------------------------------------------------------------------------------------------------


def test_an_object_is_a_plain_file_under_its_key(store: FileStore, folder: Path) -> None:
    store.put("regions/eu/report.json", b"{}", expect=None)
    assert (folder / "regions" / "eu" / "report.json").read_bytes() == b"{}"
    (folder / "regions" / "us").mkdir()
    (folder / "regions" / "us" / "report.json").write_bytes(b"by hand")
    stored = store.get("regions/us/report.json")
    assert stored is not None
    assert stored.body == b"by hand"


def test_a_folder_that_is_not_there_is_never_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "none", tmp_path / "none" / "deeper", tmp_path / "file"):
        with pytest.raises(Refused, match=str(path)):
            FileStore(path)
    assert not (tmp_path / "none").exists()


def test_a_folder_that_goes_away_is_not_an_empty_store(store: FileStore, folder: Path) -> None:
    store.put("a", b"1", expect=None)
    folder.rename(folder.with_name("moved"))
    for call in (lambda: store.get("a"), lambda: store.etag("a"), lambda: keys(store), lambda: store.delete("a")):
        with pytest.raises(Refused, match="create the store's folder"):
            call()
    with pytest.raises(Refused, match="create the store's folder"):
        store.put("a", b"1", expect=None)


def test_a_key_is_an_object_or_a_folder_never_both(store: FileStore) -> None:
    store.put("a/b", b"1", expect=None)
    with pytest.raises(Refused, match="a folder or a link has the object's name"):
        store.put("a", b"2", expect=None)
    with pytest.raises(Refused, match="a file or a link stands where a folder must be"):
        store.put("a/b/c", b"3", expect=None)
    assert keys(store) == ["a/b"]


def test_a_part_that_is_too_long_for_the_disk_is_refused(store: FileStore) -> None:
    with pytest.raises(Refused, match="255 bytes"):
        store.put(f"a/{'é' * 128}", b"1", expect=None)


@pytest.mark.parametrize("key", [".partial", ".partial/x", ".partial/x/y"])
def test_unfinished_writes_are_out_of_reach(store: FileStore, folder: Path, key: str) -> None:
    store.put("a", b"1", expect=None)
    with pytest.raises(Refused, match="unfinished writes"):
        store.get(key)
    with pytest.raises(Refused, match="unfinished writes"):
        store.put(key, b"1", expect=None)
    (folder / ".partial" / "x").write_bytes(b"half")
    assert keys(store) == ["a"]
    assert keys(store, ".partia") == []
    store.put("b/.partial/x", b"only the first part is kept", expect=None)
    assert keys(store) == ["a", "b/.partial/x"]


# ---- links and other things that are no objects -------------------------------------------------------------------


def test_no_link_leads_out_of_the_store(store: FileStore, folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    (folder / "file").symlink_to(outside / "secret")
    (folder / "folder").symlink_to(outside)
    (folder / "dangling").symlink_to(outside / "new")
    for key in ("file", "folder/secret", "folder", "dangling"):
        assert store.get(key) is None
        assert store.etag(key) is None
        with pytest.raises(Refused):
            store.copy(key, "copied")
        with pytest.raises(Refused):
            store.put(key, b"overwritten", expect=None)
        store.delete(key)
    with pytest.raises(Refused):
        store.put("folder/new", b"1", expect=None)
    assert keys(store) == keys(store, "folder/") == []
    assert [path.name for path in outside.iterdir()] == ["secret"]
    assert (outside / "secret").read_bytes() == b"secret"
    assert (folder / "file").is_symlink()


def test_the_folder_itself_may_be_reached_through_a_link(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    FileStore(tmp_path / "link").put("a", b"1", expect=None)
    assert keys(FileStore(folder)) == ["a"]


def test_a_pipe_is_no_object_and_nobody_waits_for_it(store: FileStore, folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    assert store.get("pipe") is None
    assert keys(store) == []
    with pytest.raises(Refused):
        store.put("pipe", b"1", expect=None)


def test_a_file_name_that_is_no_unicode_is_named_when_it_is_listed(store: FileStore, folder: Path) -> None:
    (folder / "ds").mkdir()
    (folder / os.fsdecode(b"ds/caf\xe9")).write_bytes(b"1")
    store.put("regions/eu", b"1", expect=None)
    with pytest.raises(Refused, match="not valid Unicode"):
        keys(store, "ds/")
    assert keys(store, "regions/") == ["regions/eu"]


# ---- locks and leftovers ------------------------------------------------------------------------------------------


@contextmanager
def held(folder: Path, kind: int) -> Iterator[None]:
    """A lock on a folder as another program holds it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, kind)
        yield
    finally:
        os.close(descriptor)


def test_a_writer_that_holds_the_lock_for_ever_stops_writes_but_not_reads(store: FileStore, folder: Path) -> None:
    etag = store.put("a", b"1", expect=None)
    patient = FileStore(folder, lock_wait_seconds=0.05)
    with held(folder, fcntl.LOCK_EX):
        with pytest.raises(Transient, match="locked"):
            patient.put("a", b"2", expect=etag)
        with pytest.raises(Transient, match="locked"):
            patient.delete("a")
        assert patient.etag("a") == etag
        assert keys(patient) == ["a"]
    patient.put("a", b"2", expect=etag)
    assert unfinished(folder) == []


def test_a_writer_waits_for_one_that_is_quick(store: FileStore, folder: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        with held(folder, fcntl.LOCK_EX):
            write = pool.submit(store.put, "a", b"1", expect=None)
            until(lambda: unfinished(folder) if (folder / ".partial").exists() else None)
            assert not write.done()
        write.result(timeout=20)
    assert keys(store) == ["a"]


def test_leftovers_of_killed_writers_go_when_no_writer_is_at_work(store: FileStore, folder: Path) -> None:
    store.put("a", b"1", expect=None)
    (folder / ".partial" / "left").write_bytes(b"half")
    with held(folder / ".partial", fcntl.LOCK_SH):
        FileStore(folder)
        assert unfinished(folder) == ["left"]
    FileStore(folder)
    assert unfinished(folder) == []
    assert keys(store) == ["a"]


def test_a_write_that_loses_leaves_nothing_behind(store: FileStore, folder: Path) -> None:
    store.put("a", b"1", expect=None)
    with pytest.raises(Conflict):
        store.put("a", b"2", expect=None)
    with pytest.raises(Conflict):
        store.put("new/folder/a", b"2", expect="x")
    assert unfinished(folder) == []
    assert not (folder / "new").exists()


CALLS: dict[str, Callable[[FileStore], object]] = {
    "get": lambda store: store.get("regions/eu/a"),
    "etag": lambda store: store.etag("regions/eu/a"),
    "list": lambda store: keys(store, "regions/"),
    "replace": lambda store: store.put("regions/eu/a", b"2", expect=store.etag("regions/eu/a")),
    "create": lambda store: store.put("regions/us/a", b"2", expect=None),
    "copy": lambda store: store.copy("regions/eu/a", "regions/us/a"),
    "delete": lambda store: store.delete("regions/eu/a"),
}


@pytest.mark.parametrize("call", CALLS)
def test_what_the_machine_cannot_do_now_is_never_taken_for_a_missing_object(store: FileStore, folder: Path, call: str) -> None:
    store.put("regions/eu/a", b"1", expect=None)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    refused = 0
    try:
        # Each step of the call is in turn the one for which there is no descriptor left.
        for most in range(3, soft):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            try:
                answer = CALLS[call](store)
            except Transient:
                refused += 1
            else:
                break
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert refused > 1
    assert answer if call in ("get", "etag", "list", "replace", "create") else answer is None
    assert unfinished(folder) == []


def test_a_write_is_on_the_disk_before_it_takes_its_place_and_when_it_returns(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync, replace = os.fsync, os.replace

    def flushed(descriptor: int) -> None:
        fsync(descriptor)
        steps.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")

    def placed(source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        replace(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        steps.append(f"place {target}")

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(os, "replace", placed)
    etag = store.put("regions/eu/lease.json", b"1", expect=None)
    assert steps == ["folder", "file", "folder", "folder", "place lease.json", "folder"]
    steps.clear()
    store.put("regions/eu/lease.json", b"2", expect=etag)
    assert steps == ["file", "place lease.json", "folder"]
    steps.clear()
    store.copy("regions/eu/lease.json", "regions/eu/copied")
    assert steps == ["file", "place copied", "folder"]
