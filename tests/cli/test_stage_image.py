"""`stage image`: as it runs in a worker, through a small registry in the place of a mirror."""

from pathlib import Path

import pytest

from reconciler.model.progress import last_progress
from reconciler.model.stage import StageTask
from reconciler.planning.stage_specs import spec_of
from tests.cli.world import Command
from tests.registry_http import small_registry


def test_an_image_is_warmed_and_told_of(command: Command, tmp_path: Path) -> None:
    with small_registry() as mirror:
        digest = mirror.push("team/train", "1", (1000,))
        rate = tmp_path / "rate"
        rate.write_text("unlimited")
        image = "reg.example.com:5000/team/train:1"
        said = command.done("stage", "image", image, "--mirror", mirror.host, "--rate", "1", "--rate-file", str(rate))
        assert f"{image} ({digest}) has come through {mirror.host}, which does not say whether it keeps it" in said
        assert "2 of 2 parts" in said
        progress = last_progress(said)
        assert progress is not None
        assert (progress.objects_done, progress.bytes_done) == (2, 1002)


def test_a_task_s_command_is_one_that_the_worker_takes(command: Command) -> None:
    with small_registry() as mirror:
        digest = mirror.push("team/train", "1", (1000,))
        subject = f"reg.example.com:5000/team/train@{digest}"
        addresses = {"source_uri": f"docker://{subject}", "target_uri": f"docker://{mirror.host}"}
        task = StageTask(kind="image", subject=subject, region="eu", **addresses)
        program, *words = spec_of(task, {}, 50, "reg.example.com/stage:1").command
        assert program == "reconciler"
        assert f"{subject} ({digest}) has come through {mirror.host}" in command.done(*words)


def test_a_login_of_the_mirror_comes_from_the_environment(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    with small_registry() as mirror:
        mirror.logins = {"puller": "word"}
        mirror.push("team/train", "1", (1000,))
        asks = ("stage", "image", "reg.example.com/team/train:1", "--mirror", mirror.host)
        assert command(*asks).code == 2
        for name, value in (("HOST", mirror.host), ("USER", "puller"), ("PASSWORD", "word")):
            monkeypatch.setenv(f"RECONCILER_REGISTRY_{name}", value)
        assert "2 of 2 parts" in command.done(*asks)


WRONG = {
    "an image that is none": ("a//b", "mirror.eu:5000", "`a//b` is not a repository"),
    "a mirror that is a URL": ("a/b", "http://mirror.eu", "is not a registry"),
    "a mirror that is nothing": ("a/b", "", "is not a repository"),
}


@pytest.mark.parametrize(("image", "mirror", "words"), WRONG.values(), ids=WRONG)
def test_what_is_no_image_or_no_mirror_is_told(command: Command, image: str, mirror: str, words: str) -> None:
    ended = command("stage", "image", image, "--mirror", mirror)
    assert ended.code == 1
    assert words in ended.err
