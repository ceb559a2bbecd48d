"""A world in one thread and on virtual time: a real remote, a real store, hubs and regions as they are, and one person.

`turn` lets time pass and every program take a step in an order that the caller draws. Whatever is armed (faults.py) happens on
the way; rules are judged where they are broken (witness.py, ledger.py). Two worlds with the same seed and steps are the same.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pygit2

from reconciler.adapters.file_store import FileStore
from reconciler.model.attempt import Attempt
from reconciler.model.grants import Grants, Lease, grants_key, lease_key
from reconciler.model.names import LABEL_ATTEMPT, LABEL_JOB, LABEL_TEAM, JobKey
from reconciler.ports import Conflict, Refused, Transient
from tests.sim.actors import Actor, AgentActor, Clock, HubActor, Place, Region, SyncActor, Time
from tests.sim.faults import FAIR, Fuse, Killed, Past, Weather
from tests.sim.ledger import PublicLedger
from tests.sim.person import REGIONS, Person, as_file, region_file
from tests.sim.witness import Violation, Witness, WitnessedRuntime

LOST_SECONDS = 300.0
"""The protocol's own: how long a lease that does not change must be watched before its region may be given up."""


@dataclass(frozen=True, slots=True)
class Choices:
    """What a world is made of. `wall_ahead`: how wrong each region's wall clock is, in seconds; `kept`: clusters have folders;
    `quick`: see `faults.FaultyGit`."""

    hubs: int = 1
    regions: tuple[str, ...] = REGIONS
    wall_ahead: tuple[float, ...] = (0.0, 0.0)
    kept: bool = False
    push_seconds: int = 0
    approval: bool = False
    quick: bool = True


def choices_of(seed: int) -> Choices:
    """The choices of a seed."""
    draw = Random(f"world {seed}")
    return Choices(
        hubs=1 + seed % 2,
        push_seconds=draw.choice((0, 0, 10)),
        approval=draw.random() < 0.2,
        wall_ahead=draw.choice(((0.0, 0.0), (-660.0, 660.0))),
        kept=draw.random() < 0.25,
        quick=seed % 5 > 0,
    )


