"""`make bench`: figures against the design's goals. Times are CPU seconds where it says so; compare ratios, not absolutes."""

import json
import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from reconciler.adapters.documents.reader import read_job
from reconciler.hub.drafts import rendering_of
from reconciler.hub.placing import new_attempt
from reconciler.model.identity import run_hash
from reconciler.model.names import JobKey
from reconciler.model.record import Source
from reconciler.planning.decisions import Place
from reconciler.planning.lifecycle import Wanted, admit
from reconciler.planning.plan import plan
from reconciler.planning.snapshot import JobView
from reconciler.rendering.manifest import render_checked
from tests.bench.fleets import NOW, snapshot, spec
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


def _to_manifest(jobs: int, regions: int, nodes: int) -> str:
    """CPU from a spec's bytes to its rendered manifest: read, decide, render; no Git."""
    world = snapshot(0, regions, nodes)
    bodies = [json.dumps(spec(number), indent=1).encode() for number in range(jobs)]
    start = time.process_time()
    pending = []
    for number, body in enumerate(bodies):
        found = read_job(body, f"jobs/team-0/job-{number}.yaml")
        pending.append(JobView(JobKey("team-0", found.job_id), found, NOW, run_seconds=found.expected_runtime_seconds))
    decisions = plan(replace(world, pending=tuple(pending)), NOW)
    specs = {view.key: view.spec for view in pending}
    for decision in decisions:
        if isinstance(decision, Place):
            record = admit(
                decision.key, Wanted(specs[decision.key], Source(path="", blob=""), run_hash("team-0", specs[decision.key])), NOW
            )
            attempt = new_attempt(record, decision.chosen, NOW, proposed=False)
            render_checked(rendering_of(record, attempt, world.regions[attempt.region].region, "reg.example.com/stage:1", {}))
    each = (time.process_time() - start) / jobs * 1000
    return f"spec to rendered manifest   {each:8.2f} CPU-ms a job (goal 1), {jobs} jobs, {regions} regions"


def main() -> None:
    """Print a table; arguments: jobs, regions, nodes, pushes of the hub's part."""
    jobs, regions, nodes, pushes = (int(word) for word in (sys.argv[1:] + ["10000", "100", "500", "50"][len(sys.argv) - 1 :]))
    print(_load())
    print(_decisions(1_000, 20))
    print(_decisions(10_000, 50))
    print(_to_manifest(2_000, 20, 100))
    with tempfile.TemporaryDirectory() as folder:
        print(printed(measure(Path(folder), jobs, regions, nodes, pushes), jobs, regions, nodes))
    print(_load())


if __name__ == "__main__":
    main()
