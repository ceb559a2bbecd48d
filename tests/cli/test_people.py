"""Jobs that need a person, that have no record, that wait, or whose files cannot be shown: what the commands say of them."""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from reconciler.model.record import Phase
from tests.cli.world import NOW, Command, HubWorld, failed, job, run_to_end
from tests.githttp import commit_files, run_git

ESCAPES = "jobs/red/\x1b[31mred.yaml"
"""The name of a file that would colour a terminal."""
SHOWN = "jobs/red/\\u001b[31mred.yaml"


@pytest.fixture
def world(folder: Path) -> HubWorld:
    """Two jobs of two teams, which wait for a region to report."""
    made = HubWorld(folder, {"jobs/red/one.yaml": job("one"), "jobs/blue/two.yaml": job("two")})
    made.cycle()
    return made


def on_status(world: HubWorld, changes: dict[str, str | None]) -> None:
    """Somebody edits the status branch. None removes a file."""
    names = run_git(world.repository, "ls-tree", "-r", "--name-only", "status").splitlines()
    files = {name: run_git(world.repository, "show", f"status:{name}").encode() + b"\n" for name in names}
    kept = {name: body for name, body in files.items() if changes.get(name, "") is not None}
    commit_files(world.repository, "status", kept | {name: body.encode() for name, body in changes.items() if body is not None})


# ---- conditions ---------------------------------------------------------------------------------------------------


def test_a_condition_is_a_note_of_the_status_and_a_part_of_its_json(command: Command, world: HubWorld) -> None:
    world.commit({"jobs/red/one.yaml": job("one").replace("count: 8", "count: eight")})
    world.cycle(5)
    said = "red/one: SpecAccepted: its file is broken; the last good version stays in force"
    lines = command.done("status", "--repo", world.url).splitlines()
    assert [line for line in lines if line.startswith(said)]
    assert f"## Needs a person\n\n- {said}" in run_git(world.repository, "show", "status:README.md")
    by_job = {each["job"]: each for each in json.loads(command.done("status", "--json", "--repo", world.url))["jobs"]}
    (condition,) = by_job["red/one"]["conditions"]
    assert (condition["type"], condition["code"], condition["since"]) == ("SpecAccepted", "SpecBroken", "2026-05-01T12:00:05Z")
    assert (condition["text"], condition["message"]) == (said.partition("SpecAccepted: ")[2], "")
    assert by_job["blue/two"]["conditions"] == []


def test_of_one_job_only_its_own_conditions_are_told(command: Command, world: HubWorld) -> None:
    world.commit({"jobs/red/one.yaml": job("one").replace("count: 8", "count: eight")})
    world.cycle(5)
    assert "SpecAccepted" not in command.done("status", "two", "--repo", world.url)


# ---- files that cannot be shown -----------------------------------------------------------------------------------


def test_a_refused_file_whose_name_speaks_to_terminals_is_shown_harmless_and_not_waited_for(
    command: Command, world: HubWorld
) -> None:
    world.commit({ESCAPES: job("three")})
    said = command.done("status", "--repo", world.url)
    assert f"not taken in by the hub yet: {SHOWN}\n" in said
    assert "\x1b" not in said
    world.cycle(1)
    said = command.done("status", "--repo", world.url)
    assert f"{SHOWN}:0:0: BadPath" in said
    assert "not taken in" not in said
    assert "\x1b" not in said


def test_the_job_of_such_a_file_is_known_by_its_name(command: Command, world: HubWorld) -> None:
    world.commit({ESCAPES: job("three")})
    world.cycle(1)
    said = command.done("why", "three", "--repo", world.url)
    assert said.startswith("red/three was never taken in: its file was refused\n")
    assert f"{SHOWN}:0:0: BadPath" in said


def test_such_a_file_can_be_cancelled(command: Command, world: HubWorld) -> None:
    world.commit({ESCAPES: job("three")})
    command.done("cancel", "red/three", "--repo", world.url)
    assert "mred.yaml" not in run_git(world.repository, "ls-tree", "-r", "--name-only", "main")


def test_a_submitted_job_does_not_go_into_the_shown_form_of_such_a_name(command: Command, world: HubWorld, folder: Path) -> None:
    world.commit({ESCAPES: job("three")})
    (folder / "three.yaml").write_text(job("three"), encoding="utf-8")
    command.done("submit", folder / "three.yaml", "--team", "red", "--repo", world.url)
    assert run_git(world.repository, "show", "main:jobs/red/three.yaml") + "\n" == job("three")


def test_what_a_person_types_does_not_speak_to_the_terminal(command: Command, world: HubWorld) -> None:
    assert "\x1b" not in command("why", "\x1b[31mone", "--repo", world.url).err


# ---- records ------------------------------------------------------------------------------------------------------

LOST = {
    "why": ("why", "one"),
    "logs": ("logs", "one"),
    "status": ("status", "red/one"),
    "rerun": ("rerun", "one"),
}


@pytest.mark.parametrize("call", LOST.values(), ids=LOST.keys())
def test_a_record_that_cannot_be_read_is_said(command: Command, world: HubWorld, call: tuple[str, ...]) -> None:
    on_status(world, {"jobs/red/one.json": "{}"})
    world.cycle(1)
    ended = command(*call, "--repo", world.url)
    first, todo = ended.err.splitlines()
    assert ended.code == 1
    assert first.startswith("reconciler: red/one has no record that can be used: jobs/red/one.json on the status branch cannot")
    assert todo.startswith("  restore it from the history of the status branch")


