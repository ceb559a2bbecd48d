"""Random small worlds by number: few regions, few nodes, few jobs, and amounts that often meet at their edges.

A number always gives the same world; a smaller last digit gives fewer jobs, so that hypothesis ends at a small one. Where
everything is forbidden nothing is decided: so restrictions are rare, and half of the worlds are calm, with next to none of them.
"""

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st

from reconciler.model.fleet import Dataset, Link, Team
from reconciler.model.policy import Policy
from reconciler.model.reasons import Why, because
from reconciler.model.report import NodeReport, WorkloadReport
from reconciler.planning.measured import Measured
from reconciler.planning.snapshot import Arriving, Holding, JobView, RegionView, Snapshot
from tests.builders import (
    CARDS,
    GIB,
    TEAMS,
    WHOLE_LINKS,
    make_dataset,
    make_holding,
    make_job,
    make_link,
    make_node,
    make_pod,
    make_region,
    make_snapshot,
    make_workload,
)
from tests.planning.reference_rooms import free_nodes, room, take

REGIONS = ("eu", "sa", "us")
DATASETS = ("corpus-a", "corpus-b")
MODELS = ("A100", "A100-80GB", "H100", "L4")
PREFERENCES: tuple[Any, ...] = (
    None,
    "A100",
    "A100-80GB",
    "H100",
    "L4",
    ["H100", "A100"],
    ["A100-80GB", "A100-40GB"],
    ["B999", "L4"],
)

numbers = st.integers(min_value=0, max_value=10**9)


