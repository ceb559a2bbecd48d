"""A kubelet that runs the pods of a real API server as programs of this machine.

Decides when a pod is looked at, and what of its status is written; what to do next for a pod is the local region's
`run_pod`, how programs run is its `ProcessRuntime`. One thread looks at all pods; others bring the API server's events.
All that must survive a SIGKILL is in one folder: started again there, it finds its programs, which have run on.

Limits: nothing is restarted in place, whatever a pod's restartPolicy; no probes, no hooks, no ephemeral containers; CPU, memory
and disk are counted by the scheduler and enforced by nobody.

Invariants: what the API server is told has happened; finalizers are never touched; a pod is removed only after its programs
have ended.
"""

import fcntl
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from reconciler.adapters.clock import SystemClock
from reconciler.adapters.local import NodeSpec, ProcessSettings
from reconciler.adapters.local.kubelet import Machine, run_pod
from reconciler.adapters.local.moments import millis, timeline
from reconciler.adapters.local.objects import TERMINAL
from tests.e2e.kubelet.api import STRATEGIC, Api, Denied, Json, Unreachable
from tests.e2e.kubelet.endpoint import Endpoint, Log
from tests.e2e.kubelet.ends import Ends
from tests.e2e.kubelet.events import complain
from tests.e2e.kubelet.news import LISTED, bring_news, say
from tests.e2e.kubelet.nodes import Devices, TooFew, beat, register
from tests.e2e.kubelet.sources import ApiRuntime
from tests.e2e.kubelet.statuses import changed, names_of, running_of, states_of

UP = "up"
"""File in the kubelet's folder: the pid of the kubelet that knows of all pods of its nodes."""
BEAT_MILLIS = 10_000
"""How often nodes renew their leases."""
LOOK_MILLIS = 1000
"""How often a pod that runs is looked at although nothing is heard of it."""
STOPPING_MILLIS = 50
"""The same while programs are being ended."""
RETRY_MILLIS = 500
"""How soon what the API server did not take is tried again."""


@dataclass(frozen=True, slots=True)
class Options:
    """Where the kubelet is and what it stands for. `images`: patterns of images that can be pulled; `entry_points`: argv of
    images that pods start without a command; `environment`: what images would bring of it."""

    kubeconfig: Path
    folder: Path
    nodes: Sequence[NodeSpec]
    images: Sequence[str] = ("*",)
    entry_points: Mapping[str, Sequence[str]] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


