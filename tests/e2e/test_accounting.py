"""The region's books from real objects: what scheduler, controllers and admission make of nodes and pods, and what is told of it."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from reconciler.agent.accounts import Accounts, account, summarise
from reconciler.agent.nodes import NodeRules
from reconciler.model.gpu import satisfies
from reconciler.model.report import NodeReport
from tests.e2e.control_plane import ControlPlane, _node
from tests.e2e.world import GPU, Team, agents_cluster, pod_of
from tests.waiting import until

NOW = datetime(2026, 5, 1, 10, 0, tzinfo=UTC)
H100 = "NVIDIA-H100-80GB-HBM3"


class Books:
    """Nodes of a test's own, and what is told of them."""

    def __init__(self, plane: ControlPlane, team: Team) -> None:
        self.plane, self.team = plane, team
        self.made: list[str] = []

    def node(self, name: str, product: str = H100, gpus: int = 8, *, ready: bool = True, **more: Any) -> str:
        """A node of that name; returns when it is as it should be. `more`: labels, sick (GPUs), spec."""
        full = f"{self.team.namespace}-{name}"
        item = _node(full, gpus, product)
        item["metadata"]["labels"] |= more.get("labels", {})
        if not ready:
            del item["metadata"]["labels"]["sim/kubelet"]
        item["status"]["allocatable"] = {**item["status"]["capacity"], GPU: str(gpus - more.get("sick", 0))}
        item["spec"] = more.get("spec", {})
        self.plane.kubectl("create", "-f", "-", stdin=item)
        self.made.append(full)
        if ready:
            until(lambda: not (self.told(full).unavailable or "").startswith("NotReady"), 30.0, 0.1)
        return full

    def all(self) -> Accounts:
        return account(agents_cluster(self.plane).read(), NodeRules())

    def told(self, node: str) -> NodeReport:
        return next(one for one in self.all().nodes if one.name == node)

    def pod(self, name: str, node: str, spec: dict[str, Any], *, sim: dict[str, str] | None = None) -> None:
        """A pod that the scheduler may put on that node only."""
        item = pod_of(name)
        item["metadata"]["annotations"] = sim or {}
        item["spec"] |= {"nodeSelector": {"kubernetes.io/hostname": node}, **spec}
        self.team.create(item)

    def phase(self, name: str) -> str:
        found = [pod for pod in self.team.pods() if pod["metadata"]["name"] == name]
        return found[0]["status"]["phase"] if found else "Gone"

    def is_unschedulable(self, name: str) -> bool:
        pod = self.plane.get("pod", name, self.team.namespace)
        return any(one["reason"] == "Unschedulable" for one in pod["status"].get("conditions", ()) if "reason" in one)


@pytest.fixture
def books(plane: ControlPlane, team: Team) -> Iterator[Books]:
    found = Books(plane, team)
    yield found
    if found.made:
        plane.kubectl("delete", "nodes", *found.made, "--wait=false")


def asking(gpus: int, name: str = "main", cpu: str = "1", **more: Any) -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu}, "limits": {GPU: str(gpus)} if gpus else {}}
    return {"name": name, "image": "reg.example.com/x:1", "resources": resources, **more}


def holding(gpus: int, **more: Any) -> dict[str, Any]:
    return {"containers": [asking(gpus)], **more}


def test_a_pod_that_is_ending_holds_its_cards_until_it_has(books: Books) -> None:
    node = books.node("n1")
    books.pod("p1", node, holding(8, terminationGracePeriodSeconds=3600), sim={"sim/stop": "3600s"})
    until(lambda: books.phase("p1") == "Running")
    books.plane.kubectl("delete", "pod", "p1", "-n", books.team.namespace, "--wait=false")
    books.pod("next", node, holding(8))
    until(lambda: books.is_unschedulable("next"))
    told = books.told(node)
    assert (told.used.gpus, told.releasing_gpus, told.reclaimable_gpus, told.allocatable.gpus) == (8, 8, 0, 8)
    books.plane.kubectl("delete", "pod", "p1", "-n", books.team.namespace, "--grace-period=0", "--force")
    until(lambda: books.phase("next") == "Running")
    told = books.told(node)
    assert (told.used.gpus, told.releasing_gpus) == (8, 0)


def test_steps_before_a_program_what_runs_beside_it_and_overhead_count_as_the_scheduler_counts_them(books: Books) -> None:
    runtime = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "x", "overhead": {"podFixed": {"cpu": "250m"}}}
    name = f"{books.team.namespace}-runtime"
    books.plane.kubectl("create", "-f", "-", stdin={**runtime, "metadata": {"name": name}})
    node = books.node("n1")
    before = books.told(node).used
    inits = [asking(1, "side", "500m", restartPolicy="Always"), asking(4, "warm", "6")]
    spec = {"initContainers": inits, "containers": [asking(2, cpu="4")], "runtimeClassName": name}
    books.pod("p1", node, spec)
    until(lambda: books.phase("p1") == "Running")
    used = books.told(node).used
    assert (used.gpus - before.gpus, used.cpu_milli - before.cpu_milli, used.pods - before.pods) == (5, 6750, 1)
    books.pod("fits", node, holding(3))
    until(lambda: books.phase("fits") == "Running")
    books.pod("too-much", node, holding(1))
    until(lambda: books.is_unschedulable("too-much"))
    assert books.told(node).used.gpus == 8
    books.plane.kubectl("delete", "runtimeclass", name)


