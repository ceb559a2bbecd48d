"""Pull requests on main: their status, their one comment, and what of them is looked at when."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from reconciler.forge_port import Verdict
from reconciler.hub.forge_checks import MOST_AT_ONCE
from tests.builders import TEAM
from tests.githttp import run_git
from tests.hub.forge_rig import ForgeRig
from tests.hub.words import job_file, region_file

FILE = f"jobs/{TEAM}/llm-a.yaml"


@pytest.fixture
def rig(tmp_path: Path) -> ForgeRig:
    return ForgeRig(tmp_path, policy="approval: {}\n")


def asks(rig: ForgeRig, files: Mapping[str, str | None], number: int | None = None, base: str | None = "main") -> int:
    """Somebody asks to merge a change of these files (into what `base` is now), or changes what they ask for."""
    branch = f"away/{number or len(rig.forge.pulls) + 1}"
    if number is None and base is not None:
        rig.move(branch, rig.tip(base))
    commit = rig.put(files, branch)
    number = number or rig.forge.add(None, "main")
    rig.forge.people_edit(number, commit=commit)
    run_git(rig.bare, "update-ref", f"refs/pull/{number}/head", commit)
    return number


def look(rig: ForgeRig) -> None:
    rig.loop.tell()
    rig.both(times=2)


def verdict(rig: ForgeRig, number: int) -> tuple[Verdict, str]:
    """The status of its head, as it was set last."""
    commit = rig.forge.pulls[number].commit
    return next((state, words) for on, state, words in reversed(rig.forge.statuses) if on == commit)


def comment(rig: ForgeRig, number: int) -> str:
    return rig.forge.comments[number][-1]


def test_errors_are_named_by_line_and_column_and_mended_ones_give_way_to_the_plan(rig: ForgeRig) -> None:
    number = asks(rig, {FILE: "job_id: llm-a\ngpu: {count: 8, model: A100-80GB}\nimage: [1]\n"})
    look(rig)
    state, words = verdict(rig, number)
    assert (state, words.startswith(f"{FILE}:3:8: ")) == (Verdict.FAILURE, True)
    assert f"- `{FILE}:3:8` " in comment(rig, number)
    asks(rig, {FILE: job_file()}, number)
    look(rig)
    assert verdict(rig, number) == (Verdict.SUCCESS, f"{TEAM}/llm-a would start in eu")
    assert f"| `{TEAM}/llm-a` | new | would start in eu | 2026-05-01 12:00 | " in comment(rig, number)
    assert "No other job would wait longer." in comment(rig, number)
    assert [state for _, state, _ in rig.forge.statuses] == [
        Verdict.PENDING,
        Verdict.FAILURE,
        Verdict.PENDING,
        Verdict.SUCCESS,
    ]


def test_it_is_looked_at_again_only_when_its_head_or_main_moves(rig: ForgeRig) -> None:
    number = asks(rig, {FILE: job_file()})
    look(rig)
    rig.asked()
    look(rig)
    assert set(rig.asked()) == {"open_pulls"}
    rig.put({"README.md": "words"})
    rig.both()
    asked = rig.asked()
    assert f"upsert_comment {number}" in asked
    assert not any(call.startswith("set_status") for call in asked), "its status is what it was"


def test_one_that_is_behind_main_removes_nothing(rig: ForgeRig) -> None:
    start = rig.tip("main")
    rig.jobs("one", "two", "three", "four", "five", gpus=1)
    rig.settle()
    rig.move("old", start)
    number = asks(rig, {FILE: job_file()}, base="old")
    look(rig)
    assert "removed" not in comment(rig, number)
    assert "confirms" not in comment(rig, number)
    assert verdict(rig, number)[0] is Verdict.SUCCESS


def test_what_it_removes_and_changes_is_said(rig: ForgeRig) -> None:
    rig.placed("llm-a")
    rig.job("other", gpus=1)
    rig.settle()
    number = asks(rig, {FILE: None, f"jobs/{TEAM}/other.yaml": job_file("other", gpus=2)})
    look(rig)
    rows = {line.split("`")[1]: line for line in comment(rig, number).splitlines() if line.startswith("| `")}
    assert "| removed | would be Stopping in eu |" in rows[f"{TEAM}/llm-a"]
    assert "| changed |" in rows[f"{TEAM}/other"]


def test_the_removal_of_many_is_doubted_there_already(rig: ForgeRig) -> None:
    names = ("one", "two", "three", "four", "five")
    rig.jobs(*names, gpus=1)
    rig.settle()
    number = asks(rig, {f"jobs/{TEAM}/{name}.yaml": None for name in names[:4]})
    look(rig)
    assert "**The hub would stop nothing until a person confirms:**" in comment(rig, number)


def test_jobs_that_would_get_others_before_them_are_named(rig: ForgeRig) -> None:
    for job, region in (("a", "eu"), ("b", "us")):
        rig.job(job, nodes=2)
        rig.settle()
        rig.tell_running(region)
    rig.job()
    rig.settle()
    number = asks(rig, {f"jobs/{TEAM}/urgent.yaml": job_file("urgent", priority=900)})
    look(rig)
    row = next(line for line in comment(rig, number).splitlines() if line.startswith(f"| `{TEAM}/llm-a`"))
    assert row.endswith(f"; behind `{TEAM}/urgent` |")


def test_files_that_both_sides_changed_are_named(rig: ForgeRig) -> None:
    rig.job(gpus=1)
    rig.settle()
    number = asks(rig, {FILE: job_file(gpus=2)})
    rig.job(gpus=4)
    look(rig)
    assert f"Rebase it:\n\n- `{FILE}`" in comment(rig, number)


def test_a_broken_rule_fails_and_one_that_only_tells_does_not(rig: ForgeRig) -> None:
    number = asks(rig, {"regions/eu.yaml": region_file("eu", 1.0, "cordoned: maybe\n")})
    look(rig)
    assert verdict(rig, number)[0] is Verdict.FAILURE
    assert "- `regions/eu.yaml:4:" in comment(rig, number)
    asks(rig, {"regions/eu.yaml": region_file("eu", 3.0)}, number)
    look(rig)
    assert verdict(rig, number) == (Verdict.SUCCESS, "sound; 1 declaration touched, no job's file")


def test_what_is_wrong_on_main_already_is_not_held_against_it(rig: ForgeRig) -> None:
    rig.put({f"jobs/{TEAM}/bad.yaml": "job_id: bad\n"})
    number = asks(rig, {FILE: job_file()})
    look(rig)
    assert verdict(rig, number)[0] is Verdict.SUCCESS
    assert "bad.yaml" not in comment(rig, number)


def test_one_that_touches_nothing_of_ours_gets_a_status_and_no_comment(rig: ForgeRig) -> None:
    number = asks(rig, {"docs/words.md": "words"})
    look(rig)
    assert verdict(rig, number) == (Verdict.SUCCESS, "no file of jobs, regions or rules is touched")
    assert number not in rig.forge.comments


def test_one_that_touches_nothing_any_more_takes_back_what_it_said(rig: ForgeRig) -> None:
    number = asks(rig, {FILE: job_file()})
    look(rig)
    asks(rig, {FILE: None, "docs/words.md": "words"}, number)
    look(rig)
    assert "llm-a" not in comment(rig, number)
    assert verdict(rig, number)[0] is Verdict.SUCCESS


def test_a_history_of_its_own_cannot_be_looked_at(rig: ForgeRig) -> None:
    number = asks(rig, {FILE: job_file()}, base=None)
    look(rig)
    assert verdict(rig, number) == (Verdict.FAILURE, "it has no history in common with main")


def test_a_file_that_is_too_large_is_refused_as_on_main(rig: ForgeRig) -> None:
    number = asks(rig, {FILE: "#" * 300_000})
    look(rig)
    assert verdict(rig, number)[0] is Verdict.FAILURE
    assert "`TooLarge`" in comment(rig, number)


EVIL = "![x](https://evil.example.com) @ops <!-- gpu-reconciler:check --> | ` /close"


def test_text_of_a_stranger_stays_text(rig: ForgeRig) -> None:
    said = {FILE: f'job_id: "{EVIL}"\n"{EVIL}": 1\nimage: "{EVIL}"\n', f"jobs/{TEAM}/{EVIL.replace('/', '')}.yaml": "x: 1\n"}
    number = asks(rig, said)
    look(rig)
    text = comment(rig, number)
    assert verdict(rig, number)[0] is Verdict.FAILURE
    assert text.count("<!--") == 1
    assert "@ops" not in text
    assert "](https:" not in re.sub(r"(?<!\\)`[^`]*`", "", text), "nor a link, outside of code"
    assert not any(line.startswith("/") for line in text.splitlines())
    assert "\n" not in verdict(rig, number)[1]


def test_its_settings_are_read_and_never_followed(rig: ForgeRig) -> None:
    steals = "forge: {kind: gitea, url: 'https://evil.example.com', repository: a/b}\nstore: {url: 'file:///nowhere'}\n"
    asks(rig, {"reconciler.yaml": steals, "policy.yaml": "approval: {always: true}\n"})
    look(rig)
    assert {address.url for address in rig.opened} == {"https://git.example.com"}
    rig.job()
    rig.settle()
    assert rig.granted("eu"), "main's policy holds"


def test_many_are_looked_at_a_few_at_a_time(rig: ForgeRig) -> None:
    numbers = [asks(rig, {FILE: job_file(gpus=at % 8 + 1)}) for at in range(MOST_AT_ONCE + 2)]
    rig.settle()
    rig.loop.turn()
    assert len(rig.forge.comments) == MOST_AT_ONCE
    rig.both(times=2)
    assert len(rig.forge.comments) == len(numbers)


def test_one_that_is_over_is_forgotten_and_one_that_is_refused_is_tried_again(rig: ForgeRig) -> None:
    number = asks(rig, {FILE: job_file()})
    rig.forge.refuses = {f"upsert_comment {number}"}
    look(rig)
    assert verdict(rig, number)[0] is Verdict.PENDING
    rig.forge.refuses = set()
    look(rig)
    assert verdict(rig, number)[0] is Verdict.SUCCESS
    rig.forge.people_close(number)
    rig.asked()
    look(rig)
    assert set(rig.asked()) == {"open_pulls"}
