"""A region's books: each case is a small cluster and what its nodes must say."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.agent.accounts import account, summarise
from reconciler.agent.nodes import NodeRules
from reconciler.model.gpu import satisfies
from reconciler.model.report import NodeReport
from tests.agent.objects import GPU, READY, Raw, make_node, make_pod, make_state

NOW = datetime(2026, 5, 1, 10, 0, tzinfo=UTC)
RULES = NodeRules()
MIB = 1 << 20


def free(node: NodeReport) -> int:
    """GPUs that a planner may take."""
    return max(node.allocatable.gpus - node.used.gpus, 0) if node.unavailable is None else 0


@dataclass(frozen=True)
class Case:
    """Pods on (mostly) one node, and the node's report."""

    want: dict[str, Any]
    node: Raw = field(default_factory=make_node)
    pods: tuple[Raw, ...] = ()
    want_free: int = 0
    want_health: tuple[str, ...] = ()
    priorities: dict[str, int] = field(default_factory=dict)


INITS: dict[str, Any] = {
    "overhead": {"cpu": "250m"},
    "initContainers": [
        {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "500m", GPU: "1"}}},
        {"name": "warm", "resources": {"requests": {"cpu": "6", GPU: "4"}}},
    ],
    "containers": [{"name": "main", "resources": {"requests": {"cpu": "4", GPU: "2"}}}],
}
PRODUCT, MEMORY = "nvidia.com/gpu.product", "nvidia.com/gpu.memory"

