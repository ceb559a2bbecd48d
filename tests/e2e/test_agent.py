"""The agent itself on a real API server: released once, stopped when it must be, whatever the controllers do."""

import json
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from reconciler.adapters.clock import SystemClock
from reconciler.adapters.file_store import FileStore
from reconciler.agent.loop import Agent
from reconciler.agent.settings import Settings
from reconciler.model.grants import Grant, Grants, Lease, grants_key, lease_key, report_key
from reconciler.model.names import ANNOTATION_CLOSED
from reconciler.model.report import RegionReport, WorkloadReport
from reconciler.ports import ObjectStore, SyncState
from tests.agent.stores import FailingStore
from tests.e2e.control_plane import ControlPlane
from tests.e2e.world import GPU, Team, agents_cluster, job_of
from tests.waiting import until

NAME = "train-aaaaaa-a1"


class Applied:
    """A sync engine whose branch holds what was applied here."""

    def __init__(self) -> None:
        self.objects: frozenset[tuple[str, str]] = frozenset()

    def state(self) -> SyncState:
        return SyncState(None, {}, self.objects)

    def nudge(self, commit: str) -> None:
        raise AssertionError(f"the grants name no commit, and so not {commit}")


class Region:
    """The region's agent at work in a thread, and the hub's part in the store."""

    def __init__(self, plane: ControlPlane, team: Team, store: ObjectStore, settings: Settings, *, watched: bool) -> None:
        self.plane, self.team, self.store, self.settings, self.watched = plane, team, store, settings, watched
        self.engine = Applied()
        self._version = 0
        self._stop, self._wake = threading.Event(), threading.Event()
        self.start()

    def start(self) -> None:
        """An agent, with nothing in its memory."""
        self._stop, self._wake = threading.Event(), threading.Event()
        cluster = agents_cluster(self.plane)
        if self.watched:
            cluster.start(self._wake.set)
        self._cluster = cluster
        self.agent = Agent("eu", cluster, self.engine, self.store, SystemClock(), self.settings, secrets.token_hex(8))
        self._thread = threading.Thread(target=self.agent.run, args=(self._stop, self._wake))
        self._thread.start()
        until(lambda: (found := self.report()) is not None and found.incarnation == self.agent.incarnation)

    def stop(self) -> None:
        """End the agent; what runs runs on."""
        self._stop.set()
        self._wake.set()
        self._thread.join(30)
        self._cluster.stop()
        assert not self._thread.is_alive()

    def render(self, job: dict[str, Any]) -> None:
        self.team.create(job)
        self.engine.objects |= {(self.team.namespace, job["metadata"]["name"])}

    def grant(self, attempts: Sequence[str], run_seconds: int | None = None) -> None:
        """Write a new version of the grants."""
        lease = self.store.get(lease_key("eu"))
        assert lease is not None
        self._version += 1
        epoch = Lease.model_validate_json(lease.body).epoch
        said = {"team": self.team.namespace, "job_id": "train", "nodes": 1, "epoch": epoch, "run_seconds": run_seconds}
        granted = tuple(Grant.model_validate({"attempt": one, **said}) for one in attempts)
        grants = Grants(region="eu", term=1, version=self._version, epoch=epoch, attempts=granted)
        self.store.put(grants_key("eu"), grants.model_dump_json().encode(), expect=self.store.etag(grants_key("eu")))

    def report(self) -> RegionReport | None:
        found = self.store.get(report_key("eu"))
        return None if found is None else RegionReport.model_validate_json(found.body)

    def said(self) -> WorkloadReport | None:
        """What the last report says of the attempt."""
        report = self.report()
        return next((one for one in report.workloads if one.attempt == NAME), None) if report else None

    def when(self, condition: Callable[[WorkloadReport], bool], within: float = 30.0) -> WorkloadReport:
        """The report's words on the attempt, as soon as they are so."""

        def asked() -> WorkloadReport | None:
            said = self.said()
            return said if said is not None and condition(said) else None

        try:
            return until(asked, within, 0.05)
        except AssertionError as error:
            raise AssertionError(f"the report never said so; it says {self.report()}") from error

    def some_steps(self) -> None:
        """Let the agent look and report three times more."""
        found = self.report()
        assert found is not None
        until(lambda: (now := self.report()) is not None and now.sequence >= found.sequence + 3, 30.0, 0.05)


