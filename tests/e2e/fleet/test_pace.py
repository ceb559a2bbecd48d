"""How long each hop takes from a push to a running program, over fifty jobs; printed. What must hold is that each runs once."""

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from time import monotonic

from reconciler.model.record import Phase
from tests.e2e.fleet.up import Fleet
from tests.e2e.person import job_text
from tests.waiting import until

JOBS, TEAM = 50, "vision"
HOPS = ("pushed to decided", "decided to synced", "synced to released", "released to running", "pushed to running")


def test_fifty_jobs_from_push_to_running(fleet: Fleet) -> None:
    offset = monotonic() - datetime.now(UTC).timestamp()
    names = [f"pace-{number:02}" for number in range(JOBS)]
    pushed = {}
    for name in names:
        text = job_text(name, "print('hello')", gpu={"count": 0}, resources={"cpu": "1", "memory": "1Gi"})
        pushed[name] = fleet.person.push({f"jobs/{TEAM}/{name}.yaml": text}, f"Add {name}")
        until(lambda name=name: fleet.witness.of(name), 60.0, 0.02)
    for name in names:
        record = fleet.person.until_phase(TEAM, name, Phase.SUCCEEDED, Phase.FAILED)
        assert (record.phase, len(record.attempts)) == (Phase.SUCCEEDED, 1)
    decided = _decided(fleet, offset)
    rows = []
    for name in names:
        (run,) = fleet.witness.of(name)
        hops = fleet.witness.hops[TEAM, run.attempt]
        assert None not in (hops.created, hops.released, hops.running)
        moments = (pushed[name], decided[name], hops.created or 0, hops.released or 0, hops.running or 0)
        rows.append([*(later - earlier for earlier, later in pairwise(moments)), moments[-1] - moments[0]])
    _print(rows)


def _decided(fleet: Fleet, offset: float) -> dict[str, float]:
    """When the hub said that it had published a job's placement, by the test's monotonic clock."""
    found: dict[str, float] = {}
    for line in fleet.hub.said():
        words = json.dumps(line)
        if line.get("event") == "published" and f"{TEAM}/pace-" in words:
            name = "pace-" + words.split(f"{TEAM}/pace-")[1][:2]
            found.setdefault(name, datetime.fromisoformat(line["timestamp"]).timestamp() + offset)
    return found


def _print(rows: Sequence[Sequence[float]]) -> None:
    out = sys.__stdout__ or sys.stdout
    print(f"\n{'hop':<22}{'p50 s':>8}{'p99 s':>8}", file=out)
    for name, column in zip(HOPS, zip(*rows, strict=True), strict=True):
        ordered = sorted(column)
        print(f"{name:<22}{ordered[len(ordered) // 2]:>8.2f}{ordered[int(len(ordered) * 0.99)]:>8.2f}", file=out)
