"""Reads of a real API server: whole, one state of each collection, never older than the request."""

import base64
import json
from collections.abc import Callable
from datetime import datetime
from urllib.request import Request, urlopen

import pytest

from reconciler.adapters.clock import SystemClock
from reconciler.adapters.kube import KubeCluster, Settings
from reconciler.adapters.kube.connection import Connection
from reconciler.adapters.kube.listing import Collection, Until, every
from reconciler.adapters.kube.slim import slim
from reconciler.model.names import LABEL_MANAGED
from reconciler.ports import Transient
from tests.e2e.control_plane import ControlPlane
from tests.e2e.world import Team, access_of, agents_cluster, job_of, pod_of


class Between:
    """A clock that does something whenever it is asked for the monotonic time: a listing asks before each page."""

    def __init__(self, act: Callable[[int], None]) -> None:
        self._act = act
        self._asked = 0

    def now(self) -> datetime:
        return SystemClock().now()

    def monotonic(self) -> float:
        self._act(self._asked)
        self._asked += 1
        return SystemClock().monotonic()


def make_pods(team: Team, count: int) -> None:
    """Pods with a gate, so that nothing happens to them."""
    items = [pod_of(f"p{number:03}") for number in range(count)]
    for item in items:
        item["spec"]["schedulingGates"] = [{"name": "example.com/wait"}]
    team.plane.kubectl("create", "-n", team.namespace, "-f", "-", stdin={"apiVersion": "v1", "kind": "List", "items": items})


def pods_of(plane: ControlPlane, team: Team, page: int, clock: Between, seconds: float = 30.0) -> list[str]:
    """The names of a namespace's pods, read page by page with something done between the pages."""
    collection = Collection("Pod", f"/api/v1/namespaces/{team.namespace}/pods")
    connection = Connection(access_of(plane), SystemClock(), 10.0)
    found = every(connection, collection, Until(clock, SystemClock().monotonic() + seconds, page))
    return [item["metadata"]["name"] for item in found.items]


def compact(plane: ControlPlane) -> None:
    """Let etcd forget all versions but the present one."""
    server = f"http://127.0.0.1:{plane.port('etcd')}/v3/kv"
    key = base64.b64encode(b"x").decode()
    with urlopen(Request(f"{server}/range", data=json.dumps({"key": key}).encode())) as answer:  # noqa: S310 - loopback
        revision = json.load(answer)["header"]["revision"]
    body = json.dumps({"revision": revision, "physical": True}).encode()
    with urlopen(Request(f"{server}/compaction", data=body)) as answer:  # noqa: S310 - loopback
        assert answer.status == 200


def test_all_is_read_and_only_our_workloads(plane: ControlPlane, team: Team) -> None:
    ours = team.held(job_of("ours"))
    foreign = job_of("foreign")
    foreign["metadata"]["labels"] = {LABEL_MANAGED: "helm"}
    team.create(foreign)
    team.create(pod_of("p"))
    running = team.pods_when(1, "Running")
    state = agents_cluster(plane).read()
    assert [job for job in state.workloads if job["metadata"]["namespace"] == team.namespace] == [slim("Job", ours)]
    assert [pod for pod in state.pods if pod["metadata"]["namespace"] == team.namespace] == [slim("Pod", pod) for pod in running]
    assert {"default", "gpu-reconciler", team.namespace} <= set(state.namespaces)
    assert state.priority_values["system-node-critical"] == 2_000_001_000
    assert {node["metadata"]["name"]: node["status"]["capacity"]["nvidia.com/gpu"] for node in state.nodes} == {
        "eu-gpu-1": "8",
        "eu-gpu-2": "8",
    }


