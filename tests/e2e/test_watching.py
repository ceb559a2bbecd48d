"""Looks with watches on a real API server: as right as those that read all, whatever happens to the watches."""

import signal
import threading
from collections.abc import Callable, Iterator

import pytest

from reconciler.adapters.clock import SystemClock
from reconciler.adapters.kube import KubeCluster, Settings, Times
from reconciler.adapters.kube.connection import Connection
from reconciler.adapters.kube.looking import WATCHED
from reconciler.model.names import GATE, LABEL_ATTEMPT
from reconciler.ports import ClusterState, Transient
from tests.e2e.control_plane import ControlPlane
from tests.e2e.test_reading import restart_api
from tests.e2e.world import Team, access_of, agents_cluster, job_of, pod_of, ref_of
from tests.waiting import until

Start = Callable[..., KubeCluster]


@pytest.fixture
def start(plane: ControlPlane) -> Iterator[Start]:
    """Starts clusters with watches, and ends them."""
    made: list[KubeCluster] = []

    def started(confirm: float = 150.0, wake: Callable[[], None] = lambda: None, **times: float) -> KubeCluster:
        watching = Times(**{"retry_seconds": 0.05, "longest_retry_seconds": 0.5, **times})  # type: ignore[arg-type]
        settings = Settings(request_seconds=3.0, confirm_seconds=confirm, watching=watching)
        cluster = KubeCluster(access_of(plane), SystemClock(), settings)
        cluster.start(wake)
        made.append(cluster)
        return cluster

    yield started
    for cluster in made:
        cluster.stop()


def shown(state: ClusterState) -> dict[str, list[str]]:
    """All that a look has, each object at its version."""
    parts = {"nodes": state.nodes, "pods": state.pods, "workloads": state.workloads}
    versions = {
        name: sorted(f"{item['metadata']['uid']} {item['metadata']['resourceVersion']}" for item in items)
        for name, items in parts.items()
    }
    return {**versions, "namespaces": sorted(state.namespaces), "priorities": sorted(map(str, state.priority_values.items()))}


def agree(watched: KubeCluster, plane: ControlPlane) -> None:
    """Once all has come to rest, both ways to look show the same."""
    plain = agents_cluster(plane)
    until(lambda: shown(watched.read()) == shown(plain.read()), 30.0, 0.1)


def test_both_ways_to_look_show_the_same(plane: ControlPlane, team: Team, start: Start) -> None:
    cluster = start()
    agree(cluster, plane)
    for number in range(4):
        team.create(pod_of(f"foreign-{number}"))
        team.create(job_of(f"train-{number}", says={"sim/run": "1s"}))
    held = team.held(job_of("ours", pods=3, says={"sim/run": "600s"}))
    cluster.patch(ref_of(held), {"spec": {"suspend": False}})
    until(lambda: len(team.pods()) == 7)
    plane.kubectl("create", "priorityclass", "watched", "--value=7")
    plane.kubectl("label", "node", "eu-gpu-1", "gpu.example.com/rack=r1")
    agree(cluster, plane)
    plane.kubectl("delete", "pods", "foreign-0", "foreign-1", "-n", team.namespace)
    plane.kubectl("delete", "job", "ours", "-n", team.namespace)
    plane.kubectl("delete", "priorityclass", "watched")
    plane.kubectl("label", "node", "eu-gpu-1", "gpu.example.com/rack-")
    agree(cluster, plane)
    assert cluster.read().troubles == []


