"""The agent in a region whose jobs go through Kueue's queues: Kueue itself, on a real control plane."""

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.adapters.clock import SystemClock
from reconciler.adapters.file_store import FileStore
from reconciler.adapters.kube.admission_check import keep_active
from reconciler.adapters.kube.connection import Connection
from reconciler.agent.settings import Settings
from reconciler.model.names import ANNOTATION_CLOSED, ANNOTATION_OUT, GRANT_CHECK, QUEUE_LABEL
from reconciler.ports import ObjectStore
from tests.agent.stores import FailingStore
from tests.e2e.control_plane import ControlPlane, region
from tests.e2e.kueue import API, GRANT, Queue, kueue, queued_job, rival
from tests.e2e.loopback import Controller
from tests.e2e.programs import Program
from tests.e2e.test_agent import NAME, Region
from tests.e2e.world import Team, access_of, service_account, token_kubeconfig
from tests.waiting import until

RIVAL = "rival"
LONG = {"sim/run": "600s"}
SHORT = {"sim/run": "2s"}
MACHINES = "machines"
"""A check of somebody else, who never answers."""


@pytest.fixture(scope="module")
def queueing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ControlPlane, Controller]]:
    """A region with two nodes of 8 GPUs, the agent's account, and Kueue, whose check the agent has called active."""
    with region(tmp_path_factory.mktemp("queued")) as up:
        up.add_nodes(2)
        service_account(up)
        with kueue(up) as controller:
            assert keep_active(Connection(access_of(up), SystemClock(), 10.0), SystemClock()) == ""
            other = {**GRANT, "metadata": {"name": MACHINES}, "spec": {"controllerName": "example.com/machines"}}
            active = {
                "type": "Active",
                "status": "True",
                "reason": "Test",
                "message": "",
                "lastTransitionTime": "2026-05-01T10:00:00Z",
            }
            up.kubectl("create", "-f", "-", stdin=other)
            patch = json.dumps({"status": {"conditions": [active]}})
            up.kubectl("patch", "admissioncheck", MACHINES, "--subresource=status", "--type=merge", "-p", patch)
            urgent = {"apiVersion": API, "kind": "WorkloadPriorityClass", "metadata": {"name": "urgent"}, "value": 1000}
            up.kubectl("create", "-f", "-", stdin=urgent)
            yield up, controller


@pytest.fixture(scope="module")
def plane(queueing: tuple[ControlPlane, Controller]) -> ControlPlane:
    """The region of these tests alone: what Kueue installs would be in the way of others."""
    return queueing[0]


class Queued(Region):
    """The region's agent, and a queue of one GPU for its team."""

    queue: Queue

    def waits(self, words: str) -> None:
        """Wait until the report says that it waits, and why."""
        self.when(lambda said: said.state == "Held" and words in (said.waiting or ""))

    def runs(self) -> None:
        """Wait until its pod runs."""
        self.when(lambda said: [pod.phase for pod in said.pods] == ["Running"])

    def has_run_once(self) -> None:
        """Wait for its good end; AssertionError if it took more than one pod."""
        ended = self.when(lambda said: said.state == "Ended")
        assert (ended.stopped, ended.succeeded, len(self.team.pods())) == (True, True, 1)

    def is_out_for_good(self) -> None:
        """It runs no more, holds no quota, and gets none, although there is some."""
        until(lambda: self.queue.used() == 0)
        self.some_steps()
        assert (self.queue.is_active(NAME), self.queue.used()) == (False, 0)
        assert self.team.job(NAME)["spec"]["suspend"] is True
        assert not [phase for phase in self.team.phases() if phase in ("Running", "Pending")]


