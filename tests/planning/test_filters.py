"""Hard conditions at their edges: which regions can ever take a job, and which cannot now."""

from typing import Any

import pytest

from reconciler.model.pods import overlay_fields
from reconciler.model.reasons import Why, because, code_of
from reconciler.planning.decisions import Decision, Impossible, Place, Wait
from reconciler.planning.override import never_in
from reconciler.planning.plan import plan
from tests.builders import CARDS, GIB, NOW, TEAMS, make_job, make_node, make_region, make_snapshot

RDMA = {"resources": {"rdma/hca": "1"}}
SPOT = {"tolerations": {"spot": {"key": "spot"}}}
EVERYTHING = {"pod": {"tolerations": [{"operator": "Exists"}]}}
EVERY_TAINT_OF_ONE_KEY = {"pod": {"tolerations": [{"key": "spot", "operator": "Exists"}]}}
POOL = {"name": "p", "nodes": 2, "gpu_model": "NVIDIA-A100-SXM4-80GB", "gpus": 8, "cpu": "96", "memory": "960Gi"}


def decide(region: Any, **job: Any) -> Decision:
    (decision,) = plan(make_snapshot(region, jobs=[make_job(**job)]), NOW)
    return decision


def node(**fields: Any) -> Any:
    return make_region("eu", make_node(**fields))


YES, NEVER, LATER = Place, Impossible, Wait

