"""What a pod requests, and how partial pods are merged. One rule for the agent's accounts, the planner and the renderer.

Requests follow Kubernetes' own rule (KEP-753): the larger of what runs together and what each init step needs beside the
sidecars started before it, plus overhead. A request left out is the limit.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from reconciler.model.attempt import Needs
from reconciler.model.job import JobSpec
from reconciler.model.quantity import milli, whole
from reconciler.model.region import Profile

MAIN = "main"
"""Name of the container that runs the program."""
DEFAULT_SHM = "64Gi"

PodSpec = Mapping[str, Any]
Totals = dict[str, int]
"""Resource name → amount; CPU in thousandths of a core, all else in its own unit."""


def literal(text: str) -> str:
    """`text` so that it is still `text` after Kubernetes has replaced `$(NAME)` and `$$` in it."""
    return text.replace("$", "$$")


def _of(resources: Mapping[str, Any] | None) -> Totals:
    asked = dict((resources or {}).get("limits") or {}) | dict((resources or {}).get("requests") or {})
    return {name: milli(value) if name == "cpu" else whole(value) for name, value in asked.items()}


def _plus(one: Mapping[str, int], other: Mapping[str, int]) -> Totals:
    return {name: one.get(name, 0) + other.get(name, 0) for name in one.keys() | other.keys()}


def _larger(one: Mapping[str, int], other: Mapping[str, int]) -> Totals:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in one.keys() | other.keys()}


def pod_requests(spec: PodSpec) -> Totals:
    """What the scheduler sets aside for a pod of this spec. Raises ArithmeticError for what is no quantity."""
    sidecars: Totals = {}
    peak: Totals = {}
    for container in spec.get("initContainers") or ():
        own = _of(container.get("resources"))
        peak = _larger(peak, _plus(sidecars, own))
        if container.get("restartPolicy") == "Always":
            sidecars = _plus(sidecars, own)
    together = sidecars
    for container in spec.get("containers") or ():
        together = _plus(together, _of(container.get("resources")))
    overhead = {name: milli(value) if name == "cpu" else whole(value) for name, value in (spec.get("overhead") or {}).items()}
    return _plus(_larger(peak, together), overhead)


_NAMED_LISTS = frozenset({"containers", "initContainers", "env", "volumes", "imagePullSecrets", "resourceClaims"})


def merge_pod(base: Any, overlay: Any, field: str = "") -> Any:
    """`overlay` over `base`: maps by key, named lists by `name`, mounts by `mountPath`; other lists are appended.

    A container of the overlay without a name is the main one.
    """
    if isinstance(base, Mapping) and isinstance(overlay, Mapping):
        merged = dict(base)
        for key, value in overlay.items():
            merged[key] = merge_pod(base[key], value, key) if key in base else _named(value, key)
        return merged
    if isinstance(base, list | tuple) and isinstance(overlay, list | tuple):
        return _merge_lists(base, _named(overlay, field), field)
    return overlay


def _named(value: Any, field: str) -> Any:
    if field == "containers" and isinstance(value, list | tuple):
        return [{"name": MAIN, **item} if isinstance(item, Mapping) else item for item in value]
    return value


def _merge_lists(base: Sequence[Any], overlay: Sequence[Any], field: str) -> list[Any]:
    key = "mountPath" if field == "volumeMounts" else "name" if field in _NAMED_LISTS else None
    merged = list(base)
    for item in overlay:
        at = next((index for index, old in enumerate(merged) if key and old.get(key) == item.get(key)), None)
        if at is None:
            merged.append(item)
        else:
            merged[at] = merge_pod(merged[at], item)
    return merged


def main_resources(spec: JobSpec, profile: Profile) -> dict[str, str]:
    """Resource requests of the main container, as quantities: the job's own, else what the region gives per GPU."""
    gpus = spec.gpu.count
    cpu = spec.resources.cpu or (f"{milli(profile.cpu_per_gpu) * gpus}m" if gpus else profile.cpu_without_gpu)
    memory = spec.resources.memory or (str(whole(profile.memory_per_gpu) * gpus) if gpus else profile.memory_without_gpu)
    asked = {"cpu": cpu, "memory": memory}
    if spec.resources.ephemeral_storage:
        asked["ephemeral-storage"] = spec.resources.ephemeral_storage
    if gpus:
        asked[profile.gpu_resource] = str(gpus)
    if profile.rdma is not None and wants_rdma(spec):
        asked |= profile.rdma.resources
    return asked


def wants_rdma(spec: JobSpec) -> bool:
    """Whether it uses RDMA where there is some: it says so, or it is synchronous on several nodes and says nothing."""
    return spec.network == "rdma" or (spec.network is None and spec.communication_mode == "sync" and spec.nodes > 1)


def node_needs(spec: JobSpec, profile: Profile) -> Needs:
    """What each node of the job requests in a region of that profile, overlays included."""
    main: dict[str, Any] = {"name": MAIN, "resources": {"requests": main_resources(spec, profile)}}
    pod: dict[str, Any] = {"containers": [main]}
    for overlay in (profile.rdma.pod if profile.rdma and wants_rdma(spec) else {}, profile.pod, spec.pod_overlay):
        if overlay:
            pod = merge_pod(pod, overlay)
    asked = pod_requests(pod)
    return Needs(
        gpus=asked.get(profile.gpu_resource, 0),
        cpu_milli=asked.get("cpu", 0),
        memory_bytes=asked.get("memory", 0),
        disk_bytes=asked.get("ephemeral-storage", 0),
    )


def overlay_fields(overlay: object, path: str = "") -> list[str]:
    """Dotted names of the pod fields that an overlay sets; list items have no name of their own."""
    if isinstance(overlay, dict) and overlay:
        return [field for key, value in overlay.items() for field in overlay_fields(value, f"{path}.{key}" if path else key)]
    if isinstance(overlay, list | tuple) and any(isinstance(item, dict) for item in overlay):
        return [field for item in overlay for field in overlay_fields(item, path) if field != f"{path}.name"]
    return [path] if path else []
