"""A large region: a thousand nodes and five thousand pods. The report is right, and the agent small."""

import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from reconciler.adapters.clock import SystemClock
from reconciler.adapters.file_store import FileStore
from reconciler.adapters.kube import from_kubeconfig
from reconciler.adapters.kube.answers import Request
from reconciler.adapters.kube.connection import Connection
from reconciler.model.grants import report_key
from reconciler.model.names import LABEL_ATTEMPT
from reconciler.model.report import RegionReport
from tests.e2e.control_plane import ControlPlane, _node, region
from tests.e2e.programs import cpu_seconds, peak_rss_mib
from tests.e2e.world import GPU, job_of, service_account, token_kubeconfig
from tests.waiting import until

NODES, PODS, JOBS = 1000, 5000, 200
MOST_MEMORY = 150
"""MiB."""
"""KiB that the agent may take, at its highest."""
NAMESPACE = "large"
Send = Callable[[Request], Any]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A region of that size, at rest."""
    with region(tmp_path_factory.mktemp("large")) as plane:
        service_account(plane)
        plane.kubectl("create", "namespace", NAMESPACE)
        plane.kubectl("create", "priorityclass", "burn-in", "--value=-1000")
        until(lambda: "default" in plane.kubectl("get", "serviceaccounts", "-n", NAMESPACE), 60.0, 0.2)
        connection = Connection(from_kubeconfig(plane.kubeconfig), SystemClock(), 60.0)
        with ThreadPoolExecutor(8) as pool:
            fill(partial(_send, connection), pool)
        connection.close()
        until(lambda: stays_at_rest(plane), 1200.0, 5.0)
        yield plane


def _send(connection: Connection, request: Request) -> Any:
    return connection.ask(request).value


def post(path: str, item: Mapping[str, Any]) -> Request:
    return Request("POST", path, body=item)


def fill(send: Send, pool: ThreadPoolExecutor) -> None:
    """Nodes, jobs and pods; then what becomes of some of them."""
    list(pool.map(send, (post("/api/v1/nodes", node(number)) for number in range(NODES))))
    jobs = (job_of(f"train-{number:03}-a1") for number in range(JOBS))
    list(pool.map(send, (post(f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs", job) for job in jobs)))
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
    list(pool.map(send, (post(pods, pod(number)) for number in range(PODS))))
    leaving = [number for number in range(PODS) if number % 50 == 7]
    list(pool.map(send, (Request("DELETE", f"{pods}/p{number:04}") for number in leaving)))


def node(number: int) -> dict[str, Any]:
    """Every tenth has other cards, every twentieth a sick one, every hundredth is cordoned."""
    product = "NVIDIA-A100-SXM4-80GB" if number % 10 == 3 else "NVIDIA-H100-80GB-HBM3"
    made = _node(f"node-{number:04}", 8, product)
    made["metadata"]["labels"] |= {f"feature.node.kubernetes.io/cpu-{feature}": "true" for feature in range(60)}
    made["status"]["images"] = [
        {"names": [f"reg.example.com/team/train@sha256:{image:064x}"], "sizeBytes": 10**10} for image in range(30)
    ]
    if number % 20 == 5:
        made["status"]["allocatable"] = {**made["status"]["allocatable"], GPU: "7"}
    if number % 100 == 9:
        made["spec"] = {"unschedulable": True}
    return made


SHAPES: Sequence[Mapping[str, Any]] = (
    {"containers": [("4", 1)]},
    {"containers": [("500m", 0), ("250m", 0)]},
    {"containers": [("2", 2)], "init": [("500m", 1, "Always"), ("6", 4, None)]},
    {"containers": [("1", 1)], "class": "burn-in"},
)
"""What they request of CPU and GPUs, each container and each step before them."""


def pod(number: int) -> dict[str, Any]:
    """Every fifth is ours; every fiftieth is leaving and takes its time; every fortieth has no node."""
    shape = SHAPES[number % len(SHAPES)]
    spec: dict[str, Any] = {
        "containers": [container(f"c{at}", *asked) for at, asked in enumerate(shape["containers"])],
        "initContainers": [
            {**container(f"i{at}", cpu, gpus), **({"restartPolicy": again} if again else {})}
            for at, (cpu, gpus, again) in enumerate(shape.get("init", ()))
        ],
        "terminationGracePeriodSeconds": 3600,
        "tolerations": [{"operator": "Exists"}],
    }
    if "class" in shape:
        spec["priorityClassName"] = shape["class"]
    if number % 40 == 11:
        spec["schedulerName"] = "nobody"
    else:
        spec["nodeName"] = f"node-{number % NODES:04}"
    metadata: dict[str, Any] = {
        "name": f"p{number:04}",
        "annotations": {"sim/stop": "3600s"},
        "labels": {"app": f"a{number % 7}"},
    }
    if number % 5 == 0:
        metadata["labels"][LABEL_ATTEMPT] = f"train-{number % JOBS:03}-a1"
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def container(name: str, cpu: str, gpus: int) -> dict[str, Any]:
    limits = {"cpu": cpu, "memory": "1Gi", **({GPU: str(gpus)} if gpus else {})}
    environment = [{"name": f"SETTING_{number}", "value": "x" * 60} for number in range(10)]
    return {"name": name, "image": "reg.example.com/team/train:1", "resources": {"limits": limits}, "env": environment}


def at_rest(plane: ControlPlane) -> bool:
    """Whether all nodes are ready and all pods that have one run."""
    ready = plane.kubectl("get", "nodes", "--no-headers").count(" Ready")
    taints = set(plane.kubectl("get", "nodes", "-o", "jsonpath={.items[*].spec.taints[*].key}").split())
    running = plane.kubectl("get", "pods", "-n", NAMESPACE, "--no-headers", "--field-selector=status.phase=Running").count("\n")
    return (
        ready == NODES
        and taints <= {"node.kubernetes.io/unschedulable"}
        and running == PODS - sum(1 for number in range(PODS) if number % 40 == 11)
    )


def stays_at_rest(plane: ControlPlane) -> bool:
    """Whether it is at rest, and the controllers are gone that could change that: on a busy machine a thousand simulated kubelets
    are late with their word, and nodes would come and go while they are counted. One may have gone as the controllers went."""
    if not at_rest(plane):
        return False
    plane.stop("kube-controller-manager")
    if at_rest(plane):
        return True
    plane.start_controllers()
    return False


# ---- the agent


class AgentProcess:
    def __init__(self, plane: ControlPlane, store: Path, look_seconds: float) -> None:
        command = [sys.executable, "-m", "tests.e2e.agent_process", str(token_kubeconfig(plane)), str(store), str(look_seconds)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        self.running = subprocess.Popen(command, env=environment)

    def end(self) -> int:
        self.running.terminate()
        return self.running.wait(30)


@pytest.mark.timeout(1800)
def test_the_report_of_a_large_region_is_right_and_its_agent_small(
    large: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = AgentProcess(large, tmp_path, look_seconds=10)
    try:
        store = FileStore(tmp_path)
        first = until(lambda: report_of(store), 120.0, 0.5)
        begun = cpu_seconds(agent.running.pid)
        last = until(lambda: found if (found := report_of(store)) and found.sequence >= first.sequence + 6 else None, 300.0, 0.5)
        idle = cpu_seconds(agent.running.pid) - begun
        span = (last.sent_at - first.sent_at).total_seconds()
        check(last, large)
        large.kubectl("cordon", "node-0000")
        until(lambda: (found := report_of(store)) is not None and found.nodes[0].unavailable == "Cordoned", 60.0, 0.2)
        check(until(lambda: report_of(store)), large)
        memory = peak_rss_mib(agent.running.pid)
        with capsys.disabled():
            print(
                f"\n{NODES} nodes, {PODS} pods: {memory:.0f} MiB at most; {begun:.1f} s of CPU to the first report, "
                f"then {idle / span * 100:.0f} % of a core over {span:.0f} s"
            )
        assert memory <= MOST_MEMORY
    finally:
        assert agent.end() == 0


def report_of(store: FileStore) -> RegionReport | None:
    found = store.get(report_key("eu"))
    return RegionReport.model_validate_json(found.body) if found else None


# ---- an independent count


def check(report: RegionReport, plane: ControlPlane) -> None:
    """Compare it with what kubectl shows, counted by other means."""
    assert report.health == tuple(one for one in report.health if one.code == "SickGpus")
    nodes = {item["metadata"]["name"]: item for item in json.loads(plane.kubectl("get", "nodes", "-o", "json"))["items"]}
    pods = json.loads(plane.kubectl("get", "pods", "-A", "-o", "json"))["items"]
    held: dict[str, Counter[str]] = defaultdict(Counter)
    for item in pods:
        if item["spec"].get("nodeName") and item["status"]["phase"] not in ("Succeeded", "Failed"):
            held[item["spec"]["nodeName"]].update(counted(item))
    assert [found.name for found in report.nodes] == sorted(nodes)
    for found in report.nodes:
        want, item = held[found.name], nodes[found.name]
        assert (found.used.gpus, found.used.cpu_milli, found.used.pods, found.releasing_gpus, found.reclaimable_gpus) == tuple(
            want[what] for what in ("gpus", "milli", "pods", "leaving", "low")
        ), found.name
        assert found.allocatable.gpus == int(item["status"]["allocatable"][GPU])
        assert found.capacity_gpus == int(item["status"]["capacity"][GPU])
        assert found.unavailable == ("Cordoned" if item["spec"].get("unschedulable") else None)
        assert found.gpu_product == item["metadata"]["labels"]["nvidia.com/gpu.product"]
    ours = {item["metadata"]["name"] for item in pods if LABEL_ATTEMPT in item["metadata"].get("labels", {})}
    assert {one.name for workload in report.workloads for one in workload.pods} == ours
    assert len(report.workloads) == JOBS
    running = [item for item in pods if item["status"]["phase"] == "Running"]
    assert report.foreign_pods == len([item for item in running if item["metadata"]["name"] not in ours])


def counted(item: Mapping[str, Any]) -> Counter[str]:
    spec = item["spec"]
    gpus, milli = (most(spec, resource) for resource in (GPU, "cpu"))
    leaving = "deletionTimestamp" in item["metadata"]
    low = not leaving and spec.get("priority", 0) < 0
    return Counter(gpus=gpus, milli=milli, pods=1, leaving=gpus * leaving, low=gpus * low)


def most(spec: Mapping[str, Any], resource: str) -> int:
    """The most that it ever holds at once: step by step before its containers, and then with them."""

    def of(one: Mapping[str, Any]) -> int:
        text = one["resources"].get("requests", {}).get(resource, "0")
        return int(text.removesuffix("m")) if text.endswith("m") else int(text) * (1000 if resource == "cpu" else 1)

    beside, peaks = 0, []
    for step in spec.get("initContainers", ()):
        peaks.append(beside + of(step))
        beside += of(step) if step.get("restartPolicy") == "Always" else 0
    return max([*peaks, beside + sum(of(one) for one in spec["containers"])])
