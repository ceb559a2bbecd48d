"""What a job is told that no region can ever run: the words of the region that came nearest, and true of all where they say so."""

from typing import Any

import pytest

from reconciler.model.reasons import Why, code_of
from reconciler.planning.decisions import Impossible
from reconciler.planning.plan import plan
from tests.builders import GIB, NOW, make_job, make_node, make_region, make_snapshot

IMPOSSIBLE: dict[str, tuple[list[Any], dict[str, Any], Why, str]] = {
    "the nearest region speaks": (
        [make_region("eu", l4=8), make_region("us", make_node(driver="535.1")), make_region("sa", a100=8)],
        {"gpu": {"driver": ">=540"}, "denied_regions": ["sa"]},
        Why.DRIVER_MISMATCH,
        "us: driver 535.1 is not >=540",
    ),
    "a region without the card comes nearer than one that a tag rules out": (
        [make_region("ap", h100=8), make_region("eu", l4=8, compliance=["iso"])],
        {"compliance": ["iso"], "model": "H100"},
        Why.GPU_MODEL_MISMATCH,
        "eu has no H100; it has L4",
    ),
    "of nodes that are too small, the one that lacks the least": (
        [make_region("eu", a100=8), make_region("us", make_node(gpus=16, allocatable={"memory_bytes": 500 * GIB}))],
        {"gpus": 16, "resources": {"cpu": "1", "memory": "501Gi"}},
        Why.NO_NODE_LARGE_ENOUGH,
        "the largest fitting node anywhere has 500 GiB of memory, the job asks for 501 on one",
    ),
    "of those that lack the same, the largest": (
        [make_region("eu", a100=4), make_region("us", a100=8), make_region("sa", a100=2)],
        {"gpus": 16},
        Why.NO_NODE_LARGE_ENOUGH,
        "the largest fitting node anywhere has 8 GPUs, the job asks for 16 on one",
    ),
    "each resource somewhere, and all on no node": (
        [make_region("eu", make_node("n0", allocatable={"memory_bytes": GIB}), make_node("n1", gpus=1))],
        {"gpus": 8, "resources": {"cpu": "1500m", "memory": "100Gi"}},
        Why.NO_NODE_LARGE_ENOUGH,
        "the largest fitting node anywhere has 8 GPUs with 96 cores and 1 GiB, the job asks for 8 GPUs with 1.5 cores and 100 GiB on one",
    ),
    "no GPUs anywhere": (
        [make_region("eu", make_node(card=None, gpus=0))],
        {"model": None},
        Why.NO_REGION_HAS_MODEL,
        "no region has GPUs; there are none",
    ),
    "a pin to nowhere": ([make_region("eu", a100=8)], {"pin": "mars"}, Why.NO_SUCH_REGION, "there is no region mars; known: eu"),
}


@pytest.mark.parametrize("case", IMPOSSIBLE.values(), ids=IMPOSSIBLE.keys())
def test_why_it_is_impossible(case: tuple[list[Any], dict[str, Any], Why, str]) -> None:
    regions, job, why, text = case
    for order in (regions, regions[::-1]):
        (decision,) = plan(make_snapshot(*order, jobs=[make_job(**job)]), NOW)
        assert isinstance(decision, Impossible)
        assert (decision.reason.code, decision.reason.text) == (code_of(why), text)
