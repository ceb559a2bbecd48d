"""A folder read as Git would commit it, with git itself as the oracle."""

import os
import subprocess
from pathlib import Path

import pytest

from reconciler.adapters.work_tree import read_folder
from reconciler.ports import EntryKind, Refused, Transient, TreeEntry

EMPTY_BLOB = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"


def git(folder: Path, *arguments: str) -> bytes:
    environment = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, env=environment).stdout


def test_entries_are_those_of_a_commit(tmp_path: Path) -> None:
    names = [b"a.yaml", b"b/c.yaml", b"b.yaml", b"b-c/d", "é 漢".encode(), b"line\nend", b"bad\xffbytes", b"empty", b"large"]
    for name in names:
        place = tmp_path / os.fsdecode(name)
        place.parent.mkdir(exist_ok=True)
        place.write_bytes({b"empty": b"", b"large": b"\r\n\0x" * 1_000_000}.get(name, name))
    (tmp_path / "run.sh").write_bytes(b"#!/bin/sh")
    (tmp_path / "run.sh").chmod(0o755)
    (tmp_path / "to-file").symlink_to("a.yaml")
    (tmp_path / "to-folder").symlink_to("b")
    (tmp_path / "to-nothing").symlink_to(os.fsdecode(b"../no\xffwhere"))
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "hollow").mkdir()
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "x").write_text("x")
    git(tmp_path, "init", "-q")
    git(tmp_path, "-c", "core.autocrlf=false", "add", "-A", ".")
    listed = git(tmp_path, "ls-files", "-s", "-z").removesuffix(b"\0").split(b"\0")
    kinds = {b"120000": EntryKind.LINK}
    committed = {}
    for line in listed:
        mode, oid, _ = line.split(b"\t")[0].split(b" ")
        path = os.fsdecode(line.partition(b"\t")[2])
        committed[path] = TreeEntry(oid.decode(), kinds.get(mode, EntryKind.FILE))
    del committed[".hidden/x"]
    tree = read_folder(tmp_path)
    assert tree.entries == committed
    assert list(tree.entries) == list(committed), "in the order of UTF-8"
    for path, entry in tree.entries.items():
        if entry.kind is EntryKind.FILE:
            assert tree.read(entry.oid) == (tmp_path / path).read_bytes()
            assert tree.size(entry.oid) == (tmp_path / path).stat().st_size
    assert tree.entries["empty"].oid == EMPTY_BLOB


def test_a_repository_inside_is_a_submodule(tmp_path: Path) -> None:
    (tmp_path / "jobs" / "inner").mkdir(parents=True)
    (tmp_path / "jobs" / "inner" / "a.yaml").write_text("x")
    git(tmp_path / "jobs" / "inner", "init", "-q")
    git(tmp_path, "init", "-q")
    entries = read_folder(tmp_path).entries
    assert {path: entry.kind for path, entry in entries.items()} == {"jobs/inner": EntryKind.SUBMODULE}


def test_what_is_not_wanted_is_neither_listed_nor_opened(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("x")
    (tmp_path / "model.bin").symlink_to("/nowhere")
    asked: list[str] = []

    def wanted(path: str) -> bool:
        asked.append(path)
        return path.endswith(".yaml")

    tree = read_folder(tmp_path, wanted)
    assert list(tree.entries) == ["a.yaml"]
    assert sorted(asked) == ["a.yaml", "model.bin"]


CHANGES = {
    "edited": lambda file: file.write_text("other"),
    "made longer": lambda file: file.write_text("name: eu\n" * 2),
    "removed": lambda file: file.unlink(),
    "replaced by a link": lambda file: (file.rename(file.with_suffix(".old")), file.symlink_to(file.with_suffix(".old"))),
    "replaced by a pipe": lambda file: (file.unlink(), os.mkfifo(file)),
    "replaced by a folder": lambda file: (file.unlink(), file.mkdir()),
}


@pytest.mark.parametrize("case", CHANGES)
def test_bytes_are_given_out_only_under_their_own_id(case: str, tmp_path: Path) -> None:
    file = tmp_path / "eu.yaml"
    file.write_text("name: eu\n")
    tree = read_folder(tmp_path)
    oid = tree.entries["eu.yaml"].oid
    assert tree.read(oid) == b"name: eu\n"
    CHANGES[case](file)
    with pytest.raises(Transient, match="try again"):
        tree.read(oid)


@pytest.mark.parametrize("case", ["missing", "file"])
def test_a_folder_that_cannot_be_read_is_refused(case: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(Refused, match="cannot be read"):
        read_folder(tmp_path / case)
