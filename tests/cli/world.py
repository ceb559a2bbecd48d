"""A jobs repository with a real hub, whose clock is moved by hand, and the command run as its users run it.

The regions' agents are played by the test: it puts their reports and leases into the store.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from reconciler.adapters.documents import reader
from reconciler.adapters.file_store import FileStore
from reconciler.adapters.git import BareClone
from reconciler.cli import main
from reconciler.commands.repository import Look, look, opened
from reconciler.hub.cycle import Hub
from reconciler.hub.results import HubOptions, Result
from reconciler.model.grants import Lease, lease_key, report_key
from reconciler.model.names import JobKey
from reconciler.model.record import JobRecord
from reconciler.model.report import (
    Amounts,
    NodeReport,
    Phase,
    PodReport,
    RegionReport,
    RegionSummary,
    WorkloadReport,
    WorkloadState,
)
from tests.githttp import commit_files, run_git

NOW = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)
"""When the hub's clock begins."""
GIB = 1024**3

REGION = """\
name: {name}
prices: {{A100-80GB: {price}}}
node_pools: [{{name: a, nodes: 2, gpus: 8, gpu_model: A100-80GB, cpu: '96', memory: 1000Gi}}]
"""
JOB = """\
job_id: {job_id}
gpu: {{count: 8, model: A100-80GB}}
image: reg.example.com/ml/train:1
max_runtime_seconds: 3600
"""
FLEET = {
    "regions/eu.yaml": REGION.format(name="eu", price="2.0"),
    "regions/us.yaml": REGION.format(name="us", price="1.0"),
    "reconciler.yaml": "intervals: {push_seconds: 0}\n",
    "teams/red.yaml": "name: red\n",
    "teams/blue.yaml": "name: blue\n",
}


def job(job_id: str, *more: str) -> str:
    return JOB.format(job_id=job_id) + "".join(f"{line}\n" for line in more)


class HandClock:
    """Both clocks, moved by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return 5000.0 + self.seconds


@dataclass(frozen=True)
class Ended:
    """What one call of the command did."""

    code: int
    out: str
    err: str


class Command:
    """Calls the command in this process, as its entry point does."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str | Path) -> Ended:
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        captured = self._capsys.readouterr()
        return Ended(int(ended.value.code or 0), captured.out, captured.err)

    def done(self, *arguments: str | Path) -> str:
        """The same, for a call that must succeed; what it printed."""
        ended = self(*arguments)
        assert ended.code == 0, ended
        return ended.out


class HubWorld:
    """A bare repository, a store, and a hub over both. `url`: another way to the repository than its path."""

    def __init__(self, root: Path, files: Mapping[str, str | bytes], repository: Path | None = None) -> None:
        self.repository = repository or root / "jobs.git"
        if repository is None:
            self.repository.mkdir(parents=True)
            run_git(self.repository, "init", "--quiet", "--bare", "--initial-branch=main", "--template=")
        self.store_folder = root / "store"
        self.store_folder.mkdir()
        self.store = FileStore(self.store_folder)
        self.clock = HandClock()
        self.files: dict[str, bytes] = {}
        self.commit({**FLEET, **files})
        options = HubOptions(holder="hub-1", repo_url="https://git.example.com/jobs.git", stage_image="reg.example.com/r:1")
        self.hub = Hub(BareClone(str(self.repository), root / "hub-clone"), self.store, reader, self.clock, options)
        self._sequence = 0

    @property
    def url(self) -> str:
        return str(self.repository)

    @property
    def store_url(self) -> str:
        return f"file://{self.store_folder}"

    def commit(self, changes: Mapping[str, str | bytes | None]) -> str:
        """A commit on main by somebody else. None removes a file."""
        for path, body in changes.items():
            if body is None:
                del self.files[path]
            else:
                self.files[path] = body.encode() if isinstance(body, str) else body
        return commit_files(self.repository, "main", self.files)

    def report(self, region: str, *workloads: WorkloadReport, version: int = 0, at: datetime | None = None) -> None:
        """What the region's agent says now: two nodes of eight GPUs, and these workloads. `at`: by the agent's clock."""
        self._sequence += 1
        busy = sum(pod.phase == "Running" for work in workloads for pod in work.pods)
        report = RegionReport(
            region=region,
            incarnation="one",
            sequence=self._sequence,
            sent_at=at or self.clock.now(),
            grants_version=version,
            lease_epoch=1,
            summary=_summary(region, busy, at or self.clock.now()),
            nodes=tuple(_node(f"n{number}", busy=number < busy) for number in range(2)),
            workloads=workloads,
            namespaces=("red", "blue"),
            workload_kinds=("job",),
        )
        self._put(report_key(region), report.model_dump_json().encode())
        lease = Lease(region=region, epoch=1, incarnation="one", renewal=self._sequence)
        self._put(lease_key(region), lease.model_dump_json().encode())

    def _put(self, key: str, body: bytes) -> None:
        self.store.put(key, body, expect=self.store.etag(key))

    def cycle(self, after_seconds: float = 0.0) -> Result:
        """Let time pass, and run one cycle of the hub."""
        self.clock.seconds += after_seconds
        return self.hub.cycle()

    def look(self) -> Look:
        with opened(self.url) as git:
            return look(git)

    def record(self, team: str, job_id: str) -> JobRecord:
        return self.look().ledger.records[JobKey(team, job_id)]

    def main_files(self) -> dict[str, bytes]:
        """What main holds now."""
        names = run_git(self.repository, "ls-tree", "-r", "--name-only", "main").splitlines()
        return {name: run_git(self.repository, "show", f"main:{name}").encode() + b"\n" for name in names}

    def last_commit(self) -> tuple[str, str]:
        """Author and message of main's tip."""
        author, _, message = run_git(self.repository, "log", "-1", "--format=%an <%ae>%n%B", "main").partition("\n")
        return author, message.strip()


