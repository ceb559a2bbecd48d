"""A region's folder knows its place: a copy of it is refused, however it was made, and a folder that was moved is not."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.adapters.local.keeping import Folder, Kept
from reconciler.ports import Refused

KEPT = Kept("eu", 7, [])


def _in_place(of: Path, to: Path) -> None:
    to.mkdir()
    for file in of.iterdir():
        shutil.copy2(file, to)


WAYS: dict[str, Callable[[Path, Path], object]] = {
    "cp -a": lambda of, to: subprocess.run(["cp", "-a", of, to], check=True),
    "file by file": _in_place,
    "an archive": lambda of, to: shutil.unpack_archive(shutil.make_archive(str(of), "tar", of), to),
    "hard links": lambda of, to: subprocess.run(["cp", "-al", of, to], check=True),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "region"
    made = Folder(path)
    made.keep(KEPT)
    made.close()
    return path


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("beside", [True, False], ids=["beside the original", "after it has ended"])
def test_a_copy_is_refused_with_what_to_do(folder: Path, way: str, beside: bool) -> None:
    copy = folder.with_name("copy")
    held = Folder(folder) if beside else None
    WAYS[way](folder, copy)
    for _ in range(2):
        with pytest.raises(Refused, match=rf"copy is a copy of another region's folder.*delete {copy}/seat\.json"):
            Folder(copy)
    if held is not None:
        held.close()
    assert Folder(folder).load() == KEPT


def test_a_copy_whose_original_is_gone_begins_once_a_person_says_so(folder: Path) -> None:
    copy = folder.with_name("copy")
    shutil.copytree(folder, copy)
    (copy / "seat.json").unlink()
    for _ in range(2):
        begun = Folder(copy)
        assert begun.load() == KEPT
        begun.close()


def test_a_folder_that_was_moved_goes_on(folder: Path) -> None:
    moved = Folder(folder.rename(folder.with_name("moved")))
    assert moved.load() == KEPT


def test_a_folder_of_an_earlier_version_goes_on(folder: Path) -> None:
    (folder / "seat.json").unlink()
    assert Folder(folder).load() == KEPT


def test_a_start_that_was_killed_half_way_is_made_again(folder: Path) -> None:
    (folder / "seat.json").rename(folder / "seat.json.new")
    (folder / "seat.json.new").write_text("{", encoding="utf-8")
    assert Folder(folder).load() == KEPT


def test_one_that_cannot_be_read_is_refused_by_name(folder: Path) -> None:
    (folder / "seat.json").write_text("{", encoding="utf-8")
    with pytest.raises(Refused, match=r"seat\.json cannot be read or written"):
        Folder(folder)
    (folder / "seat.json").unlink()
    assert Folder(folder).load() == KEPT