@pytest.fixture
def start(plane: ControlPlane, team: Team) -> Iterator[Callable[..., Region]]:
    """Starts the region's agent, with its record new, and ends it."""
    made: list[Region] = []
    plane.kubectl("delete", "configmap", "agent-record", "-n", "gpu-reconciler", "--ignore-not-found")

    def started(store: ObjectStore, *, watched: bool = False, **settings: Any) -> Region:
        chosen = Settings(**{"report_seconds": 0.5, "change_seconds": 0.1, "look_seconds": 0.2, **settings})
        made.append(Region(plane, team, store, chosen, watched=watched))
        return made[-1]

    yield started
    for region in made:
        region.stop()


def test_a_granted_attempt_is_released_exactly_once(tmp_path: Path, start: Callable[..., Region], team: Team) -> None:
    region = start(FileStore(tmp_path))
    region.render(job_of(NAME, says={"sim/run": "2s"}))
    held = region.when(lambda said: said.state == "Held")
    region.some_steps()
    assert (held.stopped, team.job(NAME)["spec"]["suspend"], team.pods()) == (True, True, [])
    region.grant([NAME], run_seconds=600)
    running = region.when(lambda said: any(pod.phase == "Running" for pod in said.pods))
    assert (running.state, [pod.gated for pod in running.pods]) == ("Released", [False])
    region.stop()
    region.start()  # another agent, which knows only the record
    ended = region.when(lambda said: said.state == "Ended")
    assert (ended.stopped, ended.succeeded) == (True, True)
    job = team.job(NAME)
    assert (job["metadata"]["generation"], job["spec"]["activeDeadlineSeconds"]) == (2, 600), "its spec was written once"
    assert len(team.pods()) == 1
    team.plane.kubectl("delete", "job", NAME, "-n", team.namespace)
    until(lambda: team.pods() == [])
    team.held(job_of(NAME, says={"sim/run": "2s"}))  # as a sync engine makes it again
    region.when(lambda said: said.replaced)
    region.some_steps()
    job = team.job(NAME)
    assert (job["spec"]["suspend"], job["metadata"]["generation"], team.pods()) == (True, 1, [])


def test_a_withdrawn_attempt_is_stopped_while_no_controller_works(
    tmp_path: Path, start: Callable[..., Region], team: Team, plane: ControlPlane
) -> None:
    region = start(FileStore(tmp_path))
    region.render(job_of(NAME, says={"sim/run": "600s"}))
    region.grant([NAME])
    region.when(lambda said: any(pod.phase == "Running" for pod in said.pods))
    plane.stop("kube-controller-manager")
    try:
        region.grant([])
        stopped = region.when(lambda said: said.stopped)
        assert ([pod.phase for pod in stopped.pods], team.phases()) == (["Failed"], ["Failed"]), "its finalizer keeps it listed"
        job = team.job(NAME)
        assert (job["spec"]["suspend"], job["metadata"]["annotations"][ANNOTATION_CLOSED]) == (True, "true")
    finally:
        plane.start_controllers()


