"""The controller of batch/v1 Jobs, as Kubernetes 1.36 was seen to act, and the clean-up after deleted Jobs.

Decides which pods exist for a Job and what its status says; where they run is the scheduler's, how they end the
kubelet's. Only backoffLimit 0 and podReplacementPolicy Failed come here (`job_rules`).

Invariants: never two pods of one index of one Job object that have not ended; a suspended Job makes no pod; a finished
Job is never touched again. Kept on purpose, since the agent must live with them: `Suspended=True` is written while pods
still end; an exit 0 within the grace of a suspend is lost; the deadline's clock starts anew at each resume; `Failed`
waits for the last pod, and is not written at all while the Job is suspended.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from reconciler.adapters.local.job_status import (
    INDEX,
    TRACKING,
    Condition,
    Tally,
    condition,
    index_of,
    is_finished,
    is_indexed,
    is_ready,
    is_true,
    new_condition,
    tally,
    with_condition,
    with_counts,
)
from reconciler.adapters.local.moments import millis, stamp
from reconciler.adapters.local.objects import Objects, owner_of
from reconciler.ports import KubeObject

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""The letters that Kubernetes makes random names of: none that form words or look alike."""
_LONGEST_NAME = 63


def sync_job(objects: Objects, job: KubeObject, now: int) -> int | None:
    """Bring one Job forward; returns when it must be looked at again even if nothing is written."""
    if is_finished(job):
        return None
    if "startTime" not in job["status"] and not job["spec"]["suspend"]:
        job = objects.replace(job, status={**job["status"], "startTime": stamp(now)})
    counts = _counts(objects, job)
    verdict = _verdict(job, counts, now)
    if verdict is not None:
        _fail(objects, job, counts, verdict, now)
        return None
    _adjust(objects, job, counts, now)
    after = _counts(objects, job)
    if _is_complete(job, after):
        _complete(objects, job, after, now)
        return None
    _settle(objects, job, after, now)
    return _deadline(job)


def collect(objects: Objects, now: int) -> None:
    """Delete the pods of Jobs that are gone, and free them of the finalizer that nobody will take off any more."""
    jobs = {job["metadata"]["uid"] for job in objects.every("Job")}
    for pod in objects.every("Pod"):
        owner = owner_of(pod)
        if owner is None or owner["kind"] != "Job" or owner["uid"] in jobs:
            continue
        freed = objects.release(pod, TRACKING)
        if freed is not None and "deletionTimestamp" not in freed["metadata"]:
            objects.delete(freed, now)


def orphan(objects: Objects, job: KubeObject, now: int) -> None:
    """`kubectl delete job --cascade=orphan`: its pods run on without owner and finalizer; only their labels tell of it."""
    objects.delete(job, now)
    for pod in objects.owned(job["metadata"]["uid"]):
        freed = objects.release(pod, TRACKING)
        if freed is not None:
            objects.replace(freed, metadata={key: value for key, value in freed["metadata"].items() if key != "ownerReferences"})


def _counts(objects: Objects, job: KubeObject) -> Tally:
    return tally(job, objects.owned(job["metadata"]["uid"]))


def _deadline(job: KubeObject) -> int | None:
    seconds = job["spec"].get("activeDeadlineSeconds")
    if seconds is None or job["spec"]["suspend"] or "startTime" not in job["status"]:
        return None
    return millis(job["status"]["startTime"]) + int(seconds) * 1000


def _verdict(job: KubeObject, counts: Tally, now: int) -> Condition | None:
    if is_true(job, "FailureTarget"):
        return condition(job, "FailureTarget")
    if counts.failed > job["spec"]["backoffLimit"]:
        reason, message = "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        return new_condition("FailureTarget", "True", reason, message, now)
    deadline = _deadline(job)
    if deadline is not None and now >= deadline:
        reason, message = "DeadlineExceeded", "Job was active longer than specified deadline"
        return new_condition("FailureTarget", "True", reason, message, now)
    return None


def _fail(objects: Objects, job: KubeObject, counts: Tally, verdict: Condition, now: int) -> None:
    for pod in counts.active:
        objects.delete(pod, now)
    # A failed Job counts what it stops as failed too, also pods that were healthy.
    ended_well = sum(pod["status"]["phase"] == "Succeeded" for pod in counts.uncounted)
    failed = job["status"].get("failed", 0) + len(counts.uncounted) - ended_well
    _uncount(objects, counts.uncounted)
    after = replace(_counts(objects, job), failed=failed, succeeded=counts.succeeded)
    status = with_condition(with_counts(job, after), verdict)
    job = objects.replace(job, status=status)
    if not after.terminating and not job["spec"]["suspend"]:
        final = new_condition("Failed", "True", verdict["reason"], verdict["message"], now)
        objects.replace(job, status=with_condition(status, final))


