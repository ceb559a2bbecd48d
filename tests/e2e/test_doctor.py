"""`reconciler doctor` on real clusters: it finds nothing where all is as bootstrap prints it, and what it says to do mends the rest."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import argo, flux
from tests.e2e.control_plane import ControlPlane, built, region
from tests.e2e.engines import Jobs, bootstrap, reconciler
from tests.e2e.s3 import S3Server, s3_server
from tests.githttp import GitServer, serving
from tests.waiting import until


@dataclass
class Patient:
    """A region that was set up by bootstrap."""

    plane: ControlPlane
    jobs: Jobs
    engine: str
    home: Path
    store: S3Server

    def findings(self, *options: str) -> dict[str, dict[str, Any]]:
        """What doctor finds, by code; its exit code says whether that is anything."""
        said = ("--engine", self.engine, "--repo", self.jobs.url, *options)
        said = ("--kubeconfig", str(self.plane.kubeconfig), *said)
        done = reconciler("doctor", "eu", *said, "--json", home=self.home, **self.store.environment)
        found = json.loads(done.stdout)["findings"] if done.stdout else []
        assert done.returncode == (1 if found else 0), done.stderr
        return {one["code"]: one for one in found}

    def until_well(self, *, mending: bool = False) -> None:
        """Wait until nothing is found, or do what is found yet; AssertionError with what is."""
        found: list[dict[str, Any]] = []

        def is_well() -> bool:
            found[:] = self.findings().values()
            if "AgentNotReady" in [one["code"] for one in found]:
                # Where its node was late once, kwok never calls a pod ready again; a kubelet does.
                self.plane.kubectl("delete", "pods", "--all", "-n", "gpu-reconciler", "--wait=false")
            for one in found if mending else ():
                if one["fix"].startswith("kubectl patch"):
                    self.mend(one["fix"])
            return not found

        try:
            until(is_well, 60.0, 0.5)
        except AssertionError:
            pods = self.plane.kubectl("get", "pods,nodes", "--all-namespaces", "-o", "wide")
            raise AssertionError(f"still found: {found}\n{pods}") from None

    def mend_all(self) -> None:
        """Do what every finding says, and wait until nothing is found."""
        for fix in {one["fix"] for one in self.findings().values() if "kubectl" in one["fix"]}:
            self.mend(fix)
        self.until_well(mending=True)

    def mend(self, fix: str) -> None:
        """Do what a finding says, as a person would: copied into a shell."""
        path = os.pathsep.join([str(built("kubestack")), str(Path(sys.executable).parent), os.environ["PATH"]])
        environment = {**os.environ, "PATH": path, "HOME": str(self.home), "KUBECONFIG": str(self.plane.kubeconfig)}
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", fix], capture_output=True, text=True, check=False, env=environment
        )
        assert done.returncode == 0, f"{fix}\n{done.stderr}"

    def change(self, kind: str, namespace: str, spec: Mapping[str, Any]) -> None:
        """Set fields of the engine's object of a kind."""
        patch = json.dumps({"spec": spec})
        self.plane.kubectl("patch", kind, "gpu-reconciler", "-n", namespace, "--type=merge", "-p", patch)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("doctor")


@pytest.fixture(scope="module")
def store(folder: Path) -> Iterator[S3Server]:
    with s3_server(folder / "s3") as server:
        server.make_bucket("bucket")
        yield server


def _set_up(plane: ControlPlane, server: GitServer, engine: str, folder: Path, store: S3Server) -> Patient:
    jobs = Jobs(server, store=store.endpoint)
    plane.add_nodes(1, gpus=0)
    plane.kubectl("apply", "-f", "-", stdin=bootstrap(jobs.url, "--engine", engine, home=folder))
    jobs.push()
    patient = Patient(plane, jobs, engine, folder, store)
    patient.until_well()
    return patient


@pytest.fixture(scope="module")
def with_flux(folder: Path, store: S3Server) -> Iterator[Patient]:
    with (
        region(folder / "plane-f") as plane,
        serving(folder / "git-f") as server,
        flux.start_flux(plane, folder / "flux"),
    ):
        yield _set_up(plane, server, "flux", folder, store)


@pytest.fixture(scope="module")
def with_argo(folder: Path, store: S3Server) -> Iterator[Patient]:
    with (
        region(folder / "plane-a") as plane,
        serving(folder / "git-a") as server,
        argo.start_argo(plane, folder / "argocd"),
    ):
        yield _set_up(plane, server, "argocd", folder, store)


def test_the_traps_of_flux_are_found_and_mended(with_flux: Patient) -> None:
    with_flux.change("gitrepository", flux.NAMESPACE, {"ref": {"branch": "region/eu", "tag": "v1"}, "suspend": True})
    traps = {
        "prune": False,
        "wait": True,
        "force": True,
        "deletionPolicy": None,
        "path": "./",
        "serviceAccountName": None,
        "postBuild": {"substitute": {"A": "b"}},
        "patches": [{"patch": "[]", "target": {"kind": "Job"}}],
        "suspend": True,
    }
    with_flux.change("kustomization", flux.NAMESPACE, traps)
    found = with_flux.findings()
    assert set(found) == {
        "WrongBranch",
        "EngineSuspended",
        "PruneOff",
        "WaitsForJobs",
        "ForceOn",
        "DeletionKillsJobs",
        "WrongPath",
        "ApplierTooMighty",
        "PostBuildOn",
        "ManifestsRewritten",
    }
    with_flux.mend_all()


