"""`deadman: true` on a real Job controller: it ends a Job when the agent is frozen, leaves it alone while the agent renews its lease,
and what it ended is told for what it is. The agent is the command, with the flags that `bootstrap` prints."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reconciler.adapters.file_store import FileStore
from reconciler.model.grants import Grant, Grants, Lease, grants_key, lease_key, report_key
from reconciler.model.report import RegionReport, WorkloadReport
from tests.e2e.control_plane import ControlPlane
from tests.e2e.world import Team, job_of, token_kubeconfig
from tests.waiting import until

NAME = "train-aaaaaa-a1"
FENCE, KILL, GRACE = 15, 5, 5
TIMES = ("--self-fence", str(FENCE), "--fence-kill", str(KILL), "--deadman")
LATE = 5.0
"""What controllers, kwok and our own looks take beside it."""


class Store:
    """The hub's part in the store."""

    def __init__(self, folder: Path, team: Team) -> None:
        folder.mkdir()
        self._store, self._team, self._version = FileStore(folder), team, 0
        self.url = f"file://{folder}"

    def lease(self) -> Lease | None:
        found = self._store.get(lease_key("eu"))
        return None if found is None else Lease.model_validate_json(found.body)

    def grant(self, run_seconds: int | None = None) -> None:
        """Write a new version of the grants, once there is a lease, with the one attempt."""
        lease = until(self.lease, 60.0)
        self._version += 1
        granted = Grant(
            attempt=NAME, team=self._team.namespace, job_id="train", epoch=lease.epoch, nodes=1, run_seconds=run_seconds
        )
        grants = Grants(region="eu", term=1, version=self._version, epoch=lease.epoch, attempts=(granted,))
        self._store.put(grants_key("eu"), grants.model_dump_json().encode(), expect=self._store.etag(grants_key("eu")))

    def said_when(self, condition: Callable[[WorkloadReport], bool], within: float = 60.0) -> WorkloadReport:
        """The report's words on the attempt, as soon as they are so."""

        def said() -> WorkloadReport | None:
            found = self._store.get(report_key("eu"))
            listed = () if found is None else RegionReport.model_validate_json(found.body).workloads
            return next((one for one in listed if one.attempt == NAME and condition(one)), None)

        return until(said, within, 0.1)

    def renewals(self, more: int, within: float) -> None:
        """Wait for so many renewals of the lease."""
        lease = until(self.lease, 60.0)
        until(lambda: (now := self.lease()) is not None and now.renewal >= lease.renewal + more, within, 0.2)


@pytest.fixture
def store(tmp_path: Path, team: Team) -> Store:
    return Store(tmp_path / "store", team)


@contextmanager
def agent(plane: ControlPlane, store: Store, folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """The region's agent, with its record new, for the time of a `with` block."""
    plane.kubectl("delete", "configmap", "agent-record", "-n", "gpu-reconciler", "--ignore-not-found")
    command = [sys.executable, "-m", "reconciler.cli", "agent", "eu", "--engine", "flux", "--store", store.url, "--look", "1"]
    place = ["--kubeconfig", str(token_kubeconfig(plane))]
    with (folder / "agent.log").open("wb") as log:
        running = subprocess.Popen([*command, *place, *TIMES], stdout=log, stderr=log)
    try:
        yield running
    finally:
        running.send_signal(signal.SIGCONT)
        running.terminate()
        running.wait(30)


def failure(team: Team) -> str:
    """Why its Job says that it fails; '' where it does not."""
    said = team.job(NAME).get("status", {}).get("conditions") or ()
    return next((str(one["reason"]) for one in said if one["type"] == "FailureTarget"), "")


def test_a_frozen_agents_job_is_ended_by_kubernetes_and_a_living_ones_is_not(
    tmp_path: Path, plane: ControlPlane, team: Team, store: Store
) -> None:
    with agent(plane, store, tmp_path) as running:
        team.create(job_of(NAME, grace=GRACE, says={"sim/run": "3600s", "sim/stop": "1s"}))
        store.grant()
        (pod,) = team.pods_when(1, "Running")
        store.renewals(more=16, within=4 * FENCE)  # two fences and a half
        assert [(one["metadata"]["uid"], one["status"]["phase"]) for one in team.pods()] == [(pod["metadata"]["uid"], "Running")]
        assert failure(team) == ""
        running.send_signal(signal.SIGSTOP)
        until(lambda: "Running" not in team.phases(), FENCE + KILL + LATE, 0.1)
        assert failure(team) == "DeadlineExceeded"
        running.send_signal(signal.SIGCONT)
        said = store.said_when(lambda said: said.state == "Ended" and said.stopped)
        assert (said.failed, said.succeeded, said.replaced) == ("Deadman", False, False)
        store.renewals(more=3, within=60.0)
        assert [one for one in team.pods() if one["metadata"]["uid"] != pod["metadata"]["uid"]] == []


def test_a_job_has_its_run_time_to_the_end(tmp_path: Path, plane: ControlPlane, team: Team, store: Store) -> None:
    with agent(plane, store, tmp_path):
        team.create(job_of(NAME, grace=GRACE, says={"sim/run": "3600s", "sim/stop": "1s"}))
        store.grant(run_seconds=2 * FENCE)
        team.pods_when(1, "Running")
        said = store.said_when(lambda said: said.state == "Ended" and said.stopped)
        assert (said.failed, said.succeeded) == ("DeadlineExceeded", False)
        assert team.job(NAME)["spec"]["activeDeadlineSeconds"] == 2 * FENCE
