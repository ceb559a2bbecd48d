"""One course of events on virtual time, in which a hub or an agent is a process that dies; who restarts it; what came of it."""

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from reconciler.model.names import JobKey
from tests.hub import mortal
from tests.hub.mortal import Body, Doom
from tests.sim.actors import START, AgentActor, HubActor, Region, SyncActor
from tests.sim.person import Fields, sound_jobs
from tests.sim.world import Choices, World

TURN_SECONDS = 3.0
MOST_SECONDS = 900.0

_MAKER = multiprocessing.get_context("forkserver")
_MAKER.set_forkserver_preload(["tests.hub.mortal"])


@dataclass
class Process:
    """A hub or an agent in a process of its own; whoever has died is started again at its next turn, and lives."""

    name: str
    life: Callable[[Connection, Body], None]
    body: Callable[[str, Doom], Body]
    doom: Doom
    answers: Callable[[str, tuple[Any, ...]], Any]
    again: bool = True
    """Whether anybody starts it again."""
    starts: int = 0
    deaths: list[str] = field(default_factory=list)
    """The writes at which it died."""
    said: str = ""
    _running: tuple[BaseProcess, Connection] | None = None

    def step(self, seconds: float) -> None:
        """One step of it at that moment. It may be its last."""
        if self._running is None:
            if self.deaths and not self.again:
                return
            self._start()
        assert self._running is not None
        process, pipe = self._running
        try:
            pipe.send(seconds)
            while True:
                word, *more = pipe.recv()
                if word == "done":
                    self.said = more[0]
                    return
                if word == "dies":
                    self.deaths.append(more[0])
                else:
                    pipe.send(self.answers(*more))
        except (EOFError, ConnectionError):
            process.join(30)
            assert process.exitcode == -9, f"{self.name} ended with {process.exitcode} after {self.said}"
            self._running = None

    def end(self) -> None:
        """Kill it, if it lives."""
        if self._running is not None:
            process, pipe = self._running
            process.kill()
            process.join(30)
            pipe.close()

    def _start(self) -> None:
        self.starts += 1
        ours, theirs = _MAKER.Pipe()
        doom = self.doom if not self.deaths else Doom()
        process = _MAKER.Process(target=self.life, args=(theirs, self.body(f"{self.name}/{self.starts}", doom)), daemon=True)
        process.start()
        theirs.close()
        self._running = process, ours


def _job(job_id: str, seconds: int, **more: object) -> Fields:
    env = {"SIM_SECONDS": str(seconds), **{f"SIM_{name}": str(value) for name, value in more.items() if name.isupper()}}
    rest = {name: value for name, value in more.items() if not name.isupper()}
    return {"job_id": job_id, "image": "reg.example.com/train:1", "gpu": {"count": 1}, "env": env, **rest}


FIRST = (
    _job("ends-well", 10),
    _job("second-try", 8, FAILS=1, CODE=4, retries=1),
    _job("two-nodes", 12, NODES=2, nodes=2, gpu={"count": 8}),
    _job("edited", 400),
    _job("removed", 400, STOP=5),
)
EVENTS: Sequence[tuple[float, str, Fields | None]] = (
    (30.0, "jobs/team-a/edited.yaml", _job("edited", 8, image="reg.example.com/train:2")),
    (36.0, "jobs/team-a/removed.yaml", None),
    (42.0, "jobs/team-a/late.yaml", _job("late", 6)),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a course came to: each job's phase and its attempts (state, outcome), and how often each attempt's programs started."""

    jobs: dict[JobKey, tuple[str, tuple[tuple[str, str], ...]]]
    starts: dict[str, int]


class Course:
    """The world of one course, with the programs that are not in it as processes."""

    def __init__(self, root: Path, regions: Sequence[str], processes: Callable[["Course"], Sequence[Process]]) -> None:
        self.world = World(root, 0, Choices(regions=tuple(regions)))
        self.processes = processes(self)

    def region(self, name: str) -> tuple[Region, SyncActor, AgentActor]:
        number = [region.name for region in self.world.regions].index(name)
        return self.world.regions[number], self.world.syncs[number], self.world.agents[number]

    def play(self, actors: Sequence[HubActor | AgentActor | SyncActor]) -> Outcome:
        """From the first push to the end of every job. Raises Violation; AssertionError where that takes too long."""
        world, pending = self.world, list(EVENTS)
        for fields in FIRST:
            world.person.edit(f"jobs/team-a/{fields['job_id']}.yaml", fields)
        while pending or not self._is_over():
            assert world.time.seconds < MOST_SECONDS, {key: record.phase for key, record in world.ledger.records.items()}
            if pending and world.time.seconds >= pending[0][0]:
                world.person.edit(*pending.pop(0)[1:])
            world.pass_time(TURN_SECONDS)
            for process in self.processes:
                process.step(world.time.seconds)
                assert not process.said.startswith("bug"), process.said
                world.judge()
            for actor in actors:
                world.act(actor)
        return self._outcome()

    def _is_over(self) -> bool:
        """All jobs are over, and no branch has anything of them left."""
        world = self.world
        wanted = {*sound_jobs(world.person.files), JobKey("team-a", "removed")}
        over = {key for key, record in world.ledger.records.items() if not record.live}
        objects = any(region.cluster.read().workloads for region in world.regions)
        return wanted <= over and not objects and not any(grants.attempts for grants in world.grants())

    def _outcome(self) -> Outcome:
        records = self.world.ledger.records
        jobs = {
            key: (record.phase.value, tuple((one.state.value, str(one.outcome)) for one in record.attempts))
            for key, record in sorted(records.items())
        }
        starts: dict[str, int] = {}
        for run in self.world.witness.runs:
            starts[run.attempt] = starts.get(run.attempt, 0) + 1
        return Outcome(jobs, starts)


def hub_process(course: Course, name: str, doom: Doom, *, again: bool = True) -> Process:
    """A hub as a process."""
    place = course.world.place

    def body(called: str, doom: Doom) -> Body:
        return Body(called, place.remote, place.root / "store", place.root / f"clone-of-{name}", START, doom)

    return Process(name, mortal.live_as_hub, body, doom, lambda _what, _arguments: None, again)


def agent_process(course: Course, region_name: str, doom: Doom) -> Process:
    """The agent of a region as a process; the region's cluster and sync engine stay here."""
    place = course.world.place
    region, sync, _ = course.region(region_name)

    def body(called: str, doom: Doom) -> Body:
        return Body(called, place.remote, place.root / "store", place.root / "unused", START, doom)

    def answers(what: str, arguments: tuple[Any, ...]) -> Any:
        said = mortal.answer(region.cluster, sync, what, arguments)
        region.settle()
        return said

    return Process(region_name, mortal.live_as_agent, body, doom, answers)


@contextmanager
def course(root: Path, regions: Sequence[str], processes: Callable[[Course], Sequence[Process]]) -> Iterator[Course]:
    """A course whose processes have ended when it has."""
    made = Course(root, regions, processes)
    try:
        yield made
    finally:
        for process in made.processes:
            process.end()
