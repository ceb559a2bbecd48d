"""A region with real processes, in the test's own process or in one that can be killed."""

import json
import os
import sys
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

from reconciler.adapters.local import LocalCluster, NodeSpec, ProcessRuntime, ProcessSettings, Settings, shim
from reconciler.ports import KubeObject
from tests.adapters.local.world import TEAM, World, make_job
from tests.waiting import until

T = TypeVar("T")
NODES = (NodeSpec("n1", gpus=4, product="NVIDIA-L4"),)


class MachineClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return monotonic()


class RealWorld(World):
    """A region with real processes in `folder`, driven by the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock: Any = MachineClock()
        self.cluster = region_in(folder, self.clock)

    def settle(self) -> None:
        """Real things take their time: one pass."""
        self.cluster.step()

    def when(self, condition: Callable[[], T | None], within_seconds: float = 20.0) -> T:
        """Drive the region until the condition holds."""

        def driven() -> T | None:
            self.cluster.step()
            return condition()

        return until(driven, within_seconds)

    def run(self, script: str, name: str = "train", **job: Any) -> None:
        """Release a Job whose pods run this shell script, as it stands here."""
        literally = script.replace("$", "$$")
        self.create(make_job(name, container={"command": ["/bin/sh", "-c", literally], **job.pop("container", {})}, **job))
        self.when(lambda: self.job(name)["status"].get("conditions"))
        self.suspend(False, name)
        self.when(lambda: self.pods(name))

    def ends(self, name: str = "train") -> KubeObject:
        """The pod's main container's end, once its pod has a terminal phase."""

        def end() -> KubeObject | None:
            (pod,) = self.pods(name)
            if pod["status"]["phase"] not in ("Succeeded", "Failed"):
                return None
            found: KubeObject = pod["status"]["containerStatuses"][0]["state"]["terminated"]
            return found

        return self.when(end)

    def phase(self, phase: str, name: str = "train") -> KubeObject:
        """The pod, once it has that phase."""

        def pod() -> KubeObject | None:
            return next((one for one in self.pods(name) if one["status"]["phase"] == phase), None)

        return self.when(pod)

    def log(self, name: str = "train", limit: int = 4096) -> str:
        pod = self.pod(name)
        return self.cluster.log_tail(TEAM, pod["metadata"]["name"], limit)

    def logged(self, text: str, name: str = "train") -> str:
        """The log, once it has that text."""
        return self.when(lambda: self.log(name) if text in self.log(name) else None)

    def container_folder(self, name: str = "train") -> Path:
        return self.folder / "pods" / str(self.pod(name)["metadata"]["uid"]) / "containers" / "main"


def settings_in(folder: Path) -> ProcessSettings:
    base = {"PATH": os.environ["PATH"]}
    return ProcessSettings(base, folder / "secrets", folder / "claims", {"reg.example.com/entry:*": ("/bin/echo", "entry")})


def region_in(folder: Path, clock: Any) -> LocalCluster:
    runtime = ProcessRuntime(folder / "pods", settings_in(folder))
    return LocalCluster(folder, NODES, runtime, clock, Settings(namespaces=(TEAM,)))


def leave_nothing(folder: Path) -> None:
    """Kill every program of the region in `folder`, whatever became of the region."""

    def gone() -> bool:
        for claim in (folder / "pods").glob("*/containers/*/claim"):
            said = json.loads(claim.read_text(encoding="utf-8"))
            if shim.identity_of(said["pid"]) == shim.Identity(said["pid"], said["ticks"], said["boot"]):
                for pid in shim.descendants(said["pid"]):
                    shim.kill(pid)
                return False
        return True

    until(gone)


def is_running(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def put_texts(folder: Path, texts: Mapping[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")


def drive(folder: Path) -> None:
    """A region's own program: release whatever Job is asked for in `jobs.json`, then drive it until it is killed."""
    clock = MachineClock()
    cluster = region_in(folder, clock)
    with cluster.changes() as (objects, now):
        for job in json.loads((folder / "jobs.json").read_text(encoding="utf-8")):
            objects.create(job, now)
    pause = threading.Event()
    while True:
        cluster.step()
        due = cluster.next_due()
        pause.wait(0.02 if due is None else min(0.02, max(0.0, due - clock.monotonic())))


if __name__ == "__main__":
    drive(Path(sys.argv[1]))
