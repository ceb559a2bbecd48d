"""What is kept of an object that was read: the fields that the agent reads, and no others.

The one list of them. Decides nothing else. Invariant: what the agent makes of an object is the same with and without the rest;
so whoever lets the agent read another field adds it here. (A pod as served is 5 to 10 KB, of which the agent reads one.)
"""

import sys
from collections.abc import Collection, Mapping
from typing import Any, Final, Union

from reconciler.model.names import (
    ANNOTATION_CLOSED,
    ANNOTATION_OUT,
    ANNOTATION_QUEUE,
    GATE,
    LABEL_ATTEMPT,
    LABEL_MANAGED,
    QUEUE_LABEL,
)
from reconciler.ports import KubeObject

Wanted = Mapping[str, Union["Wanted", None]]
"""Fields by name, of an object or of each object in a list; None keeps all that is in it."""

_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_OWNERS: Final = dict.fromkeys(("controller", "uid", "kind"))
_MAKERS: Final = ("batch.kubernetes.io/controller-uid", "controller-uid")
_NAMES: Final = dict.fromkeys(("name", "namespace", "uid", "resourceVersion", "generation", "deletionTimestamp"))
_CONDITION: Final = dict.fromkeys(("type", "status", "reason", "message"))
_RESOURCES: Final = {"limits": None, "requests": None}
_ENDED: Final = dict.fromkeys(("exitCode", "signal", "reason", "message", "startedAt", "finishedAt"))
_STATE: Final = {"running": {"startedAt": None}, "waiting": {"reason": None, "message": None}, "terminated": _ENDED}
_GATES: Final = {"schedulingGates": {"name": None}}
_TEMPLATE: Final = {"spec": {**_GATES, "terminationGracePeriodSeconds": None}}

_OF_EVERY_POD: Final[Wanted] = {
    "metadata": {
        **_NAMES,
        "deletionGracePeriodSeconds": None,
        "labels": dict.fromkeys((LABEL_ATTEMPT, LABEL_MANAGED, _INDEX, *_MAKERS)),
        "annotations": dict.fromkeys((ANNOTATION_CLOSED, _INDEX)),
        "ownerReferences": _OWNERS,
    },
    "spec": {
        **_GATES,
        **dict.fromkeys(("nodeName", "priority", "priorityClassName", "overhead", "terminationGracePeriodSeconds")),
        "containers": {"name": None, "resources": _RESOURCES},
        "initContainers": {"name": None, "restartPolicy": None, "resources": _RESOURCES},
    },
    "status": {"phase": None},
}
_OF_A_JOBS_POD: Final[Wanted] = {
    **_OF_EVERY_POD,
    "status": {
        **dict.fromkeys(("phase", "reason", "message")),
        "conditions": _CONDITION,
        "containerStatuses": {"name": None, "state": _STATE},
        "initContainerStatuses": {"name": None, "state": _STATE},
    },
}
_OF_A_WORKLOAD: Final[Wanted] = {
    **_NAMES,
    "labels": dict.fromkeys((LABEL_ATTEMPT, LABEL_MANAGED, QUEUE_LABEL)),
    "annotations": dict.fromkeys((ANNOTATION_CLOSED, ANNOTATION_QUEUE)),
}
_TIMED: Final[Wanted] = {**_CONDITION, "lastTransitionTime": None}
_OTHERS: Final = frozenset({"ReplicaSet", "DaemonSet", "StatefulSet", "ReplicationController", "Node"})
"""Whose pods are never those of a workload of ours."""

_WANTED: Final[Mapping[str, Wanted]] = {
    "Node": {
        # All labels: which of them names a node's GPUs is a setting.
        "metadata": {**_NAMES, "labels": None},
        "spec": {"unschedulable": None, "taints": {"key": None, "effect": None}},
        # Without the heartbeats, which are written all the time.
        "status": {"capacity": None, "allocatable": None, "conditions": _CONDITION},
    },
    "Namespace": {"metadata": {"name": None, "uid": None, "resourceVersion": None}},
    "PriorityClass": {"metadata": {"name": None, "uid": None, "resourceVersion": None}, "value": None},
    "Job": {
        "metadata": {**_OF_A_WORKLOAD, "ownerReferences": _OWNERS},
        "spec": {"suspend": None, "activeDeadlineSeconds": None, "template": _TEMPLATE},
        "status": {"startTime": None, "completionTime": None, "conditions": _TIMED},
    },
    "JobSet": {
        "metadata": _OF_A_WORKLOAD,
        "spec": {
            "suspend": None,
            "replicatedJobs": {"replicas": None, "template": {"spec": {"template": {"spec": _GATES}}}},
        },
        "status": {"conditions": _TIMED},
    },
    # Kueue's. Its checks whole, for they are written back as they were read.
    "Workload": {
        "metadata": {
            **_NAMES,
            "annotations": {ANNOTATION_OUT: None},
            "ownerReferences": _OWNERS,
        },
        "spec": {"active": None},
        "status": {"conditions": _CONDITION, "admissionChecks": None},
    },
}


def slim(kind: str, item: Mapping[str, Any]) -> KubeObject:
    """An object of that kind with what the agent reads of it; it names its kind, also where it came in a list."""
    wanted = _WANTED.get(kind) or (_OF_A_JOBS_POD if _may_be_a_jobs(item) else _OF_EVERY_POD)
    kept: dict[str, Any] = _kept(item, wanted)
    return {"kind": kind, **kept}


def is_doubtful(pod: KubeObject, workloads: Collection[str]) -> bool:
    """Whether a pod may be one of ours whose label somebody took away: by its gate, or by who made it (uids)."""
    metadata = pod["metadata"]
    labels = metadata.get("labels") or {}
    if LABEL_ATTEMPT in labels or any(gate.get("name") == GATE for gate in (pod.get("spec") or {}).get("schedulingGates") or ()):
        return True
    makers = [owner.get("uid") for owner in metadata.get("ownerReferences") or ()]
    return any(uid in workloads for uid in (*makers, *(labels.get(name) for name in _MAKERS)))


def names_a_queue(workload: KubeObject) -> bool:
    """Whether Kueue has a part in it, or is to have one."""
    metadata = workload["metadata"]
    return bool((metadata.get("labels") or {}).get(QUEUE_LABEL) or (metadata.get("annotations") or {}).get(ANNOTATION_QUEUE))


def without_version(item: KubeObject) -> tuple[Any, ...]:
    """What of a slim object a change of it is a change of."""
    metadata = {name: value for name, value in item["metadata"].items() if name != "resourceVersion"}
    return metadata, item.get("spec"), item.get("status"), item.get("value")


def _may_be_a_jobs(pod: Mapping[str, Any]) -> bool:
    metadata = pod["metadata"]
    labels = metadata.get("labels") or {}
    owners = [owner.get("kind") for owner in metadata.get("ownerReferences") or () if owner.get("controller")]
    return LABEL_ATTEMPT in labels or any(name in labels for name in _MAKERS) or any(kind not in _OTHERS for kind in owners)


def _kept(value: Any, wanted: Wanted | None) -> Any:
    if isinstance(value, Mapping):
        if wanted is None:
            return {sys.intern(name): _kept(inner, None) for name, inner in value.items()}
        return {name: _kept(value[name], inner) for name, inner in wanted.items() if name in value}
    if isinstance(value, list):
        return [_kept(one, wanted) for one in value]
    # The same few texts stand in thousands of objects.
    return sys.intern(value) if type(value) is str else value
