"""A simulated day: a steady stream of jobs, a store that fails now and then, hubs that are restarted or isolated, dying regions.

Decides what a day looks like and counts what came of it: regions given up without need, jobs that did not come to their end, and
how long it takes from a region's death until its jobs run elsewhere.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final

from reconciler.model.names import JobKey
from reconciler.model.record import FINISHED
from reconciler.sim.ending import drain, mend
from reconciler.sim.judge import Run, Violation
from reconciler.sim.person import Fields, as_file
from reconciler.sim.place import TEAMS
from reconciler.sim.regions import Region
from reconciler.sim.world import Choices, World

DAY: Final = 86_400.0
FAILS: Final = 0.05
RESTARTS: Final = 10
ISOLATIONS: Final = 3
DEATHS: Final = 2
_REGIONS: Final = ("ap", "eu", "sa", "us")
_EVERY_SECONDS: Final = 400.0
_KEPT_SECONDS: Final = 3600.0
"""How long the file of a job that has ended stays on main."""
_SIZES: Final = ((240, 1, 1), (1500, 2, 1), (4000, 4, 1), (2500, 4, 2), (4000, 8, 1))
"""Seconds, GPUs a node, nodes."""


@dataclass(frozen=True, slots=True)
class Soak:
    """What came of a day. `elsewhere`: seconds from a region's death to each of its jobs' running elsewhere, in order."""

    seconds: float
    false_failovers: int
    given_up: int
    jobs: int
    ended: int
    lost: tuple[str, ...]
    elsewhere: tuple[float, ...]
    violation: str = ""

    def __str__(self) -> str:
        """In words, a line each."""
        lines = [
            f"{self.seconds / 3600:.1f} simulated hours, {self.jobs} jobs, {self.ended} ended, {len(self.lost)} lost",
            f"{self.given_up} regions given up, {self.false_failovers} false failovers",
        ]
        if self.elsewhere:
            p50, p99 = percentile(self.elsewhere, 50), percentile(self.elsewhere, 99)
            many = len(self.elsewhere)
            lines.append(f"from a region's death to its jobs running elsewhere: p50 {p50:.0f} s, p99 {p99:.0f} s ({many} jobs)")
        return "\n".join([*lines, *self.lost, *([self.violation] if self.violation else [])])

    @property
    def is_well(self) -> bool:
        """Whether nothing went wrong."""
        return not (self.false_failovers or self.lost or self.violation)


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value below which `share` per cent of the values lie, by the nearest rank."""
    rank = max(1, -(-len(ordered) * share // 100))
    return ordered[int(rank) - 1]


def soak(seed: int = 0, seconds: float = DAY) -> Soak:
    """Play a day, or a part of one."""
    draw = Random(f"soak {seed}")  # noqa: S311 - it must repeat itself
    rates = tuple(draw.choice((0.99, 1.0, 1.01)) for _ in range(10))
    world = World(Choices(f"soak {seed}", hubs=2, regions=_REGIONS, rates=rates, push_seconds=10.0))
    world.judge.strict = False
    world.causes.add("a day")
    for way in (*(hub.store for hub in world.hubs), *(region.store for region in world.regions)):
        way.fails = FAILS
    died: list[tuple[float, Run]] = []
    _plan(world, draw, seconds, died)
    words, lost = "", ["it did not come to its end"]
    try:
        world.agenda.run(seconds)
        mend(world)
        lost = drain(world)
    except Violation as violation:
        words = f"VIOLATION {violation} after {world.agenda.seconds / 3600:.2f} hours"
    return _summed_up(world, tuple(lost), died, words)


def _summed_up(world: World, lost: tuple[str, ...], died: Sequence[tuple[float, Run]], words: str) -> Soak:
    records = world.ledger.records.values()
    return Soak(
        seconds=world.agenda.seconds,
        false_failovers=sum(one.is_false for one in world.judge.given_up),
        given_up=len(world.judge.given_up),
        jobs=len(records),
        ended=sum(record.phase in FINISHED for record in records),
        lost=lost,
        elsewhere=tuple(sorted(_elsewhere(world, at, run) for at, run in died)),
        violation=words,
    )


def _elsewhere(world: World, at: float, run: Run) -> float:
    """When the job of a run that died with its region ran again; infinity for never."""
    starts = [other.started for other in world.judge.by_job[run.key] if other.attempt != run.attempt and other.started >= at]
    return min(starts, default=float("inf")) - at


def _plan(world: World, draw: Random, seconds: float, died: list[tuple[float, Run]]) -> None:
    share = seconds / DAY
    for number in range(int(seconds / _EVERY_SECONDS)):
        world.agenda.at(number * _EVERY_SECONDS + draw.uniform(1.0, _EVERY_SECONDS), _submission(world, number))
    for number in range(_many(RESTARTS, share)):
        world.agenda.at(draw.uniform(100.0, seconds), partial(world.hubs[number % 2].kill, draw.uniform(0.0, 60.0)))
    for _ in range(_many(ISOLATIONS, share)):
        world.agenda.at(draw.uniform(100.0, seconds), partial(_isolate, world, draw.uniform(200.0, 1500.0)))
    deaths = _many(DEATHS, share)
    for number in range(1, deaths + 1):
        world.agenda.at(number * seconds / (deaths + 1), partial(_die, world, draw.choice(world.regions), died))


def _many(a_day: int, share: float) -> int:
    """How many in that share of a day: one at least."""
    return max(1, round(a_day * share))


def _submission(world: World, number: int) -> Callable[[], None]:
    lasts, gpus, nodes = _SIZES[number % len(_SIZES)]
    env = {"SIM_SECONDS": str(lasts), "SIM_NODES": str(nodes), "SIM_STOP": str(number % 3 * 10)}
    fields: Fields = {
        "job_id": f"s{number}",
        "image": "reg.example.com/train:1",
        "gpu": {"count": gpus},
        "nodes": nodes,
        "env": env,
    }

    def submit() -> None:
        path = f"jobs/{TEAMS[number % 2]}/s{number}.yaml"
        world.person.commit({**_without_ended(world), path: as_file(fields)})

    return submit


def _without_ended(world: World) -> dict[str, bytes]:
    """What is on main, without the files of one job that ended long ago: people clean up a little at a time."""
    files = dict(world.person.files)
    for path in world.person.jobs():
        fields = world.person.fields_at(path)
        key = JobKey(path.split("/")[1], fields["job_id"])
        ends = [run.ends for run in world.judge.by_job.get(key, ())]
        record = world.ledger.records.get(key)
        done = record is not None and record.phase in FINISHED
        if done and all(end is not None and world.agenda.seconds - end > _KEPT_SECONDS for end in ends):
            del files[path]
            return files
    return files


def _isolate(world: World, lasts: float) -> None:
    """The hub that leads sees neither store nor Git."""
    hub = next((hub for hub in world.hubs if hub.hub.leads), world.hubs[0])
    now = world.agenda.seconds
    hub.store.cut = hub.git.cut = "asks"
    world.judge.blind.setdefault(hub.name, []).append((now, now + lasts))

    def heal() -> None:
        hub.store.cut = hub.git.cut = ""
        hub.wake()

    world.agenda.at(now + lasts, heal)


def _die(world: World, region: Region, died: list[tuple[float, Run]]) -> None:
    """A region loses its power for two hours."""
    now = world.agenda.seconds
    seen: set[str] = set()
    for run in world.judge.running():
        if run.region == region.name and run.attempt not in seen:
            seen.add(run.attempt)
            died.append((now, run))
    world.judge.hinder(region.name, now, now + 7200.0)
    region.power_off()
    world.agenda.at(now + 7200.0, region.power_on)
