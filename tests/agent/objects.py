"""Raw Kubernetes objects for tests, as an API server serves them; only what a case is about has to be said."""

from collections.abc import Mapping, Sequence
from typing import Any

from reconciler.agent.reading import INDEX, Key
from reconciler.model.grants import Grant, Grants
from reconciler.model.names import (
    ANNOTATION_CLOSED,
    ANNOTATION_OUT,
    ANNOTATION_QUEUE,
    GATE,
    GRANT_CHECK,
    LABEL_ATTEMPT,
    LABEL_MANAGED,
    MANAGED_BY,
    QUEUE_LABEL,
)
from reconciler.ports import ClusterState

TEAM, ATTEMPT = "team-a", "llm-a-3f9a1c-a1"
KEY = Key(TEAM, ATTEMPT)
READY = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
GPU = "nvidia.com/gpu"
A100 = "NVIDIA-A100-SXM4-80GB"

Raw = dict[str, Any]


def make_node(
    name: str = "n1",
    gpus: int | str = 8,
    *,
    allocatable: int | str | None = None,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[str] = (),
    unschedulable: bool = False,
    conditions: Sequence[Raw] = (READY,),
    product: str | None = A100,
    extra: Mapping[str, str] | None = None,
    **metadata: Any,
) -> Raw:
    """A node; `taints` as `key:effect`."""
    amounts = {"cpu": "64", "memory": "512Gi", "ephemeral-storage": "1Ti", "pods": "110", GPU: str(gpus), **(extra or {})}
    shown = {**({"nvidia.com/gpu.product": product} if product else {}), **(labels or {})}
    spec: Raw = {"taints": [dict(zip(("key", "effect"), taint.rsplit(":", 1), strict=True)) for taint in taints]}
    if unschedulable:
        spec["unschedulable"] = True
    usable = {**amounts, GPU: str(gpus if allocatable is None else allocatable)}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": shown, **metadata},
        "spec": spec,
        "status": {"capacity": amounts, "allocatable": usable, "conditions": list(conditions)},
    }


def make_pod(
    name: str = "p1",
    *,
    node: str | None = "n1",
    phase: str = "Running",
    gpus: int | str = 0,
    attempt: str | None = None,
    owner: str | None = None,
    gates: Sequence[str] = (),
    deleting: bool = False,
    grace: int | None = None,
    closed: bool = False,
    index: int | None = None,
    status: Mapping[str, Any] | None = None,
    labels: Mapping[str, str] | None = None,
    namespace: str = TEAM,
    **spec: Any,
) -> Raw:
    """A pod with one container `main`. `owner` is the uid of the Job that controls it."""
    metadata: Raw = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{name}",
        "resourceVersion": "7",
        "labels": dict(labels or {}),
    }
    if attempt:
        metadata["labels"] |= {LABEL_ATTEMPT: attempt, LABEL_MANAGED: MANAGED_BY}
    if owner:
        metadata["ownerReferences"] = [{"kind": "Job", "name": attempt or "x", "uid": owner, "controller": True}]
    if deleting:
        metadata |= {"deletionTimestamp": "2026-05-01T10:00:00Z", "deletionGracePeriodSeconds": 30 if grace is None else grace}
    if index is not None:
        metadata["annotations"] = {INDEX: str(index)}
    if closed:
        metadata["annotations"] = {**metadata.get("annotations", {}), ANNOTATION_CLOSED: "true"}
    requests = {GPU: str(gpus)} if gpus else {}
    whole: Raw = {"containers": [{"name": "main", "resources": {"requests": requests, "limits": requests}}], **spec}
    if node:
        whole["nodeName"] = node
    if gates:
        whole["schedulingGates"] = [{"name": gate} for gate in gates]
    return {"metadata": metadata, "spec": whole, "status": {"phase": phase, **(status or {})}}


def gated_pod(name: str = "p1", *, owner: str | None = "uid-1", attempt: str | None = ATTEMPT, **more: Any) -> Raw:
    """A pod as it is born: ours, held by our gate."""
    return make_pod(name, node=None, phase="Pending", gates=[GATE], owner=owner, attempt=attempt, **more)


def running_pod(name: str = "p1", *, owner: str | None = "uid-1", attempt: str | None = ATTEMPT, **more: Any) -> Raw:
    """A pod of ours that runs."""
    return make_pod(name, owner=owner, attempt=attempt, **more)


def ended_pod(name: str = "p1", code: int = 0, **more: Any) -> Raw:
    """A pod of ours that has ended, with its main container's exit code."""
    times = {"startedAt": "2026-05-01T10:00:00Z", "finishedAt": more.pop("finished", "2026-05-01T11:00:00Z")}
    state = {"terminated": {"exitCode": code, "reason": more.pop("reason", "Completed" if code == 0 else "Error"), **times}}
    status = {"containerStatuses": [{"name": "main", "state": state}], **(more.pop("status", None) or {})}
    more.setdefault("phase", "Succeeded" if code == 0 else "Failed")
    return running_pod(name, status=status, **more)


