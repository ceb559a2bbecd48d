"""What is printed and what stands in deploy/ is taken by a real API server, word for word, and applied again it changes nothing."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e import argo, flux
from tests.e2e.control_plane import ControlPlane, built
from tests.e2e.engines import Jobs, bootstrap
from tests.githttp import GitServer, serving
from tests.waiting import until

DEPLOY = Path(__file__).parents[2] / "deploy"
HUB = "gpu-reconciler-hub"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server that knows both engines' kinds; nobody acts on what is applied."""
    folder = tmp_path_factory.mktemp("bootstrap")
    plane = ControlPlane(folder / "plane", built("kubestack"))
    try:
        plane.start_api()
        flux.FluxEngine(plane, folder / "flux").install()
        argo.ArgoEngine(plane, folder / "argocd").install()
        until(lambda: "kustomizations" in plane.kubectl("api-resources", "-o", "name"), 60.0, 0.2)
        yield plane
    finally:
        plane.stop()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    with serving(tmp_path / "git") as found:
        yield found


def versions(api: ControlPlane, printed: str) -> dict[str, str]:
    """The resource version of each printed object, as the API server has it."""
    items = json.loads(api.kubectl("get", "-f", "-", "-o", "json", stdin=printed))["items"]
    return {
        f"{one['kind']} {one['metadata'].get('namespace')}/{one['metadata']['name']}": one["metadata"]["resourceVersion"]
        for one in items
    }


@pytest.mark.parametrize("options", [("--engine", "flux", "--receiver"), ("--engine", "argocd"), ("--engine", "flux")])
def test_what_is_printed_is_taken_and_applied_again_changes_nothing(
    api: ControlPlane, server: GitServer, tmp_path: Path, options: tuple[str, ...]
) -> None:
    printed = bootstrap(Jobs(server).url, *options, home=tmp_path)
    api.kubectl("apply", "--validate=strict", "-f", "-", stdin=printed)
    before = versions(api, printed)
    api.kubectl("apply", "--validate=strict", "-f", "-", stdin=printed)
    assert versions(api, printed) == before
    assert len(before) > 10


def test_files_can_be_applied_as_a_folder(api: ControlPlane, server: GitServer, tmp_path: Path) -> None:
    bootstrap(Jobs(server).url, "--engine", "flux", "--namespace", "further", "--out", str(tmp_path / "eu"), home=tmp_path)
    api.kubectl("apply", "--validate=strict", "-f", str(tmp_path / "eu"))
    assert "gpu-reconciler-applier" in api.kubectl("get", "roles", "-n", "further")


@pytest.mark.parametrize("base", ["hub", "agent"])
def test_the_bases_in_deploy_are_taken(api: ControlPlane, base: str) -> None:
    api.kubectl("apply", "--validate=strict", "-k", str(DEPLOY / base))


@pytest.mark.parametrize("base", ["hub", "agent"])
def test_their_pods_pass_the_strictest_standard(api: ControlPlane, base: str) -> None:
    api.kubectl("apply", "-k", str(DEPLOY / "hub"))
    objects = yaml.safe_load_all(api.kubectl("kustomize", str(DEPLOY / base)))
    pod: dict[str, Any] = next(one for one in objects if one["kind"] == "Deployment")["spec"]["template"]
    pod |= {"apiVersion": "v1", "kind": "Pod"}
    pod["metadata"] |= {"name": base, "namespace": HUB}
    pod["spec"]["serviceAccountName"] = "hub"
    api.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.loads(json.dumps(pod)))
    pod["spec"]["containers"][0]["securityContext"] = {}
    with pytest.raises(AssertionError, match="violates PodSecurity"):
        api.kubectl("create", "--dry-run=server", "-f", "-", stdin=pod)
