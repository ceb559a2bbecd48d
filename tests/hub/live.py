"""A region with the real agent, cluster and sync engine, whose programs run by passed-in time."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from reconciler.adapters.git import BareClone
from reconciler.adapters.local import LocalCluster, LocalSync, NodeSpec, SimulatedRuntime
from reconciler.adapters.local import Settings as ClusterSettings
from reconciler.adapters.local.runtime import Launch, Waiting
from reconciler.agent.loop import Agent
from reconciler.agent.settings import Settings as AgentSettings
from reconciler.model.grants import report_key
from reconciler.model.names import ANNOTATION_JOB_ID, LABEL_ATTEMPT
from reconciler.model.report import RegionReport
from reconciler.ports import ObjectStore
from tests.builders import TEAM
from tests.hub.doors import ManualClock

A100 = "NVIDIA-A100-SXM4-80GB"


@dataclass(frozen=True)
class Place:
    """Where a region lives: the remote, the store, the clock, and a folder of its own."""

    url: str
    store: ObjectStore
    clock: ManualClock
    folder: Path


@dataclass
class _Script(SimulatedRuntime):
    """Simulated containers that run as `programs` says of their job; until they are stopped where it says nothing."""

    programs: dict[str, Mapping[str, str]] = field(default_factory=dict)
    started: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def start(self, launch: Launch, now: int) -> Waiting | None:
        metadata = launch.pod["metadata"]
        said = metadata.get("annotations") or {}
        if not launch.is_init and metadata["uid"] not in self.pods():
            self.started.append(metadata["labels"][LABEL_ATTEMPT])
        says = {**said, **self.programs.get(said.get(ANNOTATION_JOB_ID, ""), {})}
        return super().start(replace(launch, pod={**launch.pod, "metadata": {**metadata, "annotations": says}}), now)


def runs(seconds: float | None = None, code: int = 0, stop: float = 0) -> dict[str, str]:
    """How a simulated program runs: for how long, how it ends, how long it takes to stop."""
    says = {"local.reconciler/exit-code": str(code), "local.reconciler/stop-seconds": str(stop)}
    return says if seconds is None else says | {"local.reconciler/run-seconds": str(seconds)}


class Live:
    """A region with the real agent, cluster and sync engine, by the rig's clock."""

    def __init__(self, place: Place, name: str, nodes: int, gpus: int, settings: Mapping[str, Any]) -> None:
        self.place, self.name = place, name
        self.runtime = _Script()
        specs = [NodeSpec(f"{name}-{number}", gpus=gpus, product=A100, cpu="96", memory="1000Gi") for number in range(nodes)]
        images = settings.get("images", ("*",))
        self.cluster = LocalCluster(None, specs, self.runtime, place.clock, ClusterSettings(name, (TEAM,), images))
        clone = BareClone(place.url, place.folder / f"clone-of-{name}")
        self.sync = LocalSync(self.cluster, clone, f"region/{name}", place.clock, interval_seconds=10.0)
        self.agents = 0
        self.paused = False
        """While it is set, the agent does nothing; cluster and sync engine go on."""
        self.restart()

    def restart(self) -> None:
        """Another agent takes the place of the one before."""
        self.agents += 1
        self.agent = Agent(
            self.name, self.cluster, self.sync, self.place.store, self.place.clock, AgentSettings(), f"agent-{self.agents}"
        )

    def turn(self) -> None:
        """Whatever happens in the region now."""
        for _ in range(3):
            self.settle()
            self.sync.step()
            self.settle()
            if not self.paused:
                self.agent.step()
        self.settle()

    def settle(self) -> None:
        """Let controllers, scheduler and kubelet come to rest."""
        for _ in range(500):
            if not self.cluster.step():
                return
        raise AssertionError("the cluster does not come to rest")

    @property
    def programs(self) -> dict[str, Mapping[str, str]]:
        """Job → how its program runs."""
        return self.runtime.programs

    def running(self) -> list[str]:
        """Attempts with a pod that runs, once for each pod."""
        pods = self.cluster.read().pods
        return sorted(pod["metadata"]["labels"][LABEL_ATTEMPT] for pod in pods if pod["status"].get("phase") == "Running")

    def report(self) -> RegionReport:
        """The newest report."""
        found = self.place.store.get(report_key(self.name))
        assert found is not None
        return RegionReport.model_validate_json(found.body)
