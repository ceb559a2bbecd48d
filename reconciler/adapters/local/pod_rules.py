"""What a pod spec must be to be taken, and what is filled in where it says nothing.

Decides for pods and for the pod templates of Jobs alike, after `shapes` has seen to the types. What would make a pod run
otherwise than on Kubernetes (required pod affinity, restarts) is refused, never ignored. Probes, lifecycle hooks,
security contexts and image pull policies are taken and have no effect here.
"""

import re
from collections.abc import Mapping
from typing import Any

from reconciler.adapters.local.denial import Subject, invalid, not_offered
from reconciler.adapters.local.shapes import POD, check_shape
from reconciler.model.quantity import milli

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_LABEL_WORDS = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an "
    "alphanumeric character"
)
_COUNTED_NATIVELY = frozenset(["cpu", "memory", "ephemeral-storage"])
GRACE_SECONDS = 30
"""Kubernetes' own default of terminationGracePeriodSeconds."""


def checked_pod_spec(subject: Subject, path: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The spec with defaults. Raises Denied."""
    check_shape(subject, path, spec, POD)
    if spec.get("restartPolicy") != "Never":
        raise not_offered(subject, f"{path}.restartPolicy", "only Never, a retry is a new attempt")
    _check_placement(subject, path, spec)
    for name, amount in (spec.get("overhead") or {}).items():
        _check_quantity(subject, f"{path}.overhead[{name}]", amount)
    grace = spec.get("terminationGracePeriodSeconds")
    grace = GRACE_SECONDS if grace is None else grace
    if grace < 0:
        raise invalid(
            subject, f"{path}.terminationGracePeriodSeconds", f"Invalid value: {grace}: must be greater than or equal to 0"
        )
    checked = {**spec, "terminationGracePeriodSeconds": grace}
    names: set[str] = set()
    for field in ("initContainers", "containers"):
        if spec.get(field):
            checked[field] = [_container(subject, f"{path}.{field}[{at}]", one, names) for at, one in enumerate(spec[field])]
    return checked


def _container(subject: Subject, path: str, container: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    name = container["name"]
    if not _LABEL.fullmatch(name):
        raise invalid(subject, f"{path}.name", f'Invalid value: "{name}": {_LABEL_WORDS}')
    if name in names:
        raise invalid(subject, f"{path}.name", f'Duplicate value: "{name}"')
    names.add(name)
    for at, variable in enumerate(container.get("env") or ()):
        if variable.get("value") and variable.get("valueFrom"):
            words = "Invalid value: may not be specified when `value` is not empty"
            raise invalid(subject, f"{path}.env[{at}].valueFrom", words)
    for at, source in enumerate(container.get("envFrom") or ()):
        if not (source.get("configMapRef") or source.get("secretRef")):
            raise invalid(subject, f"{path}.envFrom[{at}]", "Required value: a configMapRef or a secretRef")
    return {**container, "resources": _resources(subject, f"{path}.resources", container.get("resources") or {})}


def _resources(subject: Subject, path: str, resources: Mapping[str, Any]) -> dict[str, Any]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for field, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            _check_quantity(subject, f"{path}.{field}[{name}]", amount)
    asked = {**limits, **requests}
    for name, amount in asked.items():
        if name not in _COUNTED_NATIVELY and milli(limits.get(name, amount)) != milli(amount):
            raise invalid(subject, f"{path}.requests", f'Invalid value: "{amount}": must be equal to {name} limit')
    return {**resources, "limits": dict(limits), "requests": asked} if asked else dict(resources)


def _check_quantity(subject: Subject, path: str, amount: Any) -> None:
    try:
        negative = milli(amount) < 0
    except (ArithmeticError, ValueError, TypeError):
        raise invalid(subject, path, f'Invalid value: "{amount}": quantities must match a number and a suffix') from None
    if negative:
        raise invalid(subject, path, f'Invalid value: "{amount}": must be greater than or equal to 0')


def _check_placement(subject: Subject, path: str, spec: Mapping[str, Any]) -> None:
    gates = [gate["name"] for gate in spec.get("schedulingGates") or ()]
    if len(set(gates)) < len(gates):
        raise invalid(subject, f"{path}.schedulingGates", f'Duplicate value: "{gates[-1]}"')
    if gates and spec.get("nodeName"):
        raise invalid(subject, f"{path}.nodeName", "Forbidden: cannot be set until all schedulingGates have been cleared")
    for field in ("podAffinity", "podAntiAffinity"):
        if ((spec.get("affinity") or {}).get(field) or {}).get("requiredDuringSchedulingIgnoredDuringExecution"):
            raise not_offered(subject, f"{path}.affinity.{field}", "its scheduler knows node affinity only; prefer it instead")
    for at, spread in enumerate(spec.get("topologySpreadConstraints") or ()):
        if (spread.get("whenUnsatisfiable") or "DoNotSchedule") == "DoNotSchedule":
            raise not_offered(subject, f"{path}.topologySpreadConstraints[{at}]", "use ScheduleAnyway")