def test_a_look_asks_only_for_what_is_ours(team: Team, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    ask = Connection.ask
    monkeypatch.setattr(
        Connection,
        "ask",
        lambda self, request, take=(): [asked.append(f"{request} {request.query}"), ask(self, request, take)][1],
    )
    cluster = start()
    until(lambda: all(watch.items(0.0) is not None for watch in cluster._watches.values()))
    team.create(pod_of("foreign"))
    until(lambda: any(pod["metadata"]["name"] == "foreign" for pod in cluster.read().pods))
    asked.clear()
    cluster.read()
    listed = [one.split(" {") for one in asked if "/apis/jobset" not in one]  # which asks only whether there is such a kind
    assert [path for path, _ in listed] == ["GET /apis/batch/v1/jobs", "GET /api/v1/pods"]
    assert all("labelSelector" in query for _, query in listed)


def test_what_is_ours_is_never_older_than_the_look(plane: ControlPlane, team: Team, start: Start) -> None:
    cluster = start()
    cluster.read()
    server = plane.running("kube-controller-manager")
    assert server.poll() is None
    for number in range(20):
        made = team.create(job_of(f"j{number}"))
        assert made["metadata"]["uid"] in {job["metadata"]["uid"] for job in cluster.read().workloads}
        pod = pod_of(f"p{number}")
        pod["metadata"]["labels"] = {LABEL_ATTEMPT: f"j{number}"}
        pod["spec"]["schedulingGates"] = [{"name": GATE}]
        uid = team.create(pod)["metadata"]["uid"]
        assert uid in {one["metadata"]["uid"] for one in cluster.read().pods}
        plane.kubectl("delete", "pod", f"p{number}", "-n", team.namespace, "--grace-period=0", "--force")
        assert uid not in {one["metadata"]["uid"] for one in cluster.read().pods}, "the copy may still have it"


def test_a_pod_that_somebody_took_the_label_from_is_seen_as_it_is(plane: ControlPlane, team: Team, start: Start) -> None:
    cluster = start()
    job = team.held(job_of("ours", says={"sim/run": "600s"}))
    cluster.patch(ref_of(job), {"spec": {"suspend": False}})
    (pod,) = team.pods_when(1, "Pending")
    uid = pod["metadata"]["uid"]
    until(lambda: uid in {one["metadata"]["uid"] for one in cluster.read().pods})
    plane.kubectl("label", "pod", pod["metadata"]["name"], "-n", team.namespace, f"{LABEL_ATTEMPT}-")
    for _ in range(10):
        found = [one for one in cluster.read().pods if one["metadata"]["uid"] == uid]
        assert [one["metadata"].get("labels", {}).get(LABEL_ATTEMPT) for one in found] == [None]
    cluster.patch(ref_of(team.pods()[0]), {"spec": {"schedulingGates": None}})
    found = [one for one in cluster.read().pods if one["metadata"]["uid"] == uid]
    assert not found[0]["spec"].get("schedulingGates"), "asked for again, whatever the copy says"


def test_an_api_server_that_was_restarted_and_has_forgotten_old_versions(plane: ControlPlane, team: Team, start: Start) -> None:
    cluster = start()
    agree(cluster, plane)
    plane.stop("kube-apiserver")
    plane.start_api()
    team.create(pod_of("after-a-restart"))
    agree(cluster, plane)
    restart_api(plane)
    team.create(pod_of("after-a-compaction"))
    agree(cluster, plane)
    until(lambda: cluster.read().troubles == [], 30.0)


def test_watches_that_end_all_the_time_lose_nothing(plane: ControlPlane, team: Team, start: Start) -> None:
    cluster = start(watch_seconds=1)
    for number in range(25):
        team.create(pod_of(f"p{number}"))
        if number % 3 == 0:
            plane.kubectl("delete", "pod", f"p{number}", "-n", team.namespace, "--grace-period=0", "--force")
    agree(cluster, plane)
    assert cluster.read().troubles == []


def test_a_server_that_hangs_is_found_out_and_copies_grow_too_old(plane: ControlPlane, team: Team, start: Start) -> None:
    cluster = start(confirm=2.0, silence_seconds=1.0, watch_seconds=1)
    agree(cluster, plane)
    server = plane.running("kube-apiserver")
    server.send_signal(signal.SIGSTOP)
    try:
        until(lambda: all(watch.items(SystemClock().monotonic() - 2.0) is None for watch in cluster._watches.values()))
        with pytest.raises(Transient):
            cluster.read()
    finally:
        server.send_signal(signal.SIGCONT)
    team.create(pod_of("afterwards"))
    until(lambda: _answers(cluster), 30.0)
    agree(cluster, plane)


def _answers(cluster: KubeCluster) -> bool:
    try:
        return bool(cluster.read().nodes)
    except Transient:
        return False


def test_every_change_that_is_read_wakes_somebody(plane: ControlPlane, team: Team, start: Start) -> None:
    woken = threading.Event()
    cluster = start(wake=woken.set)
    agree(cluster, plane)
    changes: dict[str, Callable[[], object]] = {
        "a node is cordoned": lambda: plane.kubectl("cordon", "eu-gpu-2"),
        "and let go": lambda: plane.kubectl("uncordon", "eu-gpu-2"),
        "somebody's pod comes": lambda: team.create(pod_of("foreign")),
        "a job of ours comes": lambda: team.create(job_of("ours")),
        "a namespace comes": lambda: plane.kubectl("create", "namespace", f"{team.namespace}-more"),
        "a priority class comes": lambda: plane.kubectl("create", "priorityclass", "woken", "--value=7"),
    }
    for name, change in changes.items():
        agree(cluster, plane)
        woken.clear()
        change()
        assert woken.wait(10), name
    plane.kubectl("delete", "priorityclass", "woken")


def test_watching_may_not_be_allowed(plane: ControlPlane, start: Start) -> None:
    plane.kubectl("patch", "clusterrole", "gpu-reconciler-agent", "--type=json", "-p", _without_watch(plane))
    try:
        cluster = start()
        until(lambda: len(cluster.read().troubles) == len(WATCHED), 20.0)
        assert all('cannot watch resource "' in words for words in cluster.read().troubles)
        assert shown(cluster.read())["nodes"] == shown(agents_cluster(plane).read())["nodes"], "all is read instead"
    finally:
        plane.kubectl("apply", "-f", "deploy/agent/rbac.yaml")
    until(lambda: cluster.read().troubles == [], 30.0, 0.1)


def _without_watch(plane: ControlPlane) -> str:
    rules = plane.get("clusterrole", "gpu-reconciler-agent")["rules"]
    places = [
        f"/rules/{number}/verbs/{rule['verbs'].index('watch')}" for number, rule in enumerate(rules) if "watch" in rule["verbs"]
    ]
    return "[" + ",".join(f'{{"op":"remove","path":"{place}"}}' for place in places) + "]"
