"""Binds pods to nodes where there is room for what they request.

Decides which pod goes first (priority, then age) and which node takes it: of those that fit, the one with the fewest
GPUs left, so that whole nodes stay whole; ties by name. No pod is evicted for another. Invariant: what is bound and not
ended never requests more of a node than it has to give.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from reconciler.adapters.local.fitting import unfit
from reconciler.adapters.local.objects import TERMINAL, Objects
from reconciler.adapters.local.pod_status import with_pod_condition
from reconciler.model.pods import pod_requests
from reconciler.model.quantity import milli, whole
from reconciler.ports import KubeObject

Room = dict[str, int]
"""Resource name → amount still free; CPU in thousandths of a core."""


def schedule(objects: Objects, now: int) -> None:
    """Bind every pod that can be bound; tell the others why not."""
    waiting = [pod for pod in objects.every("Pod") if _waits(pod)]
    if not waiting:
        return
    room = free_room(objects)
    for pod in sorted(waiting, key=_turn):
        requests = pod_requests(pod["spec"]) | {"pods": 1}
        fits: list[KubeObject] = []
        causes: Counter[str] = Counter()
        for node in objects.every("Node"):
            cause = unfit(pod, node)
            causes.update([cause] if cause else _short(requests, room[node["metadata"]["name"]]))
            if cause is None and not _short(requests, room[node["metadata"]["name"]]):
                fits.append(node)
        if not fits:
            objects.replace(pod, status=_unscheduled(pod, len(objects.every("Node")), causes, now))
            continue
        name = min(fits, key=lambda node: _left_over(node, room, requests))["metadata"]["name"]
        for resource, amount in requests.items():
            room[name][resource] = room[name].get(resource, 0) - amount
        status = with_pod_condition(pod["status"], "PodScheduled", "True", "", "", now)
        objects.replace(pod, spec={**pod["spec"], "nodeName": name}, status=status)


def free_room(objects: Objects) -> dict[str, Room]:
    """What each node has left: its allocatable without what its pods request that have not ended."""
    room = {node["metadata"]["name"]: _amounts(node["status"]["allocatable"]) for node in objects.every("Node")}
    for pod in objects.every("Pod"):
        node = pod["spec"].get("nodeName")
        if node in room and pod["status"]["phase"] not in TERMINAL:
            for resource, amount in (pod_requests(pod["spec"]) | {"pods": 1}).items():
                room[node][resource] = room[node].get(resource, 0) - amount
    return room


def _waits(pod: KubeObject) -> bool:
    spec = pod["spec"]
    if spec.get("nodeName") or spec.get("schedulingGates") or "deletionTimestamp" in pod["metadata"]:
        return False
    return pod["status"]["phase"] == "Pending" and spec.get("schedulerName") in (None, "", "default-scheduler")


def _turn(pod: KubeObject) -> tuple[int, str, str, str]:
    metadata = pod["metadata"]
    return -pod["spec"].get("priority", 0), metadata["creationTimestamp"], metadata["namespace"], metadata["name"]


def _amounts(allocatable: Mapping[str, Any]) -> Room:
    return {name: milli(amount) if name == "cpu" else whole(amount) for name, amount in allocatable.items()}


def _short(requests: Mapping[str, int], room: Room) -> list[str]:
    causes = [
        f"Insufficient {name}"
        for name, amount in sorted(requests.items())
        if name != "pods" and amount and amount > room.get(name, 0)
    ]
    return [*causes, "Too many pods"] if room.get("pods", 0) < 1 else causes


def _left_over(node: KubeObject, room: Mapping[str, Room], requests: Mapping[str, int]) -> tuple[int, int, str]:
    name = node["metadata"]["name"]
    scarce = sum(amount for resource, amount in room[name].items() if "/" in resource)
    cores = room[name].get("cpu", 0) - requests.get("cpu", 0)
    return scarce, cores, name


def _unscheduled(pod: KubeObject, nodes: int, causes: Counter[str], now: int) -> dict[str, Any]:
    if not nodes:
        message = "no nodes available to schedule pods"
    else:
        reasons = ", ".join(sorted(f"{count} {cause}" for cause, count in causes.items()))
        message = f"0/{nodes} nodes are available: {reasons}."
    return with_pod_condition(pod["status"], "PodScheduled", "False", "Unschedulable", message, now)
