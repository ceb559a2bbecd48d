"""The example repository: what it says of itself is so, and its programs do what they are for."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from reconciler.adapters.documents import reader
from reconciler.commands.demo_ends import EXPECTED, REFUSED
from reconciler.commands.demo_stage import IMAGES
from reconciler.commands.init import example
from reconciler.commands.validate import sources_of
from reconciler.model.job import JobSpec
from reconciler.model.record import Phase
from tests.cli.world import Command
from tests.waiting import until

EXAMPLE = example()


def spec_of(team: str, job_id: str) -> JobSpec:
    file = EXAMPLE / f"jobs/{team}/{job_id}.yaml"
    return reader.read_job(file.read_bytes(), file.name)


def program(team: str, job_id: str, folder: Path) -> list[str]:
    """The job's command, with its files put below `folder`."""
    spec = spec_of(team, job_id)
    folder.mkdir(parents=True, exist_ok=True)
    for file in spec.files:
        (folder / Path(file.path).name).write_text(file.content, encoding="utf-8")
    own = {file.path: str(folder / Path(file.path).name) for file in spec.files}
    words = [own.get(word, word) for word in spec.command]
    return [sys.executable, *words[1:]]


def run(team: str, job_id: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """The job's program to its end."""
    environment = {"PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1", **spec_of(team, job_id).env, **env}
    return subprocess.run(program(team, job_id, folder), env=environment, capture_output=True, text=True, timeout=60, check=False)


# ---- what it says -------------------------------------------------------------------------------------------------


def test_only_the_broken_file_is_broken() -> None:
    sources = sources_of(EXAMPLE)
    assert [(problem.path, problem.code) for problem in sources.problems] == [("jobs/vision/norway.yaml", "AmbiguousValue")]
    assert sources.broken.keys() == REFUSED.keys()


def test_every_job_has_an_expected_end_and_a_line_in_the_readme() -> None:
    sources = sources_of(EXAMPLE)
    assert {str(key) for key in sources.jobs} == EXPECTED.keys()
    table = re.findall(r"^\| `(\w+/[a-z-]+)` \|.*\| ([^|]+) \|$", (EXAMPLE / "README.md").read_text("utf-8"), re.MULTILINE)
    ends = {name: end.split()[0].rstrip(",") for name, end in table}
    refused = {path.removeprefix("jobs/").removesuffix(".yaml"): "refused" for path in REFUSED}
    assert ends == {name: str(expected.phase) for name, expected in EXPECTED.items()} | refused
    regions = {name: expected.region for name, expected in EXPECTED.items() if expected.region is not None}
    assert {name: end.rpartition(" in ")[2] for name, end in table if " in " in end} == regions


def test_the_plan_agrees_with_what_is_expected(command: Command) -> None:
    said = json.loads(command.done("plan", EXAMPLE, "--json"))
    for each in said["jobs"]:
        expected = EXPECTED[each["job"]]
        assert (each["phase"] == "Impossible") == (expected.phase is Phase.IMPOSSIBLE), each
        if each["decided_now"] and expected.region is not None:
            assert each["region"] == expected.region, each


def test_images_are_known_but_for_the_misspelt_one() -> None:
    jobs = sources_of(EXAMPLE).jobs
    unknown = [str(key) for key, job in jobs.items() if not any(fnmatchcase(job.spec.image, pattern) for pattern in IMAGES)]
    assert unknown == ["vision/typo-image"]


def test_no_job_waits_for_anything_for_long() -> None:
    for file in sources_of(EXAMPLE).jobs.values():
        assert file.spec.max_runtime_seconds is not None
        assert (file.spec.expected_runtime_seconds or 0) <= 20


# ---- what its programs do -----------------------------------------------------------------------------------------

ENDS = {
    ("language", "corpus-pretrain"): (0, "step 8 loss 1.722"),
    ("language", "web-finetune"): (0, "step 8 of 8 in here"),
    ("language", "cheap-eval"): (0, "batch 5: "),
    ("vision", "thumbnails"): (0, "photo 5 of 5"),
    ("vision", "early-stop"): (42, "good enough"),
    ("vision", "always-fails"): (1, "RuntimeError: no such layer: head"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "ends"), ENDS.items(), ids=["/".join(name) for name in ENDS])
def test_a_program_ends_as_it_should(folder: Path, name: tuple[str, str], ends: tuple[int, str]) -> None:
    done = run(*name, folder, REGION="here", DATASET_URI="file:///data/")
    assert (done.returncode, ends[1] in done.stdout + done.stderr) == (ends[0], True), done


@pytest.mark.slow
def test_line_fit_crashes_once_and_goes_on_from_its_checkpoint(command: Command, folder: Path) -> None:
    first, second = folder / "ckpt/a1", folder / "ckpt/a2"
    crashed = run("language", "line-fit", folder / "p", CHECKPOINT_PATH=f"file://{first}/", ATTEMPT_NUMBER="1")
    assert crashed.returncode == 3
    assert spec_of("language", "line-fit").on_exit == {"3": "reschedule"}
    command.done("stage", "checkpoint", f"file://{first}/", f"file://{second}/")
    done = run("language", "line-fit", folder / "p", CHECKPOINT_PATH=f"file://{second}/", ATTEMPT_NUMBER="2")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "going on from step-5"
    assert [line.split()[1] for line in lines[1:]] == [str(number) for number in range(6, 13)]
    losses = [
        float(re.search(r"loss ([0-9.]+)", line)[1]) for line in (*crashed.stdout.splitlines(), *lines[1:]) if "loss" in line
    ]
    assert losses[0] > 10 * losses[-1]


@pytest.mark.slow
def test_line_fit_saves_its_step_when_it_is_told_to_end(folder: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "CHECKPOINT_PATH": f"file://{folder}/ckpt/", "ATTEMPT_NUMBER": "1"}
    with subprocess.Popen(program("language", "line-fit", folder / "p"), env=environment, stdout=subprocess.DEVNULL) as started:
        until((folder / "ckpt/step-2/_COMPLETE").exists)
        started.send_signal(signal.SIGTERM)
        assert started.wait(20) == 143
    assert all((step / "_COMPLETE").exists() for step in (folder / "ckpt").iterdir())


@pytest.mark.slow
def test_all_reduce_runs_on_two_nodes(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    base = {"PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1", "NNODES": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    call = program("language", "all-reduce", folder)
    # The second node first: it must wait until the other listens.
    nodes = [subprocess.Popen(call, env={**base, "NODE_RANK": rank}, stdout=subprocess.PIPE, text=True) for rank in ("1", "0")]
    said = [node.communicate(timeout=60)[0] for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0]
    assert "round 10: rank 1 heard 110" in said[0]
    assert "round 10: the sum over 2 nodes is 110" in said[1]
