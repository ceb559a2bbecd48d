"""Runs the pods that are bound to nodes: starts their containers in order, stops them, writes how they are.

Decides what a real kubelet would do next for each pod; how a container runs is the runtime's. Nodes that are not Ready
have no kubelet: their pods stay as they were last written, and what they run runs on.

Invariants: a container is started once; a deleted pod gets SIGTERM once and SIGKILL at its `deletionTimestamp`; a pod
leaves the API only after all that it ran has ended (but for a forced deletion, where it is killed right after).
"""

from collections.abc import Iterable, Sequence
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
from reconciler.adapters.local.runtime import DEVICES, Ended, Launch, Running, Runtime, State, Texts, Waiting
from reconciler.model.pods import pod_requests
from reconciler.model.quantity import whole
from reconciler.ports import KubeObject

GPUS = "nvidia.com/gpu"
RETRY_MILLIS = 10_000
"""How long until what could not be started is tried again, and until a failed pull is called a back-off."""

States = dict[str, State | None]


def run_pods(objects: Objects, runtime: Runtime, images: Sequence[str], now: int) -> int | None:
    """Bring every pod forward; returns when to look again even if nothing is written. `images`: patterns of known ones."""
    dues: list[int] = []
    watched: set[str] = set()
    for pod in objects.every("Pod"):
        node = objects.get("Node", "", pod["spec"].get("nodeName") or "")
        if node is not None and is_node_ready(node) and pod["status"]["phase"] not in TERMINAL:
            watched.add(pod["metadata"]["uid"])
            dues.extend(_run_pod(objects, runtime, images, _with_devices(objects, pod, node), now))
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


def _run_pod(objects: Objects, runtime: Runtime, images: Sequence[str], pod: KubeObject, now: int) -> Iterable[int]:
    uid = pod["metadata"]["uid"]
    states: States = {one["name"]: _state(runtime, pod, one["name"], now) for one in (*inits(pod), *mains(pod))}
    stop_by = _stop_by(pod, states)
    if stop_by is None:
        _start(objects, runtime, images, pod, states, now)
        stop_by = _stop_by(pod, states)
    if stop_by is not None:
        for name in [name for name, state in states.items() if isinstance(state, Running)]:
            runtime.terminate(uid, name, now)
            if now >= stop_by:
                runtime.kill(uid, name, now)
            states[name] = _state(runtime, pod, name, now)
    deleted = "deletionTimestamp" in pod["metadata"]
    if deleted:
        states = {name: state if isinstance(state, Running | Ended) else lost(now) for name, state in states.items()}
    pod = objects.replace(pod, status=pod_status(pod, states, now))
    if deleted and pod["status"]["phase"] in TERMINAL:
        objects.ended(pod, now)
        return ()
    return _dues(pod, states, stop_by, now)


def _dues(pod: KubeObject, states: States, stop_by: int | None, now: int) -> Iterable[int]:
    if stop_by is not None and stop_by > now and any(isinstance(state, Running) for state in states.values()):
        yield stop_by
    for state in states.values():
        if isinstance(state, Waiting) and state.reason == "ErrImagePull":
            yield millis(pod["status"]["startTime"]) + RETRY_MILLIS
        elif isinstance(state, Waiting) and state.reason != "ImagePullBackOff":
            yield now + RETRY_MILLIS


def _state(runtime: Runtime, pod: KubeObject, container: str, now: int) -> State | None:
    polled = runtime.poll(pod["metadata"]["uid"], container, now)
    if polled is not None:
        return polled
    written = written_state(pod, container)
    # Said to run and not to be found: its node was wiped or its machine began anew. It must not start a second time.
    return lost(now, written.started) if isinstance(written, Running) else written


def _stop_by(pod: KubeObject, states: States) -> int | None:
    """The moment by which all of the pod must have ended; None while it may run on."""
    if "deletionTimestamp" in pod["metadata"]:
        return millis(pod["metadata"]["deletionTimestamp"])
    if not is_over(pod, states):
        return None
    ends = [state.finished for state in states.values() if isinstance(state, Ended)]
    return max(ends) + int(pod["spec"]["terminationGracePeriodSeconds"]) * 1000


def _start(objects: Objects, runtime: Runtime, images: Sequence[str], pod: KubeObject, states: States, now: int) -> None:
    def config_map(namespace: str, name: str) -> Texts | None:
        found = objects.get("ConfigMap", namespace, name)
        return None if found is None else found.get("data") or {}

    tried: set[str] = set()
    while nexts := [one for one in _startable(pod, states) if one["name"] not in tried]:
        for container in nexts:
            tried.add(container["name"])
            waiting = _unpulled(pod, container["image"], images, now)
            if waiting is None:
                is_init = any(one["name"] == container["name"] for one in inits(pod))
                waiting = runtime.start(Launch(pod, container, is_init, config_map), now)
            states[container["name"]] = waiting or _state(runtime, pod, container["name"], now)


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
