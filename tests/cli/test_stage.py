"""`stage checkpoint`: as it runs in a pod, over folders of this machine."""

import threading
from pathlib import Path

import pytest

from reconciler.commands import stage
from reconciler.ports import Refused, Transient
from tests.cli.world import Command


def step(prefix: Path, number: int, *, complete: bool = True) -> None:
    folder = prefix / f"step-{number}"
    folder.mkdir(parents=True)
    (folder / "state.json").write_text(f"state of {number}", encoding="utf-8")
    if complete:
        (folder / "_COMPLETE").touch()


def test_the_newest_complete_checkpoint_comes(command: Command, folder: Path) -> None:
    old, new = folder / "with space/a1", folder / "with space/a2"
    step(old, 9)
    step(old, 10)
    step(old, 11, complete=False)
    said = command.done("stage", "checkpoint", f"file://{folder}/with%20space/a1/", f"file://{folder}/with%20space/a2/")
    assert said == f"step-10 is at file://{folder}/with%20space/a2/ (2 objects, 11 B copied)\n"
    assert sorted(path.relative_to(new).as_posix() for path in new.rglob("*") if path.is_file()) == [
        "step-10/_COMPLETE",
        "step-10/state.json",
    ]


NOTHING = {"no folder above it": "x/y/a1", "no folder of it": "there/a1", "a folder without anything complete": "half/a1"}


@pytest.mark.parametrize("source", NOTHING.values(), ids=NOTHING.keys())
def test_where_there_is_nothing_the_program_begins_anew(command: Command, folder: Path, source: str) -> None:
    (folder / "there").mkdir()
    step(folder / "half/a1", 1, complete=False)
    assert "begins anew" in command.done("stage", "checkpoint", f"file://{folder}/{source}/", f"file://{folder}/ckpt/a2/")


def test_another_node_waits_for_the_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step(folder / "ckpt/a1", 3)
    source, target = f"file://{folder}/ckpt/a1/", f"file://{folder}/ckpt/a2/"
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "1")
    waiting = threading.Thread(target=stage.checkpoint, args=(source, target))
    waiting.start()
    waiting.join(0.5)
    assert waiting.is_alive()
    assert not (folder / "ckpt/a2/step-3").exists()
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "0")
    stage.checkpoint(source, target)
    waiting.join(20)
    assert not waiting.is_alive()


def test_it_does_not_wait_for_ever(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step(folder / "ckpt/a1", 3)
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "1")
    with pytest.raises(Transient, match="has not brought the checkpoint within 1 s"):
        stage.checkpoint(f"file://{folder}/ckpt/a1/", f"file://{folder}/ckpt/a2/", wait_seconds=1)


def test_a_store_that_there_is_not_is_refused(folder: Path) -> None:
    with pytest.raises(Refused, match="a store is file:///folder or s3://bucket/prefix"):
        stage.checkpoint("gs://bucket/a1/", f"file://{folder}/a2/")
