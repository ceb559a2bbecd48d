"""Raw nodes and pods, by the region's agent, to what the hub decides: cards that are held, sick, closed, or of another model."""

from typing import Any

import pytest

from reconciler.agent.accounts import Accounts, account, summarise
from reconciler.agent.nodes import NodeRules
from reconciler.model.report import NodeReport
from reconciler.planning.decisions import Decision, Impossible, Place, Wait
from reconciler.planning.plan import plan
from tests.agent.objects import GPU, Raw, make_node, make_pod, make_state
from tests.builders import NOW, make_job, make_region, make_snapshot

SMALL = {"cpu": "1", "memory": "1Gi"}
"""So that GPUs alone decide where a job fits."""
PRODUCT = "nvidia.com/gpu.product"


def books(*nodes: Raw, pods: tuple[Raw, ...] = (), **more: Any) -> Accounts:
    return account(make_state(nodes=nodes, pods=pods, **more), NodeRules())


def decided(accounts: Accounts, gpus: int, **fields: Any) -> Decision:
    """What becomes of a job of so many cards a node, where the region shows just that."""
    job = make_job(gpus=gpus, **{"resources": SMALL, **fields})
    (decision,) = plan(make_snapshot(make_region("eu", *accounts.nodes), jobs=[job]), NOW)
    return decision


def free(node: NodeReport) -> int:
    return node.allocatable.gpus - node.used.gpus


# ---- RS-1 ---------------------------------------------------------------------------------------------------------

ENDING: dict[str, tuple[tuple[Raw, ...], int, type[Decision]]] = {
    "a pod that is being deleted and runs": ((make_pod(gpus=8, deleting=True),), 8, Wait),
    "a pod that is being deleted on a silent node": ((make_pod(gpus=8, deleting=True, phase="Unknown"),), 8, Wait),
    "a pod that is being deleted and has ended": ((make_pod(gpus=8, deleting=True, phase="Failed"),), 0, Place),
    "no pod any more": ((), 0, Place),
}


@pytest.mark.parametrize("case", ENDING)
def test_cards_of_a_pod_that_ends_are_given_away_when_it_has_ended(case: str) -> None:
    pods, releasing, kind = ENDING[case]
    accounts = books(make_node("n1"), pods=pods)
    (node,) = accounts.nodes
    assert (free(node), node.releasing_gpus) == (8 - releasing, releasing)
    assert isinstance(decided(accounts, 8), kind)
    assert isinstance(decided(accounts, 1), kind)


# ---- RS-3 ---------------------------------------------------------------------------------------------------------

SIDECARS: dict[str, Any] = {
    "overhead": {"cpu": "250m"},
    "initContainers": [
        {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "500m", GPU: 1}}},
        {"name": "warm", "resources": {"requests": {"cpu": 6, GPU: 4}}},
    ],
    "containers": [{"name": "main", "resources": {"requests": {"cpu": 4, GPU: 2}}}],
}
"""The amounts as numbers, as YAML readers give them."""


def test_a_pod_holds_the_most_that_it_has_at_any_moment() -> None:
    accounts = books(make_node("n1"), pods=(make_pod(**SIDECARS),))
    (node,) = accounts.nodes
    assert (node.used.gpus, node.used.cpu_milli) == (5, 6750)
    assert isinstance(decided(accounts, 3), Place)
    assert isinstance(decided(accounts, 4), Wait)
    assert isinstance(decided(accounts, 1, resources={"cpu": "57250m", "memory": "1Gi"}), Place)
    assert isinstance(decided(accounts, 1, resources={"cpu": "57251m", "memory": "1Gi"}), Wait)


# ---- RS-5 ---------------------------------------------------------------------------------------------------------


def test_sick_cards_are_neither_free_nor_forgotten() -> None:
    accounts = books(make_node("n1", 8, allocatable=5), pods=(make_pod(gpus=3),))
    (node,) = accounts.nodes
    total, unhealthy = node.capacity_gpus, node.capacity_gpus - node.allocatable.gpus
    assert (total, unhealthy, node.used.gpus, free(node)) == (8, 3, 3, 2)
    assert summarise("eu", accounts.nodes, 0, NOW).gpu_free == 2
    assert [(one.code, one.message) for one in accounts.health] == [("SickGpus", "node n1: 3 of 8 GPUs are not healthy")]
    assert isinstance(decided(accounts, 2), Place)
    assert isinstance(decided(accounts, 3), Wait)
    assert isinstance(decided(accounts, 8), Wait), "they could get well: it is not impossible"
    assert isinstance(decided(accounts, 9), Impossible)


