"""The nodes of a region on one machine: as they are declared, as Kubernetes shows them, and what befalls them.

Decides labels, capacity and the taints of sick nodes, and deletes the pods of lost ones after their toleration, as the
node controllers do. Invariant: a node keeps what was done to it (cordon, loss) when the region starts anew.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reconciler.adapters.local.fitting import UNSCHEDULABLE_TAINT, toleration_of
from reconciler.adapters.local.moments import millis, stamp
from reconciler.adapters.local.objects import TERMINAL, Objects
from reconciler.adapters.local.pod_status import with_pod_condition
from reconciler.ports import KubeObject

_UNREACHABLE = "node.kubernetes.io/unreachable"
_TOLERATED_SECONDS = 300
"""How long Kubernetes lets pods stay on a node that is lost, by the toleration that it gives to every pod."""

Taint = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """One node. `vram_mib` is of each GPU, in MiB; `cpu` and `memory` are quantities; of the `gpus` some may be sick."""

    name: str
    gpus: int = 0
    product: str = ""
    driver: str = ""
    vram_mib: int = 0
    cpu: str = "64"
    memory: str = "512Gi"
    pods: int = 110
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Taint] = ()
    unhealthy_gpus: int = 0
    disk: str = "1Ti"
    extended: Mapping[str, int] = field(default_factory=dict)
    """Other extended resources, such as `rdma/hca`."""


def place_nodes(objects: Objects, specs: Sequence[NodeSpec], now: int) -> None:
    """Make the API's nodes those of `specs`. One that is not declared any more stays, cordoned, until it is empty."""
    for spec in specs:
        rendered = as_node(spec, now)
        stored = objects.get("Node", "", spec.name)
        if stored is None:
            made = objects.create(rendered, now)
            objects.replace(made, status=rendered["status"])
            continue
        metadata = {**stored["metadata"], "labels": rendered["metadata"]["labels"]}
        kept = [taint for taint in stored["spec"].get("taints") or () if taint["key"].startswith("node.kubernetes.io/")]
        amounts = {part: rendered["status"][part] for part in ("capacity", "allocatable")}
        objects.replace(
            stored,
            metadata=metadata,
            spec={**stored["spec"], "taints": [*rendered["spec"]["taints"], *kept]},
            status={**stored["status"], **amounts},
        )
    declared = {spec.name for spec in specs}
    for node in objects.every("Node"):
        if node["metadata"]["name"] in declared:
            continue
        if any(_runs_on(pod, node["metadata"]["name"]) for pod in objects.every("Pod")):
            cordon(objects, node["metadata"]["name"])
        else:
            objects.delete(node, now)


def as_node(spec: NodeSpec, now: int) -> dict[str, Any]:
    """The node as its kubelet registers it, with its status."""
    labels = {"kubernetes.io/hostname": spec.name, **spec.labels}
    amounts = {"cpu": spec.cpu, "memory": spec.memory, "ephemeral-storage": spec.disk, "pods": str(spec.pods)}
    amounts |= {name: str(amount) for name, amount in spec.extended.items()}
    healthy = dict(amounts)
    if spec.gpus:
        labels |= {
            "nvidia.com/gpu.count": str(spec.gpus),
            "nvidia.com/gpu.product": spec.product,
            "nvidia.com/gpu.memory": str(spec.vram_mib),
            "nvidia.com/cuda.driver-version.full": spec.driver,
        }
        amounts["nvidia.com/gpu"] = str(spec.gpus)
        healthy["nvidia.com/gpu"] = str(spec.gpus - spec.unhealthy_gpus)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": spec.name, "labels": labels},
        "spec": {"taints": [dict(taint) for taint in spec.taints]},
        "status": {
            "capacity": amounts,
            "allocatable": healthy,
            "conditions": [_ready("True", "KubeletReady", "kubelet is posting ready status", now)],
        },
    }


def cordon(objects: Objects, name: str, *, on: bool = True) -> None:
    """Let nothing new onto the node, as `kubectl cordon` does; `on=False` takes it back."""
    node = _node(objects, name)
    taints = _without(node, UNSCHEDULABLE_TAINT["key"]) + ([UNSCHEDULABLE_TAINT] if on else [])
    objects.replace(node, spec={**node["spec"], "unschedulable": on, "taints": taints})


def lose_node(objects: Objects, name: str, now: int) -> None:
    """The node's kubelet is not heard any more; its pods are what they were last said to be, but not ready."""
    node = _node(objects, name)
    added = stamp(now)
    taints = [{"key": _UNREACHABLE, "effect": effect, "timeAdded": added} for effect in ("NoSchedule", "NoExecute")]
    spec = {**node["spec"], "taints": [*_without(node, _UNREACHABLE), *taints]}
    words = "NodeStatusUnknown", "Kubelet stopped posting node status."
    objects.replace(node, spec=spec, status={**node["status"], "conditions": [_ready("Unknown", *words, now)]})
    for pod in objects.every("Pod"):
        if _runs_on(pod, name):
            objects.replace(pod, status=with_pod_condition(pod["status"], "Ready", "False", "", "", now))


def return_node(objects: Objects, name: str, now: int) -> None:
    """The node's kubelet is heard again."""
    node = _node(objects, name)
    spec = {**node["spec"], "taints": _without(node, _UNREACHABLE)}
    words = "KubeletReady", "kubelet is posting ready status"
    objects.replace(node, spec=spec, status={**node["status"], "conditions": [_ready("True", *words, now)]})


def evict(objects: Objects, now: int) -> int | None:
    """Delete the pods that no longer tolerate a NoExecute taint of their node; returns when the next one is due."""
    dues: list[int] = []
    for node in objects.every("Node"):
        for taint in node["spec"].get("taints") or ():
            if taint["effect"] != "NoExecute":
                continue
            for pod in objects.every("Pod"):
                if _runs_on(pod, node["metadata"]["name"]) and "deletionTimestamp" not in pod["metadata"]:
                    leaves = _leaves(pod, taint)
                    if leaves is not None and leaves <= now:
                        objects.delete(pod, now)
                    elif leaves is not None:
                        dues.append(leaves)
    return min(dues, default=None)


def _leaves(pod: KubeObject, taint: Mapping[str, Any]) -> int | None:
    tolerations: list[Mapping[str, Any]] = list(pod["spec"].get("tolerations") or ())
    if taint["key"] == _UNREACHABLE:
        tolerations.append({"key": _UNREACHABLE, "operator": "Exists", "tolerationSeconds": _TOLERATED_SECONDS})
    added = millis(taint["timeAdded"]) if "timeAdded" in taint else 0
    toleration = toleration_of(taint, tolerations)
    if toleration is None:
        return added
    seconds = toleration.get("tolerationSeconds")
    return None if seconds is None else added + int(seconds) * 1000


def _runs_on(pod: KubeObject, node: str) -> bool:
    return pod["spec"].get("nodeName") == node and pod["status"]["phase"] not in TERMINAL


def _without(node: KubeObject, key: str) -> list[Mapping[str, Any]]:
    return [taint for taint in node["spec"].get("taints") or () if taint["key"] != key]


def _node(objects: Objects, name: str) -> KubeObject:
    node = objects.get("Node", "", name)
    if node is None:
        raise KeyError(f"there is no node {name}")
    return node


def _ready(status: str, reason: str, message: str, now: int) -> dict[str, str]:
    at = stamp(now)
    return {"type": "Ready", "status": status, "reason": reason, "message": message, "lastTransitionTime": at}
