"""Flux, as `reconciler bootstrap` sets it up, seen by our adapter through the agent's own rights."""

from collections.abc import Iterator

import pytest

from reconciler.adapters.clock import SystemClock
from reconciler.adapters.kube.connection import Connection
from reconciler.adapters.kube.flux import Flux
from reconciler.ports import Refused
from tests.e2e.control_plane import region
from tests.e2e.engines import (
    Jobs,
    Synced,
    bootstrap,
    check_a_nudge_brings_a_commit_in_and_takes_it_out,
    check_what_was_changed_or_runs_is_never_touched,
)
from tests.e2e.flux import NAMESPACE, start_flux
from tests.e2e.world import access_of, service_account
from tests.githttp import serving

GIT, APPLY = f"GitRepository/{NAMESPACE}/gpu-reconciler", f"Kustomization/{NAMESPACE}/gpu-reconciler"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Synced]:
    folder = tmp_path_factory.mktemp("flux")
    with region(folder / "plane") as plane, serving(folder / "git") as server, start_flux(plane, folder / "flux"):
        jobs = Jobs(server)
        plane.kubectl("apply", "-f", "-", stdin=bootstrap(jobs.url, "--receiver", home=folder))
        service_account(plane)
        yield Synced(plane, jobs, Flux(Connection(access_of(plane), SystemClock(), 10.0), SystemClock()))


@pytest.fixture(autouse=True)
def _clean(world: Synced) -> Iterator[None]:
    """The branch is empty but for its sentinel before and after."""
    yield
    world.jobs.files = {path: body for path, body in world.jobs.files.items() if path == "manifests/_sentinel.yaml"}
    world.applied()


def test_a_branch_that_is_not_there_yet_is_told_of_the_source(world: Synced) -> None:
    state = world.until(lambda state: GIT in state.errors)
    assert state.commit is None
    assert "region/eu" in state.errors[GIT] or "reference not found" in state.errors[GIT]


def test_a_nudge_brings_a_commit_in_and_takes_it_out(world: Synced) -> None:
    check_a_nudge_brings_a_commit_in_and_takes_it_out(world)


def test_what_was_changed_or_runs_is_never_touched(world: Synced) -> None:
    check_what_was_changed_or_runs_is_never_touched(world)


def test_bad_files_are_named_one_after_the_other_and_the_rest_goes_through(world: Synced) -> None:
    world.applied()
    good = world.jobs.add("good")
    value, kind = world.jobs.add("bad-value"), world.jobs.add("bad-type")
    world.jobs.spoil(value, "backoffLimit: 0", "backoffLimit: -1")
    world.jobs.spoil(kind, "backoffLimit: 0", 'backoffLimit: "none"')
    left = {f"Job/red/{bad.name}": bad for bad in (value, kind)}
    words = {}
    while left:
        world.told()
        state = world.until(lambda state: bool(state.errors))
        assert (good.team, good.name) not in state.objects, "Flux applies all or none"
        (key,) = state.errors
        words[key] = state.errors[key]
        world.jobs.remove(left.pop(key))
        world.told()
        world.until(lambda state, key=key: key not in state.errors)
    assert "must be greater than or equal to 0" in words[f"Job/red/{value.name}"]
    assert "expected numeric" in words[f"Job/red/{kind.name}"]
    assert world.applied().objects == {(good.team, good.name)}


def test_a_file_that_is_no_yaml_is_named_by_its_path(world: Synced) -> None:
    attempt = world.jobs.add("broken")
    world.jobs.spoil(attempt, "backoffLimit: 0", "backoffLimit: {0")
    assert "MalformedYAMLError" in world.error_of(attempt.path)


def test_a_namespace_that_is_not_there_is_told_of_the_object(world: Synced) -> None:
    attempt = world.jobs.add("nowhere", team="green")
    assert 'cannot patch resource "jobs"' in world.error_of(f"Job/green/{attempt.name}")  # rights are asked for first


def test_a_kind_that_the_applier_may_not_write_is_told_of_the_object(world: Synced) -> None:
    world.jobs.files["manifests/red/s.yaml"] = b"apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: red}\n"
    assert "cannot patch resource" in world.error_of("Secret/red/s")
    del world.jobs.files["manifests/red/s.yaml"]


def test_nothing_may_be_applied_to_the_agents_own_namespace_but_the_sentinel(world: Synced) -> None:
    world.jobs.files["manifests/x.yaml"] = (
        b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: agent-record, namespace: gpu-reconciler}\ndata: {record: '{}'}\n"
    )
    assert "forbidden" in world.error_of("ConfigMap/gpu-reconciler/agent-record")


def test_what_is_suspended_or_gone_is_told_of_itself(world: Synced) -> None:
    attempt = world.jobs.add("adopted")
    world.applied()
    uid = world.plane.get("job", attempt.name, "red")["metadata"]["uid"]
    for kind, key in (("gitrepository", GIT), ("kustomization", APPLY)):
        world.plane.kubectl("patch", kind, "gpu-reconciler", "-n", NAMESPACE, "--type=merge", "-p", '{"spec":{"suspend":true}}')
        assert "suspended" in world.engine.state().errors[key]
        saved = world.plane.get(kind, "gpu-reconciler", NAMESPACE)
        world.plane.kubectl("delete", kind, "gpu-reconciler", "-n", NAMESPACE)
        assert "reconciler bootstrap" in world.engine.state().errors[key]
        if kind == "gitrepository":
            with pytest.raises(Refused, match="reconciler bootstrap"):
                world.engine.nudge("0" * 40)
        again = {"metadata": {"name": "gpu-reconciler", "namespace": NAMESPACE}, "spec": {**saved["spec"], "suspend": False}}
        world.plane.kubectl("apply", "-f", "-", stdin={"apiVersion": saved["apiVersion"], "kind": saved["kind"], **again})
    assert world.applied().objects == {(attempt.team, attempt.name)}
    assert world.plane.get("job", attempt.name, "red")["metadata"]["uid"] == uid, "the running job was kept and adopted"


def test_the_agent_may_do_no_more_to_flux(world: Synced) -> None:
    may = lambda *words: world.plane.kubectl(  # noqa: E731
        "auth", "can-i", *words, "--as=system:serviceaccount:gpu-reconciler:agent", "-n", NAMESPACE, "-q"
    )
    may("patch", "gitrepositories/gpu-reconciler")
    for refused in (("patch", "kustomizations/gpu-reconciler"), ("patch", "gitrepositories/flux-system"), ("get", "secrets")):
        with pytest.raises(AssertionError):
            may(*refused)
