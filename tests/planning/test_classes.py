"""Equal jobs are looked at once; jobs that differ in anything that a decision reads are not taken for equal."""

from collections.abc import Hashable
from datetime import timedelta
from typing import Any

import pytest

from reconciler.model.fleet import Team
from reconciler.model.policy import Policy
from reconciler.planning.capacity import whole_nodes
from reconciler.planning.classes import Classifier, JobClass
from reconciler.planning.decisions import Decision, Place
from reconciler.planning.plan import plan
from reconciler.planning.snapshot import JobView, Snapshot
from tests.builders import (
    CARDS,
    GIB,
    NOW,
    WHOLE_LINKS,
    make_dataset,
    make_holding,
    make_job,
    make_link,
    make_node,
    make_nodes,
    make_pod,
    make_region,
    make_snapshot,
    make_workload,
)

RDMA = {"resources": {"rdma/hca": "1"}}
WEIGHTS = {"idle_gpus": 0, "data_affinity": 0.5, "cost": 1.0, "start_time": 0.5, "rdma": 0.5}


def world(*jobs: JobView) -> Snapshot:
    """Room for everybody; two regions that differ in all that a job can ask for, and a third that is full."""
    busy = [make_workload("old-a1", make_pod(node="n0"))]
    images = {"reg.example.com/team/large:1": {"eu": 3000.0, "us": 0.0, "ap": 0.0}}
    return make_snapshot(
        make_region("ap", make_node(used=8), shows=busy, holdings=[make_holding(ends_in=timedelta(minutes=40))]),
        make_region(
            "eu",
            *make_nodes(9),
            *make_nodes(9, "t", taints=["spot"]),
            prices={"A100": 1.0},
            profile={"queues": {"research": "r"}, "tolerations": {"spot": {"key": "spot"}}},
            overlay_allowed=["containers"],
        ),
        make_region(
            "us",
            *make_nodes(9, rdma=True, driver="560.1"),
            *make_nodes(9, "h", card=CARDS["h100"], rdma=True, vram_bytes=96 * GIB),
            prices={"A100": 1.5, "H100": 4.0},
            compliance=["gdpr"],
            profile={"rdma": RDMA, "tolerations": {"spot": {"key": "spot"}}},
        ),
        jobs=jobs,
        links=[make_link("ap", "eu", 1, 1.0), make_link("ap", "us", 10, 0.05)],
        datasets=[make_dataset("corpus-a", "ap", size_gb=200), make_dataset("corpus-b", "us", size_gb=200)],
        teams=[Team(name="team-b", regions=("us",))],
        policy=Policy.model_validate({"weights": WEIGHTS, "thresholds": WHOLE_LINKS}),
        image_seconds=images,
    )


BASE: dict[str, Any] = {"gpus": 2, "model": None, "run_seconds": 600, "dataset": {"name": "corpus-a"}}

OTHERS: dict[str, dict[str, Any]] = {
    "team": {"team": "team-b"},
    "pin": {"pin": "us"},
    "veto": {"veto": ["us"]},
    "avoid": {"avoid": ["us"]},
    "run time": {"run_seconds": 360_000},
    "no run time": {"run_seconds": None},
    "GPUs": {"gpus": 4},
    "model": {"model": "H100"},
    "VRAM": {"gpu": {"memory": "90Gi"}},
    "driver": {"gpu": {"driver": ">=560"}},
    "nodes": {"nodes": 2},
    "nodes by tcp": {"nodes": 2, "network": "tcp"},
    "nodes on their own": {"nodes": 2, "communication_mode": "none"},
    "resources": {"resources": {"cpu": "95"}},
    "network": {"network": "rdma"},
    "dataset": {"dataset": {"name": "corpus-b"}},
    "no dataset": {"dataset": None},
    "size of the dataset": {"dataset": {"name": "corpus-a", "size_gb": 2}},
    "allowed regions": {"allowed_regions": ["eu"]},
    "denied regions": {"denied_regions": ["us"]},
    "compliance": {"compliance": ["gdpr"]},
    "tolerations": {"tolerations": ["spot"]},
    "queue": {"queue": "research"},
    "strategy": {"strategy": "soonest"},
    "priority": {"priority": "critical"},
    "an image that is long to fetch": {"image": "reg.example.com/team/large:1"},
    "deadline": {"deadline": "2026-05-01T12:30:00Z"},
    "overlay": {"pod_overlay": {"containers": [{"resources": {"requests": {"cpu": "3"}}}]}},
}


def job(name: str, minutes_ago: int, **changes: Any) -> JobView:
    fields = {word: value for word, value in {**BASE, **changes}.items() if word != "dataset" or value is not None}
    return make_job(name, minutes_ago=minutes_ago, **fields)


def class_of(snapshot: Snapshot, *jobs: JobView) -> JobClass:
    """What holds for the last of the jobs, the others having been looked at before."""
    classifier = Classifier(snapshot, {name: whole_nodes(view) for name, view in snapshot.regions.items()}, NOW)
    classes: dict[Hashable, JobClass] = {}
    for one in jobs:
        classes.setdefault(classifier.key(one), classifier.classify(one))
    return classes[classifier.key(jobs[-1])]


def of(name: str, decisions: tuple[Decision, ...]) -> Decision:
    return next(decision for decision in decisions if decision.key.job_id == name)


@pytest.mark.parametrize("changes", OTHERS.values(), ids=OTHERS.keys())
def test_a_class_is_the_same_beside_a_job_that_differs_in_one_thing(changes: dict[str, Any]) -> None:
    first, second = job("a", 9), job("b", 5, **changes)
    snapshot = world(first, second)
    assert class_of(snapshot, first, second) == class_of(snapshot, second)
    assert class_of(snapshot, second, first) == class_of(snapshot, first)


def test_the_world_tells_most_of_them_apart() -> None:
    """A table of jobs that all get the same would prove nothing."""
    seen = set()
    for changes in OTHERS.values():
        decision = of("b", plan(world(job("b", 5, **changes)), NOW))
        facts: Any = (decision.reason.code, sorted((region, reason.code) for region, reason in decision.refused.items()))
        if isinstance(decision, Place):
            chosen = decision.chosen
            facts = (*facts, chosen.region, chosen.needs, chosen.terms, chosen.price_usd, chosen.gpu_products, decision.strategy)
        seen.add(repr(facts))
    assert len(seen) >= 2 * len(OTHERS) // 3
