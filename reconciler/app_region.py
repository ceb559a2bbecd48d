"""Wiring of a region on one machine: local cluster, local sync engine, and the regional agent beside them.

The agent is the one that runs against Kubernetes; only what it talks to is local. The nodes are those that the region's file
declares. Killed at any moment, the next start in the same folder goes on, with the programs that still run. Those do not outlive
the region's lease: when no renewal has come for as long as the fence and its kill take, they are ended without the agent.
"""

import os
import secrets
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from reconciler.adapters.clock import SystemClock
from reconciler.adapters.documents import reader
from reconciler.adapters.local import LocalCluster, LocalSync, NodeSpec, ProcessRuntime, ProcessSettings, kept_record, say_alive
from reconciler.adapters.local import Settings as ClusterSettings
from reconciler.agent.loop import Agent
from reconciler.agent.record import Record, decode, joined
from reconciler.agent.settings import Settings, Times, timed
from reconciler.app import beside, lister_for, open_repository, policy_at, prober_for, store_for
from reconciler.app_troubles import tell, troubles_of
from reconciler.model.base import matches_name
from reconciler.model.gpu import parse_model
from reconciler.model.names import STAGING_TEAM, region_branch
from reconciler.model.problem import Invalid
from reconciler.model.quantity import whole
from reconciler.model.region import LossTimes, NodePool, Region
from reconciler.ports import EntryKind, GitRepository, Refused, Transient

MIB = 1024**2
_BEAT_SECONDS = 0.2
_AGENT_FIRST_SECONDS = 2.0
"""An agent that is there stops what must be stopped itself; programs are ended without it so much later, at most."""
CLUSTER = "cluster"
"""Folder in a region's, of its objects."""
ALIVE = "alive.json"
"""File in a region's folder: until when its programs may run."""


@dataclass(frozen=True, slots=True)
class RegionOptions:
    """How a local region is run. `images`: patterns of images that can be pulled here; durations in seconds.

    `times`: what is said of the agent's beside the region's file, and counts more.
    """

    name: str
    repo: str
    folder: Path
    store: str | None = None
    main: str = "main"
    images: Sequence[str] = ("*",)
    poll_seconds: float = 1.0
    agent: Settings = field(default_factory=Settings)
    times: Times = field(default_factory=Times)
    probes: bool = True
    """Whether its links are measured."""


class LocalRegion:
    """A region on one machine, ready to run."""

    def __init__(self, options: RegionOptions) -> None:
        """Raises Refused for a region that main does not declare, Transient where repository or store do not answer."""
        git = open_repository(options.repo, options.folder / "clone")
        store = store_for(git, options.main, options.store)
        region, teams, loss = _declared(git, options)
        agent = _kept_up(options, region, loss)
        clock = SystemClock()
        runtime = ProcessRuntime(options.folder / "pods", _processes(options.folder))
        settings = ClusterSettings(region.name, teams, options.images)
        self._alive = options.folder / ALIVE
        self._cluster = LocalCluster(options.folder / CLUSTER, nodes_of(region), runtime, clock, settings)
        self._sync = LocalSync(self._cluster, git, region_branch(region.name), clock, options.poll_seconds)
        self._prober = prober_for(region.name, store) if options.probes else None
        seat = region.name, self._cluster, self._sync, store, clock, agent
        self._lister = lister_for(region.name, store)
        self._agent = Agent(*seat, secrets.token_hex(8), prober=self._prober, lister=self._lister)
        self._clock = clock
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._log = structlog.get_logger("region").bind(region=region.name)

    def stop(self) -> None:
        """End the loops; programs that run go on, and the next start in the folder finds them."""
        self._stop.set()
        self._wake.set()

    def run(self) -> None:
        """Let the region live until `stop`. Blocks."""
        threads = [threading.Thread(target=each, name=each.__name__, daemon=True) for each in (self._live, self._beat)]
        for thread in threads:
            thread.start()
        self._log.info("region started")
        try:
            with beside(self._prober, self._lister):
                self._agent.run(self._stop, self._wake)
        finally:
            for thread in threads:
                thread.join(10)
            self._cluster.close()

    def _beat(self) -> None:
        """Say after each renewal until when programs may run, and log what is wrong. Beside all that may wait for a remote."""
        told, said, trouble = frozenset[tuple[str, str]](), None, ""
        while not self._stop.wait(_BEAT_SECONDS):
            renewal = self._agent.memory.renewal
            if renewal is not None and renewal != said:
                try:
                    self._say_alive(renewal.monotonic)
                    said, trouble = renewal, ""
                except OSError as error:
                    trouble = f"{self._alive} cannot be written: {error.strerror}; programs end at the time that it said last"
            found = dict(troubles_of(self._agent, self._clock.monotonic()))
            told = tell(self._log, found | ({("NotAlive", "programs"): trouble} if trouble else {}), told)

    def _say_alive(self, renewed: float) -> None:
        settings = self._agent.settings
        stop_at = renewed + settings.self_fence_seconds
        late = min(_AGENT_FIRST_SECONDS, settings.fence_kill_seconds / 2)
        say_alive(self._alive, stop_at + late, stop_at + settings.fence_kill_seconds)

    def _live(self) -> None:
        told, trouble = frozenset[tuple[str, str]](), ""
        while not self._stop.is_set():
            try:
                changed = self._cluster.step()
                if self._sync.step():  # one that is not due yet says nothing of the remote
                    changed, trouble = True, ""
            except (Transient, Refused) as error:
                trouble, changed = str(error), False
                self._stop.wait(1.0)
            told = tell(self._log, {("NotSynced", "the region"): trouble} if trouble else {}, told)
            if changed:
                self._wake.set()
            dues = [due for due in (self._cluster.next_due(), self._sync.next_due()) if due is not None]
            self._stop.wait(min(max(min(dues) - self._clock.monotonic(), 0.02), 0.2))


