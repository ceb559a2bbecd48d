"""A region's cluster on one machine: the same API, controllers, scheduler and kubelet words as a Kubernetes, in one object.

Decides the order of a pass (controllers, scheduler, kubelet), when a pass is due and when objects go to disk; what each
part does stands in its own module. The agent drives it through `ports.Cluster`, as it drives a real one.

Invariants: every write is on disk before its writer is told (with a folder); a pass that is not due changes nothing and
costs nothing; one caller is inside at a time, whatever the threads.
"""

import base64
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from reconciler.adapters.local.admission import Rules
from reconciler.adapters.local.job_controller import collect, sync_job
from reconciler.adapters.local.keeping import Folder, Kept, load
from reconciler.adapters.local.kubelet import run_pods
from reconciler.adapters.local.moments import timeline
from reconciler.adapters.local.nodes import NodeSpec, evict, place_nodes
from reconciler.adapters.local.objects import Key, Objects, ref_of
from reconciler.adapters.local.runtime import Runtime
from reconciler.adapters.local.scheduler import schedule
from reconciler.model.names import LABEL_MANAGED, MANAGED_BY
from reconciler.model.pods import MAIN
from reconciler.ports import Clock, ClusterState, Conflict, KubeObject, ObjectRef, Refused, Stored

OWN_NAMESPACE: Final = "gpu-reconciler"
"""Where what the region keeps for agent and sync engine stands, beside the teams' namespaces."""
_RECORD: Final = "agent-record"


@dataclass(frozen=True, slots=True)
class Settings:
    """What a region is, beside its nodes: its name, its namespaces, the patterns of known images, its priority classes."""

    name: str = "local"
    namespaces: Sequence[str] = ()
    images: Sequence[str] = ("*",)
    priorities: Mapping[str, int] = field(default_factory=dict)


_DEFAULTS: Final = Settings()


