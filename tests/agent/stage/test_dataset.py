"""A dataset in a folder is what its listing says, however often the fetch was cut short."""

from pathlib import Path

import pytest

from reconciler.adapters.file_store import FileStore
from reconciler.agent.stage.dataset import Fetched, fetch
from reconciler.ports import Refused


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    (tmp_path / "store").mkdir()
    store = FileStore(tmp_path / "store")
    for number in range(3):
        store.put(f"ds/imagenet/part {number}+ü.bin", bytes(number), expect=None)
    store.put("ds/imagenet/deep/er/x", b"deep", expect=None)
    store.put("ds/imagenet-21k/other", b"not of it", expect=None)
    return store


@pytest.mark.parametrize("prefix", ["ds/imagenet", "ds/imagenet/", "/ds/imagenet"])
def test_all_of_it_and_nothing_else_is_brought(store: FileStore, tmp_path: Path, prefix: str) -> None:
    assert fetch(store, prefix, tmp_path / "data") == Fetched(4, 7, 4, 7)
    found = {
        str(file.relative_to(tmp_path / "data")): file.read_bytes() for file in (tmp_path / "data").rglob("*") if file.is_file()
    }
    assert found == {"part 0+ü.bin": b"", "part 1+ü.bin": b"\0", "part 2+ü.bin": b"\0\0", "deep/er/x": b"deep"}


def test_only_what_is_missing_or_half_is_fetched_again(store: FileStore, tmp_path: Path) -> None:
    fetch(store, "ds/imagenet", tmp_path)
    (tmp_path / "part 2+ü.bin").write_bytes(b"x")
    (tmp_path / "deep/er/x").unlink()
    assert fetch(store, "ds/imagenet", tmp_path) == Fetched(4, 7, 2, 6)
    assert fetch(store, "ds/imagenet", tmp_path) == Fetched(4, 7, 0, 0)


def test_a_dataset_that_is_not_there_is_refused(store: FileStore, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="nothing below ds/image/"):
        fetch(store, "ds/image", tmp_path)
