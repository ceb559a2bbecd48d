"""The types of the fields that a region reads, so that nothing of a wrong type gets past its API server.

Decides types and what must be there, as far as anything here reads it; values are the other rules'. A shape is a type
(`str`, `int`, `bool`), the known fields of a map, each with its shape (`name!` must be there, other fields may be anything), a
list of one shape, or `TEXTS`, a map of strings. Null is as good as absent, as the API reads it.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from reconciler.adapters.local.denial import Subject, expect_list, expect_map, expect_number, expect_text, invalid, mistyped

TEXTS: Final = {"*": str}

Shape = type | Mapping[str, Any] | tuple["_Field", ...] | list[Any]


class _Field(NamedTuple):
    """One known field of a map."""

    name: str
    needed: bool
    shape: Any


def _read(shape: Any) -> Shape:
    """A shape as it is written here, in the form that is checked by: every spec meets hundreds of fields."""
    if isinstance(shape, list):
        return [_read(shape[0])]
    if isinstance(shape, Mapping) and shape is not TEXTS:
        return tuple(_Field(name.removesuffix("!"), name.endswith("!"), _read(inner)) for name, inner in shape.items())
    return shape  # type: ignore[no-any-return]


METADATA: Final = _read(
    {
        "name": str,
        "namespace": str,
        "labels": TEXTS,
        "annotations": TEXTS,
        "finalizers": [str],
        "ownerReferences": [{"kind!": str, "name!": str, "uid!": str, "controller": bool}],
    }
)
_KEY: Final = {"name!": str, "key!": str, "optional": bool}
_ITEMS: Final = {"optional": bool, "items": [{"key!": str, "path!": str}]}
_VALUE_FROM: Final = {"fieldRef": {"fieldPath!": str}, "secretKeyRef": _KEY, "configMapKeyRef": _KEY}
_CONTAINER: Final = {
    "name!": str,
    "image!": str,
    "restartPolicy": str,
    "command": [str],
    "args": [str],
    "workingDir": str,
    "env": [{"name!": str, "value": str, "valueFrom": _VALUE_FROM}],
    "envFrom": [{"prefix": str, "configMapRef": {"name!": str, "optional": bool}, "secretRef": {"name!": str, "optional": bool}}],
    "resources": {"limits": {}, "requests": {}},
    "volumeMounts": [{"name!": str, "mountPath!": str, "subPath": str}],
}
_VOLUME: Final = {
    "name!": str,
    "emptyDir": {},
    "configMap": {"name!": str, **_ITEMS},
    "secret": {"secretName!": str, **_ITEMS},
    "persistentVolumeClaim": {"claimName!": str},
    "hostPath": {"path!": str},
}
_EXPRESSION: Final = {"key!": str, "operator!": str, "values": [str]}
_TERM: Final = {"matchExpressions": [_EXPRESSION], "matchFields": [_EXPRESSION]}
_NODE_AFFINITY: Final = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms!": [_TERM]}}
_PEER_AFFINITY: Final[dict[str, Any]] = {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}
POD: Final = _read(
    {
        "restartPolicy": str,
        "terminationGracePeriodSeconds": int,
        "containers!": [_CONTAINER],
        "initContainers": [_CONTAINER],
        "volumes": [_VOLUME],
        "nodeName": str,
        "nodeSelector": TEXTS,
        "hostname": str,
        "subdomain": str,
        "schedulerName": str,
        "priorityClassName": str,
        "schedulingGates": [{"name!": str}],
        "tolerations": [{"key": str, "operator": str, "value": str, "effect": str, "tolerationSeconds": int}],
        "affinity": {"nodeAffinity": _NODE_AFFINITY, "podAffinity": _PEER_AFFINITY, "podAntiAffinity": _PEER_AFFINITY},
        "topologySpreadConstraints": [{"whenUnsatisfiable": str}],
        "overhead": {},
    }
)
JOB: Final = _read(
    {
        "suspend": bool,
        "completionMode": str,
        "podReplacementPolicy": str,
        "parallelism": int,
        "completions": int,
        "backoffLimit": int,
        "activeDeadlineSeconds": int,
        "template!": {"metadata": {"labels": TEXTS, "annotations": TEXTS}, "spec!": POD},
    }
)


def check_shape(subject: Subject, path: str, value: Any, shape: Shape) -> None:
    """Raises Denied for the first field that has the wrong type or is missing."""
    if value is None:
        return
    if isinstance(shape, list):
        for at, item in enumerate(expect_list(subject, path, value)):
            if item is None:
                raise mistyped(subject, f"{path}[{at}]", "a value", item)
            check_shape(subject, f"{path}[{at}]", item, shape[0])
    elif isinstance(shape, tuple):
        _check_fields(subject, path, expect_map(subject, path, value), shape)
    elif shape is TEXTS:
        for key, text in expect_map(subject, path, value).items():
            expect_text(subject, f"{path}.{key}", text)
    else:
        _check_plain(subject, path, value, shape)


def _check_plain(subject: Subject, path: str, value: Any, shape: Shape) -> None:
    if shape is bool:
        if not isinstance(value, bool):
            raise mistyped(subject, path, "boolean", value)
    elif shape is int:
        expect_number(subject, path, value)
    else:
        expect_text(subject, path, value)


def _check_fields(subject: Subject, path: str, fields: Mapping[str, Any], known: tuple[_Field, ...]) -> None:
    for name, needed, shape in known:
        value = fields.get(name)
        if needed and value in (None, "", []):
            raise invalid(subject, f"{path}.{name}", "Required value")
        if value is not None:
            check_shape(subject, f"{path}.{name}", value, shape)