def _uncount(objects: Objects, pods: Iterable[KubeObject]) -> None:
    for pod in pods:
        stored = objects.get("Pod", pod["metadata"]["namespace"], pod["metadata"]["name"])
        if stored is not None:
            objects.release(stored, TRACKING)


def _adjust(objects: Objects, job: KubeObject, counts: Tally, now: int) -> None:
    surplus = len(counts.active) - _wanted(job, counts)
    if surplus > 0:
        # Least is lost with those that have not begun; the order is Kubernetes' own.
        last_first = sorted(counts.active, key=lambda pod: (is_ready(pod), bool(pod["spec"].get("nodeName"))))
        for pod in last_first[:surplus]:
            freed = objects.release(pod, TRACKING)
            if freed is not None:
                objects.delete(freed, now)
        return
    missing = -surplus - len(counts.terminating)
    if missing <= 0:
        return
    if is_indexed(job):
        taken = counts.succeeded | {index_of(pod) for pod in (*counts.active, *counts.terminating)}
        free = [index for index in range(job["spec"]["completions"]) if index not in taken]
        for index in free[:missing]:
            _create_pod(objects, job, index, now)
    else:
        for _ in range(missing):
            _create_pod(objects, job, None, now)


def _wanted(job: KubeObject, counts: Tally) -> int:
    if job["spec"]["suspend"]:
        return 0
    parallelism: int = job["spec"]["parallelism"]
    left: int = job["spec"]["completions"] - len(counts.succeeded)
    return max(0, min(parallelism, left))


def _is_complete(job: KubeObject, counts: Tally) -> bool:
    return len(counts.succeeded) >= job["spec"]["completions"] and not counts.active


def _complete(objects: Objects, job: KubeObject, counts: Tally, now: int) -> None:
    _uncount(objects, counts.uncounted)
    reason, message = "CompletionsReached", "Reached expected number of succeeded pods"
    status = with_condition(with_counts(job, counts), new_condition("SuccessCriteriaMet", "True", reason, message, now))
    job = objects.replace(job, status=status)
    # No pod can be ending now: what ends badly or unseen leaves its place to be filled first.
    final = with_condition(status, new_condition("Complete", "True", reason, message, now))
    objects.replace(job, status={**final, "completionTime": stamp(now)})


def _settle(objects: Objects, job: KubeObject, counts: Tally, now: int) -> None:
    """Count what has ended and say whether the Job is suspended."""
    _uncount(objects, [pod for pod in counts.uncounted if pod["status"]["phase"] == "Succeeded"])
    status = with_counts(job, counts)
    if job["spec"]["suspend"]:
        status = with_condition(status, new_condition("Suspended", "True", "JobSuspended", "Job suspended", now))
        status.pop("startTime", None)
    else:
        resumed = with_condition(status, new_condition("Suspended", "False", "JobResumed", "Job resumed", now))
        if resumed != status:
            resumed["startTime"] = stamp(now)
        status = resumed
    objects.replace(job, status=status)


def _create_pod(objects: Objects, job: KubeObject, index: int | None, now: int) -> None:
    template = job["spec"]["template"]
    metadata: dict[str, Any] = {**template["metadata"], "namespace": job["metadata"]["namespace"]}
    metadata["finalizers"] = [*(metadata.get("finalizers") or ()), TRACKING]
    spec: dict[str, Any] = dict(template["spec"])
    job_name = job["metadata"]["name"]
    stem = f"{job_name}-"
    if index is not None:
        stem = f"{job_name}-{index}-"
        metadata["labels"] = {**metadata["labels"], INDEX: str(index)}
        metadata["annotations"] = {**(metadata.get("annotations") or {}), INDEX: str(index)}
        spec |= {"hostname": f"{job_name}-{index}"} | _with_index(spec)
    metadata["name"] = stem[: _LONGEST_NAME - 5] + _suffix(f"{job['metadata']['uid']}/{objects.version}")
    objects.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, now, owner=job)


def _with_index(spec: dict[str, Any]) -> dict[str, Any]:
    variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}}

    def extended(containers: Sequence[KubeObject]) -> list[KubeObject]:
        return [{**container, "env": [*(container.get("env") or ()), variable]} for container in containers]

    return {field: extended(spec[field]) for field in ("initContainers", "containers") if spec.get(field)}


def _suffix(seed: str) -> str:
    """Five letters that look random and are the same for the same seed, so that a simulation repeats itself."""
    return "".join(_SUFFIX_LETTERS[byte % len(_SUFFIX_LETTERS)] for byte in sha256(seed.encode()).digest()[:5])
