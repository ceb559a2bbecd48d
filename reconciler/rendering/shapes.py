"""Which fields a pod has, as closed tables: sync engines drop a field that Kubernetes does not know, without a word.

Decides names and rough types only; limits and combinations are the API server's to judge. The names are those of the
core/v1 API (a test compares them with Kubernetes' published schemas). Below the fields that people write most, a map or
list is taken as it is.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

Path = tuple[str | int, ...]
Shape = Any
"""A type, a tuple of types, `[shape]` for a list, `Each(shape)` for a map with keys of any name, or the shapes by field name."""


class Each(NamedTuple):
    """A map whose keys are free and whose values are all of one shape."""

    shape: Shape


TEXT, FLAG, WHOLE = str, bool, int
QUANTITY = (str, int, float)
MAP, LIST, FREE = dict, list, object

TEXTS, QUANTITIES = Each(TEXT), Each(QUANTITY)

AMOUNTS: dict[str, Shape] = {"claims": LIST, "limits": QUANTITIES, "requests": QUANTITIES}
ITEMS = [{"key": TEXT, "mode": WHOLE, "path": TEXT}]

CONTEXT: dict[str, Shape] = {
    "allowPrivilegeEscalation": FLAG, "appArmorProfile": MAP, "capabilities": {"add": [TEXT], "drop": [TEXT]}, "privileged": FLAG,
    "procMount": TEXT, "readOnlyRootFilesystem": FLAG, "runAsGroup": WHOLE, "runAsNonRoot": FLAG, "runAsUser": WHOLE,
    "seLinuxOptions": MAP, "seccompProfile": MAP, "windowsOptions": MAP,
}  # fmt: skip

POD_CONTEXT: dict[str, Shape] = {
    "appArmorProfile": MAP, "fsGroup": WHOLE, "fsGroupChangePolicy": TEXT, "runAsGroup": WHOLE, "runAsNonRoot": FLAG,
    "runAsUser": WHOLE, "seLinuxChangePolicy": TEXT, "seLinuxOptions": MAP, "seccompProfile": MAP, "supplementalGroups": [WHOLE],
    "supplementalGroupsPolicy": TEXT, "sysctls": LIST, "windowsOptions": MAP,
}  # fmt: skip

KEY_OF: dict[str, Shape] = {"key": TEXT, "name": TEXT, "optional": FLAG}
ALL_OF: dict[str, Shape] = {"name": TEXT, "optional": FLAG}

VARIABLE: dict[str, Shape] = {
    "name": TEXT, "value": TEXT,
    "valueFrom": {
        "configMapKeyRef": KEY_OF, "fieldRef": {"apiVersion": TEXT, "fieldPath": TEXT},
        "fileKeyRef": {"key": TEXT, "optional": FLAG, "path": TEXT, "volumeName": TEXT},
        "resourceFieldRef": {"containerName": TEXT, "divisor": QUANTITY, "resource": TEXT}, "secretKeyRef": KEY_OF,
    },
}  # fmt: skip

MOUNT: dict[str, Shape] = {
    "mountPath": TEXT, "mountPropagation": TEXT, "name": TEXT, "readOnly": FLAG, "recursiveReadOnly": TEXT, "subPath": TEXT,
    "subPathExpr": TEXT,
}  # fmt: skip

CONTAINER: dict[str, Shape] = {
    "args": [TEXT], "command": [TEXT], "env": [VARIABLE],
    "envFrom": [{"configMapRef": ALL_OF, "prefix": TEXT, "secretRef": ALL_OF}], "image": TEXT, "imagePullPolicy": TEXT,
    "lifecycle": MAP, "livenessProbe": MAP, "name": TEXT,
    "ports": [{"containerPort": WHOLE, "hostIP": TEXT, "hostPort": WHOLE, "name": TEXT, "protocol": TEXT}],
    "readinessProbe": MAP, "resizePolicy": LIST, "resources": AMOUNTS, "restartPolicy": TEXT, "restartPolicyRules": LIST,
    "securityContext": CONTEXT, "startupProbe": MAP, "stdin": FLAG, "stdinOnce": FLAG, "terminationMessagePath": TEXT,
    "terminationMessagePolicy": TEXT, "tty": FLAG, "volumeDevices": LIST, "volumeMounts": [MOUNT], "workingDir": TEXT,
}  # fmt: skip

SOURCES: dict[str, Shape] = {
    **dict.fromkeys(
        (
            "awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "csi", "downwardAPI", "ephemeral", "fc",
            "flexVolume", "flocker", "gcePersistentDisk", "gitRepo", "glusterfs", "hostPath", "image", "iscsi", "nfs",
            "photonPersistentDisk", "portworxVolume", "projected", "quobyte", "rbd", "scaleIO", "storageos", "vsphereVolume",
        ),
        MAP,
    ),
    "configMap": {"defaultMode": WHOLE, "items": ITEMS, "name": TEXT, "optional": FLAG},
    "emptyDir": {"medium": TEXT, "sizeLimit": QUANTITY},
    "persistentVolumeClaim": {"claimName": TEXT, "readOnly": FLAG},
    "secret": {"defaultMode": WHOLE, "items": ITEMS, "optional": FLAG, "secretName": TEXT},
}  # fmt: skip
"""Where a volume's bytes can come from; a volume has exactly one."""

