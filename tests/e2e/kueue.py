"""Kueue's controller beside a region's control plane, as a process on loopback, and the queues that tests make in it.

In a cluster its webhooks are reached through a Service; here through loopback, with the region's CA. Only those of its own kinds and
of Jobs are installed.
"""

import base64
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from reconciler.agent.queueing import GRANT_CHECK, QUEUE_LABEL
from reconciler.model.names import ANNOTATION_QUEUE, PREFIX
from tests.e2e.control_plane import ControlPlane, built, free_ports
from tests.e2e.engines import Processes
from tests.e2e.world import GPU, Team, job_of
from tests.waiting import until

GROUP = "kueue.x-k8s.io"
API = f"{GROUP}/v1beta2"
_SECONDS = 120.0
_CONVERTED = frozenset({"localqueues", "clusterqueues", "cohorts", "workloads", "multikueueclusters"})
_FIXED = Path("/etc/kueue/metrics/certs")
"""Where it looks for the certificate of its metrics, whatever its configuration says."""


class Controller:
    """Kueue's process."""

    def __init__(self, running: Processes, command: list[str | Path], health: int) -> None:
        self._running, self._command, self._health = running, command, health

    def start(self) -> None:
        """Begin; returns when it is ready."""
        self._running.start("kueue", self._command)
        self._running.until_ready(f"http://127.0.0.1:{self._health}/readyz")

    def stop(self) -> None:
        """End it, if it runs: its webhooks then answer no more, either."""
        self._running.stop()


@contextmanager
def kueue(plane: ControlPlane) -> Iterator[Controller]:
    """Kueue at work in a region, with a flavor for its nodes and our AdmissionCheck, which nobody has called active yet."""
    programs, folder = built("kueue"), plane.folder / "kueue"
    (folder / "certs").mkdir(parents=True)
    for of in ("crt", "key"):
        shutil.copy(plane.folder / f"pki/apiserver.{of}", folder / f"certs/tls.{of}")
    webhook, metrics, health = free_ports(3)
    running = Processes(folder, {"KUBECONFIG": str(plane.kubeconfig), "POD_NAMESPACE": "kueue-system"})
    loopback = _Loopback(f"https://127.0.0.1:{webhook}", base64.b64encode((plane.folder / "pki/ca.crt").read_bytes()).decode())
    config = folder / "config.json"
    config.write_text(json.dumps(_config(folder / "certs", webhook, metrics, health)))
    plane.kubectl("create", "namespace", "kueue-system")
    plane.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(loopback.kinds(programs / "config/crd/bases")))
    plane.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    command = [programs / "kueue", f"--config={config}", "--feature-gates=VisibilityOnDemand=false", "--zap-log-level=info"]
    controller = Controller(running, [*_with_certificates(folder), *command], health)
    try:
        controller.start()
        hooks = loopback.hooks(programs / "config/webhook/manifests.yaml")
        plane.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(hooks))
        # Its webhooks answer when the API server has heard of them.
        until(lambda: _applied(plane, [_flavor(), GRANT]), _SECONDS, 0.5)
        yield controller
    finally:
        controller.stop()


def _with_certificates(folder: Path) -> list[str | Path]:
    """Runs a program that finds certificates at the fixed place, in a mount namespace of its own: nothing is written there."""
    if _FIXED.exists():
        return []
    there = folder / "etc" / _FIXED.relative_to("/etc")
    shutil.copytree(folder / "certs", there)
    return ["unshare", "--map-root-user", "--mount", "sh", "-c", 'mount --bind "$0" /etc && exec "$@"', folder / "etc"]


def _config(certificates: Path, webhook: int, metrics: int, health: int) -> dict[str, Any]:
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "metrics": {"bindAddress": f"127.0.0.1:{metrics}"},
        "webhook": {"host": "127.0.0.1", "port": webhook, "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "manageJobsWithoutQueueName": False,
        "clientConnection": {"qps": 50, "burst": 100},
        "integrations": {"frameworks": ["batch/job"]},
    }


