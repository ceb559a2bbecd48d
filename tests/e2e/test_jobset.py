"""JobSets with their own controller on a real control plane: as they are rendered, released once by the agent, and stopped."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.adapters.file_store import FileStore
from reconciler.agent.settings import Settings
from reconciler.model.names import ANNOTATION_CLOSED
from reconciler.model.report import WorkloadReport
from reconciler.rendering.manifest import render_checked
from tests.e2e.control_plane import ControlPlane, region
from tests.e2e.jobset import job_sets
from tests.e2e.loopback import Controller
from tests.e2e.test_agent import Region
from tests.e2e.world import Team, service_account
from tests.rendering.builders import job, rendering
from tests.rendering.builders import region as described
from tests.waiting import until

LONG, SHORT = {"sim/run": "600s"}, {"sim/run": "2s"}


@pytest.fixture(scope="module")
def working(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ControlPlane, Controller]]:
    """A region with two nodes of 8 GPUs, the agent's account, and JobSet's controller."""
    with region(tmp_path_factory.mktemp("sets")) as up:
        up.add_nodes(2)
        service_account(up)
        with job_sets(up) as controller:
            yield up, controller


@pytest.fixture(scope="module")
def plane(working: tuple[ControlPlane, Controller]) -> ControlPlane:
    """The region of these tests alone: what is installed there would be in the way of others."""
    return working[0]


class Sets(Region):
    """The region's agent, and one attempt that is a JobSet."""

    attempt = ""
    text = b""
    """As it is printed."""

    def add(self, says: dict[str, str], nodes: int = 2) -> None:
        """Make the objects of an attempt, as the sync engine does; returns once it is held."""
        where = described(workloads=["job", "jobset"], profile={"gpu_label": "nvidia.com/gpu.product"})
        spec = job(workload="jobset", nodes=nodes, gpu={"count": 8}, communication_mode="sync")
        one = rendering(spec, where, team=self.team.namespace)
        self.attempt, self.text = one.attempt, render_checked(one)
        objects = list(yaml.safe_load_all(self.text))
        template = objects[0]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
        template["metadata"]["annotations"].update(says)
        for item in objects:
            self.team.create(item)
        self.engine.objects |= {(self.team.namespace, one.attempt)}
        self.when(lambda said: said.state == "Held")

    def said(self) -> WorkloadReport | None:
        report = self.report()
        return next((one for one in report.workloads if one.attempt == self.attempt), None) if report else None

    def runs(self) -> WorkloadReport:
        return self.when(lambda said: [pod.phase for pod in said.pods] == ["Running"] * 2)

    def set(self) -> dict[str, Any]:
        return self.plane.get("jobset", self.attempt, self.team.namespace)

    def made(self) -> dict[str, Any] | None:
        """The Job that it has made, as far as there is one."""
        found = json.loads(self.plane.kubectl("get", "jobs", "-n", self.team.namespace, "-o", "json"))["items"]
        assert len(found) <= 1
        return found[0] if found else None

    def stays_held(self) -> None:
        """What has been made again gets its pods, and none of them ever runs."""
        said = self.when(lambda said: said.replaced and [pod.gated for pod in said.pods if not pod.terminating] == [True, True])
        assert said.stopped is False
        self.some_steps()
        assert "Running" not in [pod["status"]["phase"] for pod in self.team.pods() if "deletionTimestamp" not in pod["metadata"]]
        self.grant([])
        self.when(lambda said: said.stopped and said.state == "Ended")
        assert "Running" not in self.team.phases()


@pytest.fixture
def sets(plane: ControlPlane, team: Team, tmp_path: Path) -> Iterator[Sets]:
    plane.kubectl("delete", "configmap", "agent-record", "-n", "gpu-reconciler", "--ignore-not-found")
    settings = Settings(report_seconds=0.5, change_seconds=0.1, look_seconds=0.2)
    made = Sets(plane, team, FileStore(tmp_path), settings, watched=False)
    yield made
    made.stop()
    plane.kubectl("delete", "jobsets", "--all", "-n", team.namespace, "--wait=false")


@pytest.mark.parametrize("nodes", [1, 2])
def test_what_is_rendered_is_taken_as_it_is(sets: Sets, team: Team, nodes: int) -> None:
    sets.add(LONG, nodes)
    team.plane.kubectl("delete", "jobset,service", "--all", "-n", team.namespace)
    team.plane.kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", stdin=sets.text.decode())


