"""`make bench`: figures against the design's goals. Times are CPU seconds where it says so; compare ratios, not absolutes."""

import os
import sys
import tempfile
import time
from pathlib import Path

from reconciler.planning.decisions import Place
from reconciler.planning.plan import plan
from tests.bench.fleets import NOW, snapshot
from tests.bench.hub import measure, printed


def _load() -> str:
    return "load " + " ".join(f"{value:.2f}" for value in os.getloadavg()) + f", {os.cpu_count()} cores"


def _decisions(jobs: int, regions: int, nodes: int = 100) -> str:
    world = snapshot(jobs, regions, nodes)
    start = time.process_time()
    decisions = plan(world, NOW)
    spent = time.process_time() - start
    placed = sum(isinstance(decision, Place) for decision in decisions)
    return (
        f"decisions, {jobs:>6} jobs × {regions:>3} regions × {nodes} nodes  {jobs / spent:8.0f} a CPU-second (goal 2600)"
        f"  {spent:.2f} s a pass, {placed} placed"
    )


def main() -> None:
    """Print a table; arguments: jobs, regions, nodes, pushes of the hub's part."""
    jobs, regions, nodes, pushes = (int(word) for word in (sys.argv[1:] + ["10000", "100", "500", "50"][len(sys.argv) - 1 :]))
    print(_load())
    print(_decisions(1_000, 20))
    print(_decisions(10_000, 50))
    with tempfile.TemporaryDirectory() as folder:
        print(printed(measure(Path(folder), jobs, regions, nodes, pushes), jobs, regions, nodes))
    print(_load())


if __name__ == "__main__":
    main()