@pytest.fixture
def start(plane: ControlPlane, team: Team) -> Iterator[Callable[..., Queued]]:
    """Makes a queue and starts the region's agent, with its record new; ends both."""
    made: list[Queued] = []
    plane.kubectl("delete", "configmap", "agent-record", "-n", "gpu-reconciler", "--ignore-not-found")

    def started(
        store: ObjectStore, checks: tuple[str, ...] = (GRANT_CHECK,), *, watched: bool = False, **settings: Any
    ) -> Queued:
        queue = Queue(team, 1, checks)
        chosen = Settings(**{"report_seconds": 0.5, "change_seconds": 0.1, "look_seconds": 0.2, **settings})
        made.append(Queued(plane, team, store, chosen, watched=watched))
        made[-1].queue = queue
        return made[-1]

    yield started
    for one in made:
        one.stop()
        one.queue.remove()


# ---- to its end


def test_a_granted_attempt_goes_through_its_queue_and_runs_once(tmp_path: Path, start: Callable[..., Queued], team: Team) -> None:
    region = start(FileStore(tmp_path), watched=True, look_seconds=300.0, report_seconds=2.0, poll_seconds=0.2)
    region.render(queued_job(NAME, {"sim/run": "6s"}))
    held = region.when(lambda said: said.state == "Held")
    region.some_steps()
    assert (held.stopped, held.waiting, region.queue.admission(NAME), region.queue.used()) == (True, None, None, 0)
    assert QUEUE_LABEL not in team.job(NAME)["metadata"]["labels"], "a place in the queue would hold quota"
    region.grant([NAME], run_seconds=600)
    until(lambda: region.queue.used() == 1)
    region.runs()
    assert region.queue.states(NAME) == {GRANT_CHECK: "Ready"}
    region.has_run_once()
    job = team.job(NAME)
    assert job["spec"]["activeDeadlineSeconds"] == 600
    assert job["metadata"]["generation"] == 3, "written once by the agent, with the label, and once by Kueue, when it began"
    until(lambda: region.queue.used() == 0)


def test_what_waits_for_quota_says_so_and_runs_when_there_is_some(
    tmp_path: Path, start: Callable[..., Queued], team: Team
) -> None:
    region = start(FileStore(tmp_path))
    team.create(rival(RIVAL, says=LONG))
    until(lambda: region.queue.used() == 1)
    region.render(queued_job(NAME, SHORT))
    region.grant([NAME])
    region.waits("insufficient unused quota")
    region.stop()
    region.start()  # another agent, which knows only the record
    region.waits("insufficient unused quota")
    assert team.job(NAME)["spec"]["suspend"] is True
    team.plane.kubectl("delete", "job", RIVAL, "-n", team.namespace)
    region.runs()
    region.stop()
    region.start()
    until(lambda: not [pod for pod in team.pods() if pod["metadata"]["name"].startswith(RIVAL)])
    region.has_run_once()


def test_a_queue_that_is_not_there_is_named(tmp_path: Path, start: Callable[..., Queued]) -> None:
    region = start(FileStore(tmp_path))
    region.render(queued_job(NAME, SHORT, queue="elsewhere"))
    region.grant([NAME])
    region.waits("LocalQueue elsewhere doesn't exist")


def test_in_a_queue_without_our_check_nothing_runs_before_its_gate_is_lifted(
    tmp_path: Path, start: Callable[..., Queued], team: Team
) -> None:
    region = start(FileStore(tmp_path), checks=())
    region.grant([])
    region.render(queued_job(NAME, SHORT))
    region.when(lambda said: said.state == "Held")
    team.plane.kubectl("label", "job", NAME, "-n", team.namespace, f"{QUEUE_LABEL}=gpus")  # as somebody may who is in a hurry
    until(lambda: (region.queue.admission(NAME) or {"spec": {}})["spec"].get("active") is False)
    region.when(lambda said: said.stopped)
    region.is_out_for_good()
    assert "Succeeded" not in team.phases(), "nobody has granted it"


def test_in_a_queue_without_our_check_a_granted_attempt_runs_once(tmp_path: Path, start: Callable[..., Queued]) -> None:
    region = start(FileStore(tmp_path), checks=())
    region.render(queued_job(NAME, SHORT))
    region.grant([NAME], run_seconds=600)
    region.runs()
    region.has_run_once()


# ---- stopped


