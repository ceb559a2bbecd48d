"""Gangs: pods of a job of several nodes start together or not at all, by Kubernetes' own PodGroups; and what Volcano is told.

Jobs are those that the renderer makes, released by the agent. Volcano itself does not run here: what is rendered for it is held
against the part of its published contract that is used.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.adapters.file_store import FileStore
from reconciler.agent.settings import Settings
from reconciler.model.grants import report_key
from reconciler.model.report import RegionReport, WorkloadReport
from reconciler.rendering.manifest import render_checked
from tests.e2e.control_plane import ControlPlane, region
from tests.e2e.loopback import installed
from tests.e2e.test_agent import Region
from tests.e2e.world import Team, service_account
from tests.rendering.builders import job, rendering
from tests.rendering.builders import region as described
from tests.waiting import until

GATES = ("GenericWorkload", "GangScheduling", "WorkloadWithJob")
API = "scheduling.k8s.io/v1alpha2"
NATIVE = {"gang": "native", "gpu_label": "nvidia.com/gpu.product"}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A region with three nodes of 8 GPUs and Kubernetes' own gangs."""
    with region(tmp_path_factory.mktemp("gangs"), gates=GATES, apis=(API,)) as up:
        up.add_nodes(3)
        service_account(up)
        yield up


def rendered(team: Team, job_id: str, nodes: int, **profile: Any) -> tuple[str, list[dict[str, Any]]]:
    """A job's objects as they are printed, of 8 GPUs on each node; and its attempt's name."""
    spec = job(job_id=job_id, nodes=nodes, gpu={"count": 8}, communication_mode="sync")
    one = rendering(spec, described(profile={**NATIVE, **profile}), team=team.namespace)
    return one.attempt, list(yaml.safe_load_all(render_checked(one)))


class Gangs(Region):
    """The region's agent, with several attempts."""

    def add(self, job_id: str, nodes: int) -> str:
        """Make a job's objects, as the sync engine does; returns the attempt's name once its Job is held."""
        attempt, objects = rendered(self.team, job_id, nodes)
        objects[0]["spec"]["template"]["metadata"]["annotations"]["sim/run"] = "600s"
        for item in objects:
            self.team.create(item)
        self.engine.objects |= {(self.team.namespace, attempt)}
        self.seen(attempt, lambda said: said.state == "Held")
        return attempt

    def seen(self, attempt: str, condition: Callable[[WorkloadReport], bool]) -> WorkloadReport:
        """The report's words on an attempt, as soon as they are so."""

        def asked() -> WorkloadReport | None:
            stored = self.store.get(report_key("eu"))
            report = RegionReport.model_validate_json(stored.body) if stored else None
            said = next((one for one in report.workloads if one.attempt == attempt), None) if report else None
            return said if said is not None and condition(said) else None

        return until(asked, 60.0, 0.05)

    def placed(self, attempt: str) -> list[bool]:
        """Of each of its pods, whether it has a node."""
        return ["nodeName" in pod["spec"] for pod in self.team.pods() if pod["metadata"]["name"].startswith(attempt)]


@pytest.fixture
def gangs(plane: ControlPlane, team: Team, tmp_path: Path) -> Iterator[Gangs]:
    plane.kubectl("delete", "configmap", "agent-record", "-n", "gpu-reconciler", "--ignore-not-found")
    made = Gangs(
        plane, team, FileStore(tmp_path), Settings(report_seconds=0.5, change_seconds=0.1, look_seconds=0.2), watched=False
    )
    yield made
    made.stop()


def is_refused(pod: dict[str, Any]) -> bool:
    """Whether the scheduler has said that it does not start the pod's gang now."""
    return any(
        one["type"] == "PodScheduled" and one["status"] == "False" and one["reason"] == "Unschedulable"
        for one in pod.get("status", {}).get("conditions", ())
    )


def test_a_gang_starts_whole_or_not_at_all(gangs: Gangs, team: Team, plane: ControlPlane) -> None:
    plane.kubectl("cordon", f"{plane.name}-gpu-3")
    try:
        attempt = gangs.add("three", 3)
        gangs.grant([attempt])
        until(lambda: [is_refused(pod) for pod in team.pods()] == [True] * 3, 60.0, 0.1)
        said = gangs.seen(attempt, lambda said: [bool(pod.waiting) for pod in said.pods] == [True] * 3)
        assert [pod.gated for pod in said.pods] == [False] * 3, "the agent has let them go; the gang holds them"
        assert [pod.node for pod in said.pods] == [None] * 3, "on two nodes that are free, two would have found a place"
    finally:
        plane.kubectl("uncordon", f"{plane.name}-gpu-3")
    running = gangs.seen(attempt, lambda said: [pod.phase for pod in said.pods] == ["Running"] * 3)
    assert len({pod.node for pod in running.pods}) == 3
    gangs.grant([])
    gangs.seen(attempt, lambda said: said.stopped)


