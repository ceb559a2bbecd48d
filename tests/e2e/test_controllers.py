"""Job controllers that are late or away: the facts that the protocol's rules stand on, with the agent on a real API server."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest

from reconciler.adapters.file_store import FileStore
from reconciler.agent.settings import Settings
from reconciler.ports import ObjectStore
from tests.agent.stores import FailingStore
from tests.e2e.control_plane import ControlPlane
from tests.e2e.test_agent import NAME, Region
from tests.e2e.world import Team, job_of
from tests.waiting import until

BACKLOG_JOBS, BACKLOG_PODS = 4, 400


@contextmanager
def agent_of(plane: ControlPlane, team: Team, store: ObjectStore, **settings: Any) -> Iterator[Region]:
    """The region's agent, with its record new, for the time of a `with` block."""
    plane.kubectl("delete", "configmap", "agent-record", "-n", "gpu-reconciler", "--ignore-not-found")
    chosen = Settings(**{"report_seconds": 0.5, "change_seconds": 0.1, "look_seconds": 0.2, **settings})
    region = Region(plane, team, store, chosen, watched=False)
    try:
        yield region
    finally:
        region.stop()


@pytest.fixture
def slow_controllers(plane: ControlPlane) -> Iterator[None]:
    """Controllers at the pace that they have without further words (20 requests a second), and afterwards the hurried ones."""
    plane.stop("kube-controller-manager")
    plane.start_controllers(hurried=False)
    yield
    plane.stop("kube-controller-manager")
    plane.start_controllers()


class Lookout:
    """Writes down every phase that the pods of a namespace's attempt were ever seen in, and whether one was seen without its gate."""

    def __init__(self, team: Team) -> None:
        self._team = team
        self.phases: set[str] = set()
        self.names: set[str] = set()
        self.on_nodes: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stop.wait(0.1):
            for pod in self._team.pods_of(NAME):
                self.names.add(pod["metadata"]["name"])
                self.phases.add(pod["status"]["phase"])
                if pod["spec"].get("nodeName"):
                    self.on_nodes.add(pod["metadata"]["name"])


def test_a_pod_that_a_busy_controller_makes_after_the_stop_is_born_gated_and_never_runs(
    tmp_path: Path, plane: ControlPlane, team: Team, slow_controllers: None
) -> None:
    with agent_of(plane, team, FileStore(tmp_path)) as region, Lookout(team) as seen:
        region.render(job_of(NAME, says={"sim/run": "600s"}))
        region.when(lambda said: said.state == "Held", within=60.0)
        for number in range(BACKLOG_JOBS):
            other = job_of(f"backlog-{number}", pods=BACKLOG_PODS)
            other["metadata"]["labels"] = other["spec"]["template"]["metadata"]["labels"] = {"somebody": "else"}
            other["spec"]["template"]["spec"]["containers"][0]["resources"] = {}
            other["spec"]["suspend"] = False
            team.create(other)
        until(lambda: team.count("somebody=else") >= 50, 120.0, 0.5)
        region.grant([NAME])
        until(lambda: team.job(NAME)["spec"]["suspend"] is False)
        region.grant([])
        stopped = region.when(lambda said: said.stopped, within=60.0)
        assert stopped.succeeded is False
        until(lambda: team.count("somebody=else") >= BACKLOG_JOBS * BACKLOG_PODS, 300.0, 1.0)
        region.some_steps()
        assert region.when(lambda said: said.stopped).stopped
    assert seen.on_nodes == set()
    assert seen.phases <= {"Pending"}


def test_a_region_that_cannot_renew_its_lease_stops_everything_while_no_controller_works(plane: ControlPlane, team: Team) -> None:
    store = FailingStore()
    times = {"self_fence_seconds": 6.0, "renew_seconds": 0.5, "request_seconds": 0.5, "fence_kill_seconds": 2}
    with agent_of(plane, team, store, **times) as region:
        region.render(job_of(NAME, grace=600, says={"sim/run": "600s"}))
        region.grant([NAME])
        region.when(lambda said: any(pod.phase == "Running" for pod in said.pods))
        plane.stop("kube-controller-manager")
        try:
            store.down = True
            until(lambda: "Running" not in team.phases(), 60.0, 0.1)
            assert team.job(NAME)["spec"]["suspend"] is True
        finally:
            plane.start_controllers()
