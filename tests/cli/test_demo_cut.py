"""The demo of a region that is cut off: what it is judged by, what it draws, and all of it for real."""

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.commands import demo_train
from reconciler.commands.demo_runs import Mark, Run, picture, runs_in
from reconciler.commands.demo_verdict import faults, together
from tests.cli.world import Command
from tests.waiting import until

STEPS = demo_train.STEPS
LINES = tuple(f"step {step} loss {loss:.4f}" for step, loss in enumerate(demo_train.curve(), start=1))
FIRST = Run("eu", 1, "curve-fit-abcdef-a1-0-x", "main", 100.0, 120.0, 143, LINES[:20])
SECOND = Run("us", 2, "curve-fit-abcdef-a2-0-y", "main", 140.0, 165.0, 0, ("going on from checkpoint step-20", *LINES[20:]))
SEED = replace(SECOND, container="checkpoint", began=139.0, ended=139.5, lines=())

# ---- the verdict --------------------------------------------------------------------------------------------------

WRONG = {
    "nothing": ([FIRST, SEED, SECOND], ""),
    "the second begins a moment too soon": ([FIRST, replace(SECOND, began=119.9)], "ran at once"),
    "a step before the second begins too soon": ([FIRST, replace(SEED, began=119.0, ended=119.1), SECOND], "ran at once"),
    "the first is not known to have ended": ([replace(FIRST, ended=None), SECOND], "ran at once"),
    "the second runs still": ([FIRST, replace(SECOND, ended=None)], "a2-0-y/main in us has not ended"),
    "the first runs again in the region that is back": (
        [FIRST, SECOND, replace(FIRST, pod="z", began=170.0, ended=171.0)],
        "a1 in eu, a2",
    ),
    "the second ran in the region that was cut off": ([FIRST, replace(SECOND, region="eu")], "a2 elsewhere"),
    "there is no second": ([FIRST], "but a1 in eu"),
    "nothing ran": ([], "but none"),
    "the lease was revoked while the first ran": ([replace(FIRST, ended=131.0), SECOND], "revoked before"),
    "a step is lost": ([replace(FIRST, lines=LINES[:19]), SECOND], "each once"),
    "a step is done twice": ([replace(FIRST, lines=LINES[:21]), SECOND], "each once"),
    "the second began from nothing": ([FIRST, replace(SECOND, lines=LINES)], "each once"),
    "the checkpoint was another one": ([FIRST, replace(SECOND, lines=(LINES[20].replace("0.0", "0.1"), *LINES[21:]))], "[21]"),
}


@pytest.mark.parametrize(("runs", "fault"), WRONG.values(), ids=WRONG)
def test_what_is_wrong(runs: list[Run], fault: str) -> None:
    found = "; ".join(faults(runs, "eu", 130.0))
    assert (fault in found) if fault else found == ""


def test_containers_of_one_attempt_may_run_together() -> None:
    assert together([FIRST, replace(FIRST, container="side")]) == []


# ---- what ran -----------------------------------------------------------------------------------------------------


def _present(folder: Path, pod: str, uid: str, **files: object) -> Path:
    place = folder / "pods" / uid / "containers" / "main"
    place.mkdir(parents=True)
    (folder / "pods" / uid / "name").write_text(pod)
    for name, said in files.items():
        (place / name).write_text(said if isinstance(said, str) else json.dumps(said))
    return place