TOLERATION: dict[str, Shape] = {"effect": TEXT, "key": TEXT, "operator": TEXT, "tolerationSeconds": WHOLE, "value": TEXT}

CONDITIONS = [{"key": TEXT, "operator": TEXT, "values": [TEXT]}]
TERM: dict[str, Shape] = {"matchExpressions": CONDITIONS, "matchFields": CONDITIONS}
NODES: dict[str, Shape] = {
    "preferredDuringSchedulingIgnoredDuringExecution": [{"preference": TERM, "weight": WHOLE}],
    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]},
}

POD: dict[str, Shape] = {
    "activeDeadlineSeconds": WHOLE, "affinity": {"nodeAffinity": NODES, "podAffinity": MAP, "podAntiAffinity": MAP},
    "automountServiceAccountToken": FLAG, "containers": [CONTAINER], "dnsConfig": MAP, "dnsPolicy": TEXT,
    "enableServiceLinks": FLAG, "ephemeralContainers": LIST, "hostAliases": LIST, "hostIPC": FLAG, "hostNetwork": FLAG,
    "hostPID": FLAG, "hostUsers": FLAG, "hostname": TEXT, "hostnameOverride": TEXT, "imagePullSecrets": [{"name": TEXT}],
    "initContainers": [CONTAINER], "nodeName": TEXT, "nodeSelector": TEXTS, "os": MAP, "overhead": QUANTITIES,
    "preemptionPolicy": TEXT, "priority": WHOLE, "priorityClassName": TEXT, "readinessGates": LIST, "resourceClaims": LIST,
    "resources": AMOUNTS, "restartPolicy": TEXT, "runtimeClassName": TEXT, "schedulerName": TEXT,
    "schedulingGates": [{"name": TEXT}], "schedulingGroup": MAP, "securityContext": POD_CONTEXT, "serviceAccount": TEXT,
    "serviceAccountName": TEXT, "setHostnameAsFQDN": FLAG, "shareProcessNamespace": FLAG, "subdomain": TEXT,
    "terminationGracePeriodSeconds": WHOLE, "tolerations": [TOLERATION], "topologySpreadConstraints": LIST,
    "volumes": [{"name": TEXT, **SOURCES}],
}  # fmt: skip


def dotted(path: Path) -> str:
    """A path as people write it: `containers[0].env[2].name`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def misfits(value: Any, shape: Shape, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Where `value` is not of the shape: unknown fields, and values of another type."""
    if isinstance(shape, dict | Each):
        yield from _misfit_fields(value, shape, path)
    elif isinstance(shape, list):
        if not isinstance(value, list):
            yield path, f"must be a list, not {_called(value)}"
            return
        for index, item in enumerate(value):
            yield from misfits(item, shape[0], (*path, index))
    elif not isinstance(value, shape) or (isinstance(value, bool) and shape not in (FLAG, FREE)):
        expected = shape if isinstance(shape, tuple) else (shape,)
        yield path, f"must be {' or '.join(_NAMES[kind] for kind in expected)}, not {_called(value)}"


def _misfit_fields(value: Any, shape: dict[str, Shape] | Each, path: Path) -> Iterator[tuple[Path, str]]:
    if not isinstance(value, dict):
        yield path, f"must be a map, not {_called(value)}"
        return
    for key, item in value.items():
        if not isinstance(key, str):
            yield path, f"has a key that is {_called(key)}, not text"
        elif isinstance(shape, Each):
            yield from misfits(item, shape.shape, (*path, key))
        elif key in shape:
            yield from misfits(item, shape[key], (*path, key))
        else:
            yield (*path, key), "is no field of Kubernetes here"


_NAMES: Mapping[type, str] = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    dict: "a map",
    list: "a list",
}


def _called(value: Any) -> str:
    return "nothing" if value is None else _NAMES.get(type(value), type(value).__name__)
