"""What raw Kubernetes objects say, read in one place: names, owners, phases, gates, conditions, times.

Decides how a missing or null field reads; what follows from it is for the modules that ask. Pure. Invariant: no object
that a Kubernetes API can serve makes a function here raise.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple

from reconciler.model.names import ANNOTATION_CLOSED, GATE, LABEL_ATTEMPT
from reconciler.ports import KubeObject, ObjectRef

INDEX: Final = "batch.kubernetes.io/job-completion-index"
TERMINAL: Final = frozenset({"Succeeded", "Failed"})
ENDS: Final = ("Complete", "Completed", "Failed", "FailureTarget", "SuccessCriteriaMet")
"""Conditions after which a workload makes no pod any more (`Completed`: a JobSet's). Of the first three, all pods have ended."""
JOB_SET: Final = "JobSet"

_DEFAULT_GRACE_SECONDS: Final = 30
"""Kubernetes' own, where a pod does not say."""
_UID_LABELS: Final = ("batch.kubernetes.io/controller-uid", "controller-uid")


class Key(NamedTuple):
    """An attempt in its region: its namespace (the team) and its name."""

    namespace: str
    attempt: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.attempt}"


def part(item: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A field that is an object; empty where it is missing or null."""
    return item.get(name) or {}


def parts(item: Mapping[str, Any], name: str) -> Sequence[Mapping[str, Any]]:
    """A field that is a list of objects; empty where it is missing or null."""
    return item.get(name) or ()


def name_of(item: KubeObject) -> str:
    """The object's name."""
    return str(part(item, "metadata").get("name", ""))


def namespace_of(item: KubeObject) -> str:
    """The object's namespace, '' where it has none."""
    return str(part(item, "metadata").get("namespace", ""))


def uid_of(item: KubeObject) -> str:
    """The object's uid."""
    return str(part(item, "metadata").get("uid", ""))


def labels_of(item: KubeObject) -> Mapping[str, str]:
    """The object's labels."""
    return part(part(item, "metadata"), "labels")


def ref_of(item: KubeObject, kind: str) -> ObjectRef:
    """The object at the version that was read, for a request. Items of a list do not name their kind themselves."""
    version = str(part(item, "metadata").get("resourceVersion", ""))
    return ObjectRef(str(item.get("kind") or kind), namespace_of(item), name_of(item), uid_of(item), version)


def generation_of(item: KubeObject) -> int:
    """How often its spec was written; 0 where nothing says so."""
    return int(part(item, "metadata").get("generation") or 0)


def attempt_label(item: KubeObject) -> str | None:
    """The attempt that the object's label names."""
    return labels_of(item).get(LABEL_ATTEMPT) or None


def is_deleting(item: KubeObject) -> bool:
    """Whether somebody has asked for its deletion."""
    return part(item, "metadata").get("deletionTimestamp") is not None


def is_closed(item: KubeObject) -> bool:
    """Whether the agent has ended it for good: it will release no such Job, and lift the gate of no such pod."""
    return ANNOTATION_CLOSED in part(part(item, "metadata"), "annotations")


def condition(item: KubeObject, kind: str) -> Mapping[str, Any]:
    """Its condition of that type; empty where it has none."""
    return next((found for found in parts(part(item, "status"), "conditions") if found.get("type") == kind), {})


def is_true(item: KubeObject, kind: str) -> bool:
    """Whether it has that condition with status True."""
    return condition(item, kind).get("status") == "True"


# ---- workloads ----------------------------------------------------------------------------------------------------


def is_suspended(job: KubeObject) -> bool:
    """Whether its spec says that it shall have no pods. Says nothing of the pods that it has."""
    return bool(part(job, "spec").get("suspend"))


def makes_no_pods(job: KubeObject) -> bool:
    """Whether it has ended, or is certain to: whatever is done to it, no pod will be made."""
    return any(is_true(job, kind) for kind in ENDS)


def is_complete(job: KubeObject) -> bool:
    """Whether it says that all of its pods have ended well."""
    return is_true(job, "Complete") or is_true(job, "Completed")


def makes_jobs(workload: KubeObject) -> bool:
    """Whether its pods are made by a Job that it makes."""
    return workload.get("kind") == JOB_SET


def pod_templates(workload: KubeObject) -> tuple[Mapping[str, Any], ...]:
    """The templates of its pods: a Job has one, a JobSet one for each copy of each of its Jobs."""
    spec = part(workload, "spec")
    if not makes_jobs(workload):
        return (part(spec, "template"),)
    return tuple(
        part(part(part(job, "template"), "spec"), "template")
        for job in parts(spec, "replicatedJobs")
        for _ in range(int(job.get("replicas", 1)))
    )


def has_gate(workload: KubeObject) -> bool:
    """Whether its pods are born with our gate."""
    return all(GATE in gates_of(template) for template in pod_templates(workload))


# ---- pods ---------------------------------------------------------------------------------------------------------


def phase_of(pod: KubeObject) -> str:
    """The pod's phase; Pending where none is written yet."""
    return str(part(pod, "status").get("phase") or "Pending")


def node_of(pod: KubeObject) -> str | None:
    """The node that it is bound to."""
    return part(pod, "spec").get("nodeName") or None


def gates_of(pod: KubeObject) -> tuple[str, ...]:
    """Names of the scheduling gates of a pod or pod template."""
    return tuple(str(gate.get("name")) for gate in parts(part(pod, "spec"), "schedulingGates"))


def grace_of(pod: KubeObject) -> int:
    """How long a pod, or a pod of a template, may take to end when it is told to, in seconds."""
    found = part(pod, "spec").get("terminationGracePeriodSeconds")
    return _DEFAULT_GRACE_SECONDS if found is None else int(found)


def is_live(pod: KubeObject) -> bool:
    """Whether it is in no terminal phase: it runs, or still may."""
    return phase_of(pod) not in TERMINAL


def is_held(pod: KubeObject) -> bool:
    """Whether our gate keeps it from every node, so that it has never run."""
    return GATE in gates_of(pod) and node_of(pod) is None and phase_of(pod) == "Pending"


def is_active(pod: KubeObject) -> bool:
    """Whether it runs, or may begin to without us.

    A pod that is being deleted and has no node never will: the API server binds none such. It may stay listed for long.
    """
    return is_live(pod) and not is_held(pod) and not (is_deleting(pod) and node_of(pod) is None)


def owner_uid(pod: KubeObject) -> str | None:
    """The uid of the object that controls it; None for an orphan."""
    owners = parts(part(pod, "metadata"), "ownerReferences")
    return next((str(owner.get("uid")) for owner in owners if owner.get("controller")), None)


def maker_uid(pod: KubeObject) -> str | None:
    """The uid of the object that made it, by its owner or, for an orphan, by the label that its Job gave it."""
    labels = labels_of(pod)
    return owner_uid(pod) or next((labels[name] for name in _UID_LABELS if name in labels), None)


def index_of(pod: KubeObject) -> int | None:
    """Its completion index; None for a pod of a Job without indexes."""
    text = str(part(part(pod, "metadata"), "annotations").get(INDEX) or labels_of(pod).get(INDEX) or "")
    return int(text) if text.isascii() and text.isdigit() else None


@lru_cache(maxsize=16384)
def moment(text: str | None) -> datetime | None:
    """A time as the API writes it, in UTC; None where there is none."""
    try:
        found = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    return found if found is None or found.tzinfo is not None else found.replace(tzinfo=UTC)