def _kept_up(options: RegionOptions, region: Region, loss: LossTimes) -> Settings:
    """The agent's numbers, by the region's times. Raises Refused for reports so seldom that one that is late would tell."""
    said, most = options.times.report_seconds, loss.report_seconds
    if said is not None and said > most:
        late = f"{region.name} is Unknown after {loss.unknown_seconds} s (`unknown_seconds`), by one report that is late"
        raise Refused(f"with --report {said:g}, {late}; let it report every {most:g} s, or more often")
    often = min(options.agent.report_seconds, most)
    own = Times(loss.self_fence_seconds, loss.fence_kill_seconds, region.deadman, often)
    return timed(options.agent, options.times, own)


def _processes(folder: Path) -> ProcessSettings:
    """What programs find: this interpreter first on PATH, so that `python3` and `reconciler` are those of the installation."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    return ProcessSettings(
        {"PATH": path, "LANG": "C.UTF-8"}, folder / "secrets", folder / "claims", alive=folder / ALIVE, logs=folder / "logs"
    )


def end_programs(folder: Path) -> None:
    """Kill what a local region's programs have left running; for a region that will not be started again."""
    pods = folder / "pods"
    if not pods.is_dir():
        return
    runtime = ProcessRuntime(pods, _processes(folder))
    for place in sorted(pods.glob("*/containers/*")):
        runtime.kill(place.parent.parent.name, place.name, 0)


def remembered(folder: Path) -> Record | None:
    """What the agent of a local region keeps in mind at this moment, for who only looks on; None before the first lease.

    Raises Refused where the folder is not a region's.
    """
    body = kept_record(folder / CLUSTER)
    return None if body is None or joined(body) is not None else decode(body)


def _declared(git: GitRepository, options: RegionOptions) -> tuple[Region, tuple[str, ...], LossTimes]:
    """The region as main declares it, its namespaces, one a team, and its times."""
    if not matches_name(options.name):
        raise Refused(f"{options.name!r} is no name of a region")
    heads = git.fetch()
    commit = heads.get(options.main)
    if commit is None:
        raise Refused(f"the repository has no branch {options.main}")
    files = git.files(commit)
    path = f"regions/{options.name}.yaml"
    entry = files.get(path)
    if entry is None or entry.kind is not EntryKind.FILE:
        raise Refused(f"{path} is not on {options.main}; declare the region there first")
    try:
        region = reader.read_config(Region, git.read(entry.oid), path)
        loss = region.loss or policy_at(git, heads, options.main).loss
    except Invalid as error:
        raise Refused(str(error)) from error
    teams = {file.split("/")[1] for file in files if file.startswith("jobs/") and file.count("/") > 1}
    teams |= {Path(file).stem for file in files if file.startswith("teams/")}
    return region, tuple(sorted({STAGING_TEAM, *(team for team in teams if matches_name(team))})), loss


def nodes_of(region: Region) -> tuple[NodeSpec, ...]:
    """The nodes that a region's file declares."""
    return tuple(_node(pool, number) for pool in region.node_pools for number in range(1, pool.nodes + 1))


def _node(pool: NodePool, number: int) -> NodeSpec:
    vram = whole(pool.gpu_memory) // MIB if pool.gpu_memory is not None else _usual_vram(pool.gpu_model)
    return NodeSpec(
        name=f"{pool.name}-{number}",
        gpus=pool.gpus,
        product=pool.gpu_model or "",
        driver=pool.driver or "",
        vram_mib=vram,
        cpu=pool.cpu,
        memory=pool.memory,
        extended={"rdma/hca": 8} if pool.rdma else {},
    )


def _usual_vram(model: str | None) -> int:
    """What the model's name says, in MiB; 0 where it says nothing."""
    size = parse_model(model).vram_gb if model is not None else None
    return 0 if size is None else size * 1000**3 // MIB