def running(attempt: str, started: datetime) -> WorkloadReport:
    """An attempt whose one pod runs."""
    return _workload(attempt, "Released", _pod("Running", started))


def failed(attempt: str, started: datetime, ended: datetime, *, code: int = 1, tail: str = "boom\n") -> WorkloadReport:
    """An attempt whose one pod has failed."""
    pod = _pod("Failed", started, ended_at=ended, exit_code=code)
    return _workload(attempt, "Ended", pod, failed="BackoffLimitExceeded", log_tail=tail)


def succeeded(attempt: str, started: datetime, ended: datetime) -> WorkloadReport:
    """An attempt whose one pod has ended well."""
    return _workload(attempt, "Ended", _pod("Succeeded", started, ended_at=ended, exit_code=0), succeeded=True)


def _pod(phase: Phase, started: datetime, **more: Any) -> PodReport:
    return PodReport(name="main-0", node="n0", phase=phase, started_at=started, **more)


def _workload(attempt: str, state: WorkloadState, pod: PodReport, **more: Any) -> WorkloadReport:
    return WorkloadReport(attempt=attempt, namespace="red", uid="u1", state=state, stopped=state == "Ended", pods=(pod,), **more)


def _node(name: str, *, busy: bool) -> NodeReport:
    return NodeReport(
        name=name,
        gpu_model="A100-80GB",
        gpu_product="NVIDIA-A100-SXM4-80GB",
        capacity_gpus=8,
        allocatable=Amounts(gpus=8, cpu_milli=96_000, memory_bytes=1000 * GIB, disk_bytes=10**13, pods=110),
        used=Amounts(gpus=8, cpu_milli=64_000, memory_bytes=512 * GIB, pods=1) if busy else Amounts(),
    )


def _summary(region: str, busy: int, now: datetime) -> RegionSummary:
    return RegionSummary(
        cluster_id=region,
        gpu_nodes=2,
        gpu_busy=8 * busy,
        gpu_free=16 - 8 * busy,
        gpu_models=("A100-80GB",),
        queued_jobs=0,
        avg_cpu_usage=0.0,
        avg_gpu_usage=busy / 2,
        last_heartbeat=now,
    )


def run_to_end(world: HubWorld, *, well: bool) -> None:
    """Let red/one run and end."""
    for region in ("eu", "us"):
        world.report(region)
    world.cycle()
    attempt = world.record("red", "one").current
    assert attempt is not None
    start, ended = world.clock.now(), world.clock.now() + timedelta(seconds=9)
    world.report(attempt.region, succeeded(attempt.name, start, ended) if well else failed(attempt.name, start, ended))
    world.cycle(10)


def written(folder: Path, name: str, body: str) -> Path:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(body, encoding="utf-8")
    return folder / name


def changed(world: HubWorld) -> dict[str, bytes | None]:
    """What main's tip changes, against what the test last committed."""
    now = world.main_files()
    return {path: now.get(path) for path in now.keys() | world.files.keys() if now.get(path) != world.files.get(path)}


GOLDEN = Path(__file__).parent / "golden"


def assert_golden(name: str, text: str) -> None:
    """The text is that of golden/<name>, whatever the run hashes; WRITE_GOLDEN=1 writes it down, and the difference is reviewed."""
    text = re.sub(r"-[0-9a-f]{6}-a(?=[0-9])", "-______-a", text)
    file = GOLDEN / name
    if os.environ.get("WRITE_GOLDEN"):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")
