"""One look at a region: what is ours from the API server itself, what is not from the watches' copies where they are fresh.

Decides which source each part of a look has. What is done about what is seen is the agent's.

Invariants: workloads and the pods with our label are never older than the look, and the pods are read after the workloads:
whatever a workload that is seen shut had made of pods is then seen as well. A pod that a copy shows and that may be ours is asked
for again before it counts. Without a fresh copy, all of a collection is read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from reconciler.adapters.kube.answers import Request
from reconciler.adapters.kube.connection import Connection
from reconciler.adapters.kube.listing import Collection, Until, every
from reconciler.adapters.kube.slim import is_doubtful, names_a_queue, slim
from reconciler.adapters.kube.watching import Watch
from reconciler.model.names import LABEL_ATTEMPT, LABEL_MANAGED, MANAGED_BY
from reconciler.ports import ClusterState, Conflict, KubeObject, Refused, Transient

NODES: Final = Collection("Node", "/api/v1/nodes")
NAMESPACES: Final = Collection("Namespace", "/api/v1/namespaces")
PRIORITIES: Final = Collection("PriorityClass", "/apis/scheduling.k8s.io/v1/priorityclasses")
JOBS: Final = Collection("Job", "/apis/batch/v1/jobs", f"{LABEL_MANAGED}={MANAGED_BY}")
PODS: Final = Collection("Pod", "/api/v1/pods")
OUR_PODS: Final = Collection("Pod", "/api/v1/pods", LABEL_ATTEMPT)
ADMISSIONS: Final = "/apis/kueue.x-k8s.io/v1beta2"
"""Kueue's API."""
_JOB_SET_API: Final = "/apis/jobset.x-k8s.io/v1alpha2"
JOB_SETS: Final = Collection("JobSet", f"{_JOB_SET_API}/jobsets", f"{LABEL_MANAGED}={MANAGED_BY}")
"""Watched from when their kind is there; a look asks for them itself."""
_MADE_JOBS: Final = Collection("Job", "/apis/batch/v1/jobs", "jobset.sigs.k8s.io/jobset-uid")
QUEUED: Final = Collection("Workload", f"{ADMISSIONS}/workloads")
"""Watched for what changes there, from when a workload of ours names a queue; a look asks for them itself."""
WATCHED: Final = (NODES, NAMESPACES, PRIORITIES, JOBS, PODS)

_MOST_DOUBTFUL: Final = 20
"""Pods that are asked for one by one; if there are more, all are read."""


@dataclass(frozen=True, slots=True)
class Look:
    """How a look is done. `since`: what a copy must have been known to be so at, in seconds of the monotonic clock."""

    connection: Connection
    watches: Mapping[Collection, Watch]
    since: float
    until: Until


def look(at: Look) -> ClusterState:
    """The region as it is. Raises Transient or Refused."""
    nodes, namespaces, priorities = (_one_of(at, wanted) for wanted in (NODES, NAMESPACES, PRIORITIES))
    jobs, sets = every(at.connection, JOBS, at.until).items, _job_sets(at)
    workloads = [*jobs, *(sets or ())]
    makers = _made_by(at, sets or ())
    pods = _pods(at, {str(item["metadata"]["uid"]) for item in (*workloads, *makers)})
    admissions, unread = _admissions(at, workloads)
    return ClusterState(
        nodes=nodes,
        pods=pods,
        workloads=workloads,
        namespaces=[item["metadata"]["name"] for item in namespaces],
        priority_values={item["metadata"]["name"]: int(item["value"]) for item in priorities},
        admissions=admissions,
        makers=makers,
        kinds=("job",) if sets is None else ("job", "jobset"),
        troubles=[f"{wanted.path}: {watch.trouble}" for wanted, watch in at.watches.items() if watch.trouble] + unread,
    )


def _job_sets(at: Look) -> list[KubeObject] | None:
    """Those with our label; None where there is no such kind."""
    there = at.connection.ask(Request("GET", _JOB_SET_API), take=(HTTPStatus.NOT_FOUND,))
    return None if there.code == HTTPStatus.NOT_FOUND else every(at.connection, JOB_SETS, at.until).items


def _made_by(at: Look, sets: Sequence[KubeObject]) -> list[KubeObject]:
    """The Jobs that these have made. They carry no label of ours, for they are no workloads of their own."""
    if not sets:
        return []
    uids = {item["metadata"]["uid"] for item in sets}
    jobs = every(at.connection, _MADE_JOBS, at.until).items
    return [job for job in jobs if any(owner.get("uid") in uids for owner in job["metadata"].get("ownerReferences") or ())]


def _one_of(at: Look, wanted: Collection) -> list[KubeObject]:
    watch = at.watches.get(wanted)
    copied = None if watch is None else watch.items(at.since)
    return every(at.connection, wanted, at.until).items if copied is None else copied


def _admissions(at: Look, workloads: Sequence[KubeObject]) -> tuple[list[KubeObject] | None, list[str]]:
    """Kueue's Workloads where ours name a queue, and what is wrong with reading them; None where there is no Kueue, or no need.

    A Kueue that fails (its conversion webhook is away, say) must not keep anything from being seen and stopped: it shows nothing.
    """
    try:
        return _asked_of_kueue(at, workloads), []
    except (Conflict, Transient, Refused) as error:
        return [], [f"Kueue's Workloads cannot be read: {error}"]


def _asked_of_kueue(at: Look, workloads: Sequence[KubeObject]) -> list[KubeObject] | None:
    namespaces = sorted({item["metadata"]["namespace"] for item in workloads if names_a_queue(item)})
    if not namespaces:
        return None
    there = at.connection.ask(Request("GET", ADMISSIONS), take=(HTTPStatus.NOT_FOUND,))
    if there.code == HTTPStatus.NOT_FOUND:
        return None
    paths = [f"{ADMISSIONS}/namespaces/{quote(namespace, safe='')}/workloads" for namespace in namespaces]
    return [item for path in paths for item in every(at.connection, Collection("Workload", path), at.until).items]


def _pods(at: Look, workloads: set[str]) -> list[KubeObject]:
    watch = at.watches.get(PODS)
    if watch is None:
        return every(at.connection, PODS, at.until).items
    ours = every(at.connection, OUR_PODS, at.until).items
    copied = watch.items(at.since)
    if copied is None:
        return every(at.connection, PODS, at.until).items
    listed = {pod["metadata"]["uid"] for pod in ours}
    others = [pod for pod in copied if pod["metadata"]["uid"] not in listed]
    doubtful = [pod for pod in others if is_doubtful(pod, workloads)]
    if len(doubtful) > _MOST_DOUBTFUL:
        return every(at.connection, PODS, at.until).items
    kept = {id(pod) for pod in doubtful}
    asked = [found for pod in doubtful if (found := _as_it_is(at, pod)) is not None]
    return [*ours, *(pod for pod in others if id(pod) not in kept), *asked]


def _as_it_is(at: Look, pod: KubeObject) -> KubeObject | None:
    """That very pod from the API server itself; None where it is gone."""
    if at.until.clock.monotonic() > at.until.moment:
        raise Transient("not all pods that may be ours were asked for in time")
    metadata = pod["metadata"]
    path = f"/api/v1/namespaces/{quote(metadata['namespace'], safe='')}/pods/{quote(metadata['name'], safe='')}"
    answer = at.connection.ask(Request("GET", path), take=(HTTPStatus.NOT_FOUND,))
    if answer.code == HTTPStatus.NOT_FOUND or answer.value["metadata"]["uid"] != metadata["uid"]:
        return None
    return slim("Pod", answer.value)
