"""`status` and `why`: what they make of a ledger that a real hub wrote, as text and as JSON."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from reconciler.commands import links_table, screen, status, why
from reconciler.hub.link_table import MEASURED_KEY, MeasuredLine, MeasuredTable
from reconciler.model.quantity import as_length
from reconciler.model.record import JobRecord
from tests.cli.world import NOW, Command, HubWorld, assert_golden, failed, job, running, succeeded
from tests.githttp import run_git
from tests.waiting import until

BAD = "job_id: bad\ngpu: {count: no}\nimage: reg.example.com/ml/train:1\n"
JOBS = {
    "jobs/red/done.yaml": job("done"),
    "jobs/red/faulty.yaml": job("faulty", "retries: 1"),
    "jobs/blue/long.yaml": job("long"),
    "jobs/blue/wide.yaml": job("wide", "nodes: 9"),
    "jobs/blue/bad.yaml": BAD,
}


@pytest.fixture
def world(folder: Path) -> HubWorld:
    """Five jobs: one has succeeded, one has failed once and is starting again, one runs, one is impossible, one is broken."""
    made = HubWorld(folder, JOBS)
    for region in ("eu", "us"):
        made.report(region)
    made.cycle()
    attempts = {name: current(made, name) for name in ("red/done", "red/faulty", "blue/long")}
    made.clock.seconds += 60
    start, end = NOW + timedelta(seconds=10), NOW + timedelta(seconds=50)
    seen = {
        "red/done": succeeded(attempts["red/done"].name, start, end),
        "red/faulty": failed(attempts["red/faulty"].name, start, end, code=7, tail="loading\nboom\n"),
        "blue/long": running(attempts["blue/long"].name, start),
    }
    for region in ("eu", "us"):
        made.report(region, *(work for name, work in seen.items() if attempts[name].region == region))
    made.cycle()
    return made


def current(world: HubWorld, name: str):
    record = world.record(*name.split("/"))
    assert record.current is not None
    return record.current


def shown(capsys: pytest.CaptureFixture[str], world: HubWorld, typed: str | None = None) -> str:
    status.show(status.status_of(world.look(), typed), NOW + timedelta(seconds=90))
    return capsys.readouterr().out


def told(capsys: pytest.CaptureFixture[str], world: HubWorld, typed: str) -> str:
    why.show(why.story_of(world.look(), typed), NOW + timedelta(seconds=90))
    return capsys.readouterr().out


# ---- status -------------------------------------------------------------------------------------------------------


def test_the_table_of_all_jobs(capsys: pytest.CaptureFixture[str], world: HubWorld) -> None:
    assert_golden("status.txt", shown(capsys, world))


def test_one_job_by_its_id_alone(command: Command, world: HubWorld) -> None:
    lines = command.done("status", "long", "--repo", world.url).splitlines()
    assert [line.split()[0] for line in lines] == ["job", "blue/long"]


def test_json_says_the_same_in_a_stable_form(command: Command, world: HubWorld) -> None:
    said = json.loads(command.done("status", "--json", "--repo", world.url))
    assert said["schema_version"] == 1
    assert set(said) == {
        "schema_version",
        "main",
        "status",
        "jobs",
        "staging",
        "not_taken_in",
        "problems",
        "troubles",
        "standstill",
        "regions",
        "links",
        "doubt",
    }
    by_job = {each["job"]: each for each in said["jobs"]}
    assert list(by_job) == ["blue/long", "blue/wide", "red/done", "red/faulty"]
    assert by_job["red/faulty"] == {
        "job": "red/faulty",
        "team": "red",
        "job_id": "faulty",
        "phase": "Starting",
        "region": current(world, "red/faulty").region,
        "attempt": current(world, "red/faulty").name,
        "attempt_number": 2,
        "gpus": {"nodes": 1, "per_node": 8, "total": 8},
        "since": "2026-05-01T12:01:00Z",
        "why": None,
        "result": None,
        "conditions": [],
    }
    assert by_job["blue/wide"]["gpus"] == {"nodes": 9, "per_node": 8, "total": 72}
    assert by_job["blue/wide"]["why"]["code"] == "RegionTooSmall"
    assert [problem["path"] for problem in said["problems"]] == ["jobs/blue/bad.yaml"]


def test_a_job_that_the_hub_has_not_seen_is_named(command: Command, world: HubWorld) -> None:
    world.commit({"jobs/red/new.yaml": job("new")})
    assert "not taken in by the hub yet: jobs/red/new.yaml\n" in command.done("status", "--repo", world.url)


def test_a_file_that_is_nothing_of_ours_is_not_waited_for(command: Command, world: HubWorld) -> None:
    world.commit({"jobs/red/.draft.yaml": "x", "jobs/red/README.md": "x"})
    assert "not taken in" not in command.done("status", "--repo", world.url)


def test_before_the_first_hub_there_is_no_ledger(command: Command, folder: Path) -> None:
    world = HubWorld(folder, {"jobs/red/new.yaml": job("new")})
    said = command.done("status", "--repo", world.url)
    assert said == "not taken in by the hub yet: jobs/red/new.yaml\nno hub has written a ledger here yet\n"


def test_a_doubted_main_is_shown_with_what_to_do(command: Command, folder: Path) -> None:
    world = HubWorld(folder, {f"jobs/red/job-{number}.yaml": job(f"job-{number}") for number in range(5)})
    world.cycle()
    doubted = world.commit({f"jobs/red/job-{number}.yaml": None for number in range(4)})
    world.cycle()
    said = command.done("status", "--repo", world.url)
    assert f"If it was meant: `reconciler confirm {doubted}`" in said


UNKNOWN = {
    "a misspelt job_id": ("lnog", "there is no job lnog\n  did you mean long?\n"),
    "a misspelt team": ("bleu/long", "there is no job bleu/long\n  did you mean blue/long?\n"),
    "nothing like it": ("zzz", "there is no job zzz\n  `reconciler status` lists all jobs\n"),
}


@pytest.mark.parametrize(("typed", "said"), UNKNOWN.values(), ids=UNKNOWN.keys())
def test_an_unknown_job(command: Command, world: HubWorld, typed: str, said: str) -> None:
    ended = command("status", typed, "--repo", world.url)
    assert (ended.code, ended.err) == (1, f"reconciler: {said}")


def test_a_job_id_of_two_teams_must_be_said_in_full(command: Command, folder: Path) -> None:
    world = HubWorld(folder, {"jobs/red/same.yaml": job("same"), "jobs/blue/same.yaml": job("same")})
    world.cycle()
    ended = command("why", "same", "--repo", world.url)
    assert ended.err == "reconciler: 2 teams have a job same\n  say which: blue/same, red/same\n"
    assert command.done("why", "red/same", "--repo", world.url).startswith("red/same is Pending\n")


# ---- why ----------------------------------------------------------------------------------------------------------

STORIES = {
    "a job that failed once and starts again": ("faulty", "why_faulty.txt"),
    "a job that runs": ("long", "why_long.txt"),
    "a job that is impossible": ("wide", "why_wide.txt"),
    "a job whose file was never taken": ("bad", "why_bad.txt"),
}


@pytest.mark.parametrize(("typed", "golden"), STORIES.values(), ids=STORIES.keys())
def test_a_story(capsys: pytest.CaptureFixture[str], world: HubWorld, typed: str, golden: str) -> None:
    assert_golden(golden, told(capsys, world, typed))


def test_a_broken_edit_is_a_condition_and_a_problem_of_the_job(capsys: pytest.CaptureFixture[str], world: HubWorld) -> None:
    world.commit({"jobs/blue/long.yaml": job("long").replace("count: 8", "count: eight")})
    world.cycle(5)
    said = told(capsys, world, "long")
    assert "SpecAccepted is False since 2026-05-01 12:01:05: its file is broken; the last good version stays in force" in said
    assert "\nproblems of its file\njobs/blue/long.yaml:2:" in said


def test_a_newer_file_is_told_until_the_hub_has_it(command: Command, world: HubWorld) -> None:
    world.commit({"jobs/blue/long.yaml": job("long", "priority: high")})
    newer = "main has a newer version of its file, which the hub has not taken in yet"
    assert newer in command.done("why", "long", "--repo", world.url)
    world.cycle(5)
    assert newer not in command.done("why", "long", "--repo", world.url)


def test_a_proposal_is_explained_from_its_branch(command: Command, folder: Path) -> None:
    world = HubWorld(folder, {"jobs/red/one.yaml": job("one"), "policy.yaml": "approval: {always: true}\n"})
    for region in ("eu", "us"):
        world.report(region)
    world.cycle()
    said = command.done("why", "one", "--repo", world.url)
    assert said.startswith("red/one is Proposed in us as one-")
    assert "merge branch proposals/red/one into placements" in said
    assert "\nproposed 2026-05-01 12:00:00 by policy weights" in said
    assert json.loads(command.done("why", "one", "--json", "--repo", world.url))["proposed"] is True


def test_why_in_json_has_the_record_and_each_region(command: Command, world: HubWorld) -> None:
    said = json.loads(command.done("why", "faulty", "--json", "--repo", world.url))
    assert said["schema_version"] == 1
    record = JobRecord.model_validate_json(json.dumps(said["record"]))
    assert [attempt.exit_code for attempt in record.attempts] == [7, None]
    chosen, *others = said["regions"]
    assert (chosen["verdict"], chosen["region"]) == ("chosen", record.attempts[-1].region)
    assert {term["name"] for term in chosen["terms"]} == {"data affinity", "cost", "idle GPUs"}
    assert round(sum(term["value"] * term["weight"] for term in chosen["terms"]), 3) == round(chosen["score"], 3)
    assert [other["verdict"] for other in others] == ["runner-up"]


# ---- watching -----------------------------------------------------------------------------------------------------


def test_watching_prints_each_change_once_and_ends_with_the_job(command: Command, world: HubWorld) -> None:
    first = current(world, "blue/long")

    def end_it() -> None:
        until(lambda: list((Path.home() / "cache/gpu-reconciler").glob("*.turn")))
        world.clock.seconds += 30
        world.report(first.region, succeeded(first.name, NOW, NOW + timedelta(seconds=80)))
        world.cycle()

    hub = threading.Thread(target=end_it)
    hub.start()
    lines = command.done("status", "long", "--watch", "--repo", world.url).splitlines()
    hub.join()
    assert [line.partition("  ")[2] for line in lines] == [
        f"blue/long Running in {first.region} as {first.name}",
        f"blue/long Succeeded in {first.region} as {first.name}: the program ended with exit code 0",
    ]


def test_control_c_ends_a_watch_without_a_word(world: HubWorld) -> None:
    # Whoever starts the tests may have had interrupts ignored, as shells do for what runs in the background.
    program = [sys.executable, "-m", "reconciler.cli", "status", "--watch", "--repo", world.url]
    call = ["env", "--default-signal=INT", *program]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(call, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        assert "blue/long Running" in watching.stdout.readline()
        watching.send_signal(signal.SIGINT)
        _, errors = watching.communicate(timeout=30)
    assert (watching.returncode, errors) == (130, "")


def test_watching_is_not_for_json(command: Command, world: HubWorld) -> None:
    assert command("status", "--watch", "--json", "--repo", world.url).code == 1


# ---- the screen ---------------------------------------------------------------------------------------------------

LENGTHS = {0: "0 s", 0.4: "0 s", 59.6: "1 min", 61: "1 min 1 s", 3600: "1 h", 3661: "1 h 1 min", 90000: "1 d 1 h", 86460: "1 d"}


@pytest.mark.parametrize(("seconds", "said"), LENGTHS.items())
def test_a_length_in_its_two_largest_units(seconds: float, said: str) -> None:
    assert as_length(seconds) == said


def test_what_a_cell_says_stays_on_its_line() -> None:
    assert screen.plain(("a", "b"), [("x\ny", "1"), ("longer", "2")]) == "a       b\nx y     1\nlonger  2"


def test_a_terminal_gets_a_drawn_table_with_every_word(world: HubWorld) -> None:
    from rich.console import Console

    console = Console(width=60, force_terminal=True, color_system=None, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    with console.file:
        console.print(screen.drawn(("job", "why"), [("red/[bold]one", "a reason " * 20)]))
        drawn = console.export_text()
    assert "red/[bold]one" in drawn
    assert drawn.count("reason") == 20
    assert max(len(line) for line in drawn.splitlines()) <= 60


def test_the_ledger_was_written_by_the_hub(world: HubWorld) -> None:
    assert "gpu-reconciler" in run_git(world.repository, "log", "-1", "--format=%an", "status")


def test_why_the_hub_stands_still_is_read_from_the_store(command: Command, world: HubWorld) -> None:
    """A ledger that cannot be believed looks as well as ever in Git."""
    world.commit({"reconciler.yaml": f"store: {{url: '{world.store_url}'}}\n"})
    assert "stands still" not in command.done("status", "--repo", world.url)
    world.hub.cycle()
    world.hub.say("the branch status was rewritten; push it back")
    said = command.done("status", "--repo", world.url)
    assert "the hub stands still since 2026-05-01 12:0" in said
    assert "UTC: the branch status was rewritten; push it back" in said
    as_json = json.loads(command.done("status", "--json", "--repo", world.url))
    assert as_json["standstill"]["what"] == "the branch status was rewritten; push it back"
    world.hub.say("")
    assert "stands still" not in command.done("status", "--repo", world.url)


def test_what_the_links_were_measured_to_do_is_read_from_the_store(command: Command, world: HubWorld) -> None:
    world.commit({"reconciler.yaml": f"store: {{url: '{world.store_url}'}}\n"})
    assert "links" not in command.done("status", "--repo", world.url)
    at = NOW + timedelta(seconds=30)
    lines = (
        MeasuredLine(source="eu", target="us", bytes_per_second=1.25e8, samples=7, rtt_ms=80.25, at=at),
        MeasuredLine(source="us", target="eu", problem="get s3://us/x: HTTP 403 AccessDenied"),
    )
    world.store.put(MEASURED_KEY, MeasuredTable(links=lines).model_dump_json().encode(), expect=None)
    said = command.done("status", "--repo", world.url)
    table = said[said.index("links as measured") :].splitlines()
    assert table[2].split("  ")[:1] == ["eu → us"]
    assert re.search(r"eu → us +1 Gbit/s +80\.2 ms +7 +.* ago +well$", table[2])
    assert re.search(r"us → eu +– +– +– +– +get s3://us/x: HTTP 403 AccessDenied$", table[3])
    assert "links as measured" not in command.done("status", "long", "--repo", world.url)
    as_json = json.loads(command.done("status", "--json", "--repo", world.url))
    assert as_json["links"][0] == {
        "source": "eu",
        "target": "us",
        "bytes_per_second": 1.25e8,
        "samples": 7,
        "rtt_ms": 80.25,
        "at": "2026-05-01T12:00:30Z",
        "problem": "",
    }


def test_of_many_links_the_ones_to_look_at_are_shown() -> None:
    lines = [MeasuredLine(source="eu", target=f"r{number}", bytes_per_second=1e6 * number, samples=1) for number in range(1, 41)]
    lines += [MeasuredLine(source="eu", target="down", problem="refused")]
    shown = [row[0] for row in links_table.rows_of(lines, NOW)]
    assert len(shown) == links_table.MOST
    assert {"eu → down", "eu → r1"} <= set(shown)
    assert "eu → r40" not in shown
    assert links_table.more(lines) == ["and 11 more, quicker ones: `status --json` has all"]
    assert links_table.more(lines[:30]) == []


def test_a_store_that_cannot_be_read_hides_nothing(command: Command, world: HubWorld) -> None:
    world.commit({"reconciler.yaml": "store: {url: 'file:///nowhere/at/all'}\n"})
    assert "red/done" in command.done("status", "--repo", world.url)