EDGES: dict[str, tuple[Any, dict[str, Any], type[Decision], Why | None]] = {
    # VRAM: a twentieth is forgiven, for cards report a little less than their name says.
    "as much VRAM as asked for": (node(vram_bytes=80 * GIB), {"gpu": {"memory": "80Gi"}}, YES, None),
    "a twentieth less": (node(vram_bytes=76 * GIB), {"gpu": {"memory": "80Gi"}}, YES, None),
    "a byte less than that": (node(vram_bytes=76 * GIB - 1), {"gpu": {"memory": "80Gi"}}, NEVER, Why.VRAM_TOO_SMALL),
    "VRAM unknown and not asked for": (node(vram_bytes=None), {}, YES, None),
    "VRAM unknown and asked for": (node(vram_bytes=None), {"gpu": {"memory": "1Mi"}}, NEVER, Why.VRAM_UNKNOWN),
    # Drivers are compared as versions.
    "a driver in the range": (node(driver="550.90.07"), {"gpu": {"driver": ">=550,<570"}}, YES, None),
    "the range's end": (node(driver="570.0"), {"gpu": {"driver": ">=550,<570"}}, NEVER, Why.DRIVER_MISMATCH),
    "numbers, not letters": (node(driver="1000.1"), {"gpu": {"driver": ">=550"}}, YES, None),
    "an exact driver": (node(driver="535.183.06"), {"gpu": {"driver": "==535.183.6"}}, YES, None),
    "a driver that is no version": (node(driver="unknown-build"), {"gpu": {"driver": ">=1"}}, NEVER, Why.DRIVER_MISMATCH),
    "a wish that is no range": (node(), {"gpu": {"driver": "550"}}, NEVER, Why.DRIVER_MISMATCH),
    "a driver unknown and asked for": (node(driver=None), {"gpu": {"driver": ">=1"}}, NEVER, Why.DRIVER_MISMATCH),
    # Shapes.
    "all of a node": (node(gpus=8), {"gpus": 8}, YES, None),
    "one more than a node has": (node(gpus=8), {"gpus": 9}, NEVER, Why.NODE_TOO_SMALL),
    "all its cores": (node(), {"resources": {"cpu": "96"}}, YES, None),
    "a thousandth of a core more": (node(), {"resources": {"cpu": "96001m"}}, NEVER, Why.NODE_TOO_SMALL),
    "all its memory": (node(), {"resources": {"memory": "960Gi"}}, YES, None),
    "a byte more": (node(), {"resources": {"memory": str(960 * GIB + 1)}}, NEVER, Why.NODE_TOO_SMALL),
    "no pod slots left": (node(taken={"pods": 110}), {"gpus": 1}, LATER, Why.NOT_ENOUGH_FREE),
    "one pod slot left": (node(taken={"pods": 109}), {"gpus": 1}, YES, None),
    "disk that is in use": (
        node(taken={"disk_bytes": 7999 * 10**9}),
        {"resources": {"ephemeral_storage": "2G"}},
        LATER,
        Why.NOT_ENOUGH_FREE,
    ),
    "more used than there is": (node(used=9), {"gpus": 1}, LATER, Why.NOT_ENOUGH_FREE),
    # Each resource somewhere, but no node has all.
    "GPUs here and memory there": (
        make_region("eu", make_node("n0", gpus=8, allocatable={"memory_bytes": GIB}), make_node("n1", gpus=1)),
        {"gpus": 8, "resources": {"memory": "100Gi"}},
        NEVER,
        Why.NODE_TOO_SMALL,
    ),
    # Taints.
    "a taint that nobody tolerates": (node(taints=["spot"]), {}, NEVER, Why.GPU_MODEL_MISMATCH),
    "a taint that the job tolerates": (
        make_region("eu", make_node(taints=["spot"]), profile=SPOT),
        {"tolerations": ["spot"]},
        YES,
        None,
    ),
    "one of two taints": (
        make_region("eu", make_node(taints=["spot", "team-x"]), profile=SPOT),
        {"tolerations": ["spot"]},
        NEVER,
        Why.GPU_MODEL_MISMATCH,
    ),
    "the taint of GPU nodes, for a job with GPUs": (node(taints=["nvidia.com/gpu"]), {}, YES, None),
    "the taint of GPU nodes, for a job without": (node(taints=["nvidia.com/gpu"]), {"gpus": 0}, NEVER, Why.NODE_TOO_SMALL),
    "a region whose pods tolerate a key": (
        make_region("eu", make_node(taints=["spot"]), profile=EVERY_TAINT_OF_ONE_KEY),
        {},
        YES,
        None,
    ),
    "another key": (
        make_region("eu", make_node(taints=["other"]), profile=EVERY_TAINT_OF_ONE_KEY),
        {},
        NEVER,
        Why.GPU_MODEL_MISMATCH,
    ),
    "a region whose pods tolerate everything": (
        make_region("eu", make_node(taints=["a", "b"]), profile=EVERYTHING),
        {},
        YES,
        None,
    ),
    # Models.
    "no model asked for": (node(card=CARDS["l4"]), {"model": None}, YES, None),
    "no model asked for, and no GPUs": (node(card=None, gpus=0), {"model": None}, NEVER, Why.GPU_MODEL_MISMATCH),
    "a model that is named beside zero GPUs": (node(card=None, gpus=0), {"gpus": 0, "gpu": {"model": "H100"}}, YES, None),
    "slices of the card": (
        node(card="NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", gpus=0),
        {"gpus": 1},
        NEVER,
        Why.GPU_MODEL_MISMATCH,
    ),
    # Reports.
    "a report as old as may be": (make_region("eu", a100=8, age=30.0), {}, YES, None),
    "a little older": (make_region("eu", a100=8, age=30.001), {}, LATER, Why.REPORT_STALE),
    "no report, and pools that would do": (make_region("eu", age=None, node_pools=[POOL]), {}, LATER, Why.NO_REPORT),
    "no report, and pools that never would": (
        make_region("eu", age=None, node_pools=[POOL]),
        {"gpus": 16},
        NEVER,
        Why.NODE_TOO_SMALL,
    ),
    "no report, and a pool without nodes": (
        make_region("eu", age=None, node_pools=[{**POOL, "nodes": 0}]),
        {"gpus": 16},
        LATER,
        Why.NO_REPORT,
    ),
    "a report without nodes": (make_region("eu"), {}, LATER, Why.NOT_ENOUGH_FREE),
    "a report without nodes, and pools that would do": (make_region("eu", node_pools=[POOL]), {}, LATER, Why.NOT_ENOUGH_FREE),
    "closed by the hub": (
        make_region("eu", a100=8, closed=because(Why.BRANCH_REFUSED, branch="region/eu", message="protected")),
        {},
        LATER,
        Why.BRANCH_REFUSED,
    ),
    "no namespace yet": (make_region("eu", a100=8, namespaces=TEAMS[1:]), {}, LATER, Why.NAMESPACE_MISSING),
    "no namespace yet, and never a node": (
        make_region("eu", a100=8, namespaces=TEAMS[1:]),
        {"gpus": 16},
        NEVER,
        Why.NODE_TOO_SMALL,
    ),
    # RDMA.
    "RDMA asked for and had": (make_region("eu", make_node(rdma=True), profile={"rdma": RDMA}), {"network": "rdma"}, YES, None),
    "RDMA on the nodes, and nobody says how": (node(rdma=True), {"network": "rdma"}, NEVER, Why.RDMA_MISSING),
    "RDMA that pods would ask for, on no node that fits": (
        make_region(
            "eu",
            make_node("n0"),
            make_node("n1"),
            make_node("n2", card=CARDS["h100"], rdma=True),
            profile={"rdma": RDMA},
        ),
        {"nodes": 2},
        NEVER,
        Why.RDMA_MISSING,
    ),
    "the same by tcp": (
        make_region(
            "eu",
            make_node("n0"),
            make_node("n1"),
            make_node("n2", card=CARDS["h100"], rdma=True),
            profile={"rdma": RDMA},
        ),
        {"nodes": 2, "network": "tcp"},
        YES,
        None,
    ),
    "RDMA that no node shows, and that nobody must have": (
        make_region("eu", make_node("n0"), make_node("n1"), profile={"rdma": RDMA}),
        {"nodes": 2},
        YES,
        None,
    ),
    # Pod overlays.
    "a field that is allowed": (
        make_region("eu", a100=8, overlay_allowed=["dnsConfig"]),
        {"pod_overlay": {"dnsConfig": {"searches": ["x"]}}},
        YES,
        None,
    ),
    "a field beside it": (
        make_region("eu", a100=8, overlay_allowed=["dnsConfig"]),
        {"pod_overlay": {"dnsConfigX": {"searches": ["x"]}}},
        NEVER,
        Why.OVERLAY_NOT_ALLOWED,
    ),
    "a bad overlay that is not allowed either": (
        make_region("eu", a100=8),
        {"pod_overlay": {"containers": 5}},
        NEVER,
        Why.OVERLAY_NOT_ALLOWED,
    ),
}