def test_withdrawn_while_it_waits_for_quota(tmp_path: Path, start: Callable[..., Queued], team: Team) -> None:
    region = start(FileStore(tmp_path))
    team.create(rival(RIVAL, says=LONG))
    until(lambda: region.queue.used() == 1)
    region.render(queued_job(NAME, LONG))
    region.grant([NAME])
    region.waits("insufficient unused quota")
    region.grant([])
    stopped = region.when(lambda said: said.stopped)
    assert (stopped.replaced, stopped.pods) == (False, ())
    team.plane.kubectl("delete", "job", RIVAL, "-n", team.namespace)
    until(lambda: team.pods() == [])
    region.is_out_for_good()


def test_withdrawn_while_it_holds_quota_and_waits_for_another_check(tmp_path: Path, start: Callable[..., Queued]) -> None:
    region = start(FileStore(tmp_path), checks=(GRANT_CHECK, MACHINES))
    region.render(queued_job(NAME, LONG))
    region.grant([NAME])
    region.waits(f"AdmissionCheck {MACHINES} is Pending")
    until(lambda: region.queue.states(NAME) == {GRANT_CHECK: "Ready", MACHINES: "Pending"})
    until(lambda: region.queue.used() == 1)
    region.grant([])
    region.when(lambda said: said.stopped)
    region.is_out_for_good()


def test_withdrawn_while_it_runs(tmp_path: Path, start: Callable[..., Queued], team: Team) -> None:
    region = start(FileStore(tmp_path))
    region.render(queued_job(NAME, {**LONG, "sim/stop": "2s"}))
    region.grant([NAME])
    region.runs()
    region.grant([])
    stopped = region.when(lambda said: said.stopped)
    assert not [pod for pod in stopped.pods if pod.phase == "Running"]
    assert team.job(NAME)["metadata"]["annotations"][ANNOTATION_CLOSED] == "true"
    region.is_out_for_good()


def test_withdrawn_while_kueue_does_not_work(
    tmp_path: Path, start: Callable[..., Queued], team: Team, queueing: tuple[ControlPlane, Controller]
) -> None:
    region = start(FileStore(tmp_path))
    region.render(queued_job(NAME, LONG))
    region.grant([NAME])
    region.runs()
    queueing[1].stop()
    try:
        region.grant([])
        stopped = region.when(lambda said: said.stopped)
        assert (stopped.state, stopped.failed) == ("Ended", "BackoffLimitExceeded"), "its pod was told to end"
        job = team.job(NAME)
        assert (job["spec"]["suspend"], job["metadata"]["generation"]) == (False, 2), "its webhook lets nobody write a Job"
    finally:
        queueing[1].start()
    until(lambda: region.queue.used() == 0)