class World:
    """Everything of one history. `seed` decides what is drawn while it goes on."""

    def __init__(self, root: Path, seed: int, choices: Choices) -> None:
        self.seed = seed
        self.time = Time()
        remote = root / "jobs.git"
        pygit2.init_repository(str(remote), bare=True, initial_head="main")
        (root / "store").mkdir()
        self.place = Place(root, remote, FileStore(root / "store"), Past(), self.time, choices.quick)
        self.person = Person(remote, Clock(self.time))
        self.ledger = PublicLedger(remote, self._said_to_have_ended)
        self.witness = Witness(self.ledger.attempt, self.person.reruns)
        self.causes: set[str] = set()
        """Faults that may take an attempt's pods away."""
        self.busy: set[str] = set()
        self._late: list[tuple[int, Callable[[], object]]] = []
        self.later: Callable[[int], None] = lambda _steps: None
        """What happens while somebody is paused: so many of the steps to come."""
        self.person.commit(_first_files(choices))
        wrong = zip(choices.regions, choices.wall_ahead, strict=False)
        self.regions = [self._region(name, ahead, kept=choices.kept) for name, ahead in wrong]
        self.syncs = [SyncActor(f"sync-{region.name}", region, self._fuse(f"sync-{region.name}")) for region in self.regions]
        self.agents = [
            AgentActor(f"agent-{region.name}", region, sync, self._fuse(f"agent-{region.name}"))
            for region, sync in zip(self.regions, self.syncs, strict=True)
        ]
        names = [f"hub-{number}" for number in range(choices.hubs)]
        self.hubs = [HubActor(name, self.place, self._fuse(name), Clock(self.time)) for name in names]

    @property
    def actors(self) -> Sequence[Actor]:
        return (*self.hubs, *self.agents, *self.syncs)

    # ---- time

    def turn(self, seconds: float, actors: Sequence[Actor]) -> None:
        """Let time pass, then each of these take a step."""
        self.pass_time(seconds)
        for actor in actors:
            self.act(actor)

    def act(self, actor: Actor) -> None:
        """One step of a program, and what the clusters make of it. A killed one is started again, and steps at its next turn."""
        if actor.name in self.busy:
            return
        try:
            actor.step()
        except Killed:
            actor.restart()
        self.judge()
        self._late = [(acts - 1, write) for acts, write in self._late]
        self.arrive()

    def arrive(self, *, everything: bool = False) -> None:
        """Let requests that were under way for long enough arrive: they are done, or refused, and nobody hears of it."""
        due = [write for acts, write in self._late if acts < 0 or everything]
        self._late = [(acts, write) for acts, write in self._late if acts >= 0 and not everything]
        for write in due:
            with suppress(Conflict, Transient, Refused):
                write()
            self.judge()

    def judge(self) -> None:
        """Let the clusters come to rest, and look whether anything is as it may never be."""
        self.settle()
        self.ledger.look()
        self._judge_pods()
        self._judge_grants()

    def pass_time(self, seconds: float) -> None:
        """Let time pass in the clusters, from one due moment to the next."""
        until = self.time.seconds + seconds
        while True:
            self.settle()
            dues = [due - 5000.0 for region in self.regions if (due := region.cluster.next_due()) is not None]
            due = min(dues, default=until)
            if due >= until:
                break
            self.time.seconds = max(due, self.time.seconds + 0.001)
        self.time.seconds = until
        self.settle()

    def settle(self) -> None:
        """Let everything happen in the clusters that happens now."""
        for region in self.regions:
            region.settle()

    # ---- faults that are the world's own

    def restart_region(self, number: int) -> None:
        """A region's every process dies and starts again; with a folder its cluster does, too."""
        region = self.regions[number]
        region.reopen()
        self.syncs[number].restart()
        self.agents[number].restart()

    def lose_region(self, number: int, back_after: float) -> None:
        """Cut a region off until its lease can have no holder any more, revoke that, and let the region be heard again.

        Its agent is at work all the time: that nothing runs then is its doing, and is judged here.
        """
        region, agent = self.regions[number], self.agents[number]
        self.clear(agent, region)
        self.cause("a region was cut off")
        others = [actor for actor in self.actors if actor is not agent]
        agent.fuse.weather = Weather(cut_off=True)
        stored = self.place.store.get(lease_key(region.name))
        for _ in range(int(LOST_SECONDS / 10)):
            self.turn(5.0, [agent])
            self.turn(5.0, [agent, *others])
        if stored is not None and self.place.store.etag(lease_key(region.name)) == stored.etag:
            lease = Lease.model_validate_json(stored.body)
            given_up = lease.model_copy(update={"revoked": True, "epoch": lease.epoch + 1})
            self.place.store.put(lease_key(region.name), given_up.model_dump_json().encode(), expect=stored.etag)
            self.witness.given_up(region.name, lease.epoch + 1)
        self.turn(back_after, [agent, *others])
        agent.fuse.weather = FAIR

    def clear(self, agent: AgentActor, region: Region) -> None:
        """A region whose agent or controllers stand still cannot stop anything; that is another fault than this one."""
        self.arrive(everything=True)
        agent.fuse.clear()
        region.cluster.pause_controllers(paused=False)
        region.return_nodes()

    def cause(self, what: str) -> None:
        """Something happened that may take the pods of any attempt away, or the proof of what they did."""
        self.causes.add(what)
        self.witness.touched |= {run.attempt for run in self.witness.runs} | {one.name for _, one in self.ledger.attempts()}

    def lay_hands_on(self, attempt: str) -> None:
        """A person did something to an attempt's objects."""
        self.causes.add(f"hands on {attempt}")
        self.witness.touched.add(attempt)

    def clear_faults(self) -> None:
        """Nothing goes wrong any more."""
        self.arrive(everything=True)
        for actor in self.actors:
            actor.fuse.clear()
        for hub in self.hubs:
            hub.clock.go_on()
        for region in self.regions:
            region.cluster.pause_controllers(paused=False)

    # ---- what may never be

    def _judge_pods(self) -> None:
        alive: dict[JobKey, set[str]] = {}
        for region in self.regions:
            for pod in region.cluster.read().pods:
                labels = pod["metadata"].get("labels") or {}
                bound = pod["spec"].get("nodeName") and pod["status"]["phase"] not in ("Succeeded", "Failed")
                if LABEL_ATTEMPT in labels and bound:
                    alive.setdefault(JobKey(labels[LABEL_TEAM], labels[LABEL_JOB]), set()).add(labels[LABEL_ATTEMPT])
        for key, attempts in alive.items():
            if len(attempts) > 1:
                raise Violation(f"pods of two attempts of {key} are bound to nodes: {sorted(attempts)}")

    def _judge_grants(self) -> None:
        """First the ledger's commit, then the grant. One that has ended may be listed until the next write: it cannot start."""
        for grants in self.grants():
            for grant in grants.attempts:
                self.witness.granted(grants.region, grants.epoch, grant.attempt)
                if self.ledger.attempt(JobKey(grant.team, grant.job_id), grant.attempt) is None:
                    raise Violation(f"{grant.attempt} is granted in {grants.region}, and the ledger does not know it")

    def grants(self) -> Iterator[Grants]:
        """What stands in the store for each region."""
        for region in self.regions:
            stored = self.place.store.get(grants_key(region.name))
            if stored is not None:
                yield Grants.model_validate_json(stored.body)

    def _said_to_have_ended(self, key: JobKey, attempt: Attempt) -> None:
        running = self.witness.running([attempt.name])
        if running:
            raise Violation(f"{attempt.name} of {key} is said to be {attempt.state} ({attempt.outcome}), and runs: {running[0]}")

    # ---- building

    def _fuse(self, name: str) -> Fuse:
        def delay(acts: int, write: Callable[[], object]) -> None:
            self._late.append((acts, write))

        return Fuse(f"{self.seed} {name}", lambda steps: self._paused(name, steps), delay)

    def _region(self, name: str, wall_ahead: float, *, kept: bool) -> Region:
        folder = self.place.root / f"region-{name}" if kept else None
        clock = Clock(self.time, wall_ahead)
        region = Region(name, self.place, WitnessedRuntime(name, self.witness), clock, folder)
        self.witness.moments[name] = lambda: region.now
        return region

    def _paused(self, name: str, steps: int) -> None:
        """Somebody stands still in the middle of a write while so many of the steps to come happen to the others.

        For an agent a successor is at work meanwhile, as when its replicas hand over: a new one goes on from the record.
        """
        if len(self.busy) >= 2:
            return
        agent = next((agent for agent in self.agents if agent.name == name), None)
        with self._without(name):
            if agent is not None:
                agent.restart()
                self.busy.discard(name)
            self.later(steps)

    @contextmanager
    def _without(self, name: str) -> Iterator[None]:
        self.busy.add(name)
        try:
            yield
        finally:
            self.busy.discard(name)


def _first_files(choices: Choices) -> dict[str, bytes]:
    prices = zip(choices.regions, (2.0, 1.0), strict=False)
    files = {f"regions/{name}.yaml": region_file(name, price) for name, price in prices}
    files["reconciler.yaml"] = {"intervals": {"push_seconds": choices.push_seconds}}
    if choices.approval:
        files["policy.yaml"] = {"approval": {"teams": ["team-b"]}}
    return {path: as_file(fields) for path, fields in files.items()}


@contextmanager
def worlds(parent: Path, seed: int) -> Iterator[World]:
    """The world of a seed in a folder of its own, which goes with it."""
    root = parent / f"world-{seed}"
    with suppress(FileNotFoundError):
        shutil.rmtree(root)
    root.mkdir(parents=True)
    try:
        yield World(root, seed, choices_of(seed))
    finally:
        shutil.rmtree(root)