class Kubelet:
    """The pods of some nodes, by name, and what runs of them."""

    def __init__(self, options: Options) -> None:
        """Take over what the folder's last kubelet started. Raises BlockingIOError where that one still runs."""
        options.folder.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(options.folder, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._options = options
        self._nodes = {spec.name: spec for spec in options.nodes}
        self._time = timeline(SystemClock())
        self._api = Api(options.kubeconfig)
        self._runtime = ApiRuntime(options.folder, self._programs(), self._api)
        self._machine = Machine(self._runtime, options.images, self._runtime.config_map)
        self._devices = Devices(options.folder / "devices")
        self._endpoint = Endpoint(self._api, self._log_of)
        self._pods: dict[str, Json] = {}
        self._dues: dict[str, int] = {}
        self._deadlines: dict[str, tuple[str, int]] = {}
        self._gone: set[str] = set()
        self._listed: set[str] = set()
        self._news: SimpleQueue[Json | BaseException] = SimpleQueue()
        self._ends = Ends()

    def run(self, stop: threading.Event) -> None:
        """Be the kubelet until `stop`; programs run on."""
        threading.Thread(target=self._endpoint.serve_forever, name="endpoint", daemon=True).start()
        for name in self._nodes:
            threading.Thread(target=bring_news, args=(self._api, name, self._tell, stop), name=name, daemon=True).start()
        registered: set[str] = set()
        beat_at = 0
        while not stop.is_set():
            now = self._time.now()
            if now >= beat_at:
                beat_at = now + self._beat(registered, now)
            self._step()
            due = min([beat_at, *self._dues.values()])
            due = min(due, self._time.now() + STOPPING_MILLIS) if self._gone else due
            self._wait(max(0, due - self._time.now()) / 1000)
        self._endpoint.ending.set()
        self._endpoint.shutdown()

    def wake(self) -> None:
        """Have `run` look at once."""
        self._ends.wake()

    # ---- what is heard

    def _tell(self, event: "Json | BaseException") -> None:
        self._news.put(event)
        self.wake()

    def _wait(self, seconds: float) -> None:
        for uid in self._ends.wait(seconds):
            self._dues[uid] = 0

    def _hear(self) -> None:
        while True:
            try:
                event = self._news.get_nowait()
            except Empty:
                return
            if isinstance(event, BaseException):
                raise event
            if event["type"] == LISTED:
                self._note_all(event["node"], event["items"])
            elif event["type"] == "DELETED":
                self._drop(event["object"]["metadata"]["uid"])
            elif event["type"] != "BOOKMARK":
                self._note(event["object"])

    def _note_all(self, node: str, pods: Sequence[Json]) -> None:
        for pod in pods:
            self._note(pod)
        found = {pod["metadata"]["uid"] for pod in pods}
        known = {uid for uid, pod in self._pods.items() if pod["spec"]["nodeName"] == node}
        self._listed.add(node)
        if len(self._listed) == len(self._nodes):
            # Only now can a pod be missed that an earlier kubelet ran here.
            known |= {*self._runtime.pods(), *self._devices.holders()} - self._pods.keys()
            (self._options.folder / UP).write_text(str(os.getpid()), "utf-8")
        for uid in known - found:
            self._drop(uid)

    def _note(self, pod: Json) -> None:
        """Keep the pod, unless what is known is newer, and look at it."""
        uid = pod["metadata"]["uid"]
        if uid in self._gone:
            return
        known = self._pods.get(uid)
        if known is None or int(known["metadata"]["resourceVersion"]) < int(pod["metadata"]["resourceVersion"]):
            self._pods[uid] = pod
            self._dues[uid] = 0

    def _drop(self, uid: str) -> None:
        """A pod that is no more: its programs end, and what is kept of them goes."""
        if self._pods.pop(uid, None) is not None or uid in {*self._runtime.pods(), *self._devices.holders()}:
            self._gone.add(uid)
        self._dues.pop(uid, None)
        self._deadlines.pop(uid, None)
        self._ends.drop(uid)

    # ---- what is done

    def _step(self) -> None:
        self._hear()
        now = self._time.now()
        for uid in list(self._gone):
            self._runtime.forget(uid, now)
            if uid not in self._runtime.pods():
                self._devices.free(uid)
                self._gone.discard(uid)
        for uid in [uid for uid, due in self._dues.items() if due <= now]:
            try:
                self._advance(self._pods[uid])
            except Unreachable as trouble:
                say(f"pod {_called(self._pods[uid])}: {trouble}")
                self._dues[uid] = self._time.now() + RETRY_MILLIS

    def _advance(self, pod: Json) -> None:
        uid, now = pod["metadata"]["uid"], self._time.now()
        self._dues.pop(uid)
        if pod["status"]["phase"] in TERMINAL:
            self._devices.free(uid)
            self._remove(pod)
            return
        try:
            given = self._devices.with_gpus(pod, self._nodes[pod["spec"]["nodeName"]])
        except TooFew as few:
            if self._gone & set(self._devices.holders()):  # pods that were removed by force: theirs are free in a moment
                self._dues[uid] = now + STOPPING_MILLIS
                return
            self._write(pod, {**pod["status"], "phase": "Failed", "reason": "UnexpectedAdmissionError", "message": str(few)})
            return
        brought = run_pod(self._machine, given, self._deadline(pod, now), now)
        running = running_of(brought.status)
        self._dues.update(_next_look(uid, pod, brought.dues, running=bool(running), now=now))
        for name in running:
            self._ends.watch(uid, name, self._runtime.shim_of)
        self._write(pod, brought.status)

    def _deadline(self, pod: Json, now: int) -> int | None:
        """By when all of a deleted pod must have ended: its grace counted from when it is first seen so, and in no case longer
        than the API server's time, which is cut off to seconds."""
        metadata = pod["metadata"]
        if "deletionTimestamp" not in metadata:
            return None
        uid, written = metadata["uid"], metadata["deletionTimestamp"]
        if self._deadlines.get(uid, ("", 0))[0] != written:
            by = min(now + int(metadata.get("deletionGracePeriodSeconds") or 0) * 1000, millis(written) + 1000)
            self._deadlines[uid] = written, by
        return self._deadlines[uid][1]

    def _write(self, pod: Json, status: Mapping[str, Any]) -> None:
        """Tell the API server what is new, and remove the pod if that was its end."""
        change = changed(pod["status"], status)
        if change:
            body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": change}
            try:
                written = self._api.patch(f"{_path(pod)}/status", body, STRATEGIC)
            except Denied as denied:
                if denied.status != 409:
                    raise
                written = None  # another pod has its name by now
            if written is None:
                return  # its end is among the next events
            complain(self._api, pod, status, self._time.now())
            self._pods[pod["metadata"]["uid"]] = pod = written
            say(f"pod {_called(pod)}: {status['phase']} {states_of(status)}")
        if status["phase"] in TERMINAL:
            self._devices.free(pod["metadata"]["uid"])
            self._remove(pod)

    def _remove(self, pod: Json) -> None:
        """The real deletion of a pod whose programs have ended; without grace already, only its finalizers hold it."""
        metadata = pod["metadata"]
        if "deletionTimestamp" not in metadata or metadata.get("deletionGracePeriodSeconds") == 0:
            return
        try:
            self._api.delete(_path(pod), {"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}})
        except Denied as denied:
            if denied.status != 409:
                raise

    # ---- nodes and logs

    def _beat(self, registered: set[str], now: int) -> int:
        """Keep the nodes alive; returns the milliseconds until the next time."""
        try:
            for name, spec in self._nodes.items():
                if name not in registered:
                    register(self._api, spec, self._endpoint.port, now)
                    registered.add(name)
                    say(f"node {name}: registered")
                beat(self._api, spec, self._endpoint.port, now)
        except Unreachable as trouble:
            say(f"nodes: {trouble}")
            return RETRY_MILLIS
        return BEAT_MILLIS

    def _log_of(self, namespace: str, name: str, container: str) -> Log | None:
        for uid, pod in tuple(self._pods.items()):
            if _called(pod) == f"{namespace}/{name}" and container in names_of(pod):
                file = self._options.folder / "pods" / uid / "containers" / container / "log"
                return Log(file, partial(self._is_over, uid, container))
        return None

    def _is_over(self, uid: str, container: str) -> bool:
        pod = self._pods.get(uid)
        return pod is None or container not in running_of(pod["status"])

    def _programs(self) -> ProcessSettings:
        """This interpreter first on PATH, so that `python3` and `reconciler` are those of the tests."""
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
        environment = {"PATH": path, "LANG": "C.UTF-8", "KUBERNETES_SERVICE_HOST": self._api.host}
        environment |= {"KUBERNETES_SERVICE_PORT": str(self._api.port), **self._options.environment}
        folder = self._options.folder
        return ProcessSettings(
            environment, folder / "secrets", folder / "claims", self._options.entry_points, logs=folder / "logs"
        )


def _next_look(uid: str, pod: Json, dues: Sequence[int], *, running: bool, now: int) -> dict[str, int]:
    found = list(dues)
    if running:
        ending = bool(dues) or "deletionTimestamp" in pod["metadata"]
        found.append(now + (STOPPING_MILLIS if ending else LOOK_MILLIS))
    return {uid: max(min(found), now + 1)} if found else {}


def _path(pod: Json) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def _called(pod: Json) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
