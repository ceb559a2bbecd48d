"""`logs`: the tail that the ledger keeps, and whole logs of real programs in a local region, also while they are written."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from reconciler.commands.logs import logs_in, stream
from tests.adapters.local.real import RealWorld, leave_nothing
from tests.cli.world import NOW, Command, HubWorld, failed, job, running
from tests.waiting import until


@pytest.fixture
def world(folder: Path) -> HubWorld:
    """red/one: its first attempt failed, its second runs."""
    made = HubWorld(folder / "hub", {"jobs/red/one.yaml": job("one", "retries: 1")})
    for region in ("eu", "us"):
        made.report(region)
    made.cycle()
    first = made.record("red", "one").attempts[-1]
    made.report(first.region, failed(first.name, NOW, NOW + timedelta(seconds=9), tail="loading\nno such layer\n"))
    made.cycle(10)
    second = made.record("red", "one").attempts[-1]
    made.report(second.region, running(second.name, NOW))
    made.cycle(10)
    return made


@pytest.fixture
def region(folder: Path) -> Iterator[RealWorld]:
    """A region with real processes, two folders below `folder`."""
    place = folder / "demo/eu"
    yield (made := RealWorld(place))
    made.cluster.close()
    leave_nothing(place)


# ---- the ledger's tail --------------------------------------------------------------------------------------------


def test_the_tail_of_a_failed_attempt(command: Command, world: HubWorld) -> None:
    assert command.done("logs", "one", "--attempt", "1", "--repo", world.url) == "loading\nno such layer\n"


def test_of_an_attempt_that_has_not_failed_the_ledger_keeps_none(command: Command, world: HubWorld) -> None:
    ended = command("logs", "one", "--repo", world.url)
    assert ended.code == 1
    assert "which is Running in" in ended.err
    assert ended.err.endswith("for others ask the region, or give --folder for one on this machine\n")


def test_an_attempt_that_there_is_not(command: Command, world: HubWorld) -> None:
    assert (
        command("logs", "one", "--attempt", "7", "--repo", world.url).err
        == "reconciler: red/one has no attempt 7\n  there are 1, 2\n"
    )


def test_a_job_that_never_started_has_no_log(command: Command, folder: Path) -> None:
    made = HubWorld(folder, {"jobs/red/wide.yaml": job("wide", "nodes: 9")})
    made.cycle()
    ended = command("logs", "wide", "--repo", made.url)
    assert ended.err == "reconciler: red/wide has not been started yet\n  `reconciler why red/wide` says why\n"


def test_only_a_log_on_this_machine_can_be_followed(command: Command, world: HubWorld) -> None:
    assert command("logs", "one", "-f", "--repo", world.url).code == 1


# ---- a region on this machine -------------------------------------------------------------------------------------


def test_the_whole_log_is_found_by_the_attempt_below_the_folder(
    command: Command, world: HubWorld, region: RealWorld, folder: Path
) -> None:
    attempt = world.record("red", "one").attempts[-1].name
    region.run("for n in 1 2 3; do echo line $n; done; echo without an end >&2; printf last", name=attempt)
    region.ends(attempt)
    assert (
        command.done("logs", "one", "--folder", folder / "demo", "--repo", world.url)
        == "line 1\nline 2\nline 3\nwithout an end\nlast\n"
    )


def test_where_the_region_has_nothing_the_tail_is_shown(
    command: Command, world: HubWorld, region: RealWorld, folder: Path
) -> None:
    said = command.done("logs", "one", "--attempt", "1", "--folder", folder / "demo", "--repo", world.url)
    assert said == "loading\nno such layer\n"


def test_a_folder_that_there_is_not(command: Command, world: HubWorld, folder: Path) -> None:
    ended = command("logs", "one", "--folder", folder / "nowhere", "--repo", world.url)
    assert (ended.code, ended.err.splitlines()[0]) == (2, f"reconciler: there is no folder {folder}/nowhere")


def test_following_reads_on_until_the_program_has_ended(region: RealWorld, folder: Path) -> None:
    region.run(f"echo begun; while ! test -e {folder}/go; do sleep 0.05; done; echo ended; exit 3", name="one-abcdef-a2")
    heard: list[str] = []
    lines = stream(lambda: logs_in(folder, "one-abcdef-a2"), follow=True)
    reading = threading.Thread(target=lambda: heard.extend(lines))
    reading.start()
    region.when(lambda: "begun" in heard)
    assert reading.is_alive()
    (folder / "go").touch()
    region.ends("one-abcdef-a2")
    until(lambda: not reading.is_alive())
    assert heard == ["begun", "ended"]


def test_several_pods_are_told_apart(region: RealWorld, folder: Path) -> None:
    region.run("echo I am $JOB_COMPLETION_INDEX", name="pair-abcdef-a1", size=2, indexed=True)
    region.when(lambda: len(region.pods("pair-abcdef-a1")) == 2)
    region.when(lambda: all(pod["status"]["phase"] == "Succeeded" for pod in region.pods("pair-abcdef-a1")))
    lines = list(stream(lambda: logs_in(folder, "pair-abcdef-a1"), follow=True))
    assert [line.partition(": ")[2] for line in lines] == ["I am 0", "I am 1"]
    assert len({line.partition(": ")[0] for line in lines}) == 2


def test_a_reader_that_goes_away_is_no_error(world: HubWorld) -> None:
    """`reconciler … | head -0`: no traceback, whoever closes the pipe."""
    script = f"{sys.executable} -m reconciler.cli status --repo {world.url} | true"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


def test_a_program_that_is_not_there_is_named_in_the_log(region: RealWorld, folder: Path) -> None:
    region.run("", name="lost-abcdef-a1", container={"command": ["no-such-program", "x"]})
    end = region.ends("lost-abcdef-a1")
    assert (end["exitCode"], end["reason"]) == (128, "StartError")
    (line,) = stream(lambda: logs_in(folder, "lost-abcdef-a1"), follow=True)
    assert line == end["message"]
    assert line.startswith("failed to start 'no-such-program' in ")
    assert line.endswith("No such file or directory: 'no-such-program'")


def test_of_a_program_that_wrote_nothing_that_is_said(command: Command, world: HubWorld, region: RealWorld, folder: Path) -> None:
    attempt = world.record("red", "one").attempts[-1].name
    region.run("exit 3", name=attempt)
    region.ends(attempt)
    ended = command("logs", "one", "--folder", folder / "demo", "--repo", world.url)
    assert (ended.code, ended.out, ended.err) == (0, "", f"the program of {attempt} has printed nothing\n")
