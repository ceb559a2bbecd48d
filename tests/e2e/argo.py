"""Argo CD's application controller and repository server, with their Redis, as processes beside a region's control plane."""

import os
from contextlib import AbstractContextManager
from pathlib import Path

from tests.e2e.control_plane import ControlPlane, built, free_ports
from tests.e2e.engines import Processes, installed
from tests.waiting import until

NAMESPACE = "argocd"
REDIS = "/usr/bin/redis-server"
_LABELS = {"app.kubernetes.io/part-of": "argocd"}


class ArgoEngine:
    """Argo CD for one region. `start` brings it up, `stop` ends it; it may be started again. Needs Debian's redis-server."""

    def __init__(self, plane: ControlPlane, folder: Path, resync_seconds: int = 60) -> None:
        self._plane = plane
        self._programs = built("argocd")
        self._ports = dict(zip(("redis", "repo", "repo-metrics", "metrics"), free_ports(4), strict=True))
        self._resync = resync_seconds
        for sub in ("tls", "ssh", "plugins", "tmp"):
            (folder / sub).mkdir(parents=True, exist_ok=True)
        environment = {
            "KUBECONFIG": str(plane.kubeconfig),
            "ARGOCD_FAKE_IN_CLUSTER": "true",
            "ARGOCD_TLS_DATA_PATH": str(folder / "tls"),
            "ARGOCD_SSH_DATA_PATH": str(folder / "ssh"),
            "ARGOCD_GPG_ENABLED": "false",
            "ARGOCD_PLUGINSOCKFILEPATH": str(folder / "plugins"),
            "ARGOCD_RECONCILIATION_JITTER": "0s",
            "HOSTNAME": "controller-0",
            "TMPDIR": str(folder / "tmp"),
        }
        self.processes = Processes(folder, environment)
        # The repository server runs a wrapper of git that comes beside it; without it every answer is "permission denied".
        self._path = {"PATH": f"{self._programs}{os.pathsep}{os.environ['PATH']}"}

    def install(self) -> None:
        """The definitions of its kinds, its namespace and its settings."""
        self._plane.kubectl("apply", "--server-side", "-f", str(self._programs / "crds"))
        self._plane.kubectl("create", "namespace", NAMESPACE)
        until(lambda: {"applications.argoproj.io", "appprojects.argoproj.io"} <= self._kinds(), 60.0, 0.1)
        settings = {
            ("ConfigMap", "argocd-cm"): {"data": {"timeout.reconciliation": f"{self._resync}s"}},
            ("ConfigMap", "argocd-rbac-cm"): {},
            ("Secret", "argocd-secret"): {"stringData": {"server.secretkey": "for-tests-only"}},
        }
        for (kind, name), content in settings.items():
            metadata = {"name": name, "namespace": NAMESPACE, "labels": _LABELS}
            self._plane.kubectl("apply", "-f", "-", stdin={"apiVersion": "v1", "kind": kind, "metadata": metadata, **content})

    def _kinds(self) -> set[str]:
        return set(self._plane.kubectl("api-resources", "--api-group=argoproj.io", "-o", "name").split())

    def start(self) -> None:
        """All three; returns when the repository server and the controller answer."""
        port = self._ports
        redis, repo = f"127.0.0.1:{port['redis']}", f"127.0.0.1:{port['repo']}"
        argocd = self._programs / "argocd"
        self.processes.start(
            "redis", [REDIS, "--bind", "127.0.0.1", "--port", str(port["redis"]), "--save", "", "--appendonly", "no"]
        )
        self.processes.start(
            "repo-server",
            [argocd, "--address=127.0.0.1", f"--port={port['repo']}", "--metrics-address=127.0.0.1",
             f"--metrics-port={port['repo-metrics']}", f"--redis={redis}", "--disable-tls", "--client-ca-path=",
             "--revision-cache-expiration=3s"],
            {"ARGOCD_BINARY_NAME": "argocd-repo-server", **self._path},
        )  # fmt: skip
        self.processes.start(
            "application-controller",
            [argocd, f"--namespace={NAMESPACE}", f"--redis={redis}", f"--repo-server={repo}", "--repo-server-plaintext",
             f"--metrics-port={port['metrics']}", f"--app-resync={self._resync}", "--app-resync-jitter=0"],
            {"ARGOCD_BINARY_NAME": "argocd-application-controller", **self._path},
        )  # fmt: skip
        self.processes.until_ready(f"http://127.0.0.1:{port['repo-metrics']}/healthz")
        self.processes.until_ready(f"http://127.0.0.1:{port['metrics']}/healthz")

    def stop(self) -> None:
        """End all three."""
        self.processes.stop()


def start_argo(plane: ControlPlane, folder: Path) -> AbstractContextManager[ArgoEngine]:
    """Argo CD in a region, up; ended afterwards."""
    return installed(ArgoEngine(plane, folder))
