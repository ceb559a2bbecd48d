"""The programs of a world, unchanged: hubs over their clones, and regions with cluster, sync engine and agent.

Decides how each is built and built again after its death; when it takes a step is for the world. A killed program leaves its
folders and what it wrote; a new one finds those and nothing else.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

from reconciler.adapters.documents import reader
from reconciler.adapters.local import LocalCluster, LocalSync, NodeSpec, Settings
from reconciler.adapters.local.nodes import return_node
from reconciler.adapters.local.objects import ref_of
from reconciler.agent.loop import Agent
from reconciler.agent.settings import Settings as AgentSettings
from reconciler.hub.cycle import Hub
from reconciler.hub.ledger import Corrupt
from reconciler.hub.results import Ended, HubOptions, Result
from reconciler.model.names import region_branch
from reconciler.ports import Conflict, KubeObject, ObjectStore, Refused, SyncState, Transient
from tests.sim.faults import FaultyCluster, FaultyGit, FaultyStore, Fuse, Past
from tests.sim.person import TEAMS, Fields
from tests.sim.witness import Violation, WitnessedRuntime

START = datetime(2026, 5, 1, 10, 0, 0, tzinfo=UTC)
NODES = tuple(NodeSpec(f"a-{number}", gpus=8, product="NVIDIA-A100-SXM4-80GB", vram_mib=81920) for number in (1, 2))
AGENT = AgentSettings(look_seconds=5.0, rest_seconds=0.1)


class Time:
    """The world's own time in seconds; nobody sees it but by a clock of his own."""

    def __init__(self) -> None:
        self.seconds = 0.0


class Clock:
    """One program's clocks. `wall_ahead`: how wrong its wall clock is; `stopped`: its monotonic clock stands still."""

    def __init__(self, time: Time, wall_ahead: float = 0.0) -> None:
        self._time = time
        self._wall_ahead = wall_ahead
        self._behind = 0.0
        self._stopped_at: float | None = None

    def now(self) -> datetime:
        return START + timedelta(seconds=self._time.seconds + self._wall_ahead)

    def monotonic(self) -> float:
        seconds = self._stopped_at if self._stopped_at is not None else self._time.seconds - self._behind
        return 5000.0 + seconds

    def stop(self) -> None:
        self._stopped_at = self.monotonic() - 5000.0

    def go_on(self) -> None:
        """It counts on from where it stood, as after a paused virtual machine."""
        if self._stopped_at is not None:
            self._behind = self._time.seconds - self._stopped_at
            self._stopped_at = None


@dataclass(frozen=True, slots=True)
class Place:
    """What every program of a world shares."""

    root: Path
    remote: Path
    store: ObjectStore
    past: Past
    time: Time
    quick: bool
    """Whether asking and fetching go the short way; see `faults.FaultyGit`."""

    def git(self, name: str, fuse: Fuse) -> FaultyGit:
        """The remote as the program of that name sees it, by a clone of its own."""
        return FaultyGit(self.remote, self.root / f"clone-{name}", fuse, quick=self.quick)


class Actor(Protocol):
    """Something that takes steps and can die."""

    name: str
    fuse: Fuse

    def step(self) -> None: ...

    def restart(self) -> None: ...


@dataclass
class HubActor:
    """One hub. `results` says how its cycles ended."""

    name: str
    place: Place
    fuse: Fuse
    clock: Clock
    starts: int = 0
    results: list[Result | Exception] = field(default_factory=list)
    hub: Hub = field(init=False)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.starts += 1
        git = self.place.git(self.name, self.fuse)
        store = FaultyStore(self.place.store, self.fuse, self.place.past)
        options = HubOptions(f"{self.name}-{self.starts}", "https://git.example.com/jobs", "reg.example.com/stage:1")
        self.hub = Hub(git, store, reader, self.clock, options)  # type: ignore[arg-type]

    def step(self) -> None:
        """One cycle, with the errors that the hub's loop expects of it; any other is a bug."""
        try:
            self.results.append(self.hub.cycle())
        except (Transient, Refused, Corrupt) as error:
            self.results.append(error)

    @property
    def last(self) -> Result | Exception | None:
        return self.results[-1] if self.results else None

    @property
    def is_quiet(self) -> bool:
        return isinstance(self.last, Result) and self.last.ended in (Ended.IDLE, Ended.QUIET) and not self.last.ungranted


@dataclass
class Region:
    """One region. Its cluster is a Kubernetes: it outlives every agent."""

    name: str
    place: Place
    runtime: WitnessedRuntime
    clock: Clock
    folder: Path | None = None
    cluster: LocalCluster = field(init=False)

    def __post_init__(self) -> None:
        self.open()

    def open(self) -> None:
        """Start the cluster; in the folder of an earlier one it goes on where that ended, and its programs run on."""
        self.cluster = LocalCluster(self.folder, NODES, self.runtime, self.clock, Settings(self.name, TEAMS))

    def reopen(self) -> None:
        """The whole region dies and starts anew; without a folder a Kubernetes does not die."""
        if self.folder is not None:
            self.cluster.close()
            self.open()

    def settle(self) -> None:
        """Let everything happen in the cluster that happens now."""
        for _ in range(200):
            if not self.cluster.step():
                return
        raise AssertionError(f"{self.name} does not come to rest")

    def return_nodes(self) -> None:
        """Every node is heard again."""
        with self.cluster.changes() as (objects, now):
            for node in NODES:
                return_node(objects, node.name, now)

    def patch(self, item: KubeObject, body: Fields) -> None:
        """A person's own patch; what the API does not take is left."""
        with suppress(Conflict, Refused):
            self.cluster.patch(ref_of(item), body)
        self.settle()

    @property
    def now(self) -> int:
        """The present moment of its programs, in milliseconds."""
        return self.cluster._time.now()


@dataclass
class SyncActor:
    """The sync engine of a region, with a clone of its own."""

    name: str
    region: Region
    fuse: Fuse
    sync: LocalSync = field(init=False)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        git = self.region.place.git(self.name, self.fuse)
        self.sync = LocalSync(self.region.cluster, git, region_branch(self.region.name), self.region.clock)  # type: ignore[arg-type]

    def state(self) -> SyncState:
        """What the engine that is at work says; as `ports.SyncEngine`, for an agent that outlives it."""
        return self.sync.state()

    def nudge(self, commit: str) -> None:
        self.sync.nudge(commit)

    def step(self) -> None:
        try:
            self.sync.step()
        except (Transient, Refused):
            return


@dataclass
class AgentActor:
    """The agent of a region: always one, but a paused one may still be under way when its successor is at work."""

    name: str
    region: Region
    engine: SyncActor
    fuse: Fuse
    starts: int = 0
    agent: Agent = field(init=False)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.starts += 1
        region = self.region
        self.agent = Agent(
            region=region.name,
            cluster=FaultyCluster(lambda: region.cluster, self.fuse),
            engine=self.engine,
            store=FaultyStore(region.place.store, self.fuse, region.place.past),
            clock=region.clock,
            settings=AGENT,
            incarnation=f"{region.name}-{self.starts}",
        )

    def step(self) -> None:
        agent = self.agent
        agent.step()
        bugs = {about: trouble.message for (code, about), trouble in agent.memory.troubles.items() if code == "Bug"}
        if bugs:
            raise Violation(f"the agent of {self.region.name} has a bug: {bugs}")
