"""The fields that Kubernetes 1.36 knows of the objects a region gets, and dropping of those that it does not know.

A kube-apiserver accepts a misspelt field of what a sync engine applies and drops it silently; so does this one, where
our rendered objects have fields: the Job, its pod template, the containers. What the fields may hold is admission's.
"""

from collections.abc import Mapping
from typing import Any

from reconciler.ports import KubeObject

_OBJECT = frozenset(["apiVersion", "kind", "metadata", "spec", "status"])
_METADATA = frozenset(["name", "namespace", "labels", "annotations", "finalizers", "ownerReferences"])
"""Those that a writer may set; the rest of the metadata is the server's."""
_TEMPLATE = frozenset(["metadata", "spec"])
_JOB = frozenset(
    [
        "activeDeadlineSeconds", "backoffLimit", "backoffLimitPerIndex", "completionMode", "completions",
        "managedBy", "manualSelector", "maxFailedIndexes", "parallelism", "podFailurePolicy",
        "podReplacementPolicy", "selector", "successPolicy", "suspend", "template", "ttlSecondsAfterFinished",
    ]
)  # fmt: skip
_POD = frozenset(
    [
        "activeDeadlineSeconds", "affinity", "automountServiceAccountToken", "containers", "dnsConfig", "dnsPolicy",
        "enableServiceLinks", "ephemeralContainers", "hostAliases", "hostIPC", "hostNetwork", "hostPID",
        "hostUsers", "hostname", "hostnameOverride", "imagePullSecrets", "initContainers", "nodeName",
        "nodeSelector", "os", "overhead", "preemptionPolicy", "priority", "priorityClassName", "readinessGates",
        "resourceClaims", "resources", "restartPolicy", "runtimeClassName", "schedulerName", "schedulingGates",
        "schedulingGroup", "securityContext", "serviceAccount", "serviceAccountName", "setHostnameAsFQDN",
        "shareProcessNamespace", "subdomain", "terminationGracePeriodSeconds", "tolerations",
        "topologySpreadConstraints", "volumes",
    ]
)  # fmt: skip
_CONTAINER = frozenset(
    [
        "args", "command", "env", "envFrom", "image", "imagePullPolicy", "lifecycle", "livenessProbe", "name",
        "ports", "readinessProbe", "resizePolicy", "resources", "restartPolicy", "restartPolicyRules",
        "securityContext", "startupProbe", "stdin", "stdinOnce", "terminationMessagePath",
        "terminationMessagePolicy", "tty", "volumeDevices", "volumeMounts", "workingDir",
    ]
)  # fmt: skip


def _only(value: Any, known: frozenset[str]) -> Any:
    return {key: item for key, item in value.items() if key in known} if isinstance(value, Mapping) else value


def _pod_spec(spec: Any) -> Any:
    kept = _only(spec, _POD)
    if isinstance(kept, dict):
        for field in ("containers", "initContainers"):
            if isinstance(kept.get(field), list | tuple):
                kept[field] = [_only(container, _CONTAINER) for container in kept[field]]
    return kept


def _job_spec(spec: Any) -> Any:
    kept = _only(spec, _JOB)
    if isinstance(kept, dict) and isinstance(kept.get("template"), Mapping):
        template = _only(kept["template"], _TEMPLATE)
        kept["template"] = {
            **template,
            "metadata": _only(template.get("metadata", {}), _METADATA),
            "spec": _pod_spec(template.get("spec", {})),
        }
    return kept


def known_fields(body: KubeObject) -> dict[str, Any]:
    """The object without what Kubernetes would drop: unknown fields, and metadata that only the server writes."""
    kind = body.get("kind")
    kept: dict[str, Any] = dict(body)
    if kind in ("Job", "Pod"):
        kept = _only(body, _OBJECT)
        kept["spec"] = _job_spec(body.get("spec", {})) if kind == "Job" else _pod_spec(body.get("spec", {}))
    kept["metadata"] = _only(body.get("metadata", {}), _METADATA)
    return kept
