"""A pod's status as the kubelet writes it, from the states of its containers; pure.

Decides phase, conditions and container statuses. What is started and stopped is `kubelet`'s. Invariant: a terminal phase
is written only when no container of the pod runs.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from reconciler.adapters.local.moments import millis, stamp
from reconciler.adapters.local.runtime import UNKNOWN, Ended, Running, State, Waiting
from reconciler.ports import KubeObject

States = Mapping[str, State | None]
"""Container name → its state; None for one that was not started."""

HOST = "127.0.0.1"


def inits(pod: KubeObject) -> Sequence[KubeObject]:
    """The init containers, in order."""
    return pod["spec"].get("initContainers") or ()


def mains(pod: KubeObject) -> Sequence[KubeObject]:
    """The containers."""
    return pod["spec"]["containers"]  # type: ignore[no-any-return]


def is_sidecar(container: KubeObject) -> bool:
    """Whether an init container runs on beside the others."""
    return container.get("restartPolicy") == "Always"


def is_over(pod: KubeObject, states: States) -> bool:
    """Whether the pod has done, well or ill, all that it was to do; sidecars may still run."""
    return init_failed(pod, states) or all(isinstance(states[one["name"]], Ended) for one in mains(pod))


def init_failed(pod: KubeObject, states: States) -> bool:
    """Whether an init container ended badly, so that the rest never starts."""
    ended = [states[one["name"]] for one in inits(pod) if not is_sidecar(one)]
    return any(isinstance(state, Ended) and state.code != 0 for state in ended)


def phase_of(pod: KubeObject, states: States) -> str:
    """The pod's phase."""
    if is_over(pod, states) and not any(isinstance(state, Running) for state in states.values()):
        ends = [states[one["name"]] for one in mains(pod)]
        failed = init_failed(pod, states) or any(isinstance(end, Ended) and end.code for end in ends)
        return "Failed" if failed else "Succeeded"
    started = all(isinstance(states[one["name"]], Running | Ended) for one in mains(pod))
    return "Running" if started else "Pending"


def pod_status(pod: KubeObject, states: States, now: int) -> dict[str, Any]:
    """The whole status."""
    phase = phase_of(pod, states)
    ready = phase == "Running" and all(isinstance(states[one["name"]], Running) for one in mains(pod))
    initialised = phase == "Succeeded" or all(_init_done(one, states[one["name"]]) for one in inits(pod))
    status: dict[str, Any] = {"hostIP": HOST, "podIP": HOST, "startTime": stamp(now), **pod["status"], "phase": phase}
    unready = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(phase, "ContainersNotReady")
    for kind in ("ContainersReady", "Ready"):
        status = with_pod_condition(status, kind, str(ready), "" if ready else unready, "", now)
    uninitialised = "" if initialised else "ContainersNotInitialized"
    status = with_pod_condition(status, "Initialized", str(initialised), uninitialised, "", now)
    not_begun = Waiting("PodInitializing" if inits(pod) else "ContainerCreating", "")
    status["containerStatuses"] = [_container_status(one, states[one["name"]], not_begun) for one in mains(pod)]
    if inits(pod):
        status["initContainerStatuses"] = [_container_status(one, states[one["name"]], not_begun) for one in inits(pod)]
    return status


def with_pod_condition(status: Mapping[str, Any], kind: str, value: str, reason: str, message: str, now: int) -> dict[str, Any]:
    """A pod's status with that condition; its time of transition moves only when `value` does."""
    conditions = list(status.get("conditions") or ())
    old = next((item for item in conditions if item["type"] == kind), None)
    at = old["lastTransitionTime"] if old and old["status"] == value else stamp(now)
    new = {"type": kind, "status": value, "lastTransitionTime": at}
    new |= {field: text for field, text in (("reason", reason), ("message", message)) if text}
    others = [item for item in conditions if item["type"] != kind]
    return {**status, "conditions": sorted([*others, new], key=lambda item: str(item["type"]))}


def written_state(pod: KubeObject, container: str) -> State | None:
    """What the pod's status says of a container, for one that the runtime does not know (any more)."""
    statuses = (*(pod["status"].get("initContainerStatuses") or ()), *(pod["status"].get("containerStatuses") or ()))
    state: KubeObject = next((item["state"] for item in statuses if item["name"] == container), {})
    if "terminated" in state:
        said = state["terminated"]
        times = millis(said["startedAt"]), millis(said["finishedAt"])
        return Ended(said["exitCode"], said["reason"], said.get("message", ""), *times)
    if "running" in state:
        return Running(millis(state["running"]["startedAt"]))
    return None


def lost(now: int, started: int | None = None) -> Ended:
    """The end of a container that cannot be found."""
    message = "The container could not be located when the pod was terminated"
    return Ended(137, UNKNOWN, message, now if started is None else started, now)


def _init_done(container: KubeObject, state: State | None) -> bool:
    if is_sidecar(container):
        return isinstance(state, Running | Ended)
    return isinstance(state, Ended) and state.code == 0


def _container_status(container: KubeObject, state: State | None, not_begun: Waiting) -> dict[str, Any]:
    running = isinstance(state, Running)
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": running,
        "started": running,
        "restartCount": 0,
        "lastState": {},
        "state": _written(state or not_begun),
    }


def _written(state: State) -> dict[str, Any]:
    match state:
        case Waiting(reason, message):
            return {"waiting": {"reason": reason} | ({"message": message} if message else {})}
        case Running(started):
            return {"running": {"startedAt": stamp(started)}}
        case Ended(code, reason, message, started, finished):
            said = {"exitCode": code, "reason": reason, "startedAt": stamp(started), "finishedAt": stamp(finished)}
            return {"terminated": said | ({"message": message} if message else {})}
