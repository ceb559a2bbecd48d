"""What a job may change of its pod, and what it may not name as its own.

Decides by the region's list (`overlay_allowed`): a field that is not on it is refused. Fields that reach beyond the pod
(the host, other people's places, rights) need a line of their own: `volumes` does not carry `volumes.hostPath`. What the
protocol of grants rests on is refused whatever the list says.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.model.job import JobSpec
from reconciler.model.job_parts import JsonObject
from reconciler.model.pods import MAIN
from reconciler.model.quantity import milli
from reconciler.model.region import Region
from reconciler.rendering.environment import reserved_names
from reconciler.rendering.labels import is_reserved
from reconciler.rendering.quoting import quoted
from reconciler.rendering.shapes import POD, SOURCES, Path, Shape, dotted, misfits
from reconciler.rendering.steps import is_step

NEVER = frozenset(
    {
        "activeDeadlineSeconds",  # set by the agent at the release
        "automountServiceAccountToken",
        "ephemeralContainers",
        "hostname", "hostnameOverride", "setHostnameAsFQDN", "subdomain",  # how the nodes of a job find each other
        "nodeName",  # a pod with a node passes by the scheduler
        "overhead",  # belongs to the runtime class
        "resources",  # of the pod as a whole: not in the accounts
        "restartPolicy",
        "schedulingGates", "schedulingGroup",
        "terminationGracePeriodSeconds",  # `grace_seconds` of the spec
    }
)  # fmt: skip
"""Fields of the pod that no list can allow."""

_HARMLESS_SOURCES = frozenset({"configMap", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "secret"})
_SENSITIVE_IN_CONTAINER = (
    "lifecycle", "ports.hostIP", "ports.hostPort", "resizePolicy", "resources.claims", "restartPolicyRules", "volumeDevices",
    "volumeMounts.mountPropagation",
    *(f"securityContext.{field}" for field in (
        "allowPrivilegeEscalation", "appArmorProfile", "capabilities", "privileged", "procMount", "seLinuxOptions",
        "seccompProfile", "windowsOptions",
    )),
)  # fmt: skip
SENSITIVE = frozenset(
    {
        "hostIPC", "hostNetwork", "hostPID", "hostUsers", "preemptionPolicy", "priority", "priorityClassName", "resourceClaims",
        "runtimeClassName", "schedulerName", "serviceAccount", "serviceAccountName", "shareProcessNamespace", "tolerations",
        "securityContext.appArmorProfile", "securityContext.seLinuxOptions", "securityContext.seccompProfile",
        "securityContext.sysctls", "securityContext.windowsOptions",
        *(f"volumes.{source}" for source in SOURCES.keys() - _HARMLESS_SOURCES),
        *(f"{kind}.{field}" for kind in ("containers", "initContainers") for field in _SENSITIVE_IN_CONTAINER),
    }
)  # fmt: skip
"""Fields that are allowed by a line of their own only."""


def overlay_problems(spec: JobSpec, region: Region) -> list[str]:
    """Why this region does not take the spec's `pod_overlay`: `<field>: <why>`, dotted; empty where it does."""
    overlay = spec.pod_overlay
    if not overlay:
        return []
    wrong = partial_problems(overlay)
    if overlay.keys() & {"metadata", "spec"}:
        wrong.append("pod_overlay: stands for the pod's spec itself; labels go into `labels`")
    if wrong:
        return wrong
    refused = dict.fromkeys(field for field in _fields(overlay, POD, ()) if not _is_allowed(field, region.overlay_allowed))
    wrong = [f"{field}: {_refusal(field, region.name)}" for field in refused]
    return [*wrong, *_taken_names(spec)]


def partial_problems(partial: JsonObject) -> list[str]:
    """Why a partial pod, of a job or of a region, cannot be merged into a pod: `<field>: <why>`, dotted."""
    wrong = [f"{dotted(path)}: {what}" for path, what in misfits(partial, POD)]
    wrong += [f"{dotted(path)}: {what}" for path, what in _unprintable(partial, ())]
    return wrong or list(_bad_amounts(partial))


