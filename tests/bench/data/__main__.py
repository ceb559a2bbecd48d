"""Print it all: `make bench SUITE=data`, or `python -m tests.bench.data [SEEDS [DAYS [JOBS]]]`. The same numbers for the same
seeds, but for the CPU seconds. About half a minute of CPU a week."""

import sys
import time
from collections.abc import Callable

from tests.bench.data.arrivals import Arrival, week
from tests.bench.data.course import Course, Way, course_of, run
from tests.bench.data.curves import DAY, HOUR
from tests.bench.data.figures import HEAD, figures
from tests.bench.data.hub_way import hub_way
from tests.bench.data.oracle import Asked, Regret, regret
from tests.bench.data.places import GPUS_A_NODE, Place, place
from tests.bench.data.plain_ways import plain_ways
from tests.bench.data.scenes import edge_numbers, falling_link, twenty_over_one_link

USUAL = (4, 7, 750)
"""So many seeds, from 1 on; days; jobs."""


def _timed(there: Place, jobs: list[Arrival], way: Way, days: int) -> Course:
    """One way's week, and its line."""
    course, began = course_of(there, jobs), time.process_time()
    run(course, way, 3 * days * DAY)
    print(figures(way.name, course, time.process_time() - began).line(), flush=True)
    return course


def _told(found: Regret) -> str:
    return (
        f"copy or wait: {found.copies} times copied, {found.waits} times waited; regret against an oracle in the mean: "
        f"{found.time:.1%} in time to the end, {found.cost:.1%} in cost (goal 10 %);\n"
        f"  right in {found.right:.0%}; where the other answer was sooner, by {found.wrong_hours:.1f} h; "
        f"as it came, later arrivals included: {found.as_it_came:.1%} in time"
    )


def _week(seed: int, days: int, count: int) -> Regret:
    """One seed's week, by every way."""
    there = place(seed, days)
    jobs = week(seed, days, count, list(there.fleet.datasets.values()))
    cards = GPUS_A_NODE * sum(len(nodes) for nodes in there.nodes.values())
    work = sum(job.gpus * job.run_seconds for job in jobs) / HOUR
    print(
        f"seed {seed}: {len(jobs)} jobs in {days} days, {len(there.nodes)} regions, {cards} GPUs, "
        f"{work / (cards * days * 24):.0%} of them used, {len(there.fleet.datasets)} datasets"
    )
    print(HEAD)
    asked = Asked(there, {job.key: job for job in jobs})
    course = _timed(there, jobs, hub_way(there, seed, asked.watch), days)
    for way in plain_ways():
        _timed(there, jobs, way, days)
    ends = {key: stay.ended_at for key, stay in course.ended.items() if stay.ended_at is not None}
    found = regret(asked.questions, ends, there)
    print(_told(found), flush=True)
    return found


def main() -> None:
    """The weeks, the regret and the scenes."""
    given = [int(word) for word in sys.argv[1:]]
    seeds, days, count = (*given, *USUAL[len(given) :])
    found = [_week(seed, days, count) for seed in range(1, seeds + 1)]
    asked = sum(one.copies + one.waits for one in found)
    cost = sum((one.copies + one.waits) * one.cost for one in found) / max(asked, 1)
    print(f"over {seeds} weeks and {asked} questions: regret {cost:.1%} in cost (goal 10 %)", flush=True)
    scenes: tuple[Callable[[], list[str]], ...] = (twenty_over_one_link, falling_link, edge_numbers)
    for scene in scenes:
        print("\n".join(scene()), flush=True)


if __name__ == "__main__":
    main()
