"""The pod of an attempt: the program, what the region adds, what the overlay changes, and what nobody may change.

Decides the order of these. Region and overlay are merged by the model's one rule (`merge_pod`), in the order in which the
accounts read them (`node_needs`), so that what is rendered asks for exactly what was planned.

Invariants: the gate is there and the only one; nothing restarts by itself; no token of Kubernetes is in the pod; the
chosen GPU model binds, whatever else says where the pod may go.
"""

from typing import Any

from reconciler.model.names import GATE
from reconciler.model.pods import MAIN, main_resources, merge_pod
from reconciler.model.quantity import milli, whole
from reconciler.model.region import Toleration
from reconciler.rendering.environment import processes_per_node, variables
from reconciler.rendering.rendering import Rendering, Unrenderable, canonical
from reconciler.rendering.steps import steps
from reconciler.rendering.volumes import mounted

_WITHOUT_LIMIT = frozenset({"cpu", "ephemeral-storage"})
"""Requests that are no limits as well. For devices and huge pages Kubernetes wants both equal; memory is not overcommitted."""

TORCHRUN = (
    "--node_rank=$(NODE_RANK)",
    "--master_addr=$(MASTER_ADDR)",
    "--master_port=$(MASTER_PORT)",
)  # the spelling with `_` is read by every release of torchrun


def pod_spec(rendering: Rendering) -> dict[str, Any]:
    """The pod's spec as plain JSON values. Raises Unrenderable."""
    pod = _base(rendering)
    for partial in (*rendering.regional_pods, rendering.spec.pod_overlay):
        pod = merge_pod(pod, canonical(partial))
    containers = [_with_defaults(container) for container in pod["containers"]]
    main = next(container for container in containers if container["name"] == MAIN)
    main["resources"] = _balanced(main["resources"])
    initial = [*steps(rendering, main), *pod.get("initContainers", ())]
    pod["containers"] = containers
    if initial:
        pod["initContainers"] = [_with_defaults(container) for container in initial]
    if rendering.gpu_products and rendering.spec.gpu.count:
        pod["affinity"] = _bound_to(pod.get("affinity", {}), rendering.profile.gpu_label, rendering.gpu_products)
    return _not_to_be_changed(rendering) | {key: value for key, value in pod.items() if key not in _FIXED}


_FIXED = frozenset(
    {"restartPolicy", "terminationGracePeriodSeconds", "schedulingGates", "automountServiceAccountToken", "subdomain"}
)


def _not_to_be_changed(rendering: Rendering) -> dict[str, Any]:
    fixed: dict[str, Any] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": rendering.spec.grace_seconds,
        "schedulingGates": [{"name": GATE}],
        "automountServiceAccountToken": False,
    }
    return fixed | {"subdomain": rendering.attempt} if rendering.has_peers else fixed


def _base(rendering: Rendering) -> dict[str, Any]:
    spec, profile = rendering.spec, rendering.profile
    places = mounted(rendering)
    # Without it every Service of the namespace adds variables, which differ from region to region.
    pod: dict[str, Any] = {"enableServiceLinks": False}
    if profile.runtime_class is not None:
        pod["runtimeClassName"] = profile.runtime_class
    if profile.scheduler_name is not None:
        pod["schedulerName"] = profile.scheduler_name
    elif rendering.has_volcano_gang:
        pod["schedulerName"] = "volcano"
    if profile.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in profile.image_pull_secrets]
    if spec.tolerations:
        pod["tolerations"] = [_toleration(profile.tolerations, name) for name in spec.tolerations]
    pod["containers"] = [_main(rendering, [mount for place in places for mount in place.mounts])]
    if places:
        pod["volumes"] = [place.volume for place in places]
    return pod


def _toleration(known: dict[str, Toleration], name: str) -> dict[str, str]:
    toleration = known.get(name)
    if toleration is None:
        raise Unrenderable(f"the region knows no toleration `{name}` (`profile.tolerations`)")
    # A value means Equal: Kubernetes refuses `Exists` with one.
    operator = toleration.operator if toleration.value is None else "Equal"
    said = {"key": toleration.key, "operator": operator, "value": toleration.value, "effect": toleration.effect}
    return {key: value for key, value in said.items() if value is not None}


def _main(rendering: Rendering, mounts: list[dict[str, Any]]) -> dict[str, Any]:
    spec = rendering.spec
    container: dict[str, Any] = {"name": MAIN, "image": rendering.main_image}
    command = _torchrun(rendering) if spec.launcher == "torchrun" else list(spec.command)
    if command:
        container["command"] = command
    if spec.args:
        container["args"] = list(spec.args)
    if spec.working_dir is not None:
        container["workingDir"] = spec.working_dir
    container["env"] = variables(rendering)
    container["resources"] = {"requests": main_resources(spec, rendering.profile)}
    if mounts:
        container["volumeMounts"] = mounts
    return container


def _torchrun(rendering: Rendering) -> list[str]:
    spec = rendering.spec
    return ["torchrun", f"--nnodes={spec.nodes}", f"--nproc_per_node={processes_per_node(spec)}", *TORCHRUN]


def _balanced(resources: dict[str, Any]) -> dict[str, Any]:
    """Limits that agree with the requests: equal for devices and memory, none below its request."""
    requests, limits = resources.get("requests", {}), dict(resources.get("limits", {}))
    for name, asked in requests.items():
        given = limits.get(name)
        if name in _WITHOUT_LIMIT:
            if given is not None and milli(given) < milli(asked):
                limits[name] = asked
        elif given is None or name != "memory" or whole(given) < whole(asked):
            limits[name] = asked
    return {**resources, "requests": requests, "limits": limits}


def _with_defaults(container: dict[str, Any]) -> dict[str, Any]:
    """No way to more rights than it began with, unless it was given them or says so itself."""
    context = container.get("securityContext", {})
    added = context.get("capabilities", {}).get("add", ())
    # Kubernetes refuses the one with the other.
    has_rights = context.get("privileged") is True or "SYS_ADMIN" in added or "CAP_SYS_ADMIN" in added
    if has_rights or "allowPrivilegeEscalation" in context:
        return dict(container)
    return {**container, "securityContext": {**context, "allowPrivilegeEscalation": False}}


def _bound_to(affinity: dict[str, Any], label: str, products: tuple[str, ...]) -> dict[str, Any]:
    """`affinity`, and on nodes of these products only: terms are alternatives, so each of them gets the condition."""
    condition = {"key": label, "operator": "In", "values": list(products)}
    on_nodes = affinity.get("nodeAffinity", {})
    required = on_nodes.get("requiredDuringSchedulingIgnoredDuringExecution", {})
    terms = [
        {**term, "matchExpressions": [*term.get("matchExpressions", ()), condition]}
        for term in required.get("nodeSelectorTerms", ())
    ] or [{"matchExpressions": [condition]}]
    bound = {"requiredDuringSchedulingIgnoredDuringExecution": {**required, "nodeSelectorTerms": terms}}
    return {**affinity, "nodeAffinity": {**on_nodes, **bound}}