def make_job(
    name: str = ATTEMPT,
    *,
    suspend: bool = True,
    uid: str = "uid-1",
    generation: int | None = 1,
    closed: bool = False,
    conditions: Mapping[str, str] | None = None,
    attempt: str | None = ATTEMPT,
    gates: Sequence[str] = (GATE,),
    deleting: bool = False,
    kind: str | None = None,
    namespace: str = TEAM,
    version: str = "5",
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Raw:
    """A Job of ours; `conditions` as `{type: reason}`, all True (a reason that starts with `!`: False)."""
    metadata: Raw = {"name": name, "namespace": namespace, "uid": uid, "resourceVersion": version}
    metadata["labels"] = {LABEL_MANAGED: MANAGED_BY} | ({LABEL_ATTEMPT: attempt} if attempt else {})
    if generation is not None:
        metadata["generation"] = generation
    if closed:
        metadata["annotations"] = {ANNOTATION_CLOSED: "true"}
    if deleting:
        metadata["deletionTimestamp"] = "2026-05-01T10:00:00Z"
    said = [
        {"type": type_, "status": "False" if reason.startswith("!") else "True", "reason": reason.lstrip("!")}
        for type_, reason in (conditions or {}).items()
    ]
    template = {"spec": {"schedulingGates": [{"name": gate} for gate in gates]}}
    made: Raw = {
        "metadata": metadata,
        "spec": {"suspend": suspend, "template": template, **spec},
        "status": {"conditions": said, **(status or {})},
    }
    return made | ({"kind": kind} if kind else {})


def make_job_set(*, uid: str = "uid-s", replicas: int = 1, gates: Sequence[str] = (GATE,), **more: Any) -> Raw:
    """A JobSet of ours, of one Job."""
    made = make_job(uid=uid, kind="JobSet", **more)
    del made["spec"]["template"]
    template = {"spec": {"template": {"spec": {"schedulingGates": [{"name": gate} for gate in gates]}}}}
    made["spec"]["replicatedJobs"] = [{"name": "w", "replicas": replicas, "template": template}]
    return made


def made_job(
    uid: str = "uid-1",
    *,
    suspend: bool = False,
    generation: int = 2,
    conditions: Mapping[str, str] | None = None,
    owner: str = "uid-s",
) -> Raw:
    """The Job that a JobSet has made: no label of ours is on it."""
    job = make_job(f"{ATTEMPT}-w-0", uid=uid, suspend=suspend, generation=generation, conditions=conditions)
    job["metadata"]["labels"] = {}
    job["metadata"]["ownerReferences"] = [{"kind": "JobSet", "uid": owner, "controller": True}]
    return job


def queued_job(queue: str = "gpu-research", *, enqueued: bool = True, **more: Any) -> Raw:
    """A Job whose manifest names a queue; `enqueued`: it carries Kueue's label."""
    job = make_job(**more)
    job["metadata"]["annotations"] = {**job["metadata"].get("annotations", {}), ANNOTATION_QUEUE: queue}
    if enqueued:
        job["metadata"]["labels"][QUEUE_LABEL] = queue
    return job


def make_admission(
    ours: str | None = "Pending",
    *,
    reserved: bool = True,
    active: bool = True,
    taken_out: bool = False,
    owner: str = "uid-1",
    another: str = "Ready",
) -> Raw:
    """Kueue's Workload of a Job. `ours`: the state of our check; None where the queue does not have it. `taken_out`: by us."""
    checks = [{"name": "another", "state": another, "message": "no machines yet", "lastTransitionTime": "2026-05-01T10:00:00Z"}]
    if ours is not None:
        checks.append({"name": GRANT_CHECK, "state": ours, "lastTransitionTime": "2026-05-01T10:00:00Z"})
    metadata: Raw = {"name": "job-x", "namespace": TEAM, "uid": "uid-w", "resourceVersion": "9"}
    metadata["ownerReferences"] = [{"kind": "Job", "name": ATTEMPT, "uid": owner, "controller": True}]
    if taken_out:
        metadata["annotations"] = {ANNOTATION_OUT: "true"}
    reserving = {"type": "QuotaReserved", "status": "True" if reserved else "False", "message": "insufficient unused quota"}
    return {
        "kind": "Workload",
        "metadata": metadata,
        "spec": {"active": active and not taken_out},
        "status": {"conditions": [reserving], "admissionChecks": checks if reserved else []},
    }


def make_grant(attempt: str = ATTEMPT, *, nodes: int = 1, run_seconds: int | None = None, team: str = TEAM) -> Grant:
    """A grant of one attempt."""
    return Grant(attempt=attempt, team=team, job_id="llm-a", nodes=nodes, run_seconds=run_seconds)


def make_grants(*granted: Grant | str, version: int = 1, epoch: int = 1, **more: Any) -> Grants:
    """A region's grants; an attempt's name stands for its grant."""
    named = (make_grant(one) if isinstance(one, str) else one for one in granted)
    attempts = tuple(one.model_copy(update={"epoch": epoch}) for one in named)
    return Grants(**{"region": "eu", "term": 1, "version": version, "epoch": epoch, "attempts": attempts, **more})


def make_state(*, nodes: Sequence[Raw] = (), pods: Sequence[Raw] = (), jobs: Sequence[Raw] = (), **more: Any) -> ClusterState:
    """One read of a cluster."""
    return ClusterState(**{"nodes": nodes, "pods": pods, "workloads": jobs, "namespaces": [TEAM], "priority_values": {}, **more})