def test_a_region_that_cannot_renew_its_lease_stops_everything(start: Callable[..., Region], team: Team) -> None:
    store = FailingStore()
    region = start(store, self_fence_seconds=6.0, renew_seconds=0.5, request_seconds=0.5, fence_kill_seconds=2)
    region.render(job_of(NAME, grace=600, says={"sim/run": "600s"}))
    region.grant([NAME])
    region.when(lambda said: any(pod.phase == "Running" for pod in said.pods))
    store.down = True
    until(lambda: team.job(NAME)["spec"]["suspend"] and "Running" not in team.phases(), 30.0, 0.1)
    store.down = False
    fenced = region.when(lambda said: said.stopped)
    assert fenced.succeeded is False
    region.some_steps()
    assert team.job(NAME)["spec"]["suspend"] is True, "a renewed lease starts nothing again"


def test_an_agent_that_looks_seldom_is_woken_by_what_happens(tmp_path: Path, start: Callable[..., Region], team: Team) -> None:
    region = start(FileStore(tmp_path), watched=True, look_seconds=300.0, report_seconds=300.0, poll_seconds=0.2)
    region.render(job_of(NAME, says={"sim/run": "2s"}))
    region.when(lambda said: said.state == "Held")
    region.grant([NAME])
    region.when(lambda said: any(pod.phase == "Running" for pod in said.pods))
    ended = region.when(lambda said: said.state == "Ended")
    assert (ended.stopped, ended.succeeded) == (True, True)
    report = region.report()
    assert report is not None
    assert report.health == ()


def quota(gpus: int) -> dict[str, Any]:
    spec = {"hard": {f"requests.{GPU}": str(gpus)}}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "gpus"}, "spec": spec}


def test_why_a_released_job_gets_no_pods_is_told(tmp_path: Path, start: Callable[..., Region], team: Team) -> None:
    region = start(FileStore(tmp_path), complaint_seconds=0.5)
    team.create(quota(0))
    until(lambda: team.plane.get("resourcequota", "gpus", team.namespace).get("status", {}).get("hard"))
    region.render(job_of(NAME, says={"sim/run": "2s"}))
    region.grant([NAME])
    waiting = region.when(lambda said: said.waiting is not None)
    assert (waiting.state, waiting.pods) == ("Released", ())
    assert waiting.waiting is not None
    assert waiting.waiting.startswith("FailedCreate: Error creating: pods")
    assert "exceeded quota: gpus" in waiting.waiting
    team.plane.kubectl("delete", "resourcequota", "gpus", "-n", team.namespace)
    ended = region.when(lambda said: said.state == "Ended", within=60.0)
    assert (ended.waiting, ended.succeeded) == (None, True)


def test_why_a_pod_finds_no_node_is_told(tmp_path: Path, start: Callable[..., Region], team: Team) -> None:
    region = start(FileStore(tmp_path))
    job = job_of(NAME)
    job["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {GPU: "100"}}
    region.render(job)
    region.grant([NAME])
    said = region.when(lambda said: any(pod.waiting for pod in said.pods))
    assert (said.pods[0].waiting or "").startswith("Unschedulable: 0/")
    assert f"Insufficient {GPU}" in (said.pods[0].waiting or "")


def test_why_an_image_does_not_come_is_told(tmp_path: Path, start: Callable[..., Region], team: Team) -> None:
    region = start(FileStore(tmp_path))
    region.render(job_of(NAME, says={"sim/pull": "600s"}))
    region.grant([NAME])
    said = region.when(lambda said: any(pod.node for pod in said.pods))
    waiting = {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "reg.example.com/train:1"'}
    status = {"containerStatuses": [_status("main", waiting)]}
    pod = said.pods[0].name
    team.plane.kubectl(
        "patch", "pod", pod, "-n", team.namespace, "--subresource=status", "-p", json.dumps({"status": status})
    )  # as its kubelet does
    told = region.when(lambda said: any(pod.waiting for pod in said.pods))
    assert told.pods[0].waiting == 'ImagePullBackOff: Back-off pulling image "reg.example.com/train:1"'


def _status(name: str, waiting: dict[str, str]) -> dict[str, Any]:
    return {"name": name, "image": "", "imageID": "", "ready": False, "restartCount": 0, "state": {"waiting": waiting}}
