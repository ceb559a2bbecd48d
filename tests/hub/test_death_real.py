"""The hub dies at every one of its writes, before it or after it: the next start comes to the same end, and each job runs once.

Real processes: the hub is killed by SIGKILL in a process of its own, the programs append to a file what they are.
"""

import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

from reconciler.adapters.clock import SystemClock
from reconciler.adapters.file_store import FileStore
from reconciler.adapters.git import BareClone
from reconciler.adapters.local import LocalCluster, LocalSync, NodeSpec, ProcessRuntime, ProcessSettings
from reconciler.adapters.local import Settings as ClusterSettings
from reconciler.agent.loop import Agent
from reconciler.agent.settings import Settings
from reconciler.hub.ledger import LedgerCache, read_ledger
from tests.githttp import commit_files, run_git

REGIONS = ("eu", "us")
JOBS = {"good": "exit 0", "bad": "exit 7", "slow": "sleep 0.3"}
KILLED = -9

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def _files(runs: Path) -> dict[str, bytes]:
    files = {f"regions/{name}.yaml": f"name: {name}\nsync_engine: local\n".encode() for name in REGIONS}
    files["reconciler.yaml"] = b"intervals: {push_seconds: 0}\n"
    for name, end in JOBS.items():
        script = f"echo $ATTEMPT >> {runs}; {end}"
        files[f"jobs/team/{name}.yaml"] = (
            f"job_id: {name}\ngpu: {{count: 1}}\nimage: x:1\ncommand: [sh, -c, '{script}']\n".encode()
        )
    return files


class _Region:
    """A region that lives in threads of this process, over the same store and repository."""

    def __init__(self, name: str, root: Path, url: str) -> None:
        clock = SystemClock()
        runtime = ProcessRuntime(
            root / name / "pods", ProcessSettings({"PATH": "/usr/bin:/bin"}, root / "secrets", root / "claims")
        )
        nodes = [NodeSpec("n1", gpus=8, product="NVIDIA-A100-SXM4-80GB", memory="2Ti", cpu="192")]
        self._cluster = LocalCluster(root / name / "cluster", nodes, runtime, clock, ClusterSettings(name, ("team",)))
        self._sync = LocalSync(self._cluster, BareClone(url, root / name / "clone"), f"region/{name}", clock, 0.1)
        settings = Settings(look_seconds=0.05, rest_seconds=0.02, poll_seconds=0.05, change_seconds=0.05, report_seconds=1.0)
        self._agent = Agent(name, self._cluster, self._sync, FileStore(root / "store"), clock, settings, name)
        self._stop, self._wake = threading.Event(), threading.Event()
        self._threads = [
            threading.Thread(target=self._live),
            threading.Thread(target=self._agent.run, args=(self._stop, self._wake)),
        ]

    def _live(self) -> None:
        while not self._stop.wait(0.02):
            self._cluster.step()
            self._sync.step()

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._wake.set()
        for thread in self._threads:
            thread.join()
        self._cluster.close()


def _hub(root: Path, url: str, last: int, when: str) -> int:
    command = [sys.executable, "-m", "tests.hub.dying_hub", str(root), url, str(last), when, str(len(JOBS))]
    return subprocess.run(command, timeout=120, check=False).returncode


def _end(bare: Path, root: Path) -> dict[str, tuple[str, int]]:
    git = BareClone(str(bare), root / "reader")
    ledger = read_ledger(git.files(git.fetch()["status"]), git.read, LedgerCache())
    return {key.job_id: (record.phase.value, len(record.attempts)) for key, record in ledger.records.items()}


def _world(root: Path) -> tuple[Path, Path]:
    bare, runs = root / "jobs.git", root / "runs"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(bare)], check=True)
    (root / "store").mkdir()
    commit_files(bare, "main", _files(runs))
    run_git(bare, "config", "core.fsync", "none")
    return bare, runs


UNDISTURBED = {"good": ("Succeeded", 1), "bad": ("Failed", 1), "slow": ("Succeeded", 1)}


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("offset", range(6))
def test_death_at_every_write_changes_no_end_and_runs_nothing_twice(tmp_path: Path, offset: int, when: str) -> None:
    """Each world starts with the death at write 1 + offset; every following hub dies six writes later, until one does not."""
    bare, runs = _world(tmp_path)
    with _Region("eu", tmp_path, str(bare)), _Region("us", tmp_path, str(bare)):
        deaths, last = 0, 1 + offset
        while (code := _hub(tmp_path, str(bare), last, when)) == KILLED:
            deaths, last = deaths + 1, last + 6
        assert code == 0
    assert deaths > 0
    assert _end(bare, tmp_path) == UNDISTURBED
    assert Counter(line.partition("-")[0] for line in runs.read_text().split()) == Counter(dict.fromkeys(JOBS, 1))