def test_a_region_that_cannot_renew_its_lease_stops_everything(start: Callable[..., Queued], team: Team) -> None:
    store = FailingStore()
    region = start(store, self_fence_seconds=6.0, renew_seconds=0.5, request_seconds=0.5, fence_kill_seconds=2)
    job = queued_job(NAME, LONG)
    job["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 600
    region.render(job)
    region.grant([NAME])
    region.runs()
    store.down = True
    until(lambda: team.job(NAME)["spec"]["suspend"] and "Running" not in team.phases(), 30.0, 0.1)
    until(lambda: region.queue.used() == 0)
    store.down = False
    region.when(lambda said: said.stopped)
    region.is_out_for_good()


def test_what_was_only_waiting_when_the_lease_ran_out_waits_again(start: Callable[..., Queued], team: Team) -> None:
    store = FailingStore()
    region = start(store, self_fence_seconds=6.0, renew_seconds=0.5, request_seconds=0.5)
    team.create(rival(RIVAL, says=LONG))
    until(lambda: region.queue.used() == 1)
    region.render(queued_job(NAME, SHORT))
    region.grant([NAME])
    region.waits("insufficient unused quota")
    store.down = True
    until(lambda: not region.queue.is_active(NAME), 30.0, 0.1)
    store.down = False
    until(lambda: region.queue.is_active(NAME), 30.0, 0.1)
    admission = region.queue.admission(NAME)
    assert admission is not None
    assert ANNOTATION_OUT not in admission["metadata"].get("annotations", {})
    team.plane.kubectl("delete", "job", RIVAL, "-n", team.namespace)
    until(lambda: [pod for pod in team.pods() if pod["metadata"]["name"].startswith(NAME)])
    region.when(lambda said: said.state == "Ended" and said.succeeded)


# ---- put out by Kueue


def put_out(region: Queued) -> None:
    """What follows where Kueue has put a running attempt out of its queue, and has quota for it again."""
    region.is_out_for_good()
    said = region.when(lambda said: said.replaced)
    assert (said.state, said.succeeded, said.stopped) == ("Held", False, False), "it is granted still"
    region.grant([])
    region.when(lambda said: said.state == "Ended" and said.stopped)
    region.is_out_for_good()


def test_preempted_in_its_queue_it_is_reported_and_not_resumed(tmp_path: Path, start: Callable[..., Queued], team: Team) -> None:
    region = start(FileStore(tmp_path))
    region.render(queued_job(NAME, LONG))
    region.grant([NAME])
    region.runs()
    team.create(rival(RIVAL, says=SHORT, priority="urgent"))
    region.when(lambda said: said.replaced)
    until(lambda: region.queue.states(RIVAL), 60.0)  # it has the quota
    team.plane.kubectl("delete", "job", RIVAL, "-n", team.namespace)
    put_out(region)


def test_drained_with_its_queue_it_is_reported_and_not_resumed(tmp_path: Path, start: Callable[..., Queued], team: Team) -> None:
    region = start(FileStore(tmp_path))
    region.render(queued_job(NAME, LONG))
    region.grant([NAME])
    region.runs()
    region.queue.change(stopPolicy="HoldAndDrain")
    region.when(lambda said: said.replaced)
    region.stop()
    region.queue.change(stopPolicy="None")
    region.start()
    put_out(region)


# ---- the check itself


def test_the_agents_program_keeps_the_check_active(plane: ControlPlane, tmp_path: Path) -> None:
    conditions = '{"status": {"conditions": []}}'
    plane.kubectl("patch", "admissioncheck", GRANT_CHECK, "--subresource=status", "--type=merge", "-p", conditions)
    where = ["--kubeconfig", str(token_kubeconfig(plane)), "--engine", "flux", "--store", f"file://{tmp_path / 'store'}"]
    agent = Program("agent", ["agent", "eu", *where], tmp_path, {})
    agent.start()
    try:
        found = until(lambda: plane.get("admissioncheck", GRANT_CHECK)["status"].get("conditions"), 60.0, 0.2)
        agent.check()
    finally:
        agent.stop(signal.SIGTERM)
    assert [(one["type"], one["status"], one["reason"]) for one in found] == [("Active", "True", "AgentWorks")]


def test_an_active_check_is_not_written_and_anothers_is_told(plane: ControlPlane) -> None:
    connection = Connection(access_of(plane), SystemClock(), 10.0)
    assert keep_active(connection, SystemClock()) == ""
    before = plane.get("admissioncheck", GRANT_CHECK)["metadata"]["resourceVersion"]
    assert keep_active(connection, SystemClock()) == ""
    assert plane.get("admissioncheck", GRANT_CHECK)["metadata"]["resourceVersion"] == before
    plane.kubectl("delete", "admissioncheck", GRANT_CHECK)
    try:
        assert keep_active(connection, SystemClock()) == "", "nobody wants it"
        plane.kubectl("create", "-f", "-", stdin={**GRANT, "spec": {"controllerName": "example.com/another"}})
        assert "is another's (example.com/another)" in keep_active(connection, SystemClock())
        assert "conditions" not in plane.get("admissioncheck", GRANT_CHECK).get("status", {})
    finally:
        plane.kubectl("delete", "admissioncheck", GRANT_CHECK, "--ignore-not-found")
        plane.kubectl("create", "-f", "-", stdin=GRANT)
        keep_active(connection, SystemClock())
