"""`stage checkpoint`: as it runs in a pod, over folders of this machine."""

import threading
from pathlib import Path

import pytest

from reconciler.commands import stage
from reconciler.model.progress import last_progress
from reconciler.ports import Refused, Transient
from tests.adapters.s3_server import make_bucket, moto_app, s3_store, serving
from tests.agent.stage import layouts
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
    assert said.splitlines()[-1] == f"step-10 is at file://{folder}/with%20space/a2/ (2 objects, 11 B copied)"
    progress = last_progress(said)
    assert progress is not None
    assert (progress.objects_done, progress.objects_total, progress.bytes_done, progress.bytes_total) == (2, 2, 11, 11)
    assert sorted(path.name for path in (folder / "with space").iterdir() if path.name != ".partial") == ["a1", "a2"]
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


def test_one_that_is_cut_short_is_passed_over_and_told(command: Command, folder: Path) -> None:
    (folder / "ckpt/a1").mkdir(parents=True)
    for name, body in [*layouts.lightning("epoch=1-step=10.ckpt"), ("epoch=2-step=20.ckpt", layouts.archive()[:-30])]:
        (folder / "ckpt/a1" / name).write_bytes(body)
    said = command.done("stage", "checkpoint", f"file://{folder}/ckpt/a1/", f"file://{folder}/ckpt/a2/").splitlines()
    said = [line for line in said if not line.startswith("progress ")]
    assert said[0].startswith("epoch=2-step=20.ckpt is not whole and was passed over: epoch=2-step=20.ckpt: the directory")
    assert said[1].startswith("epoch=1-step=10.ckpt is at ")
    assert [path.name for path in (folder / "ckpt/a2").iterdir()] == ["epoch=1-step=10.ckpt"]


def test_older_checkpoints_are_pruned_and_the_newest_stays(command: Command, folder: Path) -> None:
    for number in (1, 2, 3):
        step(folder / "ckpt/a1", number)
    step(folder / "ckpt/a1", 4, complete=False)
    said = command.done("stage", "prune", f"file://{folder}/ckpt/a1/", "--keep", "1")
    assert said == "kept: step-3\nremoved: step-2, step-1 (20 B)\n"
    left = {path.relative_to(folder / "ckpt/a1").as_posix() for path in (folder / "ckpt/a1").rglob("*") if path.is_file()}
    assert left == {"step-3/_COMPLETE", "step-3/state.json", "step-4/state.json"}


@pytest.mark.parametrize("where", ["no/such/", "there/such/", "there/such"])
def test_pruning_nothing_is_refused(command: Command, folder: Path, where: str) -> None:
    (folder / "there").mkdir()
    ended = command("stage", "prune", f"file://{folder}/{where}", "--keep", "1")
    assert ended.code == 2
    assert ended.err == (
        f"reconciler: there is nothing at file://{folder}/{where}\n  give the folder in which the checkpoints stand\n"
    )
    assert [*folder.glob("no*"), *(folder / "there").iterdir()] == []


def test_pruning_a_folder_without_checkpoints_says_so(command: Command, folder: Path) -> None:
    (folder / "there").mkdir()
    assert command.done("stage", "prune", f"file://{folder}/there/", "--keep", "1").startswith("kept: there is no complete")


NO_FOLDERS = {
    "x": "x",
    "": "''",
    "C:\\ckpt": "'C:\\ckpt'",
    "/ckpt/a1": "/ckpt/a1",
    "https://h/x": "https://h/x",
    "s3:///x": "s3:///x",
}


@pytest.mark.parametrize("typed", NO_FOLDERS)
@pytest.mark.parametrize("verb", ["source", "target", "prune", "dataset"])
def test_what_is_no_folder_in_a_store_is_repeated_as_it_was_typed(command: Command, folder: Path, verb: str, typed: str) -> None:
    other = f"file://{folder}/"
    words = {
        "source": ("checkpoint", typed, other),
        "target": ("checkpoint", other, typed),
        "prune": ("prune", typed, "--keep", "1"),
        "dataset": ("dataset", typed, other),
    }
    ended = command("stage", *words[verb])
    said = f"{NO_FOLDERS[typed]} is no folder in a store\n  give file:///folder or s3://bucket/folder\n"
    assert (ended.code, ended.err) == (2, f"reconciler: {said}")


def test_keeping_none_is_refused(command: Command, folder: Path) -> None:
    step(folder / "ckpt/a1", 1)
    ended = command("stage", "prune", f"file://{folder}/ckpt/a1/", "--keep", "0")
    assert ended.code != 0
    assert (folder / "ckpt/a1/step-1/_COMPLETE").exists()


@pytest.mark.parametrize("there", [True, False], ids=["a checkpoint", "nothing to go on from"])
def test_the_first_node_of_several_says_that_it_is_done(folder: Path, monkeypatch: pytest.MonkeyPatch, there: bool) -> None:
    if there:
        step(folder / "ckpt/a1", 3)
    source, target = f"file://{folder}/ckpt/a1/", f"file://{folder}/ckpt/a2/"
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "0")
    stage.checkpoint(source, target)
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "7")
    stage.checkpoint(source, target, wait_seconds=1)
    with pytest.raises(Transient, match="has not brought"):
        stage.checkpoint(f"file://{folder}/ckpt/a0/", target, wait_seconds=1)


def test_in_a_bucket_the_plain_variables_open_both_ends_and_the_store_copies(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(moto_app()) as url:
        make_bucket(url, "checkpoints")
        with s3_store(url, "checkpoints", "llm") as store:
            store.put("a1/step-3/w.bin", b"weights", expect=None)
            store.put("a1/step-3/_COMPLETE", b"", expect=None)
            keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
            for name, value in {**keys, "AWS_ENDPOINT_URL_S3": url, "AWS_DEFAULT_REGION": "us-east-1"}.items():
                monkeypatch.setenv(name, value)
            source, target = "s3://checkpoints/llm/a1/", "s3://checkpoints/llm/a2/"
            monkeypatch.setenv("JOB_COMPLETION_INDEX", "0")
            stage.checkpoint(source, target)
            said = capsys.readouterr().out
            monkeypatch.setenv("JOB_COMPLETION_INDEX", "3")
            stage.checkpoint(source, target, wait_seconds=1)
            keys_there = [item.key for item in store.list("a2")]
            copied = store.get("a2/step-3/w.bin")
        assert keys_there == ["a2/.seeded.json", "a2/step-3/_COMPLETE", "a2/step-3/w.bin"]
        assert copied is not None
        assert copied.body == b"weights"
        progress = last_progress(said)
        assert progress is not None
        assert (progress.bytes_done, progress.bytes_sent) == (7, 0)
        assert said.splitlines()[-1] == f"step-3 is at {target} (2 objects, 7 B copied)"


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
    with pytest.raises(Refused, match="give file:///folder or s3://bucket/folder"):
        stage.checkpoint("gs://bucket/a1/", f"file://{folder}/a2/")