class _Dice(random.Random):
    """Random choices, of which the first stands for what is usual: a calm world takes no other."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.calm = self.random() < 0.5

    def usual(self, *values: Any) -> Any:
        """The first in a calm world, any of them else."""
        return values[0] if self.calm else self.choice(values)

    def rarely(self, value: Any, otherwise: Any, part: float = 0.07) -> Any:
        """`value` in so large a part of all cases, and never in a calm world."""
        return value if self.random() < part and not self.calm else otherwise


def snapshot_of(number: int, *, with_data: bool = True) -> Snapshot:
    """The world of that number."""
    rng = _Dice(number)
    names = REGIONS[: rng.choice((1, 2, 3, 3, 3))]
    weights = rng.choice(({}, {}, {"bandwidth": 0.5, "latency": 0.25}, {"start_time": 1.0, "idle_gpus": 0.0}))
    return make_snapshot(
        *(_region(rng, name) for name in names),
        jobs=[_job(rng, index, with_data) for index in range(1 + number % 10)],
        links=_links(rng),
        datasets=[_dataset(rng, name) for name in DATASETS],
        teams=[_team(rng, name) for name in TEAMS if rng.random() < 0.7],
        policy=Policy.model_validate({"weights": weights, "thresholds": rng.choice((WHOLE_LINKS, {}))}),
        used={name: rng.randrange(20) for name in TEAMS if rng.random() < 0.5},
        **(_network(rng) if with_data else {}),
    )


def _network(rng: _Dice) -> dict[str, Any]:
    """What was measured of links, what is held and queued on them, and which copies were staged or are on their way."""
    pairs = [(one, other) for one in REGIONS for other in REGIONS if one != other]
    rates, ages, rtts = rng.usual((1e8, 2e9), (0.0, 1e8, 1.25e8, 2e9)), (0.0, 3600.0, 90_000.0), (None, 5.0)
    return {
        "measured": {
            pair: Measured(rng.choice(rates), rng.choice(ages), 3, rng.choice(rtts)) for pair in pairs if rng.random() < 0.3
        },
        "held": {pair: rng.usual(10_000_000, 100_000_000, 10**10) for pair in pairs if rng.random() < 0.3},
        "queued": {pair: rng.choice((0, 10**11)) for pair in pairs if rng.random() < 0.3},
        "full": {pair: because(Why.CORDONED, region=pair[0]) for pair in pairs if rng.rarely(value=True, otherwise=False)},
        "copies": {f"{name}@": {rng.choice(REGIONS): f"s3://staged/{name}/"} for name in DATASETS if rng.random() < 0.2},
        "arriving": {
            f"{name}@": {rng.choice(REGIONS): Arriving("eu", f"s3://data-eu/{name}/", 10**11, rng.choice((0.0, 1000.0, 5000.0)))}
            for name in DATASETS
            if rng.random() < 0.2
        },
    }


def _node(rng: _Dice, name: str) -> NodeReport:
    card = rng.choice(
        [CARDS["a100"], CARDS["a100"], CARDS["a100"], *rng.usual([], [CARDS["a100_40"], CARDS["l4"], None]), CARDS["h100"]]
    )
    gpus = 0 if card is None else rng.usual(8, 2, 4, 8)
    fields: dict[str, Any] = {"driver": None, "vram_bytes": None}
    if card is not None:
        fields = {"driver": rng.usual("550.90.07", "535.183.06", None)}
        fields |= rng.rarely({"vram_bytes": None}, {"vram_bytes": rng.usual(80, 40) * GIB}, 0.3)
    return make_node(
        name,
        card=card,
        gpus=gpus,
        used=rng.choice((0, 0, gpus // 2, gpus, rng.randint(0, gpus), rng.usual(0, gpus + 1))),
        taken={"cpu_milli": rng.choice((0, 0, 30_000)), "pods": rng.rarely(110, 0)},
        taints=rng.usual((), (), (), ("spot",), ("nvidia.com/gpu",)),
        unavailable=rng.rarely("Cordoned", None, 0.1),
        rdma=rng.usual(False, True),
        **fields,
    )


def _held(rng: _Dice, index: int, nodes: list[NodeReport]) -> tuple[Holding, WorkloadReport | None]:
    count, minutes = rng.choice((1, 1, 2)), rng.choice((None, -11, -5, 0, 20, 40, 90))
    ends = None if minutes is None else timedelta(minutes=minutes)
    model = rng.choice((None, "A100-80GB", "H100-80GB"))
    held = make_holding(f"old{index}-a1", gpus=rng.choice((0, 1, 4, 8)), nodes=count, model=model, ends_in=ends, cpu_milli=1000)
    if rng.random() < 0.3:
        return held, None
    places = [None, *(node.name for node in nodes)]
    return held, make_workload(held.attempt, *(make_pod(f"p{at}", node=rng.choice(places)) for at in range(count)))


def _region(rng: _Dice, name: str) -> RegionView:
    nodes = [_node(rng, f"n{index}") for index in range(rng.choice((1, 2, 3, 4, rng.usual(2, 0))))]
    held = [_held(rng, index, nodes) for index in range(rng.choice((0, 0, 1, 2, 3)))]
    pool = {"name": "p", "nodes": rng.choice((0, 2)), "cpu": "96", "memory": "960Gi", "gpu_model": rng.choice(MODELS), "gpus": 8}
    rdma = {"resources": rng.choice(({}, {"rdma/hca": "1"}))}
    view = make_region(
        name,
        *nodes,
        shows=[workload for _, workload in held if workload is not None],
        namespaces=rng.rarely(TEAMS[:1], TEAMS),
        holdings=[holding for holding, _ in held],
        age=rng.usual(1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 30.0, 30.5, None),
        closed=rng.rarely(because(Why.BRANCH_REFUSED, branch=f"region/{name}", message="protected"), None),
        cordoned=rng.rarely(value=True, otherwise=False),
        drain_by=rng.rarely(value="2026-05-01T13:00:00Z", otherwise=None),
        node_pools=rng.choice(((), (pool,))),
        prices={model: rng.choice((0.0, 1.0, 2.0, 3.5)) for model in MODELS if rng.random() < 0.7},
        object_store=rng.choice((None, {"url": f"s3://store-{name}/reconciler"})),
        compliance=[tag for tag in ("gdpr", "hipaa") if rng.random() < 0.8],
        profile={"rdma": rng.usual(None, rdma), "tolerations": rng.usual({"spot": {"key": "spot"}}, {})},
    )
    return replace(view, holdings=tuple(_possible(view)))


def _possible(view: RegionView) -> Iterator[Holding]:
    """Holdings for which there is room beside the others: nobody was granted more than there is."""
    free = free_nodes(view, (), set())
    for holding in view.holdings:
        missing = holding.nodes - (view.facts.pods_seen.get(holding.attempt, 0) if view.facts is not None else 0)
        models = {node[0].gpu_model for node in free} if holding.gpu_model is None else {holding.gpu_model}
        groups = [[node[0] for node in free if node[0].gpu_model == model] for model in models]
        if missing <= 0 or all(room(free, holding.needs, group) >= missing for group in groups):
            for group in groups:
                take(free, holding.needs, missing, group)
            yield holding


def _links(rng: _Dice) -> list[Link]:
    pairs = [(one, other) for one in REGIONS for other in REGIONS if one != other and rng.random() < 0.8]
    rates, prices = (None, 0, 1, 1, 10, 100), (None, 0.0, 0.02, 0.02)
    return [
        make_link(*pair, rng.usual(rng.choice((1, 1, 10)), *rates), rng.choice(prices), rtt_ms=rng.choice((None, 0, 100)))
        for pair in pairs
    ]


def _dataset(rng: _Dice, name: str) -> Dataset:
    homes = rng.sample(REGIONS, rng.choice((1, 1, 2)))
    size = rng.usual(500.0, None, 0, 4.999, 5.0, 120.0)
    return make_dataset(name, *homes, size_gb=size, residency=rng.rarely(("gdpr",), ()))


def _team(rng: _Dice, name: str) -> Team:
    rights = {"regions": rng.rarely(("eu", "us"), None), "compliance": rng.rarely(("hipaa",), ())}
    return Team.model_validate({"name": name, "weight": rng.choice((1.0, 2.0, 0.5)), **rights})


def _job(rng: _Dice, index: int, with_data: bool) -> JobView:
    fields: dict[str, Any] = {
        "allowed_regions": rng.rarely(rng.choice((["eu"], ["eu", "us"], ["mars"], ["mars", "sa"])), None, 0.15),
        "denied_regions": rng.rarely(["eu"], []),
        "compliance": rng.rarely(["gdpr"], []),
        "tolerations": rng.rarely(["spot"], [], 0.15),
        "network": rng.usual(None, None, None, "tcp", "rdma"),
        "strategy": rng.choice((None, None, None, "cost", "soonest", "utilisation")),
        "checkpoint_path": rng.rarely(f"s3://store-{rng.choice(REGIONS)}/checkpoints/", None),
        "deadline": rng.choice((None, None, None, "2026-05-01T12:30:00Z", "2026-05-02T12:00:00Z")),
    }
    if with_data and rng.random() < 0.6:
        fields["dataset"] = [{"name": name} for name in DATASETS if rng.random() < 0.6] or None
    card = {"memory": rng.rarely(rng.choice(("40Gi", "80Gi")), None, 0.2), "driver": rng.rarely(">=550", None, 0.1)}
    return make_job(
        f"job-{index}",
        team=rng.choice(TEAMS),
        minutes_ago=rng.randint(0, 3),
        pin=rng.rarely(rng.choice((*REGIONS, "mars")), None, 0.1),
        veto=rng.rarely(["us"], []),
        avoid=rng.rarely(["eu"], [], 0.2),
        run_seconds=rng.choice((None, 0, 600, 36_000)),
        gpus=rng.choice((0, 1, 2, 4, 8, 8)),
        model=rng.usual(rng.choice((None, "A100", ["H100", "A100"])), *PREFERENCES),
        nodes=rng.usual(1, 1, 1, 1, 2, 3),
        gpu={name: value for name, value in card.items() if value is not None},
        priority=rng.choice(("low", "normal", "normal", "critical")),
        **{name: value for name, value in fields.items() if value is not None},
    )
