"""Free room by node shape, what is held and not seen yet, and when a busy region will have room."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.model.attempt import Needs
from reconciler.planning.ahead import OVERDUE, earliest_start
from reconciler.planning.capacity import Capacity, now_free, reported, unseen, whole_nodes
from reconciler.planning.shapes import Free, Kind, facts_of
from reconciler.planning.snapshot import RegionView
from tests.builders import CARDS, NOW, make_holding, make_node, make_nodes, make_pod, make_region, make_report, make_workload
from tests.examples import examples
from tests.planning.reference_rooms import take

A100 = Kind("A100-80GB", "NVIDIA-A100-SXM4-80GB", 80 * 2**30, "550.90.07", rdma=False, taints=())
EIGHT, FOUR, ONE = Needs(gpus=8), Needs(gpus=4), Needs(gpus=1)


def free_gpus(view: RegionView) -> dict[str | None, int]:
    """By model, what a pass may give away."""
    capacity = now_free(view)
    models = {kind.gpu_model for kind in capacity.pools}
    return {model: capacity.free_of([kind for kind in capacity.pools if kind.gpu_model == model]) for model in models}


@pytest.mark.parametrize(
    ("free", "needs", "times"),
    [
        (Free(8, 96_000, 960, 100, 110), Needs(gpus=2, cpu_milli=8000, memory_bytes=100), 4),
        (Free(8, 15_999, 960, 100, 110), Needs(gpus=2, cpu_milli=8000), 1),
        (Free(8, 96_000, 960, 100, 110), Needs(gpus=1, disk_bytes=50), 2),
        (Free(8, 96_000, 960, 100, 3), Needs(gpus=1), 3),
        (Free(8, 96_000, 960, 100, 110), Needs(gpus=9), 0),
        (Free(-2, 96_000, 960, 100, 110), Needs(gpus=1), 0),
        (Free(-2, 96_000, 960, 100, 110), Needs(cpu_milli=96_000), 1),
        (Free(0, 0, 0, 0, -1), Needs(), 0),
        (Free(0, 0, 0, 0, 7), Needs(), 7),
    ],
)
def test_how_often_a_pod_fits(free: Free, needs: Needs, times: int) -> None:
    assert free.times(needs) == times
    assert free.less(needs, times).less(needs, -times) == free


amounts = st.integers(0, 6)
needs_of = st.builds(Needs, gpus=amounts, cpu_milli=amounts, memory_bytes=amounts, disk_bytes=st.just(0))
lines = st.builds(Free, st.integers(-1, 9), st.integers(-1, 9), amounts, st.just(0), st.integers(0, 4))
kinds = st.sampled_from((A100, A100._replace(driver="535.1"), A100._replace(gpu_model="L4")))


@settings(max_examples=examples(300), deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(kinds, lines), max_size=7),
    st.lists(st.tuples(needs_of, st.integers(1, 6), st.lists(kinds, min_size=1, max_size=3, unique=True)), max_size=5),
)
def test_counting_in_bulk_is_counting_one_by_one(
    nodes: list[tuple[Kind, Free]], asked: list[tuple[Needs, int, list[Kind]]]
) -> None:
    pools: dict[Kind, dict[Free, int]] = {}
    for kind, line in nodes:
        pool = pools.setdefault(kind, {})
        pool[line] = pool.get(line, 0) + 1
    bulk = Capacity(pools, 0)
    single: list[Any] = [[kind, list(line), "", 0] for kind, line in nodes]
    for needs, pods, wanted in asked:
        fitting = sum(line.times(needs) * count for kind in wanted for line, count in bulk.pools.get(kind, {}).items())
        assert bulk.fits(needs, pods, wanted) == min(pods, fitting)
        assert bulk.take(needs, pods, wanted) == take(single, needs, pods, wanted)
        left = sorted((kind, tuple(line)) for kind, line, *_ in single)
        assert left == sorted(
            (kind, line) for kind, pool in bulk.pools.items() for line, count in pool.items() for _ in range(count)
        )
        assert bulk.free_gpus == sum(max(line[0], 0) for _, line in left)


def test_the_fullest_node_is_filled_first() -> None:
    view = make_region("eu", make_node("n0"), make_node("n1", used=6), make_node("n2", used=4))
    capacity = now_free(view)
    (kind,) = capacity.pools
    assert capacity.take(ONE, 3, [kind]) == 0
    assert sorted(free.gpus for free, count in capacity.pools[kind].items() for _ in range(count)) == [0, 3, 8]


def test_what_a_report_says_is_free() -> None:
    nodes = (
        make_node("ready", used=3),
        make_node("sick", allocatable={"gpus": 5}, used=3),
        make_node("cordoned", unavailable="Cordoned"),
        make_node("overfull", used=9),
    )
    capacity = reported(facts_of(make_report(nodes=nodes)))
    assert (capacity.free_gpus, capacity.total_gpus) == (5 + 2, 24)
    assert sum(line.gpus * count for line, count in whole_nodes(make_region("eu", *nodes))[A100].items()) == 32


def shown(attempt: str, *pods: Any) -> Any:
    return make_workload(attempt, *pods)


SEEN: dict[str, tuple[list[Any], int]] = {
    "nothing of it is seen": ([], 3),
    "a pod without a node": ([make_pod("p0", phase="Pending", node=None)], 3),
    "one pod on a node": ([make_pod("p0"), make_pod("p1", phase="Pending", node=None)], 2),
    "a pod that starts on its node": ([make_pod("p0", phase="Pending")], 2),
    "a pod that has ended": ([make_pod("p0", phase="Succeeded", node=None)], 2),
    "all of them": ([make_pod(f"p{at}") for at in range(3)], 0),
    "more than there should be": ([make_pod(f"p{at}") for at in range(4)], 0),
}


@pytest.mark.parametrize("case", SEEN.values(), ids=SEEN.keys())
def test_what_is_held_and_not_seen(case: tuple[list[Any], int]) -> None:
    pods, missing = case
    facts = facts_of(make_report(nodes=make_nodes(3), workloads=[shown("old-a1", *pods)]))
    holding = make_holding(nodes=3)
    assert unseen(facts, [holding]) == ([(holding, missing)] if missing else [])
    view = make_region("eu", *make_nodes(5), shows=[shown("old-a1", *pods)], holdings=[holding])
    assert free_gpus(view) == {"A100-80GB": 40 - 8 * missing}


def test_what_is_held_is_set_aside_on_its_model_and_on_each_where_that_is_not_known() -> None:
    nodes = (
        make_node("h", card=CARDS["h100"]),
        make_node("a"),
        make_node("l", card=CARDS["l4"]),
        make_node("c", card=None, gpus=0),
    )
    assert free_gpus(make_region("eu", *nodes, holdings=[make_holding()])) == {"H100-80GB": 8, "A100-80GB": 0, "L4": 8, None: 0}
    some = make_holding(model=None, gpus=4)
    assert free_gpus(make_region("eu", *nodes, holdings=[some])) == {"H100-80GB": 4, "A100-80GB": 4, "L4": 4, None: 0}
    cores = make_region("eu", *nodes, holdings=[make_holding(model=None, gpus=0, cpu_milli=20_000)])
    lines = [line for pool in now_free(cores).pools.values() for line in pool]
    assert sorted(line.cpu_milli for line in lines) == [16_000, 76_000, 76_000, 76_000]


def test_more_is_held_than_there_is() -> None:
    view = make_region("eu", make_node("n0", used=4), holdings=[make_holding(gpus=8), make_holding("other-a1", gpus=4)])
    assert free_gpus(view) == {"A100-80GB": 0}


def test_a_region_that_never_reported_has_no_room() -> None:
    view = make_region("eu", age=None, holdings=[make_holding()])
    assert now_free(view).pools == {}
    assert earliest_start(view, EIGHT, 1, [A100], NOW) is None


def queue(*ends: tuple[str, int | None, list[str]], nodes: int = 2) -> RegionView:
    """Full nodes; attempts with when they end (minutes from now) and the nodes of their pods, 8 GPUs each."""
    holdings, workloads = [], []
    for name, minutes, places in ends:
        ending = None if minutes is None else timedelta(minutes=minutes)
        holdings.append(make_holding(name, nodes=max(len(places), 1), ends_in=ending))
        if places:
            workloads.append(shown(name, *(make_pod(f"{name}-{at}", node=node) for at, node in enumerate(places))))
    return make_region("eu", *make_nodes(nodes, used=8), shows=workloads, holdings=holdings)


QUEUES: dict[str, tuple[RegionView, Needs, int, int | None]] = {
    "one end is enough": (queue(("a", 40, ["n0"]), ("b", 90, ["n1"])), EIGHT, 1, 40),
    "two are needed": (queue(("a", 40, ["n0"]), ("b", 90, ["n1"])), EIGHT, 2, 90),
    "three would be": (queue(("a", 40, ["n0"]), ("b", 90, ["n1"])), EIGHT, 3, None),
    "an end that nobody knows": (queue(("a", None, ["n0"]), ("b", 90, ["n1"])), EIGHT, 1, 90),
    "none that anybody knows": (queue(("a", None, ["n0"]), ("b", None, ["n1"])), ONE, 1, None),
    "an attempt of two nodes": (queue(("a", 40, ["n0", "n1"])), EIGHT, 2, 40),
    "a node of somebody else's": (queue(("a", 40, [])), EIGHT, 1, None),
    "overdue, but not for long": (queue(("a", -10, ["n0"]), ("b", 90, ["n1"])), EIGHT, 1, 90),
    "overdue by less": (queue(("a", -9, ["n0"]), ("b", 90, ["n1"])), EIGHT, 1, 0),
    "granted and not seen, on a node that the report shows free": (
        make_region(
            "eu",
            make_node("n0", used=1),
            make_node("n1"),
            shows=[shown("short", make_pod("p0", node="n0"))],
            holdings=[make_holding("short", gpus=1, ends_in=timedelta(minutes=5)), make_holding("long", gpus=8)],
        ),
        EIGHT,
        2,
        None,
    ),
    "the same with an end": (
        make_region(
            "eu",
            make_node("n0", used=1),
            make_node("n1"),
            shows=[shown("short", make_pod("p0", node="n0"))],
            holdings=[
                make_holding("short", gpus=1, ends_in=timedelta(minutes=5)),
                make_holding("long", gpus=8, ends_in=timedelta(minutes=60)),
            ],
        ),
        EIGHT,
        2,
        60,
    ),
    "what somebody else holds on the node stays": (
        make_region(
            "eu",
            make_node("n0", used=8),
            shows=[shown("seven", make_pod("p0", node="n0"))],
            holdings=[make_holding("seven", gpus=7, ends_in=timedelta(minutes=5))],
        ),
        EIGHT,
        1,
        None,
    ),
    "a pod that has ended gives nothing back": (
        make_region(
            "eu",
            make_node("n0", used=8),
            shows=[shown("done", make_pod("p0", phase="Succeeded", node="n0"))],
            holdings=[make_holding("done", ends_in=timedelta(minutes=5))],
        ),
        EIGHT,
        1,
        None,
    ),
}


@pytest.mark.parametrize("case", QUEUES.values(), ids=QUEUES.keys())
def test_the_earliest_start(case: tuple[RegionView, Needs, int, int | None]) -> None:
    view, needs, nodes, minutes = case
    expected = None if minutes is None else NOW + timedelta(minutes=minutes)
    assert earliest_start(view, needs, nodes, [A100], NOW) == expected


@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(-20, 60), st.integers(0, 4)), max_size=8), st.integers(1, 5))
def test_the_earliest_start_against_trying_every_end(ends: list[tuple[int, int]], nodes: int) -> None:
    view = queue(*((f"a{at}", minutes, [f"n{node}"]) for at, (minutes, node) in enumerate(ends) if at == node), nodes=5)
    known = sorted(NOW + timedelta(minutes=minutes) for at, (minutes, node) in enumerate(ends) if at == node)
    known = [end for end in known if end > NOW - OVERDUE]
    expected = max(known[nodes - 1], NOW) if nodes <= len(known) else None
    assert earliest_start(view, EIGHT, nodes, [A100], NOW) == expected


def test_declared_pools_stand_in_for_a_report() -> None:
    pools = [
        {
            "name": "p",
            "nodes": 2,
            "gpu_model": "NVIDIA-A100-SXM4-80GB",
            "gpus": 8,
            "cpu": "96",
            "memory": "1Ti",
            "gpu_memory": "80Gi",
        },
        {"name": "q", "nodes": 0, "gpu_model": "H100", "gpus": 8, "cpu": "96", "memory": "1Ti"},
        {"name": "c", "nodes": 3, "cpu": "500m", "memory": "1Gi"},
    ]
    nodes = whole_nodes(make_region("eu", age=None, node_pools=pools))
    said = {kind.gpu_model: [(line.gpus, line.cpu_milli, count) for line, count in pool.items()] for kind, pool in nodes.items()}
    assert said == {"A100-80GB": [(8, 96_000, 2)], None: [(0, 500, 3)]}
    assert {kind.vram_bytes for kind in nodes} == {80 * 2**30, None}
    assert whole_nodes(make_region("eu", make_node(), node_pools=pools)).keys() == {A100}
