"""Kueue's controller beside a region's control plane, as a process on loopback, and the queues that tests make in it.

In a cluster its webhooks are reached through a Service; here through loopback, with the region's CA. Only those of its own kinds and
of Jobs are installed.
"""

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from reconciler.model.names import ANNOTATION_QUEUE, GRANT_CHECK, PREFIX, QUEUE_LABEL
from tests.e2e.control_plane import ControlPlane, built, free_ports
from tests.e2e.engines import Processes
from tests.e2e.loopback import Controller, Webhooks, installed, taken
from tests.e2e.world import GPU, Team, job_of
from tests.waiting import until

GROUP = "kueue.x-k8s.io"
API = f"{GROUP}/v1beta2"
_SECONDS = 120.0
_CONVERTED = frozenset({"localqueues", "clusterqueues", "cohorts", "workloads", "multikueueclusters"})
_FIXED = Path("/etc/kueue/metrics/certs")
"""Where it looks for the certificate of its metrics, whatever its configuration says."""


@contextmanager
def kueue(plane: ControlPlane) -> Iterator[Controller]:
    """Kueue at work in a region, with a flavor for its nodes and our AdmissionCheck, which nobody has called active yet."""
    programs, folder = built("kueue"), plane.folder / "kueue"
    webhook, metrics, health = free_ports(3)
    webhooks = Webhooks(plane, folder, webhook)
    running = Processes(folder, {"KUBECONFIG": str(plane.kubeconfig), "POD_NAMESPACE": "kueue-system"})
    config = folder / "config.json"
    config.write_text(json.dumps(_config(webhooks.certificates, webhook, metrics, health)))
    plane.kubectl("create", "namespace", "kueue-system")
    installed(plane, _kinds(programs / "config/crd/bases", webhooks))
    command = [programs / "kueue", f"--config={config}", "--feature-gates=VisibilityOnDemand=false", "--zap-log-level=info"]
    controller = Controller("kueue", running, [*_with_certificates(folder), *command], health)
    try:
        controller.start()
        installed(plane, webhooks.hooks(programs / "config/webhook/manifests.yaml", "kueue", _is_wanted))
        until(lambda: taken(plane, [_flavor(), GRANT]), _SECONDS, 0.5)
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


def _kinds(folder: Path, webhooks: Webhooks) -> list[dict[str, Any]]:
    """Its CRDs."""
    found = [yaml.safe_load(path.read_text()) for path in sorted(folder.glob("*.yaml"))]
    for kind in found:
        if kind["spec"]["names"]["plural"] in _CONVERTED:
            webhook = {"clientConfig": webhooks.client("/convert"), "conversionReviewVersions": ["v1"]}
            kind["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
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