def test_of_two_gangs_one_runs(gangs: Gangs, team: Team) -> None:
    attempts = [gangs.add(name, 2) for name in ("one", "two")]
    gangs.grant(attempts)
    until(lambda: sorted(map(gangs.placed, attempts)) == [[False] * 2, [True] * 2], 60.0, 0.1)
    until(lambda: all(is_refused(pod) for pod in team.pods() if "nodeName" not in pod["spec"]), 60.0, 0.1)
    gangs.some_steps()
    assert sorted(map(gangs.placed, attempts)) == [[False] * 2, [True] * 2], "the third node goes to no half of a gang"
    runs, waits = sorted(attempts, key=gangs.placed, reverse=True)
    gangs.grant([waits])
    gangs.seen(runs, lambda said: said.stopped)
    gangs.seen(waits, lambda said: [pod.phase for pod in said.pods] == ["Running"] * 2)


def test_the_gangs_of_a_released_job_are_made_by_kubernetes(gangs: Gangs, team: Team, plane: ControlPlane) -> None:
    attempt = gangs.add("three", 3)
    until(lambda: _groups(team))
    (group,) = _groups(team)
    assert group["spec"]["schedulingPolicy"]["gang"]["minCount"] == 3
    assert gangs.placed(attempt) == [], "nothing was granted"


def _groups(team: Team) -> list[dict[str, Any]]:
    return list(json.loads(team.plane.kubectl("get", "podgroups.scheduling.k8s.io", "-n", team.namespace, "-o", "json"))["items"])


# ---- Volcano

PODGROUP = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "podgroups.scheduling.volcano.sh"},
    "spec": {
        "group": "scheduling.volcano.sh",
        "scope": "Namespaced",
        "names": {"kind": "PodGroup", "listKind": "PodGroupList", "plural": "podgroups", "singular": "podgroup"},
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "minMember": {"type": "integer", "format": "int32"},
                                    "queue": {"type": "string"},
                                },
                            }
                        },
                    }
                },
            }
        ],
    },
}
"""The fields of Volcano's PodGroup that are rendered, as its published CRD types them; any other is refused."""


@pytest.fixture(scope="module")
def volcano(plane: ControlPlane) -> Callable[[Team, list[dict[str, Any]]], str]:
    """Asks the API server whether it takes objects as they are, by a strict dry run; nothing is made."""
    installed(plane, [PODGROUP])

    def asked(team: Team, objects: list[dict[str, Any]]) -> str:
        text = yaml.safe_dump_all(objects)
        return team.plane.kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", stdin=text)

    return asked


@pytest.mark.parametrize(("nodes", "queue"), [(1, None), (4, "research")])
def test_what_is_rendered_for_volcano_is_taken(
    volcano: Callable[[Team, list[dict[str, Any]]], str], team: Team, nodes: int, queue: str | None
) -> None:
    spec = job(job_id="llm", nodes=nodes, gpu={"count": 8}, communication_mode="sync", **({"queue": queue} if queue else {}))
    where = described(profile={"gang": "volcano", "queues": {"research": "gpu-research"}})
    one = rendering(spec, where, team=team.namespace)
    said = volcano(team, list(yaml.safe_load_all(render_checked(one))))
    assert f"podgroup.scheduling.volcano.sh/{one.attempt} created (server dry run)" in said
    assert f"job.batch/{one.attempt} created (server dry run)" in said


@pytest.mark.parametrize("spec", [{"minMember": "3"}, {"minMember": 3, "minmember": 3}, {"minMember": 3, "queue": 7}])
def test_what_volcano_does_not_know_is_refused(
    volcano: Callable[[Team, list[dict[str, Any]]], str], team: Team, spec: dict[str, Any]
) -> None:
    group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"}, "spec": spec}
    with pytest.raises(AssertionError, match=r"minmember|minMember|queue"):
        volcano(team, [{**group, "metadata": {"name": "g", "namespace": team.namespace}}])