def reserved_problems(spec: JobSpec) -> list[str]:
    """Labels and variables of the spec that are not its own to set: `<field>: <why>`. They would be left out."""
    ours = reserved_names(spec)
    wrong = [f"labels.{key}: belongs to another controller; use a domain of your own" for key in spec.labels if is_reserved(key)]
    wrong += [f"env.{name}: is set by the reconciler; use another name" for name in spec.env if name in ours]
    wrong += [f"secrets.env: `{use.env}` is set by the reconciler; use another name" for use in spec.secrets if use.env in ours]
    return wrong


def _refusal(field: str, region: str) -> str:
    if _top(field) in NEVER:
        return "cannot be changed by a job"
    return f"{region} does not allow it; ask whoever runs the region for a line `{field}` in `overlay_allowed`"


def _top(field: str) -> str:
    return field.partition(".")[0]


def _is_under(field: str, other: str) -> bool:
    return field == other or field.startswith(other + ".")


def _is_allowed(field: str, allowed: tuple[str, ...]) -> bool:
    if _top(field) in NEVER:
        return False
    needed = next((other for other in SENSITIVE if _is_under(field, other)), None)
    return any(_is_under(field, line) and (needed is None or _is_under(line, needed)) for line in allowed)


def _fields(value: Any, shape: Shape, path: tuple[str, ...]) -> Iterator[str]:
    """Dotted names (without positions) of the fields that a partial pod sets, as deep as the tables go."""
    if isinstance(shape, list) and value:
        for item in value:
            yield from _fields(item, shape[0], path)
    elif isinstance(shape, Mapping) and value:
        for key, item in value.items():
            if not (key == "name" and _only_addresses(value, path)):
                yield from _fields(item, shape[key], (*path, key))
    else:
        yield ".".join(path)


def _only_addresses(entry: Mapping[str, Any], path: tuple[str, ...]) -> bool:
    """Whether the name of a list's entry only says which one is meant: the program's container, or one with more to say."""
    if path == ("containers",):
        return bool(entry["name"] == MAIN)
    return path[-1:] in {("env",), ("volumes",), ("volumeMounts",)} and len(entry) > 1


def _unprintable(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _unprintable_alone({key: None}, path)
            yield from _unprintable(item, (*path, str(key)))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _unprintable(item, (*path, index))
    else:
        yield from _unprintable_alone(value, path)


def _unprintable_alone(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    try:
        quoted(value)
    except (TypeError, ValueError) as error:
        yield path, f"cannot be written as YAML: {error}"


def _taken_names(spec: JobSpec) -> list[str]:
    ours = reserved_names(spec)
    found = []
    for kind in ("containers", "initContainers"):
        for container in spec.pod_overlay.get(kind, ()):
            if is_step(container.get("name", MAIN)) or (kind == "initContainers" and container.get("name", MAIN) == MAIN):
                found.append(f"{kind}.name: `{container.get('name', MAIN)}` is a container of the reconciler; use another name")
            names = [variable.get("name") for variable in container.get("env", ())]
            found += [f"{kind}.env: `{name}` is set by the reconciler; use another name" for name in names if name in ours]
    return found


def _bad_amounts(partial: JsonObject) -> Iterator[str]:
    for kind in ("containers", "initContainers"):
        for container in partial.get(kind, ()):
            for part in ("requests", "limits"):
                for name, amount in container.get("resources", {}).get(part, {}).items():
                    if not _is_amount(amount):
                        yield f"{kind}.resources.{part}.{name}: is no quantity of Kubernetes, such as `4`, `500m` or `64Gi`"


def _is_amount(amount: str | float) -> bool:
    try:
        return milli(amount if isinstance(amount, int) else str(amount)) >= 0
    except (ArithmeticError, ValueError):
        return False
