"""A region in a world: a Kubernetes, a sync engine and an agent, unchanged, and when each takes its steps.

Decides how each is started, dies, stands still and is started again. The Kubernetes outlives every agent; a killed agent leaves
what it wrote, and another start of it, on one of two machines, finds that and nothing else.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from reconciler.adapters.local import LocalCluster, LocalSync, NodeSpec, Settings
from reconciler.adapters.local.nodes import lose_node, return_node
from reconciler.agent.loop import Agent
from reconciler.agent.settings import Settings as AgentSettings
from reconciler.model.grants import lease_key
from reconciler.model.names import region_branch
from reconciler.ports import Refused, SyncState, Transient
from reconciler.sim.agenda import Clock, Turn
from reconciler.sim.doors import ClusterDoor, GitDoor, StoreDoor
from reconciler.sim.judge import Violation
from reconciler.sim.machines import Machines
from reconciler.sim.place import TEAMS, Place
from reconciler.sim.ways import Fuse, Killed, Life, Route, Way

NODES: Final = tuple(NodeSpec(f"a-{number}", gpus=8, product="NVIDIA-A100-SXM4-80GB", vram_mib=81920) for number in (1, 2))
TAKEOVER: Final = (15.0, 40.0)
"""Seconds until another replica acts in the place of one that is dead or stands still."""
_SETTLES: Final = 200


@dataclass
class Region:
    """One region: a Kubernetes that outlives every agent, an agent with replicas on two machines, and a sync engine."""

    name: str
    place: Place
    machines: tuple[Clock, Clock]
    store: Way = field(init=False)
    git: Way = field(init=False)
    kube: Way = field(init=False)
    runtime: Machines = field(init=False)
    cluster: LocalCluster = field(init=False)
    sync: LocalSync = field(init=False)
    agent: Agent = field(init=False)
    life: Life = field(default_factory=Life)
    starts: int = 0
    replays: int = 0
    """By how many commits the remote that the engine sees is behind."""
    stalled: bool = False
    """The engine does nothing."""
    is_off: bool = False
    """Without power: nothing of the region runs."""
    failures: tuple[str, ...] = ()
    _busy: Life | None = None
    _rate: float = 1.0

    def __post_init__(self) -> None:
        """Build it, and start its programs."""
        place, name = self.place, self.name
        self.store, self.git = Way(f"region {name} and the store"), Way(f"region {name} and Git")
        self.kube = Way(f"the agent of {name} and its Kubernetes")
        self.fuse = Fuse(self.stand_still)
        self.true_time = Clock(place.agenda)
        self.runtime = Machines(name, place.judge)
        self.cluster = LocalCluster(None, NODES, self.runtime, self.true_time, Settings(name, TEAMS))
        self.agent_turn = Turn(place.agenda, self._agent_comes)
        self.sync_turn = Turn(place.agenda, self._sync_comes)
        self.cluster_turn = Turn(place.agenda, self.settle)
        self.start_sync()
        self.start_agent()

    # ---- the cluster

    def settle(self) -> None:
        """Let everything happen in the cluster that happens now, and wake who watches it."""
        if self.is_off:
            return
        before = self.cluster.version
        for _ in range(_SETTLES):
            if not self.cluster.step():
                break
        else:
            raise Violation("Bug", f"the cluster of {self.name} does not come to rest")
        if self.cluster.version != before:
            self.wake_agent(0.05, 0.9)
        due = self.cluster.next_due()
        if due is not None:
            self.cluster_turn.by(max(self.true_time.seconds_of(due), self.place.agenda.seconds + 0.001))

    def power_off(self) -> None:
        """Everything that runs in the region ends at this moment."""
        self.is_off = True
        self.life.ended = True
        self.runtime.power_off()
        self.place.judge.befell(self.name)

    def power_on(self) -> None:
        """Its machines start again; what they ran is lost."""
        if self.is_off:
            self.is_off = False
            self.start_agent()
            self.sync_turn.by(self.place.agenda.seconds)
            self.settle()

    def lose_node(self, node: str) -> None:
        """A node loses its power, and is not heard any more."""
        with self.cluster.changes() as (objects, moment):
            uids = {pod["metadata"]["uid"] for pod in objects.every("Pod") if pod["spec"].get("nodeName") == node}
            lose_node(objects, node, moment)
        self.runtime.power_off(uids)
        self.place.judge.befell(self.name)
        self.settle()

    def return_nodes(self) -> None:
        """Every node is heard again."""
        with self.cluster.changes() as (objects, now):
            for node in NODES:
                return_node(objects, node.name, now)
        self.settle()

    # ---- the sync engine

    def start_sync(self) -> None:
        """A new process of the engine, which looks at once."""
        place = self.place
        git = GitDoor(place.remote, place.route(self.git, Fuse(self.stand_still), Life()), self._behind)
        self.sync = LocalSync(self.cluster, git, region_branch(self.name), self.true_time, interval_seconds=60.0)
        self.sync_turn.by(place.agenda.seconds)

    def state(self) -> SyncState:
        """What the engine says; as `ports.SyncEngine`, for an agent that outlives it."""
        return self.sync.state()

    def nudge(self, commit: str) -> None:
        """Tell the engine that there is a new commit."""
        self.sync.nudge(commit)
        self.sync_turn.by(self.place.agenda.seconds + 0.2 + self.place.dice.roll(f"nudge {self.name}"))

    def _behind(self) -> Mapping[str, str]:
        past = self.place.remote.past.get(region_branch(self.name), ())
        return {region_branch(self.name): past[-1 - self.replays]} if 0 < self.replays < len(past) else {}

    def _sync_comes(self) -> None:
        if self.is_off:
            return
        if not self.stalled:
            try:
                self.sync.step()
            except (Transient, Refused) as error:
                self.failures = (*self.failures[-3:], str(error))
            self.settle()
        due = self.true_time.seconds_of(self.sync.next_due())
        self.sync_turn.by(max(due, self.place.agenda.seconds + 0.5))

    # ---- the agent

    def start_agent(self) -> None:
        """Another start of the agent, on the other of its two machines where the one before may still be at work there."""
        self.life = Life()
        self.starts += 1
        place = self.place
        number = self.starts % 2
        clock = self.machines[number]
        self._rate = clock.rate
        store = StoreDoor(place.shelf, f"agent-{self.name}", self._route(self.store), own=lease_key(self.name))
        self.agent = Agent(
            region=self.name,
            cluster=ClusterDoor(self.cluster, self._route(self.kube), self.settle),
            engine=self,
            store=store,
            clock=clock,
            settings=_settings_of(f"{self.name}-{number}"),
            incarnation=f"{self.name}-{self.starts}",
        )
        self.agent_turn.drop()
        self.agent_turn.by(place.agenda.seconds)

    def _route(self, way: Way) -> Route:
        return self.place.route(way, self.fuse, self.life)

    def kill_agent(self, back_after: float) -> None:
        """The agent dies now; another start follows."""
        self.life.ended = True
        self._hinder(back_after)
        self._start_later(self.life, back_after)

    def stand_still(self, seconds: float) -> None:
        """The agent stands still within a step; where that lasts, its other replica acts meanwhile."""
        self.place.tell(f"the agent of {self.name} stands still for {seconds:.0f} s")
        after = TAKEOVER[0] + (TAKEOVER[1] - TAKEOVER[0]) * self.place.dice.roll(f"takeover {self.name}")
        if seconds > after:
            self._start_later(self.life, after)
        self._hinder(min(seconds, after))
        self.place.agenda.wait(seconds)

    def wake_agent(self, least: float, most: float) -> None:
        """Something that the agent watches has changed; it hears of it between so many seconds."""
        soon = least + (most - least) * self.place.dice.roll(f"wake {self.name}")
        self.agent_turn.by(self.place.agenda.seconds + soon)

    def _start_later(self, life: Life, after: float) -> None:
        def begin() -> None:
            if self.life is life and not self.is_off:
                self.place.tell(f"another replica of the agent of {self.name} begins")
                self.start_agent()

        self.place.agenda.at(self.place.agenda.seconds + after, begin)

    def _hinder(self, seconds: float) -> None:
        judge, now = self.place.judge, self.place.agenda.seconds
        judge.hinder(self.name, now, now + seconds)

    def _agent_comes(self) -> None:
        life, agent = self.life, self.agent
        if life.ended or self._busy is life or self.is_off:
            return
        before, self._busy = self._busy, life
        try:
            seconds = agent.step()
        except Killed as killed:
            back_after = (0.5, 5.0, 30.0)[int(3 * self.place.dice.roll(f"back {self.name}"))]
            self.place.tell(f"the agent of {self.name} is killed at `{killed}` and is back after {back_after:.0f} s")
            if life is self.life:
                self.kill_agent(back_after)
            return
        finally:
            self._busy = before
        bugs = [trouble.message for (code, _), trouble in agent.memory.troubles.items() if code == "Bug"]
        if bugs:
            raise Violation("Bug", f"the agent of {self.name} has a bug: {bugs[0]}")
        if life is self.life:
            self.agent_turn.by(self.place.agenda.seconds + max(seconds / self._rate, agent.settings.rest_seconds))


@cache
def _settings_of(boot: str) -> AgentSettings:
    """The agent's numbers, on the machine of that boot: few idle steps, since all that matters wakes it."""
    return AgentSettings(report_seconds=40.0, renew_seconds=40.0, look_seconds=40.0, retry_seconds=7.0, boot=boot)
