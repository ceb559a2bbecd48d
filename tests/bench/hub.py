"""The whole hub over a real HTTP remote: a cold cycle over many jobs, idle cycles, and single pushes from main to manifest."""

import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from reconciler.adapters.clock import SystemClock
from reconciler.adapters.documents import reader
from reconciler.adapters.file_store import FileStore
from reconciler.adapters.git import BareClone
from reconciler.hub.cycle import Hub
from reconciler.hub.results import Ended, HubOptions
from reconciler.model.grants import Lease, lease_key, report_key
from reconciler.ports import RefUpdate
from tests.bench.fleets import NOW, TEAMS, report, spec
from tests.githttp import commit_files, run_git

_SERVE = """
import sys
from pathlib import Path
from tests.githttp import GitServer
server = GitServer(Path(sys.argv[1])); server.start(); print(server.url("jobs"), flush=True); sys.stdin.read(); server.stop()
"""


@contextmanager
def _served(root: Path) -> Iterator[str]:
    """A Git server in a process of its own, so that its CPU time is not the hub's."""
    with subprocess.Popen(
        [sys.executable, "-c", _SERVE, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()


@dataclass(frozen=True, slots=True)
class HubFigures:
    """CPU in seconds of the hub's process and its children; latencies in wall seconds; memory in MB."""

    cold_cpu: float
    cold_wall: float
    idle_cpu: float
    latencies: tuple[float, ...]
    push_cpu: float
    resident_mb: float
    peak_mb: float
    packed_bytes_per_decision: float


def _cpu() -> float:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def _file(number: int) -> tuple[str, bytes]:
    return f"jobs/{TEAMS[number % len(TEAMS)]}/job-{number}.yaml", json.dumps(spec(number), indent=1).encode()


def _repository(root: Path, jobs: int, regions: int) -> Path:
    bare = root / "jobs.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(bare)], check=True)
    run_git(bare, "config", "http.receivepack", "true")
    files = dict(_file(number) for number in range(jobs))
    files |= {
        f"regions/r{index}.yaml": f"name: r{index}\nprices: {{H100: 4.0, A100: {2 + index / 100}}}\n".encode()
        for index in range(regions)
    }
    files["reconciler.yaml"] = b"intervals: {push_seconds: 0}\n"
    files["policy.yaml"] = b"thresholds: {report_fresh_seconds: 86400}\n"  # nobody reports anew in here
    commit_files(bare, "main", files)
    return bare


def _loose_and_packed(bare: Path) -> int:
    run_git(bare, "gc", "-q", "--prune=now")
    return sum(file.stat().st_size for file in (bare / "objects" / "pack").iterdir())


def _store(root: Path, regions: int, nodes: int) -> FileStore:
    (root / "store").mkdir()
    store = FileStore(root / "store")
    for index in range(regions):
        name = f"r{index}"
        store.put(report_key(name), report(name, nodes, busy=False).model_dump_json().encode(), expect=None)
        store.put(
            lease_key(name), Lease(region=name, epoch=1, incarnation="bench", renewal=0).model_dump_json().encode(), expect=None
        )
    return store


def measure(root: Path, jobs: int, regions: int, nodes: int, pushes: int) -> HubFigures:
    """Run it all in an empty folder."""
    bare = _repository(root, jobs, regions)
    store = _store(root, regions, nodes)
    before = _loose_and_packed(bare)
    with _served(root) as url:
        options = HubOptions(holder="bench", repo_url=url, stage_image="reg.example.com/stage:1", resync_seconds=3600)
        hub = Hub(BareClone(url, root / "clone"), store, reader, SystemClock(), options)
        cpu, wall = _cpu(), time.perf_counter()
        while hub.cycle().ended is not Ended.IDLE:
            pass
        cold_cpu, cold_wall = _cpu() - cpu, time.perf_counter() - wall
        idle_cpu = _idle(hub)
        person = BareClone(str(bare), root / "person", identity=("Someone", "someone@example.com"))
        latencies, push_cpu = _pushes(hub, person, jobs, pushes)
    with Path("/proc/self/statm").open() as statm:
        resident = int(statm.read().split()[1]) * resource.getpagesize() / 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    grown = (_loose_and_packed(bare) - before) / (jobs + pushes)
    return HubFigures(cold_cpu, cold_wall, idle_cpu, latencies, push_cpu, resident, peak, grown)


def _idle(hub: Hub, cycles: int = 20) -> float:
    cpu = _cpu()
    for _ in range(cycles):
        assert hub.cycle().ended is Ended.IDLE
    return (_cpu() - cpu) / cycles


def _commit(person: BareClone, path: str, body: bytes) -> None:
    """One job more on main, as a person pushes it."""
    head = person.fetch()["main"]
    tree = person.write_tree(head, {path: person.write_blob(body)})
    commit = person.commit(tree, [head], f"add {path}", NOW)
    assert person.push([RefUpdate("main", head, commit)]).done


def _pushes(hub: Hub, person: BareClone, jobs: int, pushes: int) -> tuple[tuple[float, ...], float]:
    """Commit one job at a time on the server; the clock runs from there until the manifest is on a region's branch."""
    latencies = []
    spent = 0.0
    for number in range(jobs, jobs + pushes):
        _commit(person, *_file(number))
        start, cpu = time.perf_counter(), _cpu()
        result = hub.cycle()
        latencies.append(time.perf_counter() - start)
        spent += _cpu() - cpu
        assert result.ended is Ended.PUBLISHED, result
        assert any(f"job-{number} starting" in event for event in result.events), result
        while hub.cycle().ended is not Ended.IDLE:
            pass
    return tuple(latencies), spent / pushes


def printed(figures: HubFigures, jobs: int, regions: int, nodes: int) -> str:
    """The figures beside their goals."""
    ordered = sorted(figures.latencies)
    p50, p99 = statistics.median(ordered), ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return "\n".join(
        [
            f"hub, {jobs} live jobs, {regions} regions × {nodes} nodes, HTTP remote",
            f"  cold start, all placed     {figures.cold_cpu:8.2f} CPU-s  {figures.cold_wall:6.2f} s wall",
            f"  idle cycle                 {figures.idle_cpu * 1000:8.2f} CPU-ms  1/{figures.cold_cpu / max(figures.idle_cpu, 1e-6):.0f} of cold (goal 1/100)",
            f"  push → manifests pushed    p50 {p50:.3f} s, p99 {p99:.3f} s (goals 0.5, 1), {figures.push_cpu * 1000:.0f} CPU-ms each, {len(ordered)} pushes",
            f"  CPU a job, all of it       {figures.cold_cpu / jobs * 1000:8.2f} ms, Git's objects and push included",
            f"  memory                     {figures.resident_mb:8.0f} MB resident, {figures.peak_mb:.0f} MB at most (goal 300)",
            f"  growth of the repository   {figures.packed_bytes_per_decision:8.0f} bytes packed a decision (goal 4096)",
        ]
    )
