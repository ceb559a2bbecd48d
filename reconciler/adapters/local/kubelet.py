"""Runs the pods that are bound to nodes: starts their containers in order, stops them, writes how they are.

Decides what a real kubelet would do next for each pod (`run_pod`, which knows of no store of objects); how a container runs
is the runtime's. Nodes that are not Ready have no kubelet: their pods stay as they were last written, and what they run runs on.

Invariants: a container is started once; a deleted pod gets SIGTERM once and SIGKILL at its `deletionTimestamp`; a pod
leaves the API only after all that it ran has ended (but for a forced deletion, where it is killed right after).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from reconciler.adapters.local.moments import millis
from reconciler.adapters.local.objects import TERMINAL, Objects
from reconciler.adapters.local.pod_status import (
    init_failed,
    inits,
    is_over,
    is_sidecar,
    lost,
    mains,
    pod_status,
    written_state,
)
from reconciler.adapters.local.runtime import DEVICES, ConfigMaps, Ended, Launch, Running, Runtime, State, Texts, Waiting
from reconciler.model.pods import pod_requests
from reconciler.model.quantity import whole
from reconciler.ports import KubeObject

GPUS = "nvidia.com/gpu"
RETRY_MILLIS = 10_000
"""How long until what could not be started is tried again, and until a failed pull is called a back-off."""

States = dict[str, State | None]


@dataclass(frozen=True, slots=True)
class Machine:
    """What a node has for its pods: what runs containers, patterns of the images that can be pulled, ConfigMaps."""

    runtime: Runtime
    images: Sequence[str]
    config_maps: ConfigMaps


@dataclass(frozen=True, slots=True)
class Brought:
    """How far a pod was brought: its whole status, and when to look again even if nothing is written."""

    status: dict[str, Any]
    dues: tuple[int, ...]


def run_pods(objects: Objects, runtime: Runtime, images: Sequence[str], now: int) -> int | None:
    """Bring every pod forward; returns when to look again even if nothing is written. `images`: patterns of known ones."""

    def config_map(namespace: str, name: str) -> Texts | None:
        found = objects.get("ConfigMap", namespace, name)
        return None if found is None else found.get("data") or {}

    machine = Machine(runtime, images, config_map)
    dues: list[int] = []
    watched: set[str] = set()
    for pod in objects.every("Pod"):
        node = objects.get("Node", "", pod["spec"].get("nodeName") or "")
        if node is not None and is_node_ready(node) and pod["status"]["phase"] not in TERMINAL:
            watched.add(pod["metadata"]["uid"])
            dues.extend(_run_pod(objects, machine, _with_devices(objects, pod, node), now))
    known = {pod["metadata"]["uid"] for pod in objects.every("Pod")}
    for uid in runtime.pods():
        if uid not in known:
            watched.add(uid)
            runtime.forget(uid, now)
    polled = runtime.due(watched, now)
    return min([*dues, polled] if polled is not None else dues, default=None)


def is_node_ready(node: KubeObject) -> bool:
    """Whether the node has a kubelet that answers."""
    return any(item["type"] == "Ready" and item["status"] == "True" for item in node["status"]["conditions"])


def run_pod(machine: Machine, pod: KubeObject, deleted_by: int | None, now: int) -> Brought:
    """Start, stop and look at what the pod runs. `deleted_by`: the moment by which all of a deleted pod must have ended."""
    runtime, uid = machine.runtime, pod["metadata"]["uid"]
    states: States = {one["name"]: _state(runtime, pod, one["name"], now) for one in (*inits(pod), *mains(pod))}
    stop_by = _stop_by(pod, states, deleted_by)
    if stop_by is None:
        _start(machine, pod, states, now)
        stop_by = _stop_by(pod, states, deleted_by)
    if stop_by is not None:
        for name in [name for name, state in states.items() if isinstance(state, Running)]:
            runtime.terminate(uid, name, now)
            if now >= stop_by:
                runtime.kill(uid, name, now)
            states[name] = _state(runtime, pod, name, now)
    if deleted_by is not None:
        states = {name: state if isinstance(state, Running | Ended) else lost(now) for name, state in states.items()}
    if _tells_of_itself(pod) and any(isinstance(state, Running) for state in states.values()):
        runtime.tell(pod)
    status = pod_status(pod, states, now)
    return Brought(status, tuple(_dues(status, states, stop_by, now)))


def _tells_of_itself(pod: KubeObject) -> bool:
    return any("downwardAPI" in volume for volume in pod["spec"].get("volumes") or ())


def _run_pod(objects: Objects, machine: Machine, pod: KubeObject, now: int) -> Iterable[int]:
    deletion = pod["metadata"].get("deletionTimestamp")
    brought = run_pod(machine, pod, None if deletion is None else millis(deletion), now)
    pod = objects.replace(pod, status=brought.status)
    if deletion is not None and pod["status"]["phase"] in TERMINAL:
        objects.ended(pod, now)
        return ()
    return brought.dues


def _dues(status: KubeObject, states: States, stop_by: int | None, now: int) -> Iterable[int]:
    if stop_by is not None and stop_by > now and any(isinstance(state, Running) for state in states.values()):
        yield stop_by
    for state in states.values():
        if isinstance(state, Waiting) and state.reason == "ErrImagePull":
            yield millis(status["startTime"]) + RETRY_MILLIS
        elif isinstance(state, Waiting) and state.reason != "ImagePullBackOff":
            yield now + RETRY_MILLIS


def _state(runtime: Runtime, pod: KubeObject, container: str, now: int) -> State | None:
    polled = runtime.poll(pod["metadata"]["uid"], container, now)
    if polled is not None:
        return polled
    written = written_state(pod, container)
    # Said to run and not to be found: its node was wiped or its machine began anew. It must not start a second time.
    return lost(now, written.started) if isinstance(written, Running) else written


def _stop_by(pod: KubeObject, states: States, deleted_by: int | None) -> int | None:
    """The moment by which all of the pod must have ended; None while it may run on."""
    if deleted_by is not None:
        return deleted_by
    if not is_over(pod, states):
        return None
    ends = [state.finished for state in states.values() if isinstance(state, Ended)]
    return max(ends) + int(pod["spec"]["terminationGracePeriodSeconds"]) * 1000


def _start(machine: Machine, pod: KubeObject, states: States, now: int) -> None:
    tried: set[str] = set()
    while nexts := [one for one in _startable(pod, states) if one["name"] not in tried]:
        for container in nexts:
            tried.add(container["name"])
            waiting = _unpulled(pod, container["image"], machine.images, now)
            if waiting is None:
                is_init = any(one["name"] == container["name"] for one in inits(pod))
                waiting = machine.runtime.start(Launch(pod, container, is_init, machine.config_maps), now)
            states[container["name"]] = waiting or _state(machine.runtime, pod, container["name"], now)


def _startable(pod: KubeObject, states: States) -> Sequence[KubeObject]:
    """The containers whose turn it is: init containers one by one, then the others together."""
    if init_failed(pod, states):
        return ()
    for container in inits(pod):
        state = states[container["name"]]
        if not isinstance(state, Running | Ended):
            return (container,)
        if isinstance(state, Running) and not is_sidecar(container):
            return ()
    return [one for one in mains(pod) if not isinstance(states[one["name"]], Running | Ended)]


def _unpulled(pod: KubeObject, image: str, images: Sequence[str], now: int) -> Waiting | None:
    if any(fnmatchcase(image, pattern) for pattern in images):
        return None
    unpacked = f'failed to pull and unpack image "{image}": failed to resolve reference "{image}"'
    cause = f"rpc error: code = NotFound desc = {unpacked}: {image}: not found"
    began = pod["status"].get("startTime")
    if began is None or now < millis(began) + RETRY_MILLIS:
        return Waiting("ErrImagePull", cause)
    return Waiting("ImagePullBackOff", f'Back-off pulling image "{image}": ErrImagePull: {cause}')


def _with_devices(objects: Objects, pod: KubeObject, node: KubeObject) -> KubeObject:
    """The pod with the indices of its GPUs written down; they are its own until it has ended."""
    annotations: dict[str, Any] = pod["metadata"].get("annotations") or {}
    if DEVICES in annotations:
        return pod
    wanted = pod_requests(pod["spec"]).get(GPUS, 0)
    if not wanted:
        return pod
    taken = {
        index
        for other in objects.every("Pod")
        if other["spec"].get("nodeName") == node["metadata"]["name"] and other["status"]["phase"] not in TERMINAL
        for index in ((other["metadata"].get("annotations") or {}).get(DEVICES) or "").split(",")
    }
    free = [str(index) for index in range(whole(node["status"]["allocatable"].get(GPUS, 0))) if str(index) not in taken]
    chosen = {**annotations, DEVICES: ",".join(free[:wanted])}
    return objects.replace(pod, metadata={**pod["metadata"], "annotations": chosen})
