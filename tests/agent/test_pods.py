"""One pod's report: why it does not start, how it ended."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from reconciler.agent.pods import LONGEST_MESSAGE, ended_well, first_failed, report_pod
from reconciler.model.names import GATE
from tests.agent.objects import Raw, ended_pod, gated_pod, make_pod, running_pod


def waiting(reason: str, message: str = "", *, where: str = "containerStatuses") -> dict[str, Any]:
    said = {"reason": reason} | ({"message": message} if message else {})
    return {where: [{"name": "main", "state": {"waiting": said}}]}


def unscheduled(reason: str = "Unschedulable", message: str = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.") -> Raw:
    return {"conditions": [{"type": "PodScheduled", "status": "False", "reason": reason, "message": message}]}


def init_end(name: str, code: int, **container: Any) -> Raw:
    status = {"initContainerStatuses": [{"name": name, "state": {"terminated": {"exitCode": code, "reason": "Error"}}}]}
    waits = waiting("PodInitializing")
    return running_pod(status=status | waits, phase="Failed", initContainers=[{"name": name, **container}])


@dataclass(frozen=True)
class Case:
    """A raw pod and the parts of its report that it is about."""

    pod: Raw
    want: dict[str, Any]


CASES = {
    "running": Case(
        running_pod(index=3, status={"containerStatuses": [{"name": "main", "state": {"running": {"startedAt": "2026-05-01T10:00:00Z"}}}]}),
        {"phase": "Running", "node": "n1", "index": 3, "gated": False, "waiting": None, "exit_code": None,
         "started_at": datetime(2026, 5, 1, 10, tzinfo=UTC)},
    ),
    "gated: that is no trouble": Case(
        gated_pod(status=unscheduled("SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates")),
        {"phase": "Pending", "gated": True, "waiting": None, "node": None},
    ),
    "no room": Case(
        make_pod(node=None, phase="Pending", status=unscheduled()),
        {"waiting": "Unschedulable: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu."},
    ),
    "a gate of somebody else is a wait": Case(
        make_pod(node=None, phase="Pending", gates=["other"], status=unscheduled("SchedulingGated", "blocked")),
        {"gated": False, "waiting": "SchedulingGated: blocked"},
    ),
    "the image cannot be pulled": Case(
        make_pod(phase="Pending", status=waiting("ErrImagePull", "not found")), {"waiting": "ErrImagePull: not found"}
    ),
    "backing off": Case(
        make_pod(phase="Pending", status=waiting("ImagePullBackOff", "Back-off pulling image")),
        {"waiting": "ImagePullBackOff: Back-off pulling image"},
    ),
    "the image's name is none": Case(
        make_pod(phase="Pending", status=waiting("InvalidImageName")), {"waiting": "InvalidImageName"}
    ),
    "a secret is missing": Case(
        make_pod(phase="Pending", status=waiting("CreateContainerConfigError", 'secret "t" not found')),
        {"waiting": 'CreateContainerConfigError: secret "t" not found'},
    ),
    "the trouble of an init container comes before the main one's patience": Case(
        make_pod(phase="Pending", status=waiting("ErrImagePull", "no", where="initContainerStatuses") | waiting("PodInitializing")),
        {"waiting": "ErrImagePull: no"},
    ),
    "on the way": Case(make_pod(phase="Pending", status=waiting("ContainerCreating")), {"waiting": "ContainerCreating"}),
    "ended well": Case(
        ended_pod(),
        {"phase": "Succeeded", "exit_code": 0, "signal": None, "reason": "Completed", "waiting": None,
         "ended_at": datetime(2026, 5, 1, 11, tzinfo=UTC)},
    ),
    "ended badly": Case(ended_pod(code=3), {"phase": "Failed", "exit_code": 3, "signal": None, "reason": "Error"}),
    "killed": Case(ended_pod(code=137), {"exit_code": 137, "signal": 9}),
    "stopped": Case(ended_pod(code=143, deleting=True), {"exit_code": 143, "signal": 15, "terminating": True}),
    "255 is no signal": Case(ended_pod(code=255), {"signal": None}),
    "out of memory": Case(ended_pod(code=137, reason="OOMKilled"), {"reason": "OOMKilled", "signal": 9}),
    "evicted: the pod's own words come first": Case(
        ended_pod(code=137, status={"reason": "Evicted", "message": "The node was low on resource: memory."}),
        {"reason": "Evicted", "message": "The node was low on resource: memory.", "exit_code": 137},
    ),
    "evicted before it began": Case(
        running_pod(phase="Failed", status={"reason": "Evicted"}), {"phase": "Failed", "reason": "Evicted", "exit_code": None}
    ),
    "taken away by the cluster": Case(
        ended_pod(
            code=137,
            status={"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager", "message": "gone"}]},
        ),
        {"reason": "DeletionByTaintManager", "message": "gone"},
    ),
    "an init container failed": Case(
        init_end("seed", 2), {"exit_code": 2, "message": "init container seed failed", "started_at": None, "reason": "Error"}
    ),
    "a sidecar that ended badly is not the program's end": Case(
        init_end("proxy", 2, restartPolicy="Always"), {"exit_code": None, "message": None}
    ),
    "the main container by its name, not by its place": Case(
        running_pod(status={"containerStatuses": [
            {"name": "sidecar", "state": {"terminated": {"exitCode": 9}}},
            {"name": "main", "state": {"running": {"startedAt": "2026-05-01T10:00:00Z"}}},
        ]}),
        {"exit_code": None},
    ),
    "a phase that nobody knows": Case(make_pod(phase="Dreaming"), {"phase": "Unknown"}),
    "nothing but a name": Case({"metadata": {"name": "p"}}, {"name": "p", "phase": "Pending", "waiting": None, "node": None}),
    "a time that is none": Case(ended_pod(finished="soon"), {"ended_at": None, "exit_code": 0}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_pod(case: Case) -> None:
    report = report_pod(case.pod)
    assert {name: getattr(report, name) for name in case.want} == case.want


def test_a_long_message_is_shortened() -> None:
    report = report_pod(make_pod(phase="Pending", status=waiting("ErrImagePull", "x" * 9000)))
    assert report.waiting is not None
    assert len(report.waiting) == LONGEST_MESSAGE


def main_ended(code: int, **more: Any) -> Raw:
    others = [
        {"name": "main", "state": {"terminated": {"exitCode": code}}},
        {"name": "daemon", "state": {"running": {"startedAt": "2026-05-01T10:00:00Z"}}},
    ]
    return running_pod(status={"containerStatuses": others}, **more)


WELL = {
    "phase Succeeded": (ended_pod(), True),
    "exit 0, and what ran beside it was killed": (main_ended(0, phase="Failed"), True),
    "exit 0 while the pod is being stopped": (main_ended(0, deleting=True), True),
    "exit 0 while the pod goes on": (main_ended(0), False),
    "failed": (ended_pod(code=1), False),
    "an init container's exit 0 is not the program's": (
        running_pod(status={"initContainerStatuses": [{"name": "s", "state": {"terminated": {"exitCode": 0}}}]}, deleting=True),
        False,
    ),
    "running": (running_pod(), False),
    "gated": (gated_pod(), False),
}


@pytest.mark.parametrize(("pod", "want"), WELL.values(), ids=WELL.keys())
def test_whether_a_pod_ended_well(pod: Raw, want: bool) -> None:
    assert ended_well(pod) is want


def test_the_first_failure_is_the_cause() -> None:
    pods = [
        ended_pod("a", code=143, finished="2026-05-01T11:00:05Z"),
        ended_pod("b", code=1, finished="2026-05-01T11:00:01Z"),
        ended_pod("c"),
        gated_pod("d"),
    ]
    found = first_failed(pods)
    assert found is not None
    assert report_pod(found).name == "b"
    assert first_failed([pods[2], pods[3]]) is None


def test_our_gate_is_known_by_its_name() -> None:
    assert report_pod(make_pod(node=None, phase="Pending", gates=["other", GATE])).gated
