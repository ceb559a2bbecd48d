"""`ports.Cluster` on a real Kubernetes API.

Decides which requests a call becomes and what their answers mean to it. What is to be read or changed is the agent's.

Invariants: a patch is done on exactly the object and version that it names, or not at all; a deletion only on the object that it
names. What a look consists of stands in looking.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from reconciler.adapters.kube import events, record
from reconciler.adapters.kube.access import Access
from reconciler.adapters.kube.answers import MERGE_PATCH, Request, blames, failure, said
from reconciler.adapters.kube.connection import Connection
from reconciler.adapters.kube.listing import Collection, Until
from reconciler.adapters.kube.looking import ADMISSIONS, JOB_SETS, QUEUED, WATCHED, Look, look
from reconciler.adapters.kube.meters import Meters, MeterTimes
from reconciler.adapters.kube.watching import Times, Watch
from reconciler.model.pods import MAIN
from reconciler.ports import Clock, ClusterState, Conflict, ObjectRef, Refused, Stored, Transient, Wake

OWN_NAMESPACE: Final = "gpu-reconciler"
_RECORD: Final = "agent-record"
_PLURALS: Final = {
    "Pod": ("/api/v1", "pods"),
    "Job": ("/apis/batch/v1", "jobs"),
    "JobSet": ("/apis/jobset.x-k8s.io/v1alpha2", "jobsets"),
    "Workload": (ADMISSIONS, "workloads"),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """How the cluster is asked. Times in seconds."""

    namespace: str = OWN_NAMESPACE
    """The agent's own, with its record in it."""
    page: int = 100
    """Objects in one answer. Larger ones cost memory: 500 pods are 50 MB while they are read."""
    request_seconds: float = 10.0
    """For one request. It must fit into the margin after which the hub gives a silent region's jobs to others (30 s)."""
    look_seconds: float = 30.0
    """For the whole of a `read`, all pages together."""
    confirm_seconds: float = 180.0
    """How long a watch's copy counts after its server has last spoken. It must be longer than a silence is borne."""
    watching: Times = field(default_factory=Times)
    metering: MeterTimes = field(default_factory=MeterTimes)


_DEFAULTS: Final = Settings()


