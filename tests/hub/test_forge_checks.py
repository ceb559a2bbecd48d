"""Pull requests on main: their status, their one comment, and what of them is looked at when."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from reconciler.adapters.documents import reader
from reconciler.adapters.git import BareClone
from reconciler.forge_port import Verdict
from reconciler.hub.forge_checks import MOST_AT_ONCE, MOST_SECONDS
from reconciler.hub.forge_loop import BREATH_SECONDS, ForgeLoop
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


# ---- what goes wrong with one and holds up no other ----------------------------------------------------------------


def heard(rig: ForgeRig) -> str:
    """What the loop has told the hub of its troubles."""
    return "; ".join(f"{one.code}: {one.what}" for one in rig.hub.board.heard.troubles)


def lose(rig: ForgeRig, number: int) -> None:
    """The forge has a pull request, and Git has not got its head (any more, or yet)."""
    run_git(rig.bare, "update-ref", "-d", f"refs/pull/{number}/head")


def break_head(rig: ForgeRig, number: int) -> None:
    """Its head is a commit whose parent no git finds."""
    tree = run_git(rig.bare, "rev-parse", "main^{tree}")
    body = f"tree {tree}\nparent {'1' * 40}\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nx\n".encode()
    commit = run_git(rig.bare, "hash-object", "-w", "--literally", "-t", "commit", "--stdin", body=body)
    (rig.bare / f"refs/pull/{number}/head").write_text(f"{commit}\n")


UNREADABLE = {"its head is not in Git": lose, "its history cannot be read": break_head}


@pytest.mark.parametrize("case", UNREADABLE)
def test_one_that_git_does_not_give_is_told_and_holds_up_no_other(rig: ForgeRig, case: str) -> None:
    broken = asks(rig, {FILE: job_file(gpus=1)})
    sound = asks(rig, {FILE: job_file(gpus=2)})
    UNREADABLE[case](rig, broken)
    rig.settle()
    wait = rig.loop.turn()
    assert verdict(rig, sound)[0] is Verdict.SUCCESS
    assert f"ForgeRefused: pull request {broken} cannot be read" in heard(rig)
    assert wait > BREATH_SECONDS, "and it is not tried again at once"
    asks(rig, {FILE: job_file(gpus=1)}, broken)
    look(rig)
    assert verdict(rig, broken)[0] is Verdict.SUCCESS
    assert heard(rig) == ""


def test_many_that_cannot_be_read_wait_for_those_that_can_and_are_not_tried_at_once(rig: ForgeRig) -> None:
    for number in [asks(rig, {FILE: job_file(gpus=at % 8 + 1)}) for at in range(MOST_AT_ONCE + 1)]:
        lose(rig, number)
    sound = asks(rig, {FILE: job_file(gpus=2)})
    rig.settle()
    assert rig.loop.turn() == BREATH_SECONDS, "two have not been looked at yet"
    rig.clock.seconds += BREATH_SECONDS
    assert rig.loop.turn() > BREATH_SECONDS
    assert verdict(rig, sound)[0] is Verdict.SUCCESS


class SlowClone(BareClone):
    """One whose remote takes its time for each head."""

    def __init__(self, rig: ForgeRig, seconds: float, **options: Any) -> None:
        super().__init__(rig.url, rig.folder / "slow", **options)
        self._clock, self._seconds = rig.clock, seconds

    def fetch_ref(self, ref: str) -> str:
        self._clock.seconds += self._seconds
        return super().fetch_ref(ref)


def test_a_slow_remote_ends_the_look_and_the_next_one_begins_with_proposals(rig: ForgeRig) -> None:
    rig.loop = ForgeLoop(rig.hub.board, SlowClone(rig, MOST_SECONDS), reader, lambda _: rig.forge, rig.clock)
    numbers = [asks(rig, {FILE: job_file(gpus=at + 1)}) for at in range(3)]
    rig.settle()
    for at in range(3):
        assert len(rig.forge.comments) == at
        rig.loop.turn()
        rig.clock.seconds += BREATH_SECONDS
    assert sorted(rig.forge.comments) == numbers
    assert rig.asked().count("open_pulls") == 3


def test_a_forge_that_takes_no_status_has_the_comment_all_the_same_and_is_asked_for_the_status_alone(rig: ForgeRig) -> None:
    number = asks(rig, {FILE: job_file()})
    rig.forge.refuses = {"set_status pending", "set_status success"}
    look(rig)
    assert "would start in eu" in comment(rig, number)
    assert "set_status success is not allowed" in heard(rig)
    rig.asked()
    look(rig)
    assert rig.asked() == ["open_pulls", "set_status success"]
    rig.forge.refuses = set()
    look(rig)
    assert verdict(rig, number)[0] is Verdict.SUCCESS
    assert heard(rig) == ""
    rig.asked()
    look(rig)
    assert rig.asked() == ["open_pulls"]


def test_a_forge_that_goes_silent_forgets_no_status_that_it_has_refused(rig: ForgeRig) -> None:
    number = asks(rig, {FILE: job_file()})
    rig.forge.refuses = {"set_status success"}
    look(rig)
    rig.asked()
    rig.forge.dies_after = 1
    look(rig)
    rig.forge.dies_after, rig.forge.refuses = None, set()
    rig.clock.seconds += 10
    look(rig)
    assert verdict(rig, number)[0] is Verdict.SUCCESS


def test_more_than_are_listed_are_told(rig: ForgeRig) -> None:
    rig.forge.most = 1
    number = asks(rig, {FILE: job_file(gpus=1)})
    asks(rig, {FILE: job_file(gpus=2)})
    look(rig)
    assert verdict(rig, number)[0] is Verdict.SUCCESS
    assert "ForgeRefused: more than 1 pull requests are open, and the newest are not looked at; close some" in heard(rig)