class LocalCluster:
    """`ports.Cluster` on one machine; `step` lets time pass in it. `close` it to free the folder; what runs runs on."""

    def __init__(
        self, folder: Path | None, nodes: Sequence[NodeSpec], runtime: Runtime, clock: Clock, settings: Settings = _DEFAULTS
    ) -> None:
        """Go on where the folder's last region ended; without a folder, begin anew and keep nothing. Raises Refused."""
        self._lock = threading.RLock()
        self._folder = Folder(folder) if folder is not None else None
        self._runtime = runtime
        self._images = settings.images
        self._priorities = dict(settings.priorities)
        self._time = timeline(clock)
        kept = (self._folder.load() if self._folder else None) or Kept(settings.name, 0, [])
        self._origin = kept.origin
        self._objects = Objects(kept.origin, Rules(self._priorities), kept.objects, kept.version)
        self._kept_version = kept.version
        self._seen_version = -1
        self._due: int | None = None
        self._jobs_due: dict[Key, int | None] = {}
        self._paused = False
        self._check_priorities()
        with self.changes() as (objects, now):
            for name in sorted({*settings.namespaces, OWN_NAMESPACE}):
                if objects.get("Namespace", "", name) is None:
                    objects.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, now)
            place_nodes(objects, nodes, now)

    def read(self) -> ClusterState:
        """All nodes and pods, and the Jobs that carry our label."""
        with self._lock:
            return ClusterState(
                nodes=self._objects.every("Node"),
                pods=self._objects.every("Pod"),
                workloads=[job for job in self._objects.every("Job") if _is_ours(job)],
                namespaces=[item["metadata"]["name"] for item in self._objects.every("Namespace")],
                priority_values=self._priorities,
            )

    def patch(self, target: ObjectRef, body: Mapping[str, Any]) -> ObjectRef:
        """JSON merge patch at exactly that version; returns the new one. Raises Conflict, Refused or Transient."""
        with self.changes() as (objects, _):
            return ref_of(objects.patch(target, body))

    def delete(self, target: ObjectRef, grace_seconds: int | None) -> None:
        """Delete that very object (by uid); gone already is success. Raises Transient."""
        with self.changes() as (objects, now):
            item = objects.get(target.kind, target.namespace, target.name)
            if item is not None and item["metadata"]["uid"] == target.uid:
                objects.delete(item, now, grace_seconds)

    def log_tail(self, namespace: str, pod: str, limit: int) -> str:
        """The last `limit` bytes that the pod's main container wrote; '' where there are none."""
        with self._lock:
            item = self._objects.get("Pod", namespace, pod)
        if item is None:
            return ""
        names = [container["name"] for container in item["spec"]["containers"]]
        return self._runtime.log_tail(item["metadata"]["uid"], MAIN if MAIN in names else names[0], limit)

    def complaints(self, target: ObjectRef, limit: int) -> Sequence[str]:  # noqa: ARG002 - the port's
        """Nothing: here a pod is made of every Job that was taken, so none is complained of."""
        return ()

    def read_record(self) -> Stored | None:
        """The agent's record and its version."""
        with self._lock:
            item = self._objects.get("ConfigMap", OWN_NAMESPACE, _RECORD)
        if item is None:
            return None
        return Stored(base64.b64decode(item["binaryData"]["record"]), item["metadata"]["resourceVersion"])

    def write_record(self, body: bytes, *, expect: str | None) -> str:
        """Replace the record by compare-and-swap; returns its new version. Raises Conflict or Transient."""
        with self.changes() as (objects, now):
            item = objects.get("ConfigMap", OWN_NAMESPACE, _RECORD)
            if expect != (item and item["metadata"]["resourceVersion"]):
                raise Conflict("the agent's record is not the one that was read before")
            written = {"record": base64.b64encode(body).decode()}
            if item is None:
                names = {"namespace": OWN_NAMESPACE, "name": _RECORD}
                made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": names, "binaryData": written}
                stored = objects.create(made, now)
            else:
                stored = objects.replace(item, binaryData=written)
            return str(stored["metadata"]["resourceVersion"])

    def step(self) -> bool:
        """One pass of controllers, scheduler and kubelet, if one is due; says whether there was one. Raises Transient."""
        with self._lock:
            now = self._time.now()
            if not self._is_due(now):
                return False
            self._seen_version = self._objects.version
            try:
                dues = [] if self._paused else [self._control(now)]
                schedule(self._objects, now)
                dues.append(run_pods(self._objects, self._runtime, self._images, now))
            finally:
                self._keep()
            self._due = min((due for due in dues if due is not None), default=None)
            return True

    def next_due(self) -> float | None:
        """When `step` has something to do, in seconds of the clock's `monotonic`; None until somebody writes."""
        with self._lock:
            if self._objects.version != self._seen_version:
                return self._time.monotonic_of(self._time.now())
            return None if self._due is None else self._time.monotonic_of(self._due)

    @property
    def version(self) -> int:
        """How often anything was written; it rises with every write and with nothing else."""
        with self._lock:
            return self._objects.version

    def pause_controllers(self, *, paused: bool) -> None:
        """Stop or start what a kube-controller-manager runs: Jobs, garbage, evictions. Scheduler and kubelet go on."""
        with self._lock:
            self._paused = paused
            self._seen_version = -1

    @contextmanager
    def changes(self) -> Iterator[tuple[Objects, int]]:
        """The objects and the present moment, for one caller at a time; what it writes is kept at the end."""
        with self._lock:
            try:
                yield self._objects, self._time.now()
            finally:
                self._keep()

    def close(self) -> None:
        """Free the folder. Nothing is stopped; the next region in it takes over what runs."""
        with self._lock:
            if self._folder is not None:
                self._folder.close()

    def _check_priorities(self) -> None:
        """Jobs that were taken must be able to make their pods. Raises Refused."""
        for job in self._objects.every("Job"):
            name = job["spec"]["template"]["spec"].get("priorityClassName")
            if name and name not in self._priorities:
                self.close()
                where = f"{job['metadata']['namespace']}/{job['metadata']['name']}"
                raise Refused(f"Job {where} has priority class {name}; keep that in the region's settings while it exists")

    def _is_due(self, now: int) -> bool:
        return self._objects.version != self._seen_version or (self._due is not None and now >= self._due)

    def _control(self, now: int) -> int | None:
        eviction = evict(self._objects, now)
        collect(self._objects, now)
        asked = {key for key in self._objects.drain() if key[0] == "Job"}
        asked |= {key for key, due in self._jobs_due.items() if due is not None and due <= now}
        for key in sorted(asked):
            job = self._objects.get(*key)
            if job is None:
                self._jobs_due.pop(key, None)
            else:
                self._jobs_due[key] = sync_job(self._objects, job, now)
        return min((due for due in (eviction, *self._jobs_due.values()) if due is not None), default=None)

    def _keep(self) -> None:
        if self._folder is not None and self._objects.version != self._kept_version:
            self._folder.keep(Kept(self._origin, self._objects.version, [dict(item) for item in self._objects.everything()]))
            self._kept_version = self._objects.version


def _is_ours(job: KubeObject) -> bool:
    return (job["metadata"].get("labels") or {}).get(LABEL_MANAGED) == MANAGED_BY


def kept_record(folder: Path) -> bytes | None:
    """The agent's record as a region's folder has it, for who only looks on; None before the first. Raises Refused."""
    kept = load(folder)
    for item in kept.objects if kept is not None else ():
        metadata = item["metadata"]
        if (item["kind"], metadata.get("namespace"), metadata["name"]) == ("ConfigMap", OWN_NAMESPACE, _RECORD):
            return base64.b64decode(item["binaryData"]["record"])
    return None