# ---- RS-7 ---------------------------------------------------------------------------------------------------------


def test_cards_on_nodes_that_nobody_can_use_are_told_apart_with_the_cause() -> None:
    accounts = books(
        make_node("n1"),
        make_node("n2", unschedulable=True),
        make_node("n3", conditions=[{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]),
        make_node("n4", taints=["node.kubernetes.io/disk-pressure:NoSchedule"]),
    )
    assert summarise("eu", accounts.nodes, 0, NOW).gpu_free == 8
    assert {node.name: (node.unavailable, free(node)) for node in accounts.nodes if node.unavailable} == {
        "n2": ("Cordoned", 8),
        "n3": ("NotReady: NodeStatusUnknown", 8),
        "n4": ("Tainted: node.kubernetes.io/disk-pressure", 8),
    }
    assert isinstance(decided(accounts, 8), Place)
    sixteen = decided(accounts, 8, nodes=2)
    assert isinstance(sixteen, Wait), "the nodes may come back"
    assert sixteen.refused["eu"].numbers["free_nodes"] == 1


# ---- RS-9 ---------------------------------------------------------------------------------------------------------

LABELS = (
    "NVIDIA-A100-SXM4-40GB",
    "NVIDIA-A100-SXM4-80GB",
    "NVIDIA-A10",
    "NVIDIA-L4",
    "NVIDIA-L40S",
    "NVIDIA-H100-80GB-HBM3",
    "H100_NVLINK_80GB",
)
ASKED: dict[str, tuple[str, ...]] = {
    "A100-80GB": LABELS[1:2],
    "A100-80G": LABELS[1:2],
    "a100": LABELS[0:2],
    "A10": LABELS[2:3],
    "L4": LABELS[3:4],
    "H100": LABELS[5:7],
}


@pytest.mark.parametrize("model", ASKED)
def test_an_attempt_may_use_the_cards_that_were_asked_for_and_no_others(model: str) -> None:
    accounts = books(*(make_node(f"n{number}", labels={PRODUCT: label}) for number, label in enumerate(LABELS)))
    decision = decided(accounts, 8, model=model)
    assert isinstance(decision, Place)
    assert sorted(decision.chosen.gpu_products) == sorted(ASKED[model])
    everything = decided(accounts, 8, model=model, nodes=len(ASKED[model]))
    assert isinstance(everything, Place)
    assert isinstance(decided(accounts, 8, model=model, nodes=len(ASKED[model]) + 1), Impossible)


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("model", ASKED)
def test_a_region_with_other_cards_only_is_not_taken(model: str, label: str) -> None:
    accounts = books(make_node("n1", labels={PRODUCT: label}))
    assert isinstance(decided(accounts, 8, model=model), Place if label in ASKED[model] else Impossible)


def test_a_model_that_no_region_has_is_told_with_the_nearest() -> None:
    accounts = books(*(make_node(f"n{number}", labels={PRODUCT: label}) for number, label in enumerate(LABELS)))
    decision = decided(accounts, 8, model="A1OO-80GB")
    assert isinstance(decision, Impossible)
    assert decision.reason.code == "NoRegionHasModel"
    assert decision.reason.text.startswith("no region has A1OO-80GB; there are A10, A100-40GB, A100-80GB, H100-80GB")
    assert decision.reason.text.endswith("did you mean A100-80GB?")


# ---- RS-11 --------------------------------------------------------------------------------------------------------

PRIORITY: dict[str, dict[str, Any]] = {
    "as admission wrote it": {"priority": -1000},
    "as its class says": {"priorityClassName": "burn-in"},
}


@pytest.mark.parametrize("case", PRIORITY)
def test_cards_held_by_what_is_no_job_are_counted_and_told_apart(case: str) -> None:
    pods = (
        make_pod("daemon", gpus=1, namespace="kube-system", priorityClassName="system-node-critical"),
        make_pod("burn", gpus=7, namespace="provider", **PRIORITY[case]),
    )
    accounts = books(make_node("n1"), pods=pods, priority_values={"burn-in": -1000, "system-node-critical": 2_000_001_000})
    (node,) = accounts.nodes
    assert (node.used.gpus, node.reclaimable_gpus) == (8, 7)
    assert (free(node), free(node) + node.reclaimable_gpus) == (0, 7)
    assert isinstance(decided(accounts, 1), Wait)
    assert accounts.foreign_pods == 2