def test_sick_cards_stay_in_the_total_and_are_told(books: Books) -> None:
    node = books.node("n1", sick=3)
    books.pod("p1", node, holding(3))
    until(lambda: books.phase("p1") == "Running")
    books.pod("fits", node, holding(2))
    until(lambda: books.phase("fits") == "Running")
    books.pod("too-much", node, holding(1))
    until(lambda: books.is_unschedulable("too-much"))
    told = books.told(node)
    assert (told.capacity_gpus, told.allocatable.gpus, told.used.gpus) == (8, 5, 5)
    assert [one.code for one in books.all().health if node in one.message] == ["SickGpus"]


def test_nodes_that_nobody_can_use_are_told_apart_with_the_cause(books: Books) -> None:
    nodes = [
        books.node("n1"),
        books.node("n2", spec={"unschedulable": True}),
        books.node("n3", ready=False),
        books.node("n4", spec={"taints": [{"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}]}),
    ]
    # The node controller takes a taint away that no condition of the node tells of.
    books.plane.kubectl("taint", "node", nodes[3], "node.kubernetes.io/out-of-service=x:NoSchedule")
    told = [books.told(node) for node in nodes]
    assert [one.unavailable and one.unavailable.split(":")[0] for one in told] == [None, "Cordoned", "NotReady", "Tainted"]
    assert summarise("eu", told, 0, NOW).gpu_free == 8
    assert sum(one.capacity_gpus for one in told) == 32
    for number in (0, 1, 3):  # a scheduler trusts a node that has said nothing yet
        books.pod(f"p{number}", nodes[number], holding(8))
    until(lambda: books.phase("p0") == "Running")
    until(lambda: all(books.is_unschedulable(f"p{number}") for number in (1, 3)))


PRODUCTS = {
    "NVIDIA-A100-SXM4-40GB": {"a100"},
    "NVIDIA-A100-SXM4-80GB": {"A100-80GB", "A100-80G", "a100"},
    "NVIDIA-A10": {"A10"},
    "NVIDIA-L4": {"L4"},
    "NVIDIA-L40S": {"L40S"},
    "NVIDIA-H100-80GB-HBM3": {"H100", "H100-80GB"},
    "H100_NVLINK_80GB": {"H100", "H100-80GB"},
}
"""Each with the requests that it satisfies, of all that are made here."""


def test_models_by_the_labels_of_their_nodes(books: Books) -> None:
    names = {product: books.node(f"n{number}", product) for number, product in enumerate(PRODUCTS)}
    wanted = set().union(*PRODUCTS.values())
    told = {one.name: one for one in books.all().nodes}
    for product, name in names.items():
        model = told[name].gpu_model
        assert model is not None
        assert {one for one in wanted if satisfies(model, one)} == PRODUCTS[product], product


def test_slices_and_shares_of_cards_are_no_cards(books: Books) -> None:
    sliced = books.node("n1", "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", 7)
    shared = books.node("n2", "NVIDIA-L4-SHARED", 4, labels={"nvidia.com/gpu.replicas": "4"})
    books.pod("p1", sliced, holding(2))
    until(lambda: books.phase("p1") == "Running")
    for node in (sliced, shared):
        told = books.told(node)
        assert (told.capacity_gpus, told.allocatable.gpus, told.used.gpus) == (0, 0, 0)
        assert not satisfies(str(told.gpu_model), "A100-80GB")
        assert not satisfies(str(told.gpu_model), "L4")
    assert sorted(one.code for one in books.all().health if books.team.namespace in one.message) == ["PartialGpus"] * 2


def test_cards_that_other_things_hold_count_and_those_that_would_be_given_up_are_told(books: Books) -> None:
    low = f"{books.team.namespace}-burn-in"
    books.plane.kubectl("create", "priorityclass", low, "--value=-1000", "--preemption-policy=Never")
    node = books.node("n1")
    labels = {"app": "monitor"}
    spec = {"nodeSelector": {"kubernetes.io/hostname": node}, "tolerations": [{"operator": "Exists"}], **holding(1)}
    template = {"metadata": {"labels": labels}, "spec": spec}
    daemon = {"selector": {"matchLabels": labels}, "template": template}
    books.team.create({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "monitor"}, "spec": daemon})
    until(lambda: books.told(node).used.gpus == 1)
    books.pod("burn-in", node, holding(7, priorityClassName=low, terminationGracePeriodSeconds=0))
    until(lambda: books.phase("burn-in") == "Running")
    told = books.told(node)
    assert (told.used.gpus, told.reclaimable_gpus, told.releasing_gpus) == (8, 7, 0)
    books.pod("normal", node, holding(7))
    until(lambda: books.phase("normal") == "Running")
    told = books.told(node)
    assert (told.used.gpus, told.reclaimable_gpus, books.phase("burn-in")) == (8, 0, "Gone")
    books.plane.kubectl("delete", "daemonset", "monitor", "-n", books.team.namespace)
    books.plane.kubectl("delete", "priorityclass", low)


def test_what_has_ended_holds_nothing(books: Books) -> None:
    node = books.node("n1")
    before = books.told(node).used
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "short"}}
    spec = {"restartPolicy": "Never", "nodeSelector": {"kubernetes.io/hostname": node}, **holding(8)}
    template = {"metadata": {"annotations": {"sim/run": "1s"}}, "spec": spec}
    books.team.create({**job, "spec": {"template": template}})
    ran: Callable[[], bool] = lambda: books.told(node).used.gpus == 8  # noqa: E731
    until(ran)
    books.team.pods_when(1, "Succeeded")
    assert books.told(node).used == before