@pytest.mark.parametrize("case", EDGES.values(), ids=EDGES.keys())
def test_an_edge(case: tuple[Any, dict[str, Any], type[Decision], Why | None]) -> None:
    region, job, kind, why = case
    decision = decide(region, **job)
    assert type(decision) is kind
    if why is not None:
        assert decision.refused["eu"].code == code_of(why)
    assert all(reason.text for reason in decision.refused.values())


def test_drivers_that_are_named_are_those_of_cards_with_enough_vram() -> None:
    region = make_region("eu", make_node("n0", vram_bytes=40 * GIB, driver="560.1"), make_node("n1", driver="535.1"))
    decision = decide(region, gpu={"memory": "80Gi", "driver": ">=550"})
    assert decision.refused["eu"].numbers == {"region": "eu", "have": "535.1", "wanted": ">=550"}


def test_vram_and_driver_must_be_on_one_card() -> None:
    region = make_region("eu", make_node("n0", vram_bytes=40 * GIB), make_node("n1", driver=None), make_node("n2"))
    decision = decide(region, gpu={"memory": "80Gi", "driver": ">=550"}, nodes=2)
    assert decision.refused["eu"].numbers == {"region": "eu", "have": 1, "wanted": 2}


def test_the_first_rule_that_says_no_is_the_reason() -> None:
    region = make_region("eu", cordoned=True, a100=8)
    decision = decide(region, denied_regions=["eu"], veto=["eu"], network="rdma", queue="q", gpus=16)
    assert decision.refused["eu"].code == code_of(Why.REGION_DENIED)


@pytest.mark.parametrize(
    ("overlay", "fields"),
    [
        ({}, []),
        ({"dnsPolicy": "None"}, ["dnsPolicy"]),
        ({"a": {"b": {"c": 1}, "d": {}}}, ["a.b.c", "a.d"]),
        ({"containers": [{"name": "main", "env": [{"name": "X", "value": "1"}]}]}, ["containers.env.value"]),
        ({"containers": [{"image": "x"}, {"image": "y"}]}, ["containers.image", "containers.image"]),
        ({"args": ["a", "b"]}, ["args"]),
        ({"tolerations": []}, ["tolerations"]),
    ],
)
def test_fields_of_an_overlay(overlay: Any, fields: list[str]) -> None:
    assert overlay_fields(overlay) == fields


def test_what_a_pin_is_held_to() -> None:
    """Only what holds for ever, and never what a person said before."""
    snapshot = make_snapshot(
        make_region("eu", a100=8, cordoned=True),
        make_region("us", make_node(used=8), namespaces=[]),
        make_region("sa", h100=8),
        make_region("new", age=None),
    )
    job = make_job(pin="eu", veto=["us"])
    assert never_in(job, "us", snapshot) is None
    assert never_in(job, "eu", snapshot) is None
    assert never_in(job, "new", snapshot) is None
    gone, other = never_in(job, "mars", snapshot), never_in(job, "sa", snapshot)
    assert gone is not None
    assert gone.text == "there is no region mars; known: eu, new, sa, us"
    assert other is not None
    assert other.code == code_of(Why.GPU_MODEL_MISMATCH)
    denied = never_in(make_job(denied_regions=["eu"]), "eu", snapshot)
    assert denied is not None
    assert denied.code == code_of(Why.REGION_DENIED)
    unreadable = never_in(make_job(pod_overlay={"containers": [{"resources": 5}]}), "eu", snapshot)
    assert unreadable is not None
