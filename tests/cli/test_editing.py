"""`cancel`, `rerun`, `confirm`: one commit on the remote's main, and what the hub makes of it."""

from pathlib import Path

import pytest

from reconciler.commands.editing import Edit, commit_on_main
from reconciler.model.problem import Invalid
from reconciler.model.record import Phase
from tests.cli.world import Command, HubWorld, changed, job, run_to_end
from tests.githttp import run_git


@pytest.fixture
def world(folder: Path) -> HubWorld:
    return HubWorld(folder, {"jobs/red/one.yaml": job("one"), "jobs/blue/two.yaml": job("two")})


# ---- cancel -------------------------------------------------------------------------------------------------------


def test_cancel_removes_the_file_and_the_hub_then_cancels_the_job(command: Command, world: HubWorld) -> None:
    world.cycle()
    said = command.done("cancel", "one", "--repo", world.url)
    assert changed(world) == {"jobs/red/one.yaml": None}
    assert world.last_commit() == ("Ann Example <ann@example.com>", "Cancel red/one")
    assert said.startswith("red/one cancelled; `reconciler status red/one` shows when it has stopped (commit ")
    world.cycle(1)
    assert world.record("red", "one").phase is Phase.CANCELLED


def test_a_job_whose_file_is_broken_can_be_cancelled(command: Command, world: HubWorld) -> None:
    world.commit({"jobs/red/one.yaml": job("one").replace("8", "no")})
    command.done("cancel", "red/one", "--repo", world.url)
    assert changed(world) == {"jobs/red/one.yaml": None}


def test_of_two_files_a_person_must_choose(command: Command, world: HubWorld) -> None:
    world.commit({"jobs/red/twin.yaml": job("one")})
    ended = command("cancel", "red/one", "--repo", world.url)
    assert ended.code == 1
    assert ended.err.startswith("reconciler: jobs/red/one.yaml and jobs/red/twin.yaml both name the job red/one\n")


def test_a_job_that_is_gone_cannot_be_cancelled_again(command: Command, world: HubWorld) -> None:
    world.cycle()
    world.commit({"jobs/red/one.yaml": None})
    world.cycle(1)
    ended = command("cancel", "red/one", "--repo", world.url)
    assert (ended.code, ended.err.splitlines()[0]) == (1, "reconciler: main has no file of red/one; it is Cancelled")


# ---- rerun --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("well", [True, False], ids=["after success", "after failure"])
def test_rerun_raises_the_number_and_the_job_runs_again(command: Command, world: HubWorld, well: bool) -> None:
    run_to_end(world, well=well)
    assert command.done("rerun", "one", "--repo", world.url).startswith("red/one runs again: `rerun: 1` (commit ")
    assert changed(world) == {"jobs/red/one.yaml": (job("one") + "rerun: 1\n").encode()}
    world.cycle(1)
    record = world.record("red", "one")
    assert [attempt.number for attempt in record.attempts] == [1, 2]
    assert record.phase is Phase.STARTING


def test_asked_twice_it_runs_once_more(command: Command, world: HubWorld) -> None:
    run_to_end(world, well=True)
    command.done("rerun", "one", "--repo", world.url)
    assert (
        command.done("rerun", "one", "--repo", world.url)
        == "red/one is to run again already; the hub has not taken that in yet\n"
    )


def test_a_job_that_is_not_over_is_not_run_again(command: Command, world: HubWorld) -> None:
    world.cycle()
    ended = command("rerun", "one", "--repo", world.url)
    assert (ended.code, ended.err) == (
        1,
        "reconciler: red/one has not ended; it is Pending\n  `reconciler cancel red/one` stops it\n",
    )


def test_a_job_whose_file_is_gone_must_be_submitted(command: Command, world: HubWorld) -> None:
    run_to_end(world, well=True)
    world.commit({"jobs/red/one.yaml": None})
    ended = command("rerun", "red/one", "--repo", world.url)
    assert (ended.code, ended.err.splitlines()[1]) == (1, "  submit its file anew: `reconciler submit FILE`")


# ---- confirm ------------------------------------------------------------------------------------------------------


@pytest.fixture
def doubted(folder: Path) -> tuple[HubWorld, str]:
    """A hub that doubts main, because four of five jobs went in one step."""
    world = HubWorld(folder, {f"jobs/red/job-{number}.yaml": job(f"job-{number}") for number in range(5)})
    world.cycle()
    commit = world.commit({f"jobs/red/job-{number}.yaml": None for number in range(4)})
    world.cycle()
    assert world.look().ledger.hub.suspicion is not None
    return world, commit


def test_confirm_makes_the_hub_go_on(command: Command, doubted: tuple[HubWorld, str]) -> None:
    world, commit = doubted
    command.done("confirm", commit[:8], "--repo", world.url)
    assert changed(world) == {f"confirmations/{commit[:12]}.yaml": f'main: "{commit}"\n'.encode()}
    again = command.done("confirm", commit, "--repo", world.url)
    assert again == f"{commit[:12]} is confirmed already\n"
    world.cycle(1)
    assert world.look().ledger.hub.suspicion is None
    phases = [world.record("red", f"job-{number}").phase for number in range(5)]
    assert phases == [*[Phase.CANCELLED] * 4, Phase.PENDING]


def test_another_commit_is_not_confirmed(command: Command, doubted: tuple[HubWorld, str]) -> None:
    world, commit = doubted
    ended = command("confirm", "0" * 40, "--repo", world.url)
    assert (ended.code, ended.err.splitlines()[1]) == (1, f"  it asks for `reconciler confirm {commit[:12]}`")
    assert command("confirm", "HEAD", "--repo", world.url).code == 1


def test_where_nothing_is_doubted_there_is_nothing_to_confirm(command: Command, world: HubWorld) -> None:
    world.cycle()
    assert "the hub doubts no commit of main" in command("confirm", "abcdef", "--repo", world.url).err


# ---- all of them ----


def test_a_commit_that_takes_another_job_away_is_never_made(world: HubWorld) -> None:
    before = run_git(world.repository, "rev-parse", "main")
    harmful = Edit({"jobs/red/one.yaml": None}, "Harm\n", lambda _: True, "done")
    with pytest.raises(Invalid, match="main would not take this"):
        commit_on_main(world.url, lambda _: harmful)
    assert run_git(world.repository, "rev-parse", "main") == before