CASES = {
    "an empty node is free": Case({"used.gpus": 0, "capacity_gpus": 8, "allocatable.cpu_milli": 64000}, want_free=8),
    "a terminating pod still holds its cards": Case(
        {"used.gpus": 8, "releasing_gpus": 8}, pods=(make_pod(gpus=8, deleting=True),)
    ),
    "a pod in a terminal phase holds nothing, deleted or not": Case(
        {"used.gpus": 0, "used.pods": 0, "releasing_gpus": 0},
        pods=(make_pod(gpus=8, phase="Succeeded"), make_pod("p2", gpus=8, phase="Failed", deleting=True)),
        want_free=8,
    ),
    "a pod whose kubelet is silent holds its cards": Case(
        {"used.gpus": 3}, pods=(make_pod(gpus=3, phase="Unknown"),), want_free=5
    ),
    "a bound pod that has not started holds its cards": Case(
        {"used.gpus": 3, "used.pods": 1}, pods=(make_pod(gpus=3, phase="Pending"),), want_free=5
    ),
    "a pending pod without a node holds nothing": Case(
        {"used.gpus": 0, "used.pods": 0}, pods=(make_pod(gpus=3, phase="Pending", node=None),), want_free=8
    ),
    "init containers, sidecars and overhead count as the scheduler counts them": Case(
        {"used.gpus": 5, "used.cpu_milli": 6750}, pods=(make_pod(**INITS),), want_free=3
    ),
    "sick cards: in capacity, not in allocatable": Case(
        {"capacity_gpus": 8, "allocatable.gpus": 5, "used.gpus": 3},
        node=make_node(allocatable=5),
        pods=(make_pod(gpus=3),),
        want_free=2,
        want_health=("SickGpus",),
    ),
    "all cards sick while pods hold some: nothing is free, and nothing is below zero": Case(
        {"capacity_gpus": 8, "allocatable.gpus": 0, "used.gpus": 3},
        node=make_node(allocatable=0),
        pods=(make_pod(gpus=3),),
        want_health=("SickGpus",),
    ),
    "cordoned": Case({"unavailable": "Cordoned", "allocatable.gpus": 8}, node=make_node(unschedulable=True)),
    "the kubelet is silent": Case(
        {"unavailable": "NotReady: Kubelet stopped posting node status."},
        node=make_node(
            conditions=[{"type": "Ready", "status": "Unknown", "message": "Kubelet stopped posting node status."}],
            taints=["node.kubernetes.io/unreachable:NoSchedule", "node.kubernetes.io/unreachable:NoExecute"],
        ),
    ),
    "a node that never said that it is ready": Case(
        {"unavailable": "NotReady: no kubelet has said that it is ready"}, node=make_node(conditions=())
    ),
    "a node whose disk is full": Case(
        {"unavailable": "Tainted: node.kubernetes.io/disk-pressure", "taints": ()},
        node=make_node(taints=["node.kubernetes.io/disk-pressure:NoSchedule"]),
    ),
    "a node that the autoscaler is about to remove": Case(
        {"unavailable": "Tainted: ToBeDeletedByClusterAutoscaler"},
        node=make_node(taints=["ToBeDeletedByClusterAutoscaler:NoSchedule"]),
    ),
    "a node that is being deleted": Case({"unavailable": "Deleted"}, node=make_node(deletionTimestamp="2026-05-01T10:00:00Z")),
    "a taint for those who tolerate it does not close the node": Case(
        {"unavailable": None, "taints": ("nvidia.com/gpu", "spot")},
        node=make_node(taints=["spot:NoExecute", "nvidia.com/gpu:NoSchedule", "soft:PreferNoSchedule"]),
        want_free=8,
    ),
    "cards held by a DaemonSet and by burn-in pods: held, and some of it reclaimable": Case(
        {"used.gpus": 8, "reclaimable_gpus": 7, "releasing_gpus": 0},
        pods=(make_pod("daemon", gpus=1, namespace="kube-system"), make_pod("burn", gpus=7, priority=-1000)),
    ),
    "a priority that only its class tells": Case(
        {"reclaimable_gpus": 7}, pods=(make_pod(gpus=7, priorityClassName="burn-in"),), priorities={"burn-in": -1000}, want_free=1
    ),
    "what is going anyway is not reclaimable as well": Case(
        {"used.gpus": 7, "releasing_gpus": 7, "reclaimable_gpus": 0},
        pods=(make_pod(gpus=7, priority=-1000, deleting=True),),
        want_free=1,
    ),
    "a request that is no quantity closes its node, and the look goes on": Case(
        {"unavailable": "Unreadable: what pod team-a/p1 requests is no quantity", "used.gpus": 2, "used.pods": 2},
        pods=(make_pod(gpus="many"), make_pod("p2", gpus=2)),
        want_health=("PodUnreadable",),
    ),
    "requests that are no map": Case(
        {"unavailable": "Unreadable: what pod team-a/p1 requests is no quantity"},
        pods=(make_pod(containers=[{"name": "main", "resources": {"requests": ["cpu"]}}]),),
        want_health=("PodUnreadable",),
    ),
    "an allocatable that is no quantity": Case(
        {"allocatable.gpus": 0, "capacity_gpus": 0}, node=make_node(allocatable="NaN"), want_health=("NodeUnreadable",)
    ),
    "a node without status": Case(
        {"unavailable": "NotReady: no kubelet has said that it is ready", "capacity_gpus": 0},
        node={"metadata": {"name": "n1"}, "spec": None, "status": None},
    ),
    "whole cards by name and size": Case({"gpu_model": "A100-80GB", "gpu_product": "NVIDIA-A100-SXM4-80GB"}, want_free=8),
    "a model without its size gets the size it is sold with": Case(
        {"gpu_model": "L4-24GB", "vram_bytes": 23034 * MIB},
        node=make_node(labels={PRODUCT: "NVIDIA-L4", MEMORY: "23034"}),
        want_free=8,
    ),
    "a size in the name stays, whatever the memory label says": Case(
        {"gpu_model": "H100-80GB", "vram_bytes": 81559 * MIB},
        node=make_node(labels={PRODUCT: "NVIDIA-H100-80GB-HBM3", MEMORY: "81559"}),
        want_free=8,
    ),
    "no memory label: a little less than the name promises": Case({"vram_bytes": 80 * 10**9}, want_free=8),
    "neither label nor size: unknown, not zero": Case(
        {"gpu_model": "H200", "vram_bytes": None}, node=make_node(labels={PRODUCT: "NVIDIA-H200", MEMORY: "?"}), want_free=8
    ),
    "slices under the cards' own resource are no whole cards": Case(
        {"gpu_model": "A100-80GB.1g.10gb", "capacity_gpus": 0, "allocatable.gpus": 0, "used.gpus": 0, "used.pods": 1},
        node=make_node(gpus=56, labels={PRODUCT: "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", MEMORY: "9728"}),
        pods=(make_pod(gpus=1),),
        want_health=("PartialGpus",),
    ),
    "slices under resources of their own: only what is whole counts": Case(
        {"gpu_model": "A100-80GB", "capacity_gpus": 6},
        node=make_node(gpus=6, extra={"nvidia.com/mig-1g.10gb": "14"}),
        pods=(make_pod(containers=[{"name": "main", "resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}}]),),
        want_free=6,
    ),
    "shared cards, by their name": Case(
        {"gpu_model": "H100-80GB.shared", "capacity_gpus": 0},
        node=make_node(gpus=32, labels={PRODUCT: "NVIDIA-H100-80GB-HBM3-SHARED"}),
        want_health=("PartialGpus",),
    ),
    "shared cards, by the replicas": Case(
        {"gpu_model": "A100-80GB.shared", "capacity_gpus": 0},
        node=make_node(gpus=32, labels={"nvidia.com/gpu.replicas": "4"}),
        want_health=("PartialGpus",),
    ),
    "one replica is a whole card": Case(
        {"capacity_gpus": 8}, node=make_node(labels={"nvidia.com/gpu.replicas": "1"}), want_free=8
    ),
    "a node without GPUs": Case(
        {"gpu_model": None, "capacity_gpus": 0, "vram_bytes": None, "allocatable.pods": 110}, node=make_node(gpus=0, product=None)
    ),
    "driver, zone, rack, RDMA": Case(
        {"driver": "550.54.15", "zone": "eu-1a", "rack": "r7", "rdma": True},
        node=make_node(
            labels={
                "nvidia.com/cuda.driver-version.full": "550.54.15",
                "topology.kubernetes.io/zone": "eu-1a",
                "topology.kubernetes.io/rack": "r7",
            },
            extra={"rdma/hca_shared": "8"},
        ),
        want_free=8,
    ),
    "the driver in parts; RDMA resource that has none left": Case(
        {"driver": "535.183.06", "rdma": False},
        node=make_node(
            labels={f"nvidia.com/cuda.driver.{part}": text for part, text in (("major", "535"), ("minor", "183"), ("rev", "06"))},
            extra={"vpc.amazonaws.com/efa": "0"},
        ),
        want_free=8,
    ),
}


def at(report: NodeReport, path: str) -> Any:
    value: Any = report
    for name in path.split("."):
        value = getattr(value, name)
    return value


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_node(case: Case) -> None:
    books = account(make_state(nodes=[case.node], pods=case.pods, priority_values=case.priorities), RULES)
    (report,) = books.nodes
    assert {path: at(report, path) for path in case.want} == case.want
    assert free(report) == case.want_free
    assert tuple(one.code for one in books.health) == case.want_health


def test_four_nodes_of_which_one_can_be_used() -> None:
    silent = [{"type": "Ready", "status": "Unknown"}]
    nodes = [
        make_node("n1"),
        make_node("n2", unschedulable=True),
        make_node("n3", conditions=silent),
        make_node("n4", taints=["node.kubernetes.io/disk-pressure:NoSchedule"]),
    ]
    books = account(make_state(nodes=nodes), RULES)
    short = summarise("eu", books.nodes, 3, NOW)
    assert short.gpu_free == 8
    assert sum(node.allocatable.gpus for node in books.nodes if node.unavailable) == 24
    assert [node.unavailable is None for node in books.nodes] == [True, False, False, False]
    assert (short.gpu_nodes, short.gpu_busy, short.gpu_models, short.queued_jobs) == (4, 0, ("A100-80GB",), 3)


def test_model_names_of_real_nodes() -> None:
    products = {
        "a40": "NVIDIA-A100-SXM4-40GB",
        "a80": "NVIDIA-A100-SXM4-80GB",
        "a10": "NVIDIA-A10",
        "l4": "NVIDIA-L4",
        "l40s": "NVIDIA-L40S",
        "h1": "NVIDIA-H100-80GB-HBM3",
        "h2": "H100_NVLINK_80GB",
        "slices": "NVIDIA-A100-SXM4-80GB-MIG-3g.40gb",
        "shared": "NVIDIA-H100-80GB-HBM3-SHARED",
    }
    nodes = [make_node(name, labels={PRODUCT: product}) for name, product in products.items()]
    models = {node.name: str(node.gpu_model) for node in account(make_state(nodes=nodes), RULES).nodes}

    def takes(wanted: str) -> set[str]:
        return {name for name, model in models.items() if satisfies(model, wanted)}

    assert takes("A100-80GB") == takes("A100-80G") == {"a80"}
    assert takes("a100") == {"a40", "a80"}
    assert takes("L4") == {"l4"}
    assert takes("H100") == {"h1", "h2"}


@pytest.mark.parametrize(
    ("mib", "sold"),
    [
        (15360, 16), (16160, 16), (23034, 24), (22731, 24), (24564, 24), (32510, 32), (40536, 40), (46068, 48), (49140, 48),
        (81251, 80), (81920, 80), (95830, 94), (97871, 96), (143771, 141), (183359, 180), (11264, 11), (196592, 192), (400000, 391),
    ],
)  # fmt: skip
def test_sizes_that_cards_report(mib: int, sold: int) -> None:
    (node,) = account(make_state(nodes=[make_node(labels={PRODUCT: "NVIDIA-X1", MEMORY: str(mib)})]), RULES).nodes
    assert node.gpu_model == f"X1-{sold}GB"


def test_pods_on_a_node_that_is_gone_change_nothing() -> None:
    books = account(make_state(nodes=[make_node()], pods=[make_pod(node="gone", gpus=8)]), RULES)
    assert [free(node) for node in books.nodes] == [8]


def test_foreign_pods_are_those_that_run_and_are_not_ours() -> None:
    pods = [
        make_pod("a"),
        make_pod("b", attempt="x"),
        make_pod("c", phase="Succeeded"),
        make_pod("d", node=None, phase="Pending"),
    ]
    assert account(make_state(pods=pods), RULES).foreign_pods == 1


def test_summary_of_nothing_knows_no_averages() -> None:
    short = summarise("eu", (), 0, NOW)
    assert (short.avg_cpu_usage, short.avg_gpu_usage, short.gpu_free) == (None, None, 0)


def test_averages_are_shares_of_what_can_be_allocated() -> None:
    containers = [{"name": "main", "resources": {"requests": {"cpu": "16", GPU: "2"}}}]
    nodes = [make_node("n1", allocatable=4), make_node("n2", gpus=0, product=None)]
    books = account(make_state(nodes=nodes, pods=[make_pod(containers=containers)]), RULES)
    short = summarise("eu", books.nodes, 0, NOW)
    assert (short.avg_cpu_usage, short.avg_gpu_usage) == (0.125, 0.5)


pods_on_nodes: st.SearchStrategy[list[dict[str, Any]]] = st.lists(
    st.builds(
        dict,
        node=st.sampled_from(["n1", "n2", "gone", None]),
        phase=st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown"]),
        gpus=st.integers(0, 8),
        deleting=st.booleans(),
        priority=st.sampled_from([-1000, 0, 5]),
        attempt=st.sampled_from([None, "ours"]),
    ),
    max_size=12,
)


@given(pods_on_nodes)
def test_what_is_used_is_what_bound_live_pods_request(described: list[dict[str, Any]]) -> None:
    pods = [make_pod(f"p{number}", **one) for number, one in enumerate(described)]
    books = account(make_state(nodes=[make_node("n1"), make_node("n2", allocatable=3)], pods=pods), RULES)
    held = [one for one in described if one["node"] in ("n1", "n2") and one["phase"] not in ("Succeeded", "Failed")]
    assert sum(node.used.gpus for node in books.nodes) == sum(one["gpus"] for one in held)
    assert sum(node.used.pods for node in books.nodes) == len(held)
    assert sum(node.releasing_gpus for node in books.nodes) == sum(one["gpus"] for one in held if one["deleting"])
    for node in books.nodes:
        assert node.releasing_gpus + node.reclaimable_gpus <= node.used.gpus
        assert free(node) >= 0


odd = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(["NaN", "-1", "1e3", "Infinity", "5Gi"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["cpu", GPU, "requests"]), inner, max_size=2),
    max_leaves=4,
)


@given(odd, odd)
def test_no_amount_whatever_it_is_ends_the_look(asked: Any, allocatable: Any) -> None:
    pod = make_pod(containers=[{"name": "main", "resources": {"requests": {"cpu": asked, GPU: asked}}}])
    node = make_node(conditions=[READY])
    node["status"]["allocatable"] = {GPU: allocatable, "cpu": allocatable}
    (report,) = account(make_state(nodes=[node], pods=[pod]), RULES).nodes
    assert report.allocatable.gpus >= 0
    assert report.used.pods == 1
    assert report.used.gpus >= 0
