"""`reconciler bootstrap`, as its users call it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cli.world import Command
from tests.githttp import GitServer, commit_files, serving

FILES = {
    "regions/eu.yaml": b"name: eu\nsync_engine: argocd\n",
    "regions/lab.yaml": b"name: lab\nsync_engine: local\n",
    "policy.yaml": b"{}",
    "reconciler.yaml": b"store: {url: 's3://bucket/hub'}\n",
    "teams/red.yaml": b"name: red\n",
    "jobs/blue/x.yaml": b"{}",
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    with serving(tmp_path / "git") as found:
        found.create("jobs")
        yield found


def url(server: GitServer, **changed: bytes) -> str:
    """The repository's URL, its main being the files with some changed, by name without folder and ending."""
    files = {path: changed.get(Path(path).stem, body) for path, body in FILES.items()}
    commit_files(server.root / "jobs.git", "main", files)
    return server.url("jobs")


def test_the_engine_the_teams_and_the_store_are_mains(command: Command, server: GitServer) -> None:
    printed = list(yaml.safe_load_all(command.done("bootstrap", "eu", "--repo", url(server))))
    assert [one["metadata"]["name"] for one in printed if one["kind"] == "Namespace"] == ["blue", "red", "gpu-reconciler"]
    assert [one["kind"] for one in printed if one["apiVersion"].startswith("argoproj")] == ["AppProject", "Application"]
    (agent,) = [one for one in printed if one["kind"] == "Deployment"]
    assert "s3://bucket/hub" in agent["spec"]["template"]["spec"]["containers"][0]["args"]


CAN_STAGE = {"a store": b"object_store: {url: 's3://bucket/eu'}\n", "a mirror": b"registry_mirror: mirror.eu:5000\n"}


@pytest.mark.parametrize("more", CAN_STAGE.values(), ids=CAN_STAGE)
def test_what_can_be_brought_to_has_a_place_for_workers(command: Command, server: GitServer, more: bytes) -> None:
    printed = list(yaml.safe_load_all(command.done("bootstrap", "eu", "--repo", url(server, eu=FILES["regions/eu.yaml"] + more))))
    assert "gpu-staging" in [one["metadata"]["name"] for one in printed if one["kind"] == "Namespace"]


def test_what_is_said_counts_more_than_main(command: Command, server: GitServer) -> None:
    said = ("--engine", "flux", "--store", "s3://other/x", "--image", "reg.example.com/r:2", "--namespace", "extra")
    printed = command.done("bootstrap", "eu", "--repo", url(server), *said)
    for words in ("Kustomization", "s3://other/x", "reg.example.com/r:2", 'name: "extra"'):
        assert words in printed


TIMES = {
    "the protocol's": ({}, ["--self-fence", "240", "--fence-kill", "30"]),
    "the policy's": (
        {"policy": b"loss: {self_fence_seconds: 600, fence_kill_seconds: 20}\n"},
        ["--self-fence", "600", "--fence-kill", "20"],
    ),
    "the region's own": (
        {
            "policy": b"loss: {self_fence_seconds: 600}\n",
            "eu": b"name: eu\nsync_engine: flux\nloss: {self_fence_seconds: 100}\ndeadman: true\n",
        },
        ["--self-fence", "100", "--fence-kill", "30", "--deadman"],
    ),
}


@pytest.mark.parametrize(("changed", "want"), TIMES.values(), ids=TIMES.keys())
def test_the_agent_is_told_its_times(command: Command, server: GitServer, changed: dict[str, bytes], want: list[str]) -> None:
    printed = yaml.safe_load_all(command.done("bootstrap", "eu", "--repo", url(server, **changed)))
    (agent,) = [one for one in printed if one["kind"] == "Deployment"]
    assert agent["spec"]["template"]["spec"]["containers"][0]["args"][-len(want) :] == want


IMAGES = {
    "neither is named": (b"", (), "for want of --image (the agent) and profile.stage_image of regions/eu.yaml"),
    "only the agent's is named": (b"", ("--image", "reg.example.com/r:2"), "for want of profile.stage_image"),
    "only the steps' is named": (
        b"profile: {stage_image: reg.example.com/r:2}\n",
        (),
        "for want of --image (the agent); build it",
    ),
    "both are named": (b"profile: {stage_image: reg.example.com/r:2}\n", ("--image", "reg.example.com/r:2"), ""),
}


@pytest.mark.parametrize(("more", "arguments", "note"), IMAGES.values(), ids=IMAGES.keys())
def test_an_image_that_has_to_be_built_first_is_told_beside_the_objects(
    command: Command, server: GitServer, more: bytes, arguments: tuple[str, ...], note: str
) -> None:
    ended = command("bootstrap", "eu", "--repo", url(server, eu=FILES["regions/eu.yaml"] + more), *arguments)
    assert ended.code == 0
    assert list(yaml.safe_load_all(ended.out)), "the objects, and nothing else"
    assert (note in ended.err) if note else (ended.err == "")


def test_files_are_written_for_a_repository_of_the_platform(command: Command, server: GitServer, folder: Path) -> None:
    said = command.done("bootstrap", "eu", "--repo", url(server), "--out", folder / "eu")
    assert sorted(file.name for file in (folder / "eu").iterdir()) == ["1-namespaces.yaml", "2-agent.yaml", "3-argocd.yaml"]
    assert f"kubectl apply -f {folder / 'eu'}" in said


def test_credentials_of_the_url_are_not_printed(command: Command, tmp_path: Path) -> None:
    with serving(tmp_path / "private", login=("ann", "secret-word")) as server:
        bare = server.create("jobs")
        commit_files(bare, "main", FILES)
        printed = command.done("bootstrap", "eu", "--repo", server.url("jobs", ("ann", "secret-word")))
    assert "secret-word" not in printed
    assert f"127.0.0.1:{server.port}/jobs.git" in printed


REFUSED = {
    "a region that main does not have": (("bootstrap", "mars"), {}, "main has no regions/mars.yaml", "there are: eu, lab"),
    "a local region": (("bootstrap", "lab"), {}, "synced by 'local'", "--engine flux"),
    "no store": (("bootstrap", "eu"), {"reconciler": b"intervals: {poll_seconds: 1}\n"}, "no store is named", "--store"),
    "a store on this machine": (("bootstrap", "eu", "--store", "file:///x"), {}, "cannot be reached from a cluster", "s3://"),
    "a namespace of the system": (
        ("bootstrap", "eu", "--namespace", "kube-system"),
        {},
        "cannot be a namespace of jobs",
        "rename",
    ),
    "a name that is none": (("bootstrap", "eu", "--namespace", "a b"), {}, "cannot be a namespace of jobs", "rename"),
}


@pytest.mark.parametrize(("arguments", "changed", "what", "todo"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_work_is_refused(
    command: Command, server: GitServer, arguments: tuple[str, ...], changed: dict[str, bytes], what: str, todo: str
) -> None:
    ended = command(*arguments, "--repo", url(server, **changed))
    assert ended.code == 1
    assert ended.out == ""
    assert what in ended.err
    assert todo in ended.err
