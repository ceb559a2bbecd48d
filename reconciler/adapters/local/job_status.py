"""What a Job's pods amount to, and how that is written into its status; pure.

Decides counts, indexes and conditions as the controller of batch/v1 does in Kubernetes 1.36; what is done about them is
`job_controller`'s. Invariant: a pod is counted once, while it still has the tracking finalizer; what was counted stays.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reconciler.adapters.local.moments import stamp
from reconciler.adapters.local.objects import TERMINAL
from reconciler.ports import KubeObject

TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"

Condition = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Tally:
    """A Job's pods by what they are, and its counts with those that no status has counted yet.

    `active`: neither ended nor being deleted; `terminating`: being deleted, not ended; `uncounted`: all with the tracking
    finalizer. `succeeded` holds completion indexes, or made-up ones for a Job without.
    """

    active: Sequence[KubeObject]
    terminating: Sequence[KubeObject]
    uncounted: Sequence[KubeObject]
    succeeded: frozenset[int]
    failed: int


def is_indexed(job: KubeObject) -> bool:
    """Whether each pod has an index."""
    return bool(job["spec"]["completionMode"] == "Indexed")


def index_of(pod: KubeObject) -> int:
    """The pod's completion index."""
    return int(pod["metadata"]["annotations"][INDEX])


def tally(job: KubeObject, pods: Iterable[KubeObject]) -> Tally:
    """Count the pods that the Job controls."""
    active: list[KubeObject] = []
    terminating: list[KubeObject] = []
    uncounted: list[KubeObject] = []
    for pod in pods:
        if TRACKING in (pod["metadata"].get("finalizers") or ()):
            uncounted.append(pod)
        if pod["status"]["phase"] not in TERMINAL:
            (terminating if "deletionTimestamp" in pod["metadata"] else active).append(pod)
    status = job["status"]
    ended_well = [pod for pod in uncounted if pod["status"]["phase"] == "Succeeded"]
    if is_indexed(job):
        succeeded = parse_indexes(status.get("completedIndexes", "")) | {index_of(pod) for pod in ended_well}
    else:
        succeeded = frozenset(range(status.get("succeeded", 0) + len(ended_well)))
    failed = status.get("failed", 0) + sum(pod["status"]["phase"] == "Failed" for pod in uncounted)
    return Tally(active, terminating, uncounted, frozenset(succeeded), failed)


def condition(job: KubeObject, kind: str) -> Condition | None:
    """The Job's condition of that type, whatever its status."""
    return next((item for item in job["status"].get("conditions") or () if item["type"] == kind), None)


def is_true(job: KubeObject, kind: str) -> bool:
    """Whether the Job has that condition with status True."""
    found = condition(job, kind)
    return found is not None and found["status"] == "True"


def is_finished(job: KubeObject) -> bool:
    """Whether nothing about the Job changes any more."""
    return is_true(job, "Complete") or is_true(job, "Failed")


def with_condition(status: Mapping[str, Any], new: Condition) -> dict[str, Any]:
    """The status with that condition; from nothing to False is no change, as on Kubernetes."""
    conditions = list(status.get("conditions") or ())
    at = next((at for at, item in enumerate(conditions) if item["type"] == new["type"]), None)
    if at is None and new["status"] == "False":
        return dict(status)
    if at is None:
        return {**status, "conditions": [*conditions, new]}
    same = all(conditions[at][field] == new[field] for field in ("status", "reason", "message"))
    return dict(status) if same else {**status, "conditions": [*conditions[:at], new, *conditions[at + 1 :]]}


def new_condition(kind: str, status: str, reason: str, message: str, now: int) -> Condition:
    """A condition that begins now."""
    at = stamp(now)
    return {"type": kind, "status": status, "lastProbeTime": at, "lastTransitionTime": at, "reason": reason, "message": message}


def with_counts(job: KubeObject, counts: Tally) -> dict[str, Any]:
    """The status with these counts; zeros left out where Kubernetes leaves them out."""
    status = {**job["status"], "uncountedTerminatedPods": {}}
    often = {"active": len(counts.active), "succeeded": len(counts.succeeded), "failed": counts.failed}
    for field, number in often.items():
        status.pop(field, None)
        if number:
            status[field] = number
    status["ready"] = sum(is_ready(pod) for pod in counts.active)
    status["terminating"] = len(counts.terminating)
    if is_indexed(job) and counts.succeeded:
        status["completedIndexes"] = written_indexes(counts.succeeded)
    return status


def is_ready(pod: KubeObject) -> bool:
    """Whether the pod has Ready=True."""
    return any(item["type"] == "Ready" and item["status"] == "True" for item in pod["status"].get("conditions") or ())


def parse_indexes(written: str) -> frozenset[int]:
    """Indexes as a Job's status writes them: `0,2-4`."""
    found: set[int] = set()
    for part in filter(None, written.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def written_indexes(indexes: Iterable[int]) -> str:
    """The reverse of `parse_indexes`: three or more in a row become a range, as Kubernetes writes them."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs)
