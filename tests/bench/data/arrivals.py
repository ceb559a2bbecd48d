"""A week of jobs by seed: what arrives when, how long it will truly run, and what its owner says of that.

Most jobs read one dataset, the popular ones far more often; they come by day more than by night, and in bursts (a sweep over one
dataset). What an owner says of the run time is wrong by a third either way, and a tenth says nothing.
"""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from reconciler.model.fleet import Dataset
from reconciler.model.job import JobSpec
from reconciler.model.names import JobKey
from tests.bench.data.curves import DAY, HOUR
from tests.bench.data.places import START, TEAMS

IMAGE = "reg.example.com/team/train:1"


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job that comes at `at`; `run_seconds` is the truth, which nobody is told."""

    key: JobKey
    spec: JobSpec
    at: float
    run_seconds: float

    @property
    def gpus(self) -> int:
        """Cards, all on one node."""
        return self.spec.gpu.count

    @property
    def deadline(self) -> float | None:
        """In seconds from the start."""
        said = self.spec.deadline
        return None if said is None else (START.fromisoformat(said) - START).total_seconds()


def week(seed: int, days: int, jobs: int, datasets: Sequence[Dataset]) -> list[Arrival]:
    """About so many jobs, in the order in which they come."""
    chance = random.Random(f"week {seed}")
    ranked = list(datasets)
    chance.shuffle(ranked)
    weights = [1 / (rank + 1) for rank in range(len(ranked))]
    found: list[Arrival] = []
    while len(found) < jobs:
        moment = _moment(days, chance)
        dataset = chance.choices(ranked, weights)[0] if chance.random() < 0.9 else None
        found += _sweep(len(found), moment, dataset, chance)
    return sorted(found[:jobs], key=lambda one: (one.at, one.key))


def _moment(days: int, chance: random.Random) -> float:
    """Three quarters of all come in working hours."""
    day = chance.randrange(days)
    hour = chance.uniform(8, 19) if chance.random() < 0.75 else chance.uniform(0, 24)
    return day * DAY + hour * HOUR


def _sweep(first: int, moment: float, dataset: Dataset | None, chance: random.Random) -> Iterator[Arrival]:
    """One job, or some that are alike, a few minutes apart."""
    team = chance.choice(TEAMS)
    gpus, models = chance.choices((1, 2, 4, 8), (3, 3, 3, 2))[0], chance.choices(("A100", ["H100", "A100"], "H100"), (7, 2, 1))[0]
    priority = chance.choices(("low", "normal", "high"), (2, 6, 2))[0]
    median = chance.choice((2.0, 4.0, 8.0)) * HOUR
    for number in range(chance.choices((1, 3, 6), (6, 3, 1))[0]):
        at = moment + number * chance.uniform(60, 600)
        run = min(24 * HOUR, max(600.0, median * math.exp(chance.gauss(0.0, 0.6))))
        said: dict[str, object] = {"job_id": f"job-{first + number:04}", "image": IMAGE, "priority": priority}
        said["gpu"] = {"count": gpus, "model": models}
        if dataset is not None:
            said["dataset"] = {"name": dataset.name, "mount_path": "/data"}
        if chance.random() < 0.9:
            said["expected_runtime_seconds"] = max(60, int(run * math.exp(chance.gauss(0.0, 0.3))))
        if chance.random() < 0.15:
            by = START + timedelta(seconds=at + run * chance.uniform(1.5, 4.0) + chance.uniform(0.5, 3) * HOUR)
            said["deadline"] = by.strftime("%Y-%m-%dT%H:%M:%SZ")
        spec = JobSpec.model_validate(said)
        yield Arrival(JobKey(team, spec.job_id), spec, at, run)