class KubeCluster:
    """One region's API server. Safe to share between threads.

    Without `start` it holds nothing of what it has read, and each look reads all. With it, a look reads what is ours and takes
    the rest from copies that watches keep.
    """

    def __init__(self, access: Access, clock: Clock, settings: Settings = _DEFAULTS) -> None:
        """Nothing is sent yet."""
        self.connection = Connection(access, clock, settings.request_seconds)
        """Also for whatever else is asked of this server."""
        self._clock = clock
        self._settings = settings
        self._record = record.Place(settings.namespace, _RECORD)
        self._watches: Mapping[Collection, Watch] = {}
        self._meters: Meters | None = None
        self._wake: Wake | None = None

    def start(self, wake: Wake) -> None:
        """Watch the cluster and read its GPU meters, once only.

        `wake` is called, from other threads, when something changes that is read.
        """
        self._wake = wake
        self._watch(*WATCHED)
        self._meters = Meters(self.connection, self._clock, self._settings.metering)
        self._meters.start()

    def stop(self) -> None:
        """End the watches, and give up all connections. Calls of others go on as before."""
        watches, self._watches, self._wake = self._watches, {}, None
        meters, self._meters = self._meters, None
        for watch in watches.values():
            watch.stop(self._settings.request_seconds)
        if meters is not None:
            meters.stop(self._settings.request_seconds)
        self.connection.close()

    def read(self) -> ClusterState:
        """All nodes, namespaces, PriorityClasses and pods, and the workloads with our label. Raises Transient or Refused."""
        now, settings = self._clock.monotonic(), self._settings
        until = Until(self._clock, now + settings.look_seconds, settings.page)
        state = look(Look(self.connection, self._watches, now - settings.confirm_seconds, until))
        there = {QUEUED: state.admissions is not None, JOB_SETS: "jobset" in state.kinds}
        self._watch(*(wanted for wanted, is_there in there.items() if is_there and wanted not in self._watches))
        meters = self._meters
        if meters is None:
            return state
        troubles = [*state.troubles, meters.trouble] if meters.trouble else state.troubles
        return replace(state, meters=meters.latest(), troubles=troubles)

    def patch(self, target: ObjectRef, body: Mapping[str, Any]) -> ObjectRef:
        """JSON merge patch at exactly that version; returns the new one. A body of `status` alone is for the status subresource.

        Raises Conflict, Refused or Transient.
        """
        versions = {"uid": target.uid, "resourceVersion": target.resource_version}
        asked = body.get("metadata") or {}
        for name, value in versions.items():
            if asked.get(name, value) != value:
                raise Conflict(f'{target.kind} "{target.name}": the object has been modified; {name} differs')
        path = f"{_path(target)}/status" if body.keys() == {"status"} else _path(target)
        request = Request("PATCH", path, body={**body, "metadata": {**asked, **versions}}, content=MERGE_PATCH)
        answer = self.connection.ask(request, take=(HTTPStatus.NOT_FOUND, HTTPStatus.UNPROCESSABLE_ENTITY))
        if answer.code == HTTPStatus.NOT_FOUND:
            raise Conflict(f'{target.kind} "{target.name}" with uid {target.uid} is not there any more')
        if answer.code == HTTPStatus.UNPROCESSABLE_ENTITY:
            # Another uid at the same version is told as a change of an immutable field, not as a conflict.
            if blames(answer.value, "metadata.uid"):
                raise Conflict(f"{request}: {said(answer.value)}")
            raise failure(request, answer.code, answer.value)
        metadata = answer.value["metadata"]
        return ObjectRef(target.kind, target.namespace, target.name, str(metadata["uid"]), str(metadata["resourceVersion"]))

    def delete(self, target: ObjectRef, grace_seconds: int | None) -> None:
        """Delete that very object (by uid), what it owns after it; gone already is success. Raises Refused or Transient."""
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": target.uid}}
        if target.kind != "Pod":
            options["propagationPolicy"] = "Background"
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = max(grace_seconds, 0)
        request = Request("DELETE", _path(target), body=options)
        answer = self.connection.ask(request, take=(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT))
        if answer.code == HTTPStatus.CONFLICT and self._is_there(target):
            raise Transient(f"{request}: {said(answer.value)}")

    def log_tail(self, namespace: str, pod: str, limit: int) -> str:
        """The last `limit` bytes that the pod's main container wrote; '' where there are none. Raises Refused or Transient.

        The API's own `limitBytes` cuts the end off, not the beginning. So lines are asked for, first as many as usually suffice.
        """
        path = _path(ObjectRef("Pod", namespace, pod, "", ""))
        found = self.connection.ask(Request("GET", path), take=(HTTPStatus.NOT_FOUND,))
        if found.code == HTTPStatus.NOT_FOUND or limit <= 0:
            return ""
        names = [container["name"] for container in found.value["spec"]["containers"]]
        tail = b""
        for lines in (limit // 32 + 1, limit + 1):
            query = {"container": MAIN if MAIN in names else names[0], "tailLines": str(lines)}
            # 400: the container has not started.
            taken = (HTTPStatus.NOT_FOUND, HTTPStatus.BAD_REQUEST)
            tail = self.connection.tail(Request("GET", f"{path}/log", query), limit, taken) or b""
            if len(tail) >= limit or tail.count(b"\n") < lines:
                break
        return tail.decode(errors="replace")

    def complaints(self, target: ObjectRef, limit: int) -> Sequence[str]:
        """What the cluster's controllers complained of about that very object, newest first. Raises Refused or Transient."""
        return events.complaints(self.connection, target, limit)

    def read_record(self) -> Stored | None:
        """The agent's record and its version. Raises Refused or Transient."""
        return record.read(self.connection, self._record)

    def write_record(self, body: bytes, *, expect: str | None) -> str:
        """Replace the record by compare-and-swap; returns its new version. Raises Conflict, Refused or Transient."""
        return record.write(self.connection, self._record, body, expect)

    def _watch(self, *collections: Collection) -> None:
        """Follow these as well; nothing where nobody is to be woken."""
        wake = self._wake
        if wake is None:
            return
        made = {wanted: Watch(self.connection, wanted, self._clock, self._settings.watching, wake) for wanted in collections}
        self._watches = {**self._watches, **made}
        for watch in made.values():
            watch.start()

    def _is_there(self, target: ObjectRef) -> bool:
        found = self.connection.ask(Request("GET", _path(target)), take=(HTTPStatus.NOT_FOUND,))
        return found.code != HTTPStatus.NOT_FOUND and found.value["metadata"]["uid"] == target.uid


def _path(target: ObjectRef) -> str:
    if target.kind not in _PLURALS:
        raise Refused(f"{target.kind} is no kind that the agent changes; it knows {', '.join(sorted(_PLURALS))}")
    root, plural = _PLURALS[target.kind]
    return f"{root}/namespaces/{quote(target.namespace, safe='')}/{plural}/{quote(target.name, safe='')}"
