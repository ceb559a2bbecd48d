"""`submit`: a file becomes one commit on the remote's main, checked before, by compare-and-swap."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.world import Command, HubWorld, changed, job, run_to_end, written
from tests.githttp import GitServer, commit_files, install_hook, run_git, serving
from tests.waiting import until


@pytest.fixture
def world(folder: Path) -> HubWorld:
    return HubWorld(folder, {"jobs/red/one.yaml": job("one"), "jobs/blue/two.yaml": job("two")})


@pytest.fixture
def server(folder: Path) -> Iterator[GitServer]:
    with serving(folder / "served") as found:
        yield found


# ---- submit -------------------------------------------------------------------------------------------------------


def test_submit_commits_the_very_bytes_in_the_name_of_the_person(command: Command, world: HubWorld, folder: Path) -> None:
    body = job("new", "# a remark")
    said = command.done("submit", written(folder, "my.yaml", body), "--team", "red", "--repo", world.url)
    assert changed(world) == {"jobs/red/new.yaml": body.encode()}
    assert world.last_commit() == ("Ann Example <ann@example.com>", "Submit red/new")
    assert said == f"red/new submitted (commit {run_git(world.repository, 'rev-parse', 'main')[:12]})\n"


@pytest.mark.parametrize("team", ["../x", "Red", "", "a/b"])
def test_what_is_no_name_of_a_team_is_refused(command: Command, world: HubWorld, folder: Path, team: str) -> None:
    before = run_git(world.repository, "rev-parse", "main")
    ended = command("submit", written(folder, "x.yaml", job("new")), "--team", team, "--repo", world.url)
    assert (ended.code, "is no name of a team" in ended.err) == (1, True)
    assert run_git(world.repository, "rev-parse", "main") == before


def test_submit_over_http_with_a_login(command: Command, folder: Path) -> None:
    login = ("ann", "s3cret-of-ann")
    with serving(folder / "served", login) as server:
        world = HubWorld(folder, {}, server.create("jobs"))
        command.done("submit", written(folder, "x.yaml", job("new")), "--team", "red", "--repo", server.url("jobs", login))
        assert list(changed(world)) == ["jobs/red/new.yaml"]
        ended = command("submit", folder / "x.yaml", "--team", "red", "--repo", server.url("jobs", ("ann", "wrong-word")))
    assert ended.code == 2
    assert "give valid credentials" in ended.err
    assert "wrong-word" not in ended.err


def test_a_file_that_main_has_already_makes_no_commit(command: Command, world: HubWorld, folder: Path) -> None:
    before = run_git(world.repository, "rev-parse", "main")
    said = command.done("submit", written(folder, "x.yaml", job("one")), "--team", "red", "--repo", world.url)
    assert said == "red/one: main has this very file already\n"
    assert run_git(world.repository, "rev-parse", "main") == before


def test_an_edited_job_stays_where_its_file_is(command: Command, world: HubWorld, folder: Path) -> None:
    world.commit({"jobs/red/one.yaml": None, "jobs/red/deep/in.yml": job("one")})
    body = job("one", "priority: high")
    said = command.done("submit", written(folder, "other-name.yaml", body), "--team", "red", "--repo", world.url)
    assert changed(world) == {"jobs/red/deep/in.yml": body.encode()}
    assert said.startswith("red/one changed (commit ")


def test_a_broken_file_of_the_job_is_replaced_by_the_sound_one(command: Command, world: HubWorld, folder: Path) -> None:
    world.commit({"jobs/red/one.yaml": job("one").replace("8", "no")})
    command.done("submit", written(folder, "x.yaml", job("one")), "--team", "red", "--repo", world.url)
    assert changed(world) == {"jobs/red/one.yaml": job("one").encode()}


def test_a_file_in_a_clone_goes_where_it_lies_and_the_clone_is_left_alone(
    command: Command, world: HubWorld, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["git", "clone", "-q", world.url, str(folder / "tree")], check=True, capture_output=True)
    file = written(folder / "tree", "jobs/blue/deep/new.yaml", job("new"))
    head = run_git(folder / "tree/.git", "rev-parse", "HEAD")
    monkeypatch.chdir(folder / "tree/jobs")
    command.done("submit", file)
    assert list(changed(world)) == ["jobs/blue/deep/new.yaml"]
    assert run_git(folder / "tree/.git", "rev-parse", "HEAD") == head
    assert (
        subprocess.run(["git", "status", "--porcelain"], cwd=folder / "tree", check=True, capture_output=True, text=True).stdout
        == "?? jobs/blue/deep/\n"
    )


REFUSED = {
    "a broken file": (job("new").replace("8", "no"), "x.yaml:2:14: AmbiguousValue"),
    "a team that there is not": (job("new"), "UnknownTeam"),
    "a dataset that there is not": (job("new", "dataset: {name: nothing}"), "UnknownDataset"),
}


@pytest.mark.parametrize(("body", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_what_the_hub_would_refuse_is_not_committed(
    command: Command, world: HubWorld, folder: Path, body: str, said: str
) -> None:
    before = run_git(world.repository, "rev-parse", "main")
    team = "green" if said == "UnknownTeam" else "red"
    ended = command("submit", written(folder, "x.yaml", body), "--team", team, "--repo", world.url)
    assert ended.code == 1
    assert said in ended.err
    assert run_git(world.repository, "rev-parse", "main") == before


def test_a_remark_is_told_and_does_not_stop_the_commit(command: Command, world: HubWorld, folder: Path) -> None:
    file = written(folder, "x.yaml", job("new", "allowed_regions: [eu, euu]"))
    ended = command("submit", file, "--team", "red", "--repo", world.url)
    assert ended.code == 0
    assert "UnknownRegion: there is no region `euu`; did you mean `eu`?" in ended.err


def test_whose_job_it_is_must_be_known(command: Command, world: HubWorld, folder: Path) -> None:
    ended = command("submit", written(folder, "x.yaml", job("new")), "--repo", world.url)
    assert (ended.code, ended.err.splitlines()[1]) == (1, "  say --team TEAM; teams are blue, red")


def test_a_person_whom_git_does_not_know_commits_nothing(
    command: Command, world: HubWorld, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    ended = command("submit", written(folder, "x.yaml", job("new")), "--team", "red", "--repo", world.url)
    assert ended.code == 2
    assert "git does not know who you are" in ended.err


# ---- races and refusals -------------------------------------------------------------------------------------------


def test_who_is_overtaken_makes_the_commit_anew_on_top(command: Command, server: GitServer, folder: Path) -> None:
    repository = server.create("jobs")
    world = HubWorld(folder, {"jobs/red/one.yaml": job("one")}, repository)
    quicker = commit_files(repository, "quicker", {**world.files, "jobs/red/quick.yaml": job("quick").encode()})
    # In the middle of our push, somebody else's is done.
    install_hook(repository, "update", f"test -e raced || {{ touch raced; git update-ref refs/heads/main {quicker}; }}")
    command.done("submit", written(folder, "x.yaml", job("new")), "--team", "red", "--repo", server.url("jobs"))
    assert (repository / "raced").exists()
    assert set(changed(world)) == {"jobs/red/quick.yaml", "jobs/red/new.yaml"}
    assert run_git(repository, "rev-parse", "main^") == quicker


def test_a_refusal_of_the_remote_is_told_in_its_words(command: Command, server: GitServer, folder: Path) -> None:
    repository = server.create("jobs")
    HubWorld(folder, {}, repository)
    install_hook(repository, "pre-receive", "echo 'main takes pull requests only' >&2; exit 1")
    ended = command("submit", written(folder, "x.yaml", job("new")), "--team", "red", "--repo", server.url("jobs"))
    assert ended.code == 2
    assert "main takes pull requests only" in ended.err
    assert ended.err.endswith("\n  commit the change to another branch, and open a pull request\n")


def test_two_at_once_both_get_in(command: Command, world: HubWorld, folder: Path) -> None:
    files = [written(folder, f"{name}.yaml", job(name)) for name in ("a", "b", "c")]
    script = ["-m", "reconciler.cli", "submit", "--team", "red", "--repo", world.url]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    calls = [subprocess.Popen([sys.executable, *script, str(file)], env=environment, stdout=subprocess.DEVNULL) for file in files]
    assert [call.wait(60) for call in calls] == [0, 0, 0]
    assert set(changed(world)) == {"jobs/red/a.yaml", "jobs/red/b.yaml", "jobs/red/c.yaml"}


# ---- waiting for the end ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("well", "code"), [(True, 0), (False, 1)], ids=["it succeeds", "it fails"])
def test_submit_wait_ends_as_the_job_does(command: Command, world: HubWorld, folder: Path, well: bool, code: int) -> None:
    world.commit({"jobs/red/one.yaml": None})
    hub = threading.Thread(
        target=lambda: (until(lambda: world.last_commit()[1] == "Submit red/one"), run_to_end(world, well=well))
    )
    hub.start()
    ended = command("submit", written(folder, "x.yaml", job("one")), "--team", "red", "--wait", "--repo", world.url)
    hub.join()
    assert ended.code == code
    assert ended.out.splitlines()[-1].startswith(f"red/one {'Succeeded' if well else 'Failed'} in ")


def test_submit_wait_does_not_wait_for_a_person(command: Command, world: HubWorld, folder: Path) -> None:
    def decide() -> None:
        until(lambda: world.last_commit()[1] == "Submit red/wide")
        for region in ("eu", "us"):
            world.report(region)
        world.cycle()

    hub = threading.Thread(target=decide)
    hub.start()
    ended = command("submit", written(folder, "x.yaml", job("wide", "nodes: 9")), "--team", "red", "--wait", "--repo", world.url)
    hub.join()
    assert ended.code == 1
    assert ended.out.splitlines()[-1].startswith("red/wide Impossible: ")
