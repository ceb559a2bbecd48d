"""Builders for tests of the local region: a clock that is moved by hand, Jobs as we render them, and time passing."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from reconciler.adapters.local import LocalCluster, NodeSpec, Settings, SimulatedRuntime
from reconciler.adapters.local.objects import ref_of
from reconciler.adapters.local.runtime import Runtime
from reconciler.model.names import GATE, LABEL_ATTEMPT, LABEL_MANAGED, MANAGED_BY
from reconciler.ports import KubeObject

TEAM = "team-a"
START = datetime(2026, 5, 1, 10, 0, 0, tzinfo=UTC)


class HandClock:
    """Both clocks, moved by hand; they start at different numbers so that nobody can mix them up."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return 5000.0 + self.seconds


class World:
    """A region with simulated containers, its clock, and what tests look at."""

    def __init__(
        self,
        nodes: Sequence[NodeSpec] = (NodeSpec("n1", gpus=8, product="NVIDIA-A100-SXM4-80GB"),),
        folder: Path | None = None,
        runtime: Runtime | None = None,
        **settings: Any,
    ) -> None:
        self.clock = HandClock()
        self.cluster = LocalCluster(
            folder, nodes, runtime or SimulatedRuntime(), self.clock, Settings(namespaces=(TEAM,), **settings)
        )
        self.settle()

    def settle(self) -> None:
        """Let everything happen that happens now."""
        for _ in range(100):
            if not self.cluster.step():
                return
        raise AssertionError("the region does not come to rest")

    def advance(self, seconds: float) -> None:
        """Let time pass as a driver of the region does: from one due moment to the next."""
        self.settle()
        until = self.clock.monotonic() + seconds
        while True:
            due = self.cluster.next_due()
            if due is None or due > until:
                break
            self.clock.seconds = max(due - 5000.0, self.clock.seconds)
            self.settle()
        self.clock.seconds = until - 5000.0
        self.settle()

    def create(self, body: KubeObject) -> KubeObject:
        """Create it, and let the controllers see it."""
        with self.cluster.changes() as (objects, now):
            created = objects.create(body, now)
        self.settle()
        return created

    def get(self, kind: str, name: str) -> KubeObject:
        with self.cluster.changes() as (objects, _):
            found = objects.get(kind, "" if kind == "Node" else TEAM, name)
        assert found is not None, f"there is no {kind} {name}"
        return found

    def job(self, name: str = "train") -> KubeObject:
        return self.get("Job", name)

    def pods(self, job: str = "train") -> list[KubeObject]:
        label = "batch.kubernetes.io/job-name"
        return [pod for pod in self.cluster.read().pods if (pod["metadata"].get("labels") or {}).get(label) == job]

    def pod(self, job: str = "train") -> KubeObject:
        (only,) = self.pods(job)
        return only

    def patch(self, item: KubeObject, body: Mapping[str, Any]) -> KubeObject:
        """Patch the object as it is stored now."""
        kind, name = item["kind"], item["metadata"]["name"]
        self.cluster.patch(ref_of(self.get(kind, name)), body)
        return self.get(kind, name)

    def suspend(self, value: bool, job: str = "train", **spec: Any) -> None:
        self.patch(self.job(job), {"spec": {"suspend": value, **spec}})

    def release(self, job: str = "train", **spec: Any) -> None:
        """Un-suspend, and lift the gate of every pod, as the agent does."""
        self.suspend(False, job, **spec)
        self.settle()
        for pod in self.pods(job):
            self.patch(pod, {"spec": {"schedulingGates": None}})
        self.settle()

    def delete(self, item: KubeObject, grace: int | None = None) -> None:
        self.cluster.delete(ref_of(item), grace)


def make_job(
    name: str = "train",
    *,
    suspend: bool = True,
    gpus: int = 1,
    size: int = 1,
    indexed: bool = False,
    gated: bool = False,
    grace: int = 30,
    annotations: Mapping[str, str] | None = None,
    container: Mapping[str, Any] | None = None,
    pod: Mapping[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A Job as the reconciler renders it."""
    labels = {LABEL_MANAGED: MANAGED_BY, LABEL_ATTEMPT: name}
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}, "requests": {"cpu": "1", "memory": "1Gi"}}
    main = {"name": "main", "image": "reg.example.com/train:1", "resources": resources, **(container or {})}
    template = {"restartPolicy": "Never", "terminationGracePeriodSeconds": grace, "containers": [main], **(pod or {})}
    if gated:
        template["schedulingGates"] = [{"name": GATE}]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": TEAM, "labels": labels},
        "spec": {
            "suspend": suspend,
            "backoffLimit": 0,
            "podReplacementPolicy": "Failed",
            "completions": size,
            "parallelism": size,
            "completionMode": "Indexed" if indexed or size > 1 else "NonIndexed",
            "template": {"metadata": {"labels": labels, "annotations": dict(annotations or {})}, "spec": template},
            **spec,
        },
    }


def make_pod(
    name: str, *, gpus: int = 0, cpu: str = "1", memory: str = "1Gi", container: dict[str, Any] | None = None, **spec: Any
) -> dict[str, Any]:
    """A pod that belongs to no Job of ours."""
    requests = {"cpu": cpu, "memory": memory} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    main = {"name": "main", "image": "reg.example.com/x", "resources": {"requests": requests}, **(container or {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": TEAM},
        "spec": {"restartPolicy": "Never", "containers": [main], **spec},
    }


def runs(seconds: float | None = None, code: int = 0, stop: float = 0) -> dict[str, str]:
    """Annotations for a simulated container."""
    says = {"local.reconciler/exit-code": str(code), "local.reconciler/stop-seconds": str(stop)}
    return says if seconds is None else says | {"local.reconciler/run-seconds": str(seconds)}


def conditions(item: KubeObject) -> list[str]:
    """Conditions in their order, as `Type=Status (Reason)`."""
    found = item["status"].get("conditions") or ()
    return [f"{one['type']}={one['status']} ({one.get('reason', '')})" for one in found]


def phases(pods: Sequence[KubeObject]) -> list[str]:
    return [pod["status"]["phase"] for pod in pods]


def status_without(item: KubeObject, *fields: str) -> dict[str, Any]:
    """The status without what every Job has, and without `fields`."""
    left = {"conditions", "uncountedTerminatedPods", *fields}
    return {key: value for key, value in item["status"].items() if key not in left}
