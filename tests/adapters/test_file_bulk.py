"""An object that two workers write by parts is whole, or not there: never a file of the right size with holes in it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.adapters.file_bulk import FileBulk
from reconciler.bulk_port import Found, Part, Upload, UploadLost

ORIGIN = Found("deep/big", 12, "etag", 1_700_000_000)
BODIES = [b"aaaa", b"bbbb", b"cccc"]
PARTS = [Part(number, 4 * (number - 1), 4) for number in (1, 2, 3)]


@pytest.fixture
def workers(tmp_path: Path) -> tuple[FileBulk, FileBulk]:
    return FileBulk(tmp_path / "ds"), FileBulk(tmp_path / "ds")


def put(worker: FileBulk, upload: Upload, *numbers: int) -> None:
    for number in numbers:
        worker.put_part(upload, PARTS[number - 1], BODIES[number - 1], lambda _: None)


def begin(worker: FileBulk) -> Upload:
    return worker.begin(ORIGIN, {})


def content(worker: FileBulk) -> bytes:
    with worker.open(next(iter(worker.list())), 0, ORIGIN.size) as stream:
        return stream.read(ORIGIN.size)


def unfinished(folder: Path) -> Iterator[Path]:
    return folder.rglob("object")


def test_parts_of_one_worker_are_the_others_too(workers: tuple[FileBulk, FileBulk]) -> None:
    one, other = workers
    put(one, begin(one), 1, 3)
    upload = begin(other)
    assert [part.number for part in other.parts(upload)] == [1, 3]
    put(other, upload, 2)
    other.finish(upload, ORIGIN, PARTS)
    assert content(one) == b"".join(BODIES)
    assert one.is_copy(ORIGIN.key, ORIGIN)


def test_what_comes_after_the_end_is_no_end_of_its_own(workers: tuple[FileBulk, FileBulk], tmp_path: Path) -> None:
    one, other = workers
    put(one, begin(one), 1, 2, 3)
    late = begin(other)
    one.finish(late, ORIGIN, PARTS)
    with pytest.raises(UploadLost):
        put(other, late, 3)
    again = begin(other)
    assert not other.parts(again)
    put(other, again, 3)  # it has the size of the whole, and eight bytes that nobody wrote
    with pytest.raises(UploadLost):
        other.finish(again, ORIGIN, PARTS)
    assert content(one) == b"".join(BODIES)
    put(other, again, 1, 2)
    other.finish(again, ORIGIN, PARTS)
    assert content(one) == b"".join(BODIES)
    assert not list(unfinished(tmp_path))


def test_what_could_not_get_its_name_keeps_its_parts(workers: tuple[FileBulk, FileBulk], tmp_path: Path) -> None:
    one, _ = workers
    upload = begin(one)
    put(one, upload, 1, 2, 3)
    (tmp_path / "ds/deep/big").mkdir(parents=True)
    with pytest.raises(Exception, match=r"no plain file|directory"):
        one.finish(upload, ORIGIN, PARTS)
    (tmp_path / "ds/deep/big").rmdir()
    assert len(one.parts(upload)) == 3
    one.finish(upload, ORIGIN, PARTS)
    assert content(one) == b"".join(BODIES)