def test_what_runs_is_found_before_its_pod_goes_after_it_and_meanwhile(folder: Path) -> None:
    claim = {"pid": 1, "ticks": 2, "boot": "b", "started": 1500}
    end = {"code": 3, "reason": "Error", "message": "", "started": 1500, "finished": 2500}
    pod = "curve-fit-abcdef-a7-0-x"
    place = _present(folder, pod, "u1", claim=claim, log="step 1 loss 0.5\nstep 2 lo")
    running = Run("eu", 7, pod, "main", 1.5, None, None, ("step 1 loss 0.5",))
    assert runs_in("eu", folder) == (running,)
    (place / "exit").write_text(json.dumps(end))
    ended = replace(running, ended=2.5, code=3)
    assert runs_in("eu", folder) == (ended,)
    kept = folder / "logs" / pod
    kept.mkdir(parents=True)
    (place / "exit").rename(kept / "main.exit")
    assert runs_in("eu", folder) == (ended,), "its log is still in its place"
    (place / "log").rename(kept / "main.log")
    assert runs_in("eu", folder) == (ended,)
    (place / "claim").unlink()
    assert runs_in("eu", folder) == (ended,)


def test_a_picture_has_a_row_for_each_region_and_the_moments_below() -> None:
    runs = [replace(FIRST, began=95.0, ended=112.0), replace(SECOND, began=120.0, ended=125.0)]
    marks = [Mark("C", 100.0, "cut"), Mark("L", 110.0, "lost"), Mark("F", 110.4, "fence")]
    assert picture(("ap", "eu", "us"), runs, marks, 100.0) == [
        "    |-10 s    |0 s      |10 s     |20 s",
        "ap  ....................................",
        "eu  .....11111111111111111..............",
        "us  ..............................22222.",
        "              C         LF",
    ]


def test_a_long_picture_is_as_wide_as_a_screen() -> None:
    lines = picture(("eu",), [replace(FIRST, ended=100.0 + 900)], [], 100.0)
    assert max(map(len, lines)) <= 115


# ---- its program --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_its_program_saves_its_step_when_told_to_end_and_goes_on_as_if_nothing_had_been(folder: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "CHECKPOINT_PATH": f"file://{folder}/ckpt/", "PYTHONUNBUFFERED": "1"}
    said: list[str] = []
    for step in (2, 4):
        started = subprocess.Popen([sys.executable, demo_train.__file__], env=environment, stdout=subprocess.PIPE, text=True)
        until((folder / f"ckpt/step-{step}/_COMPLETE").exists)
        started.send_signal(signal.SIGTERM)
        said += started.communicate(timeout=20)[0].splitlines()
        assert started.returncode == demo_train.TOLD_TO_END
    steps = [line for line in said if "loss" in line]
    assert tuple(steps) == LINES[: len(steps)]
    assert len(steps) >= 4
    assert any(re.fullmatch(r"going on from checkpoint step-\d+", line) for line in said)


def test_a_half_written_checkpoint_is_not_the_newest(folder: Path) -> None:
    demo_train.save(folder, 9, [0.0])
    demo_train.save(folder, 10, [0.0])
    (folder / "step-11").mkdir()
    assert demo_train.newest(folder) == folder / "step-10"
    assert demo_train.newest(folder / "step-11") is None


# ---- all of it ----------------------------------------------------------------------------------------------------


def test_only_a_region_of_the_demo_can_be_cut_off(command: Command, folder: Path) -> None:
    ended = command("demo", "--cut", "mars", "--folder", folder / "demo")
    assert ended.code == 1
    assert "cut off one of ap-south, eu-west, us-east" in ended.err
    assert not (folder / "demo").exists()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_region_is_cut_off_and_its_job_goes_on_elsewhere(command: Command, folder: Path) -> None:
    said = command.done("demo", "--cut", "eu-west", "--folder", folder / "demo")
    told = [
        said.index(words)
        for words in ("is cut off", "is Unknown", "is Lost", "revoked, the next is epoch 2", "has its line again")
    ]
    assert told == sorted(told)
    assert "At no moment did two run" in said
    assert f"each of the {STEPS} steps was done once" in said
    runs = [run for region in ("ap-south", "eu-west", "us-east") for run in runs_in(region, folder / "demo/regions" / region)]
    assert {run.attempt for run in runs if run.region == "eu-west"} == {1}
    assert {run.attempt for run in runs if run.region != "eu-west"} == {2}
    assert together(runs) == []
    assert all(run.ended is not None for run in runs)
