"""`reconciler agent` on this machine: it keeps the times that the region's file, the policy or the command line say."""

import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from reconciler.adapters.file_store import FileStore
from reconciler.model.grants import Lease, lease_key
from tests.cli.world import Command
from tests.githttp import commit_files
from tests.waiting import until

REGION = b"name: lab\nsync_engine: local\nnode_pools: [{name: cpu, nodes: 1, cpu: '4', memory: 8Gi}]\n"
OWN = REGION + b"loss: {self_fence_seconds: 60, fence_kill_seconds: 5, grace_seconds: 60}\n"
POLICY = b"loss: {self_fence_seconds: 90, fence_kill_seconds: 7, grace_seconds: 60}\n"

SAID: dict[str, tuple[bytes, Sequence[str], tuple[float, float]]] = {
    "the policy's": (REGION, (), (90, 7)),
    "the region's own": (OWN, (), (60, 5)),
    "the command line's": (OWN, ("--self-fence", "30"), (30, 5)),
}


REPORTS: dict[str, tuple[bytes, str]] = {
    "as the policy says": (REGION, "10.1"),
    "as the region says": (REGION + b"loss: {unknown_seconds: 9}\n", "3.1"),
}


def declare(folder: Path, region: bytes) -> Path:
    """A repository that declares `lab`, with its store beside it."""
    bare = folder / "jobs.git"
    subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=main", str(bare)], check=True)
    settings = f"store: {{url: 'file://{folder / 'store'}'}}\n".encode()
    commit_files(bare, "main", {"regions/lab.yaml": region, "policy.yaml": POLICY, "reconciler.yaml": settings})
    return bare


@contextmanager
def agent(bare: Path, folder: Path, *options: str) -> Iterator[None]:
    """The agent of `lab`, for the time of a `with` block."""
    own = [sys.executable, "-m", "reconciler.cli", "agent", "lab", "--repo", str(bare), "--folder", str(folder / "lab")]
    running = subprocess.Popen([*own, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        running.send_signal(signal.SIGTERM)
        assert running.wait(30) == 0


@pytest.mark.parametrize(("region", "options", "want"), SAID.values(), ids=SAID.keys())
def test_its_lease_says_them(tmp_path: Path, region: bytes, options: Sequence[str], want: tuple[float, float]) -> None:
    bare, store = declare(tmp_path, region), tmp_path / "store"
    with agent(bare, tmp_path, *options):
        found = until(lambda: FileStore(store).get(lease_key("lab")) if store.is_dir() else None, 60.0)
    lease = Lease.model_validate_json(found.body)
    assert (lease.self_fence_seconds, lease.fence_kill_seconds) == want


def test_a_fence_that_is_too_short_is_refused(command: Command) -> None:
    ended = command("agent", "lab", "--folder", "x", "--self-fence", "5")
    assert ended.code == 2
    assert "--self-fence" in ended.err


@pytest.mark.parametrize(("region", "said"), REPORTS.values(), ids=REPORTS.keys())
def test_reports_so_seldom_that_a_late_one_would_make_it_unknown_are_refused(
    command: Command, tmp_path: Path, region: bytes, said: str
) -> None:
    bare = declare(tmp_path, region)
    ended = command("agent", "lab", "--repo", bare, "--folder", tmp_path / "lab", "--report", said)
    assert ended.code == 2
    assert f"with --report {said}" in ended.err
    assert f"every {float(said) - 0.1:g} s" in ended.err