def test_the_traps_of_argo_cd_are_found_and_mended(with_argo: Patient) -> None:
    traps = {
        "source": {"targetRevision": "main", "path": "manifests", "directory": {"recurse": False}},
        "ignoreDifferences": None,
        "syncPolicy": {
            "automated": {"prune": False, "selfHeal": True},
            "syncOptions": ["ApplyOutOfSyncOnly=true", "Replace=true"],
            "retry": {"limit": 5},
        },
    }
    with_argo.change("application", argo.NAMESPACE, traps)
    assert set(with_argo.findings()) >= {
        "WrongBranch",
        "WrongPath",
        "PruneOff",
        "SelfHealOn",
        "DifferencesNotIgnored",
        "OptionMissing",
        "OptionHarmful",
        "RetryLimited",
    }
    with_argo.mend_all()


def test_a_finalizer_that_would_kill_jobs_is_found_and_taken_off(with_argo: Patient) -> None:
    patch = '{"metadata":{"finalizers":["resources-finalizer.argocd.argoproj.io"]}}'
    with_argo.plane.kubectl("patch", "application", "gpu-reconciler", "-n", argo.NAMESPACE, "--type=merge", "-p", patch)
    with_argo.mend(with_argo.findings()["DeletionKillsJobs"]["fix"])
    with_argo.until_well()


def test_a_project_that_allows_too_little_is_found(with_argo: Patient) -> None:
    with_argo.change("appproject", argo.NAMESPACE, {"destinations": [{"server": "*", "namespace": "gpu-*"}]})
    found = with_argo.findings()
    assert "blue, red" in found["ProjectTooNarrow"]["what"]
    with_argo.mend(found["ProjectTooNarrow"]["fix"])
    with_argo.until_well()


def test_an_old_controller_is_found_by_its_image(with_flux: Patient) -> None:
    image = "ghcr.io/fluxcd/kustomize-controller:v1.8.2"
    with_flux.plane.kubectl("create", "deployment", "kustomize-controller", "-n", flux.NAMESPACE, f"--image={image}")
    found = with_flux.findings()
    assert "1.8.2" in found["EngineForgetsJobs"]["what"]
    with_flux.plane.kubectl("delete", "deployment", "kustomize-controller", "-n", flux.NAMESPACE)
    with_flux.until_well()


def test_what_is_missing_is_found_and_put_there(with_flux: Patient) -> None:
    plane = with_flux.plane
    plane.kubectl("delete", "kustomization", "gpu-reconciler", "-n", flux.NAMESPACE)
    plane.kubectl("delete", "role", "gpu-reconciler-applier", "-n", "red")
    plane.kubectl("delete", "clusterrolebinding", "gpu-reconciler-agent")
    plane.kubectl("delete", "deployment", "agent", "-n", "gpu-reconciler")
    plane.kubectl("delete", "namespace", "blue")
    found = with_flux.findings()
    assert {"EngineObjectMissing", "RightsMissing", "AgentMissing", "NamespacesMissing"} <= found.keys()
    with_flux.mend(found["EngineObjectMissing"]["fix"])
    with_flux.until_well()


def test_one_replica_is_one_too_few(with_flux: Patient) -> None:
    with_flux.plane.kubectl("scale", "deployment", "agent", "-n", "gpu-reconciler", "--replicas=1")
    with_flux.mend(until(lambda: with_flux.findings().get("AgentAlone"), 30.0, 0.5)["fix"])
    with_flux.until_well()


def test_an_object_that_flux_refuses_is_found(with_flux: Patient) -> None:
    attempt = with_flux.jobs.add("bad")
    with_flux.jobs.spoil(attempt, "backoffLimit: 0", "backoffLimit: -1")
    with_flux.jobs.push()
    _ask_flux(with_flux)
    found = until(lambda: with_flux.findings().get("EngineRefuses"), 60.0, 0.5)
    assert attempt.name in found["what"]
    with_flux.jobs.remove(attempt)
    with_flux.jobs.push()
    _ask_flux(with_flux)
    with_flux.until_well()


def _ask_flux(patient: Patient) -> None:
    stamp = f"reconcile.fluxcd.io/requestedAt={len(patient.jobs.files)}"
    patient.plane.kubectl("annotate", "gitrepository", "gpu-reconciler", "-n", flux.NAMESPACE, "--overwrite", stamp)


def test_an_account_that_may_see_nothing_says_so_and_finds_no_peace(with_flux: Patient) -> None:
    with_flux.plane.sign("nobody", "/CN=nobody")
    config = with_flux.plane.kubeconfig_of("nobody")
    found = with_flux.findings("--kubeconfig", str(config))
    assert set(found) == {"NotSeen"}


def test_the_agent_itself_may_ask(with_flux: Patient) -> None:
    plane = with_flux.plane
    token = plane.kubectl("create", "token", "agent", "-n", "gpu-reconciler").strip()
    content = json.loads(plane.kubeconfig.read_text())
    content["users"] = [{"name": "admin", "user": {"token": token}}]
    own = plane.folder / "agent.kubeconfig"
    own.write_text(json.dumps(content))
    assert "RightsMissing" not in with_flux.findings("--kubeconfig", str(own))
    plane.kubectl("delete", "rolebinding", "gpu-reconciler-agent", "-n", flux.NAMESPACE)
    found = with_flux.findings("--kubeconfig", str(own))
    assert "gitrepositories.source.toolkit.fluxcd.io gpu-reconciler in flux-system" in found["RightsMissing"]["what"]
    plane.kubectl("apply", "-f", "-", stdin=bootstrap(with_flux.jobs.url, home=with_flux.home))
    with_flux.until_well()
