"""What tests do in a real region: namespaces of their own, jobs as they are rendered, and the agent's own way in."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reconciler.adapters.clock import SystemClock
from reconciler.adapters.kube import Access, KubeCluster, Settings, in_cluster
from reconciler.model.names import GATE, LABEL_ATTEMPT, LABEL_MANAGED, MANAGED_BY
from reconciler.ports import KubeObject, ObjectRef
from tests.e2e.control_plane import HERE, ControlPlane
from tests.waiting import until

RBAC = HERE.parent.parent / "deploy/agent/rbac.yaml"
GPU = "nvidia.com/gpu"


def service_account(plane: ControlPlane) -> Path:
    """Install the agent's account and rights; returns a folder such as its pod would find mounted."""
    plane.kubectl("apply", "-f", str(RBAC))
    folder = plane.folder / "serviceaccount"
    folder.mkdir(exist_ok=True)
    (folder / "token").write_text(plane.kubectl("create", "token", "agent", "-n", "gpu-reconciler", "--duration=1h"))
    (folder / "ca.crt").write_bytes((plane.folder / "pki/ca.crt").read_bytes())
    return folder


def token_kubeconfig(plane: ControlPlane) -> Path:
    """A kubeconfig of the agent's own account, whose rights are installed already: what it may do in its pod, and no more."""
    token = plane.kubectl("create", "token", "agent", "-n", "gpu-reconciler", "--duration=8h")
    path = plane.folder / "agent.kubeconfig"
    cluster = {"server": plane.server, "certificate-authority": str(plane.folder / "pki/ca.crt")}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "agent",
        "clusters": [{"name": "region", "cluster": cluster}],
        "users": [{"name": "agent", "user": {"token": token}}],
        "contexts": [{"name": "agent", "context": {"cluster": "region", "user": "agent"}}],
    }
    path.write_text(json.dumps(content))
    path.chmod(0o600)
    return path


def access_of(plane: ControlPlane) -> Access:
    """The agent's access, as it finds it in its pod."""
    host, _, port = plane.server.removeprefix("https://").rpartition(":")
    environment = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
    return in_cluster(environment, plane.folder / "serviceaccount")


def agents_cluster(plane: ControlPlane, **settings: Any) -> KubeCluster:
    """The cluster by the agent's own account and rights."""
    return KubeCluster(access_of(plane), SystemClock(), Settings(**settings))


def ref_of(item: KubeObject) -> ObjectRef:
    """An object at the version that was read."""
    metadata = item["metadata"]
    return ObjectRef(item["kind"], metadata["namespace"], metadata["name"], metadata["uid"], metadata["resourceVersion"])


class Team:
    """A namespace, and what is in it."""

    def __init__(self, plane: ControlPlane, test: str) -> None:
        self.plane = plane
        self.namespace = "t-" + hashlib.sha256(test.encode()).hexdigest()[:10]
        plane.kubectl("create", "namespace", self.namespace)
        # Its controller makes the account without which no pod is taken.
        until(lambda: "default" in plane.kubectl("get", "serviceaccounts", "-n", self.namespace), 60.0, 0.1)

    def clear(self) -> None:
        """Remove all workloads and pods."""
        self.plane.kubectl("delete", "jobs,pods", "--all", "-n", self.namespace, "--grace-period=0", "--force", "--wait=false")

    def create(self, item: Mapping[str, Any]) -> dict[str, Any]:
        """Create an object in the namespace."""
        found: dict[str, Any] = json.loads(
            self.plane.kubectl("create", "-n", self.namespace, "-o", "json", "-f", "-", stdin=item)
        )
        return found

    def job(self, name: str) -> dict[str, Any]:
        return self.plane.get("job", name, self.namespace)

    def held(self, item: Mapping[str, Any]) -> dict[str, Any]:
        """Create a suspended Job, and return it once its controller has said so: nobody writes it any more by itself."""
        name = self.create(item)["metadata"]["name"]
        return until(lambda: job if (job := self.job(name)).get("status", {}).get("conditions") else None)

    def pods(self) -> list[dict[str, Any]]:
        found = json.loads(self.plane.kubectl("get", "pods", "-n", self.namespace, "-o", "json"))
        return list(found["items"])

    def pods_of(self, attempt: str) -> list[dict[str, Any]]:
        """An attempt's pods."""
        label = f"{LABEL_ATTEMPT}={attempt}"
        return list(json.loads(self.plane.kubectl("get", "pods", "-n", self.namespace, "-l", label, "-o", "json"))["items"])

    def count(self, label: str) -> int:
        """How many pods have a label."""
        return self.plane.kubectl("get", "pods", "-n", self.namespace, "-l", label, "--no-headers").count("\n")

    def phases(self) -> list[str]:
        return sorted(pod["status"]["phase"] for pod in self.pods())

    def pods_when(self, count: int, phase: str) -> list[dict[str, Any]]:
        """The pods, as soon as there are so many and all are in that phase."""
        return until(
            lambda: pods if (pods := self.pods()) and [pod["status"]["phase"] for pod in pods] == [phase] * count else None
        )


def job_of(name: str, *, pods: int = 1, grace: int = 30, says: Mapping[str, str] | None = None) -> dict[str, Any]:
    """A Job as it is rendered: suspended, its pods born gated. `says` are annotations for kwok."""
    labels = {LABEL_MANAGED: MANAGED_BY, LABEL_ATTEMPT: name}
    main = {"name": "main", "image": "reg.example.com/train:1", "resources": {"limits": {GPU: "1"}}}
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": grace,
        "schedulingGates": [{"name": GATE}],
        "containers": [main],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "suspend": True,
            "backoffLimit": 0,
            "podReplacementPolicy": "Failed",
            "completions": pods,
            "parallelism": pods,
            "completionMode": "Indexed" if pods > 1 else "NonIndexed",
            "template": {"metadata": {"labels": labels, "annotations": dict(says or {})}, "spec": spec},
        },
    }


def pod_of(name: str, containers: tuple[str, ...] = ("main",)) -> dict[str, Any]:
    """Somebody's own pod; it runs until it is deleted."""
    listed = [{"name": one, "image": "reg.example.com/x:1"} for one in containers]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": listed}}
