"""What the region's API server takes: who may be created, and how a stored object may change.

Decides for all kinds; pod and Job specs are checked by `pod_rules` and `job_rules`. Pure: the stored object, if there
is one, and the namespaces and priority classes are passed in. Invariant: what is admitted once is admitted again.
"""

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

from reconciler.adapters.local.denial import Denied, Subject, expect_map, invalid, subject_of
from reconciler.adapters.local.fields import known_fields
from reconciler.adapters.local.job_rules import changed_job_spec, checked_job_spec
from reconciler.adapters.local.pod_rules import checked_pod_spec
from reconciler.adapters.local.runtime import DEVICES
from reconciler.adapters.local.shapes import METADATA, POD, TEXTS, check_shape
from reconciler.ports import KubeObject

API_VERSIONS = {"Job": "batch/v1", "Pod": "v1", "Node": "v1", "Service": "v1", "ConfigMap": "v1", "Namespace": "v1"}
CLUSTER_WIDE = frozenset(["Node", "Namespace"])
GATED = "SchedulingGated"

_SUBDOMAIN = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_LABEL_KEY = re.compile(r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
_SERVERS_OWN = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
                "generation", "generateName", "ownerReferences", "finalizers", "resourceVersion")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rules:
    """What admission knows of the cluster: values of the priority classes by name."""

    priorities: Mapping[str, int]


def admitted(body: KubeObject, namespaces: Container[str], rules: Rules) -> dict[str, Any]:
    """The object as it will be stored, without what the server fills in (uid, versions, times). Raises Denied."""
    subject = subject_of(body)
    if API_VERSIONS.get(subject.kind) != body.get("apiVersion"):
        raise Denied("NotFound", f'no matches for kind "{subject.kind}" in version "{body.get("apiVersion")}"')
    _check_names(subject, namespaces)
    check_shape(subject, "metadata", body["metadata"], METADATA)
    kept = known_fields(body)
    _check_labels(subject, "metadata", kept["metadata"])
    match subject.kind:
        case "Job":
            kept["spec"] = checked_job_spec(subject, expect_map(subject, "spec", kept.get("spec")))
            _check_labels(subject, "spec.template.metadata", kept["spec"]["template"]["metadata"])
            _priority(subject, kept["spec"]["template"]["spec"], rules)
        case "Pod":
            kept["metadata"] = _without_devices(kept["metadata"])
            spec = checked_pod_spec(subject, "spec", expect_map(subject, "spec", kept.get("spec")))
            kept["spec"] = {**spec, "priority": _priority(subject, spec, rules)}
        case "ConfigMap":
            check_shape(subject, "data", kept.get("data"), TEXTS)
    return kept


def changed(old: KubeObject, new: KubeObject) -> dict[str, Any]:
    """A stored object after a change of what its writer may change. Raises Denied."""
    subject = subject_of(old)
    if new.get("kind") != old["kind"] or new.get("apiVersion") != old["apiVersion"]:
        raise invalid(subject, "kind", "Invalid value: field is immutable")
    asked = expect_map(subject, "metadata", new.get("metadata"))
    if not asked:
        raise invalid(subject, "metadata", "Required value")
    metadata = {key: value for key, value in asked.items() if key not in _SERVERS_OWN}
    metadata |= {key: old["metadata"][key] for key in _SERVERS_OWN if key in old["metadata"]}
    check_shape(subject, "metadata", metadata, METADATA)
    _check_labels(subject, "metadata", metadata)
    result = {**new, "metadata": metadata}
    result.pop("status", None)  # a part of its own, which only the controllers write
    if "status" in old:
        result["status"] = old["status"]
    if subject.kind == "Job":
        result["spec"] = changed_job_spec(subject, old, expect_map(subject, "spec", new.get("spec")))
    elif subject.kind == "Pod":
        _check_pod_change(subject, old["spec"], expect_map(subject, "spec", new.get("spec")))
    return result


def _without_devices(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Only the kubelet says which GPUs are a pod's."""
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if key != DEVICES}
    return {**metadata, "annotations": annotations}


def _check_pod_change(subject: Subject, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    check_shape(subject, "spec", new, POD)
    gates = {gate["name"] for gate in old.get("schedulingGates") or ()}
    if not {gate["name"] for gate in new.get("schedulingGates") or ()} <= gates:
        raise invalid(subject, "spec.schedulingGates", "Invalid value: only deletion is allowed")
    for field in old.keys() | new.keys():
        if field != "schedulingGates" and old.get(field) != new.get(field):
            raise invalid(subject, f"spec.{field}", "Forbidden: pod updates may not change fields other than "
                          "`spec.schedulingGates` (a local region allows no other)")  # fmt: skip


def _check_names(subject: Subject, namespaces: Container[str]) -> None:
    if not subject.name:
        raise invalid(subject, "metadata.name", "Required value: name is required, a local region generates none")
    limit = 253 if subject.kind in ("Node", "ConfigMap", "Pod") else 63
    if len(subject.name) > limit or not _SUBDOMAIN.fullmatch(subject.name):
        raise invalid(subject, "metadata.name", f'Invalid value: "{subject.name}": a lowercase RFC 1123 subdomain of at most '
                      f"{limit} characters is needed")  # fmt: skip
    if subject.kind in CLUSTER_WIDE:
        return
    if not subject.namespace:
        raise invalid(subject, "metadata.namespace", "Required value")
    if subject.namespace not in namespaces:
        raise Denied("NotFound", f'namespaces "{subject.namespace}" not found')


def _check_labels(subject: Subject, path: str, metadata: Mapping[str, Any]) -> None:
    for field in ("labels", "annotations"):
        for key, value in (metadata.get(field) or {}).items():
            if not _LABEL_KEY.fullmatch(key):
                raise invalid(subject, f"{path}.{field}", f'Invalid value: "{key}": not a qualified name')
            if field == "labels" and not _LABEL_VALUE.fullmatch(value):
                raise invalid(subject, f"{path}.labels", f'Invalid value: "{value}": a valid label must be an empty string or '
                              "consist of at most 63 alphanumeric characters, '-', '_' or '.'")  # fmt: skip


def _priority(subject: Subject, spec: Mapping[str, Any], rules: Rules) -> int:
    name = spec.get("priorityClassName")
    if not name:
        return int(spec.get("priority") or 0)
    if name not in rules.priorities:
        raise Denied("Forbidden", f'pods "{subject.name}" is forbidden: no PriorityClass with name {name} was found')
    return rules.priorities[name]
