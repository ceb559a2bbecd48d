"""Argo CD, as `reconciler bootstrap` sets it up, seen by our adapter through the agent's own rights."""

from collections.abc import Iterator

import pytest

from reconciler.adapters.clock import SystemClock
from reconciler.adapters.kube.argocd import ArgoCd
from reconciler.adapters.kube.connection import Connection
from reconciler.ports import Refused
from tests.e2e.argo import NAMESPACE, start_argo
from tests.e2e.control_plane import region
from tests.e2e.engines import (
    Jobs,
    Synced,
    bootstrap,
    check_a_nudge_brings_a_commit_in_and_takes_it_out,
    check_what_was_changed_or_runs_is_never_touched,
)
from tests.e2e.world import access_of, service_account
from tests.githttp import serving
from tests.waiting import until

APP = f"Application/{NAMESPACE}/gpu-reconciler"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Synced]:
    folder = tmp_path_factory.mktemp("argocd")
    with region(folder / "plane") as plane, serving(folder / "git") as server, start_argo(plane, folder / "argocd"):
        jobs = Jobs(server)
        plane.kubectl("apply", "-f", "-", stdin=bootstrap(jobs.url, "--engine", "argocd", home=folder))
        service_account(plane)
        yield Synced(plane, jobs, ArgoCd(Connection(access_of(plane), SystemClock(), 10.0)))


@pytest.fixture(autouse=True)
def _clean(world: Synced) -> Iterator[None]:
    """The branch is empty but for its sentinel afterwards."""
    yield
    world.jobs.files = {path: body for path, body in world.jobs.files.items() if path == "manifests/_sentinel.yaml"}
    world.applied()


def test_a_branch_that_is_not_there_yet_is_told_of_the_application(world: Synced) -> None:
    state = world.until(lambda state: APP in state.errors)
    assert state.commit is None
    assert "region/eu" in state.errors[APP]


def test_a_nudge_brings_a_commit_in_and_takes_it_out(world: Synced) -> None:
    check_a_nudge_brings_a_commit_in_and_takes_it_out(world)


def test_what_was_changed_or_runs_is_never_touched(world: Synced) -> None:
    check_what_was_changed_or_runs_is_never_touched(world)


def test_bad_files_are_all_named_and_the_rest_goes_through(world: Synced) -> None:
    world.applied()
    gone = world.jobs.add("gone")
    world.applied()
    world.jobs.remove(gone)
    good, value, kind = world.jobs.add("good"), world.jobs.add("bad-value"), world.jobs.add("bad-type")
    world.jobs.spoil(value, "backoffLimit: 0", "backoffLimit: -1")
    world.jobs.spoil(kind, "backoffLimit: 0", 'backoffLimit: "none"')
    commit = world.told()
    keys = [f"Job/red/{bad.name}" for bad in (value, kind)]
    state = world.until(lambda state: set(keys) <= state.errors.keys())
    assert "must be greater than or equal to 0" in state.errors[keys[0]]
    assert "cannot unmarshal string" in state.errors[keys[1]]
    assert state.commit != commit, "a commit counts as applied only when all of it is"
    assert good.name in world.there("jobs", "red")
    until(lambda: gone.name not in world.there("jobs", "red"))
    assert not {key for key in state.errors if good.name in key}
    world.jobs.remove(value, kind)
    assert world.applied().objects == {(good.team, good.name)}


def test_a_file_that_is_no_yaml_is_named(world: Synced) -> None:
    world.applied()
    attempt = world.jobs.add("broken")
    world.jobs.spoil(attempt, "backoffLimit: 0", "backoffLimit: {0")
    assert attempt.path.endswith(f"/{attempt.name}.yaml")
    assert "Failed to unmarshal" in world.error_of(f"{attempt.name}.yaml")


def test_a_namespace_that_is_not_the_projects_is_told_of_the_object(world: Synced) -> None:
    world.applied()
    attempt = world.jobs.add("nowhere", team="green")
    assert "not permitted in project" in world.error_of(f"Job/green/{attempt.name}")


def test_a_kind_that_is_not_the_projects_is_told_of_the_object(world: Synced) -> None:
    world.applied()
    world.jobs.files["manifests/red/s.yaml"] = b"apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: red}\n"
    assert "not permitted in project" in world.error_of("Secret/red/s")


def test_an_application_that_is_gone_is_told_and_what_it_made_is_kept(world: Synced) -> None:
    attempt = world.jobs.add("adopted")
    world.applied()
    uid = world.plane.get("job", attempt.name, "red")["metadata"]["uid"]
    saved = world.plane.get("application", "gpu-reconciler", NAMESPACE)
    world.plane.kubectl("delete", "application", "gpu-reconciler", "-n", NAMESPACE)
    assert "reconciler bootstrap" in world.engine.state().errors[APP]
    with pytest.raises(Refused, match="reconciler bootstrap"):
        world.engine.nudge("0" * 40)
    again = {"metadata": {"name": "gpu-reconciler", "namespace": NAMESPACE}, "spec": saved["spec"]}
    world.plane.kubectl("apply", "-f", "-", stdin={"apiVersion": saved["apiVersion"], "kind": saved["kind"], **again})
    assert world.applied().objects == {(attempt.team, attempt.name)}
    assert world.plane.get("job", attempt.name, "red")["metadata"]["uid"] == uid, "the running job was kept and adopted"