def test_pages_together_are_what_one_answer_is(plane: ControlPlane, team: Team) -> None:
    make_pods(team, 60)
    whole, paged = agents_cluster(plane, page=1000).read(), agents_cluster(plane, page=7).read()
    assert len(whole.pods) >= 60
    assert paged == whole
    assert {pod["kind"] for pod in paged.pods} == {"Pod"}
    listed = plane.kubectl(
        "get", "pods", "-A", "--no-headers", "-o", "custom-columns=N:.metadata.namespace,P:.metadata.name"
    ).split("\n")
    assert sorted(tuple(line.split()) for line in listed if line) == sorted(
        (pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in paged.pods
    )


def test_what_changes_between_the_pages_is_not_mixed_in(plane: ControlPlane, team: Team) -> None:
    make_pods(team, 20)

    def change(asked: int) -> None:
        if asked == 1:
            plane.kubectl("delete", "pod", "p019", "-n", team.namespace, "--grace-period=0", "--force")
            team.create(pod_of("p999"))

    assert pods_of(plane, team, 6, Between(change)) == [f"p{number:03}" for number in range(20)]
    assert pods_of(plane, team, 6, Between(lambda _: None)) == [*(f"p{number:03}" for number in range(19)), "p999"]


def test_a_list_whose_pages_have_expired_is_read_anew(plane: ControlPlane, team: Team) -> None:
    make_pods(team, 20)
    pages: list[int] = []

    def expire(asked: int) -> None:
        pages.append(asked)
        if asked == 2:
            team.create(pod_of("p999"))
            restart_api(plane)

    assert pods_of(plane, team, 6, Between(expire)) == [*(f"p{number:03}" for number in range(20)), "p999"]
    assert len(pages) > 4, "the list was not begun anew"


def restart_api(plane: ControlPlane) -> None:
    """Another API server on the same etcd, from which old versions are gone: it remembers none of them."""
    compact(plane)
    plane.stop("kube-apiserver")
    plane.start_api()


def test_a_look_that_takes_too_long_is_given_up(plane: ControlPlane) -> None:
    cluster = KubeCluster(access_of(plane), SystemClock(), Settings(page=1, look_seconds=0.001))
    with pytest.raises(Transient, match="not all was read in time"):
        cluster.read()


def test_a_read_shows_every_write_that_was_acknowledged_before(plane: ControlPlane, team: Team) -> None:
    cluster = agents_cluster(plane)
    for number in range(20):
        created = team.create(job_of(f"j{number}"))
        assert created["metadata"]["uid"] in {job["metadata"]["uid"] for job in cluster.read().workloads}


def test_the_end_of_a_log(plane: ControlPlane, team: Team) -> None:
    def logged(text: str) -> None:
        """As a container runtime writes it: long lines in parts of 16 KiB."""
        with plane.logs.open("w") as log:
            for line in text.splitlines():
                parts = [line[at : at + 16384] for at in range(0, len(line), 16384)] or [""]
                for number, part in enumerate(parts, 1):
                    log.write(f"2026-05-01T10:00:00.000000000Z stdout {'F' if number == len(parts) else 'P'} {part}\n")

    cluster = agents_cluster(plane)
    assert cluster.log_tail(team.namespace, "gone", 100) == ""
    waiting = pod_of("waiting")
    waiting["spec"]["schedulingGates"] = [{"name": "example.com/wait"}]
    team.create(waiting)
    assert cluster.log_tail(team.namespace, "waiting", 100) == ""
    team.create(pod_of("p", ("sidecar", "main")))
    plane.kubectl("wait", "pod/p", "-n", team.namespace, "--for=jsonpath={.status.phase}=Running", "--timeout=20s")
    cases = {
        "nothing": "",
        "a little": "one\ntwo\n",
        "many lines": "".join(f"line {number}\n" for number in range(30_000)),
        "very short lines": "\n" * 300 + "x\n" * 9000,
        "one long line": "first\n" + "y" * 100_000 + "end\n",
    }
    for name, text in cases.items():
        logged(text)
        for limit in (1, 100, 4096):
            assert cluster.log_tail(team.namespace, "p", limit) == text[-limit:], (name, limit)
