"""Reading a cluster: the agent asks for everything at each look and follows no stream; a read that fails or is none changes nothing."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from reconciler.model.report import RegionReport
from reconciler.ports import Cluster, ClusterState, Transient
from tests.agent.objects import make_grant
from tests.agent.region import Region, job_of, runs, started

A1 = "train-a1"
GONE: dict[str, Any] = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": "too old resource version: 100 (200)",
    "reason": "Expired",
    "code": 410,
}
"""What an API server sends in the place of an object when a resource version is too old."""

PLACES: dict[str, Callable[[ClusterState], ClusterState]] = {
    "a node": lambda state: replace(state, nodes=[*state.nodes, GONE]),
    "all nodes": lambda state: replace(state, nodes=[GONE]),
    "a pod": lambda state: replace(state, pods=[*state.pods, GONE]),
    "all pods": lambda state: replace(state, pods=[GONE]),
    "a workload": lambda state: replace(state, workloads=[*state.workloads, GONE]),
    "all workloads": lambda state: replace(state, workloads=[GONE]),
    "everything": lambda state: replace(state, nodes=[GONE], pods=[GONE], workloads=[GONE]),
}


def said(report: RegionReport) -> tuple[object, ...]:
    """What the region says, without when it said so and whether anything new can be scheduled there."""
    nodes = tuple(node.model_copy(update={"unavailable": None}) for node in report.nodes)
    return nodes, report.workloads, report.foreign_pods, report.namespaces


@pytest.mark.parametrize("case", PLACES)
def test_a_status_in_the_place_of_an_object_never_becomes_one(case: str) -> None:
    region = started()
    before = region.report()
    read = region.wire.read
    region.wire.read = lambda: PLACES[case](read())  # type: ignore[method-assign]
    region.advance(30)
    after = region.report()
    assert said(after) == said(before), "what was seen last is what is said"
    assert {node.unavailable for node in after.nodes} == {"ClusterUnreachable"}, "and nothing new is sent there"
    assert region.phases(A1) == ["Running"]
    region.wire.read = read  # type: ignore[method-assign]
    region.advance(12)
    assert {node.unavailable for node in region.report().nodes} == {None}
    assert (region.said(A1).state, region.said(A1).stopped) == ("Released", False)
    assert region.runtime.started == [A1]


def whole_life(region: Region) -> None:
    region.grant(make_grant(A1, nodes=2, run_seconds=600))
    region.advance(4)
    region.grant()
    region.advance(10)


def fresh() -> Region:
    region = Region()
    region.turn()
    region.render(job_of(A1, size=2, says=runs(stop=2)))
    region.turn()
    region.wire.requests.clear()
    return region


def reads_of_a_life() -> int:
    region = fresh()
    whole_life(region)
    return region.wire.requests.count("read")


READS = reads_of_a_life()


@pytest.mark.parametrize("number", range(READS))
def test_a_read_that_breaks_off_at_any_moment_neither_starts_nor_ends_anything(number: int) -> None:
    region = fresh()
    read, count = region.wire.read, [0]

    def breaks() -> ClusterState:
        count[0] += 1
        if count[0] == number + 1:
            read()  # the server did its part; the answer broke off half-way
            raise Transient("the connection was closed in the middle of the list of pods")
        state = read()
        report = region.store.get("regions/eu/report.json")
        if report is not None:
            shown = RegionReport.model_validate_json(report.body)
            for workload in shown.workloads:
                running = [pod for pod in state.pods if pod["status"]["phase"] == "Running"]
                assert not (workload.stopped and running), "said to have stopped while it runs"
        return state

    region.wire.read = breaks  # type: ignore[method-assign]
    whole_life(region)
    assert count[0] > number
    assert sorted(region.runtime.started) == [A1, A1]
    assert region.said(A1).stopped
    assert set(region.phases(A1)) <= {"Failed"}


def test_there_is_no_stream_to_follow() -> None:
    """Nothing can be lost between a list and a watch where there is no watch: the port to the cluster has none."""
    asks = [name for name in vars(Cluster) if not name.startswith("_")]
    assert "read" in asks
    assert not [name for name in asks if any(word in name for word in ("watch", "stream", "follow", "subscribe"))]
    region = started()
    reads = region.wire.requests.count("read")
    region.advance(10)
    assert region.wire.requests.count("read") >= reads + 5