def test_a_granted_set_is_released_exactly_once(sets: Sets, team: Team) -> None:
    sets.add({"sim/run": "4s"})
    held = until(sets.made)
    assert (held["spec"]["suspend"], team.pods()) == (True, [])
    report = sets.report()
    assert report is not None
    assert (report.workload_kinds, len(report.workloads)) == (("job", "jobset"), 1), "the Job in it is no workload of its own"
    sets.grant([sets.attempt], run_seconds=600)
    sets.runs()
    first = f"{sets.attempt}-w-0-0"
    (pod,) = (pod for pod in team.pods() if pod["spec"]["hostname"] == first)
    told = {one["name"]: one.get("value") for one in pod["spec"]["containers"][0]["env"]}
    assert told["MASTER_ADDR"] == f"{first}.{pod['spec']['subdomain']}.{team.namespace}"
    sets.stop()
    sets.start()  # another agent, which knows only the record
    ended = sets.when(lambda said: said.state == "Ended")
    assert (ended.stopped, ended.succeeded, len(team.pods())) == (True, True, 2)
    assert sets.set()["metadata"]["generation"] == 2, "its spec was written once"
    team.plane.kubectl("delete", "jobset", sets.attempt, "-n", team.namespace)
    until(lambda: team.pods() == [] and sets.made() is None, 60.0, 0.2)  # the garbage collector hears of a new kind after 30 s
    team.plane.kubectl("apply", "-f", "-", stdin=sets.text.decode())  # as a sync engine makes it again
    sets.when(lambda said: said.replaced)
    sets.some_steps()
    assert (sets.set()["spec"]["suspend"], team.pods()) == (True, [])


def test_a_program_that_fails_ends_it_and_is_not_started_again(sets: Sets, team: Team) -> None:
    sets.add({**SHORT, "sim/exit-code": "3"}, nodes=1)
    sets.grant([sets.attempt])
    ended = sets.when(lambda said: said.state == "Ended")
    assert (ended.stopped, ended.succeeded, ended.failed) == (True, False, "BackoffLimitExceeded")
    assert [pod.exit_code for pod in ended.pods] == [3]
    sets.some_steps()
    assert len(team.pods()) == 1


def test_a_withdrawn_set_is_stopped(sets: Sets, team: Team) -> None:
    sets.add(LONG)
    sets.grant([sets.attempt])
    sets.runs()
    sets.grant([])
    sets.when(lambda said: said.stopped)
    found = sets.set()
    assert (found["spec"]["suspend"], found["metadata"]["annotations"][ANNOTATION_CLOSED]) == (True, "true")
    until(lambda: (job := sets.made()) is not None and job["spec"]["suspend"])
    assert not [phase for phase in team.phases() if phase in ("Running", "Pending")]


def test_a_withdrawn_set_is_stopped_while_its_controller_does_not_work(
    sets: Sets, team: Team, working: tuple[ControlPlane, Controller]
) -> None:
    sets.add(LONG)
    sets.grant([sets.attempt])
    sets.runs()
    working[1].stop()
    try:
        sets.grant([])
        until(lambda: not [phase for phase in team.phases() if phase in ("Running", "Pending")], 30.0, 0.1)
    finally:
        working[1].start()
    sets.when(lambda said: said.stopped)
    assert not [phase for phase in team.phases() if phase in ("Running", "Pending")]


def test_a_job_in_it_that_is_deleted_by_hand_does_not_run_again(sets: Sets, team: Team) -> None:
    sets.add(LONG)
    sets.grant([sets.attempt])
    sets.runs()
    first = sets.made()
    assert first is not None
    team.plane.kubectl("delete", "job", first["metadata"]["name"], "-n", team.namespace, "--wait=false")
    until(lambda: (job := sets.made()) is not None and job["metadata"]["uid"] != first["metadata"]["uid"], 30.0, 0.1)
    sets.stays_held()


def test_a_job_in_it_that_is_suspended_by_hand_is_not_resumed(sets: Sets, team: Team) -> None:
    sets.add(LONG)
    sets.grant([sets.attempt])
    sets.runs()
    first = sets.made()
    assert first is not None
    suspended = json.dumps({"spec": {"suspend": True}})
    team.plane.kubectl("patch", "job", first["metadata"]["name"], "-n", team.namespace, "--type=merge", "-p", suspended)
    until(lambda: (job := sets.made()) is not None and job["metadata"]["generation"] >= first["metadata"]["generation"] + 2)
    sets.stays_held()
