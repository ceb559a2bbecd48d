"""`release`: a job that is held or waits after its region was lost goes on; and what the commands show of such a region."""

import json
from pathlib import Path

import pytest

from reconciler.model.attempt import State
from reconciler.model.record import Phase
from tests.cli.silence import fall_silent, place_in_us
from tests.cli.world import Command, HubWorld, changed, job
from tests.githttp import run_git

LINES = {"wait": ("on_region_lost: wait",), "hold": ("on_region_lost: hold",), "rerun": ()}


def world_of(folder: Path, choice: str) -> tuple[HubWorld, str]:
    """red/one runs in us; its text."""
    text = job("one", *LINES[choice])
    world = HubWorld(folder, {"jobs/red/one.yaml": text})
    place_in_us(world)
    return world, text


@pytest.mark.parametrize("choice", ["wait", "hold"])
def test_a_job_of_a_lost_region_goes_on_elsewhere(command: Command, folder: Path, choice: str) -> None:
    world, text = world_of(folder, choice)
    fall_silent(world, "us", 340)
    record = world.record("red", "one")
    assert record.phase is (Phase.STOPPING if choice == "wait" else Phase.HELD)
    said = command.done("status", "--repo", world.url)
    assert "`reconciler release red/one`" in said
    said = command.done("release", "one", "--repo", world.url)
    assert said.startswith("red/one is released, and goes on where it can")
    assert changed(world) == {"jobs/red/one.yaml": (text + "release: 1\n").encode()}
    author, message = world.last_commit()
    assert author == "Ann Example <ann@example.com>"
    assert message.startswith("Release red/one\n\nIt goes on after attempt 1 in us: ")
    again = command.done("release", "one", "--repo", world.url)
    assert again == "red/one is released already; the hub has not taken that in yet\n"
    fall_silent(world, "us", 20)
    assert [(one.region, one.state) for one in world.record("red", "one").attempts] == [
        ("us", State.STOPPED),
        ("eu", State.GRANTED),
    ]
    rows = {row["region"]: row for row in json.loads(command.done("why", "one", "--json", "--repo", world.url))["regions"]}
    assert (rows["us"]["verdict"], rows["us"]["why"]["code"]) == ("not now", "RegionRevoked")


def test_there_must_be_something_to_release(command: Command, folder: Path) -> None:
    world, _ = world_of(folder, "wait")
    ended = command("release", "one", "--repo", world.url)
    assert (ended.code, ended.err) == (
        1,
        "reconciler: there is nothing to release: red/one is Running\n  `reconciler why red/one` says what it waits for\n",
    )
    fall_silent(world, "us", 130)
    first, todo = command("release", "one", "--repo", world.url).err.splitlines()
    assert first.startswith(
        "reconciler: there is nothing to release: red/one is Running, and its region is not given up: us has not"
    )
    assert todo.startswith("  until its region is given up it may still run there")


def test_what_was_released_too_early_is_taken_out_first(command: Command, folder: Path) -> None:
    world = HubWorld(folder, {"jobs/red/one.yaml": job("one", "on_region_lost: wait", "release: 1")})
    place_in_us(world)
    fall_silent(world, "us", 340)
    assert world.record("red", "one").phase is Phase.STOPPING
    first, todo = command("release", "one", "--repo", world.url).err.splitlines()
    assert first.startswith("reconciler: red/one was released too early: `release: 1` was written when the last attempt was 0: ")
    assert todo == "  commit jobs/red/one.yaml without that line first"


# ---- what is shown ------------------------------------------------------------------------------------------------


def test_a_region_that_is_not_heard_of_is_seen_wherever_somebody_looks(command: Command, folder: Path) -> None:
    world, _ = world_of(folder, "wait")
    fall_silent(world, "us", 130)
    said = command.done("status", "--repo", world.url).splitlines()
    job_row = next(line for line in said if line.startswith("red/one"))
    assert "us has not been heard of since 12:00:10 UTC and counts as lost" in job_row
    at = said.index("regions that are not Ready")
    assert said[at + 1].split() == ["region", "state", "since", "next", "why"]
    assert said[at + 2].startswith("us      Lost   ")
    assert "its lease is revoked, and its jobs start elsewhere" in said[at + 2]
    assert len([line for line in said if "us has not been heard of" in line]) == 2, "a row of the job and one of the region"
    (region,) = json.loads(command.done("status", "--json", "--repo", world.url))["regions"]
    assert {name: region[name] for name in ("region", "state", "since", "epoch")} == {
        "region": "us",
        "state": "Lost",
        "since": "2026-05-01T12:02:20Z",
        "epoch": 1,
    }
    assert region["next_at"] is not None
    assert region["why"]["code"] == "RegionAway"
    told = command.done("why", "one", "--repo", world.url)
    assert "  RegionReachable is False since 2026-05-01 12:02:20: us has not been heard of" in told or "RegionReachable" in told
    choice = "  if its region is given up as lost it waits for that region to come back, or for `reconciler release` "
    assert f"{choice}(`on_region_lost: wait`)\n" in told
    assert json.loads(command.done("why", "one", "--json", "--repo", world.url))["region"] == region
    page = run_git(world.repository, "show", "status:README.md")
    assert "## Regions that are not Ready\n\n| region | state | since | next at | why, and what comes next |" in page
    assert "| us | Lost | 2026-05-01 12:02:20 | " in page
    assert page.count("counts as lost") == 2


def test_of_one_job_only_its_own_region_is_shown(command: Command, folder: Path) -> None:
    world, _ = world_of(folder, "rerun")
    world.commit({"regions/eu.yaml": world.files["regions/eu.yaml"] + b"cordoned: true\n"})
    world.cycle(1)
    assert "eu      Cordoned" in command.done("status", "--repo", world.url)
    assert "not Ready" not in command.done("status", "one", "--repo", world.url)


def test_a_region_that_is_ready_is_not_spoken_of(command: Command, folder: Path) -> None:
    world, _ = world_of(folder, "rerun")
    assert "not Ready" not in command.done("status", "--repo", world.url)
    assert "if its region is given up" not in command.done("why", "one", "--repo", world.url)
    assert "not Ready" not in run_git(world.repository, "show", "status:README.md")