class _Loopback:
    """Kueue's manifests with each reference to its Service replaced by an address."""

    def __init__(self, root: str, authority: str) -> None:
        self._root, self._authority = root, authority

    def _client(self, path: str) -> dict[str, str]:
        return {"url": f"{self._root}{path}", "caBundle": self._authority}

    def kinds(self, folder: Path) -> list[dict[str, Any]]:
        """Its CRDs."""
        found = [yaml.safe_load(path.read_text()) for path in sorted(folder.glob("*.yaml"))]
        for kind in found:
            if kind["spec"]["names"]["plural"] in _CONVERTED:
                webhook = {"clientConfig": self._client("/convert"), "conversionReviewVersions": ["v1"]}
                kind["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
        return found

    def hooks(self, path: Path) -> list[dict[str, Any]]:
        """Its webhooks of its own kinds and of Jobs."""
        found = list(yaml.safe_load_all(path.read_text()))
        for one in found:
            one["metadata"]["name"] = f"kueue-{one['metadata']['name']}"
            kept = [hook for hook in one["webhooks"] if _is_wanted(hook["clientConfig"]["service"]["path"])]
            one["webhooks"] = [{**hook, "clientConfig": self._client(hook["clientConfig"]["service"]["path"])} for hook in kept]
        return found


def _is_wanted(path: str) -> bool:
    return "kueue-x-k8s-io" in path or path.endswith("-batch-v1-job")


# ---- objects


GRANT = {
    "apiVersion": API,
    "kind": "AdmissionCheck",
    "metadata": {"name": GRANT_CHECK},
    "spec": {"controllerName": f"{PREFIX}/agent"},
}


def _flavor() -> dict[str, Any]:
    labels = {"nvidia.com/gpu.present": "true"}
    return {"apiVersion": API, "kind": "ResourceFlavor", "metadata": {"name": "gpu"}, "spec": {"nodeLabels": labels}}


def _applied(plane: ControlPlane, items: list[dict[str, Any]]) -> bool:
    try:
        plane.kubectl("apply", "--server-side", "-f", "-", stdin={"apiVersion": "v1", "kind": "List", "items": items})
    except AssertionError as error:
        if "failed calling webhook" not in str(error):
            raise
        return False
    return True


class Queue:
    """A ClusterQueue of so many GPUs, and the LocalQueue `gpus` in a team's namespace that leads to it."""

    def __init__(self, team: Team, gpus: int, checks: tuple[str, ...] = (GRANT_CHECK,)) -> None:
        self.team, self.plane, self.name = team, team.plane, team.namespace
        quota = {"name": "gpu", "resources": [{"name": GPU, "nominalQuota": gpus}]}
        spec: dict[str, Any] = {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": team.namespace}},
            "preemption": {"withinClusterQueue": "LowerPriority"},
            "resourceGroups": [{"coveredResources": [GPU], "flavors": [quota]}],
        }
        if checks:
            spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": name} for name in checks]}
        local = {"metadata": {"name": "gpus", "namespace": team.namespace}, "spec": {"clusterQueue": self.name}}
        items = [
            {"apiVersion": API, "kind": "ClusterQueue", "metadata": {"name": self.name}, "spec": spec},
            {"apiVersion": API, "kind": "LocalQueue", **local},
        ]
        self.plane.kubectl("create", "-f", "-", stdin={"apiVersion": "v1", "kind": "List", "items": items})
        until(self._is_active, _SECONDS, 0.1)

    def _is_active(self) -> bool:
        conditions = self.plane.get("clusterqueue", self.name).get("status", {}).get("conditions", ())
        return any(one["type"] == "Active" and one["status"] == "True" for one in conditions)

    def used(self) -> int:
        """GPUs for which a Workload holds quota, running or not."""
        flavors = self.plane.get("clusterqueue", self.name)["status"].get("flavorsReservation", ())
        return sum(int(one["total"]) for flavor in flavors for one in flavor["resources"])

    def change(self, **spec: Any) -> None:
        """Change the ClusterQueue's spec, as its platform team does."""
        self.plane.kubectl("patch", "clusterqueue", self.name, "--type=merge", "-p", json.dumps({"spec": spec}))

    def admission(self, job: str) -> dict[str, Any] | None:
        """Kueue's Workload of a Job, if there is one."""
        found = json.loads(self.plane.kubectl("get", f"workloads.{GROUP}", "-n", self.team.namespace, "-o", "json"))["items"]
        return next((one for one in found if [owner["name"] for owner in one["metadata"]["ownerReferences"]] == [job]), None)

    def states(self, job: str) -> dict[str, str]:
        """The state of each of a Workload's checks."""
        checks = ((self.admission(job) or {}).get("status") or {}).get("admissionChecks") or ()
        return {check["name"]: check["state"] for check in checks}

    def is_active(self, job: str) -> bool:
        """Whether Kueue may admit a Job."""
        admission = self.admission(job)
        return admission is not None and admission["spec"].get("active", True)

    def remove(self) -> None:
        """Both, without waiting for what is in them."""
        self.plane.kubectl("delete", "localqueue", "gpus", "-n", self.team.namespace, "--wait=false")
        self.plane.kubectl("delete", "clusterqueue", self.name, "--wait=false")


def queued_job(name: str, says: Mapping[str, str], queue: str = "gpus") -> dict[str, Any]:
    """A Job of ours as it is rendered for a queue: the label comes with the grant."""
    job = job_of(name, says=says)
    job["metadata"]["annotations"] = {ANNOTATION_QUEUE: queue}
    return job


def rival(name: str, *, says: Mapping[str, str], priority: str | None = None) -> dict[str, Any]:
    """Somebody's own Job in the queue, of one GPU."""
    job = job_of(name, says=says)
    job["metadata"]["labels"] = {QUEUE_LABEL: "gpus"} | ({f"{GROUP}/priority-class": priority} if priority else {})
    job["spec"]["template"]["metadata"]["labels"] = {}
    del job["spec"]["template"]["spec"]["schedulingGates"]
    return job
