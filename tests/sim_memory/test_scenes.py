"""Scenes are laid into about half of the histories, spring, and break nothing by themselves."""

from random import Random

import pytest

from reconciler.sim.happenings import Happening
from reconciler.sim.histories import drawn, play, story
from reconciler.sim.scenes import LAID, SCENES
from reconciler.sim.world import choices_of


@pytest.mark.parametrize("name", SCENES)
def test_a_scene_alone_breaks_nothing(name: str) -> None:
    laid, lasts = SCENES[name](Random(f"scene {name}"), choices_of(14))
    happenings = tuple(sorted([*laid, Happening(lasts, "nothing_more")]))
    assert str(play(14, happenings)[1]) == "None"


def test_about_half_of_the_histories_have_a_scene() -> None:
    kinds = {name for module in LAID for name in vars(module)}
    laid = sum(any(each.kind in kinds for each in drawn(seed)) for seed in range(400))
    assert 120 < laid < 280  # scenes of other kinds only are not counted


def test_a_trap_springs_at_its_moment_and_the_story_tells() -> None:
    happenings = (Happening(20.0, "cut_at_grant", 0, 0, 0), Happening(22.0, "submit", 0, 4), Happening(60.0, "nothing_more"))
    lines = [words for _, words in story(2, happenings).lines]
    granted = next(number for number, words in enumerate(lines) if "grants j0-" in words)
    assert lines[granted + 1 : granted + 3] == ["region eu and Git: cut for 230 s", "region eu and the store: cut for 380 s"]