def test_a_record_that_is_missing_is_said_in_the_words_of_the_trouble(command: Command, world: HubWorld) -> None:
    hub = json.loads(run_git(world.repository, "show", "status:hub.json"))
    trouble = {"subject": "jobs/red/one.json", "code": "RecordUnusable", "what": "jobs/red/one.json: it is gone"}
    on_status(world, {"jobs/red/one.json": None, "hub.json": json.dumps({**hub, "troubles": [trouble]})})
    ended = command("why", "one", "--repo", world.url)
    assert ended.err.startswith("reconciler: red/one has no record that can be used: jobs/red/one.json: it is gone\n")


def test_a_record_that_the_hub_cannot_use_is_shown_with_that(command: Command, world: HubWorld) -> None:
    hub = json.loads(run_git(world.repository, "show", "status:hub.json"))
    trouble = {"subject": "jobs/red/one.json", "code": "RecordUnusable", "what": "it was set back"}
    on_status(world, {"hub.json": json.dumps({**hub, "troubles": [trouble]})})
    said = command.done("why", "one", "--repo", world.url)
    assert "  its record cannot be used, and the hub leaves the job alone: it was set back\n" in said
    assert json.loads(command.done("why", "one", "--json", "--repo", world.url))["trouble"] == "it was set back"
    assert "it was set back" in command.done("status", "one", "--repo", world.url)


@pytest.mark.parametrize("verb", ["why", "logs", "status"])
def test_a_job_that_the_hub_has_not_seen_is_no_unknown_job(command: Command, world: HubWorld, verb: str) -> None:
    world.commit({"jobs/red/p1.yaml": job("p1")})
    ended = command(verb, "p1", "--repo", world.url)
    first, todo = ended.err.splitlines()
    assert (ended.code, first) == (1, "reconciler: the hub has not taken red/p1 in yet")
    assert todo == "  main has it as jobs/red/p1.yaml; `reconciler status` shows when the hub has"


# ---- rows, and what a job is told to do ---------------------------------------------------------------------------


def test_a_job_that_waits_is_shown_in_no_region_and_one_that_is_over_in_its_last(command: Command, world: HubWorld) -> None:
    run_to_end(world, well=False)
    last = world.record("red", "one").attempts[-1]
    row = command.done("status", "red/one", "--repo", world.url).splitlines()[1]
    assert row.split()[:4] == ["red/one", "Failed", last.region, "a1"]
    world.commit({"jobs/red/one.yaml": job("one", "suspend: true", "rerun: 1")})
    world.cycle(1)
    row = command.done("status", "red/one", "--repo", world.url).splitlines()[1]
    assert row.split()[:4] == ["red/one", "Suspended", "–", "–"]
    (shown,) = json.loads(command.done("status", "red/one", "--json", "--repo", world.url))["jobs"]
    assert (shown["region"], shown["attempt"]) == (None, None)


def test_a_rerun_of_a_suspended_job_says_that_it_stays_suspended(command: Command, world: HubWorld) -> None:
    run_to_end(world, well=False)
    world.commit({"jobs/red/one.yaml": job("one", "suspend: true")})
    world.cycle(1)
    assert command.done("rerun", "one", "--repo", world.url).startswith(
        "red/one stays Suspended, and runs again once `suspend: true` is taken out of jobs/red/one.yaml: `rerun: 1` (commit "
    )
    world.cycle(1)
    assert world.record("red", "one").phase is Phase.SUSPENDED


def test_a_cancelled_job_that_a_refused_file_may_be_is_said_to_run_on(command: Command, world: HubWorld) -> None:
    world.commit({"jobs/red/renamed.yaml": "gpu: no\n"})
    said = command.done("cancel", "red/one", "--repo", world.url)
    may = "; it may run on until jobs/red/renamed.yaml can be read, which may be this job under another name (commit "
    assert f"`reconciler status red/one` shows when it has stopped{may}" in said
    world.cycle(1)
    assert world.record("red", "one").phase is Phase.PENDING


def test_a_failed_program_without_a_word_is_said_to_have_printed_nothing(command: Command, world: HubWorld) -> None:
    for region in ("eu", "us"):
        world.report(region)
    world.cycle()
    attempt = world.record("red", "one").attempts[-1]
    world.report(attempt.region, failed(attempt.name, NOW, NOW + timedelta(seconds=9), code=7, tail=""))
    world.cycle(10)
    ended = command("logs", "one", "--repo", world.url)
    assert (ended.code, ended.err.splitlines()) == (
        1,
        [
            f"reconciler: the program of {attempt.name} printed nothing before it failed in {attempt.region}",
            "  how it ended is all that is known: the program ended with exit code 7",
        ],
    )


def test_a_refused_file_that_the_hub_knew_before_keeps_no_job_from_being_cancelled(command: Command, world: HubWorld) -> None:
    world.commit({"jobs/red/wip.yaml": "gpu: no\n"})
    world.cycle(1)
    assert "it may run on" not in command.done("cancel", "red/one", "--repo", world.url)
