"""Histories repeat themselves, break nothing, and are told so that a person can follow."""

import os
import subprocess
import sys

import pytest

from reconciler.sim.__main__ import main
from reconciler.sim.happenings import Happening
from reconciler.sim.histories import drawn, play, story, violation
from reconciler.sim.shrinking import shrunk
from reconciler.sim.soak import percentile, soak

SEEDS = range(12)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_breaks_nothing(seed: int) -> None:
    assert str(violation(seed)) == "None"


@pytest.mark.parametrize("seed", [3, 61])
def test_the_same_seed_is_the_same_story(seed: int) -> None:
    first, second = story(seed), story(seed)
    assert first == second
    assert len(first.lines) > 10


@pytest.mark.slow
def test_a_story_does_not_hang_on_how_strings_are_hashed() -> None:
    told = []
    for number in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": number}
        command = [sys.executable, "-m", "reconciler.sim", "replay", "61"]
        told.append(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert told[0] == told[1]


def test_one_job_runs_to_its_end_and_the_story_says_so() -> None:
    happenings = (Happening(5.0, "submit", 0, 0), Happening(60.0, "nothing_more"))
    world, found = play(0, happenings)
    assert found is None
    ((name, runs),) = world.judge.runs.items()
    assert [(run.code, run.told) for run in runs] == [(0, False)]
    told = str(story(0, happenings))
    for words in ("a person submits j0: ends well", f"{name} of team-a/j0 in eu is Granted", "has ended, with 0", "is Succeeded"):
        assert words in told


def test_seeds_draw_different_histories_that_are_always_the_same() -> None:
    assert drawn(5) == drawn(5)
    assert len({drawn(seed) for seed in range(50)}) == 50


def test_what_matters_is_left_and_nothing_else() -> None:
    assert shrunk(tuple(range(100)), lambda kept: {7, 80, 81} <= set(kept)) == (7, 80, 81)
    assert shrunk((1,), lambda _: True) == ()
    assert shrunk((1, 2), lambda kept: len(kept) == 2) == (1, 2)


# ---- the command --------------------------------------------------------------------------------------------------


def test_the_last_line_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["faults", "--seeds", "0-2", "--workers", "1"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "3 seeds, 0 violations"


def test_a_seed_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "0"]) == 0
    assert capsys.readouterr().out.startswith("seed 0: all is well")


# ---- the day ------------------------------------------------------------------------------------------------------


@pytest.mark.slow  # a few seconds
def test_an_hour_of_the_day_loses_nothing() -> None:
    came = soak(1, seconds=3600.0)
    assert came.is_well, str(came)
    assert came.given_up == 1
    assert len(came.elsewhere) >= 1
    assert max(came.elsewhere) < 1200.0


def test_percentiles_are_by_the_nearest_rank() -> None:
    values = [float(number) for number in range(1, 101)]
    assert (percentile(values, 50), percentile(values, 99), percentile([4.0], 99)) == (50.0, 99.0, 4.0)
