"""Copying against waiting, to the second and to the cent: where both are equal, and just beside."""

from datetime import timedelta
from typing import Any

import pytest

from reconciler.model.policy import Policy
from reconciler.planning.decisions import Decision, Place, Wait
from reconciler.planning.plan import plan
from tests.builders import (
    NOW,
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

HOUR_WORTH = 9.375
"""US dollars that an hour sooner is worth here; half an hour is worth 4.6875, without a remainder."""


def decide(
    *, free_in: float = 40, gbit: float = 1.0, usd: float | None = 0.0625, size_gb: float = 75, more: Any = (), **job: Any
) -> Decision:
    """75 GB come to us in 10 minutes, for 4.6875 USD; eu has them, and is free in 40 minutes."""
    held = make_workload("old-a1", make_pod(node="n0"))
    eu = make_region("eu", make_node(used=8), shows=[held], holdings=[make_holding(ends_in=timedelta(minutes=free_in))])
    (decision,) = plan(
        make_snapshot(
            eu,
            make_region("us", make_node()),
            *more,
            jobs=[make_job(dataset={"name": "corpus-a"}, **job)],
            links=[make_link("eu", "us", gbit, usd), make_link("eu", "sa", 10, 0.0)],
            datasets=[make_dataset(size_gb=size_gb)],
            policy=Policy.model_validate({"thresholds": {"copy_urgency_usd_per_hour": HOUR_WORTH, **WHOLE_LINKS}}),
        ),
        NOW,
    )
    return decision


COPIES, WAITS = Place, Wait

EDGES: dict[str, tuple[dict[str, Any], type[Decision]]] = {
    "worth just what it costs": ({}, COPIES),
    "a second less time is won": ({"free_in": 40 - 1 / 60}, WAITS),
    "a little dearer": ({"usd": 0.0626}, WAITS),
    "less urgent": ({"priority": 49}, WAITS),
    "more urgent, and dearer": ({"priority": 100, "usd": 0.125}, COPIES),
    "not urgent at all, and free": ({"priority": 0, "usd": 0.0}, COPIES),
    "not urgent at all": ({"priority": 0}, WAITS),
    "of unknown price": ({"usd": None}, WAITS),
    "free, and as late": ({"free_in": 10, "usd": 0.0}, WAITS),
    "free, and a second sooner": ({"free_in": 10 + 1 / 60, "usd": 0.0}, COPIES),
    "data too small to pin, however dear": ({"size_gb": 4.999, "usd": 1000.0}, COPIES),
    "data just large enough, and dear": ({"size_gb": 5.0, "usd": 1000.0}, WAITS),
    # A deadline that copying meets and waiting does not is worth any price.
    "a deadline that waiting just meets": ({"usd": None, "run_seconds": 600, "deadline": "2026-05-01T12:50:00Z"}, WAITS),
    "a deadline that waiting just misses": ({"usd": None, "run_seconds": 601, "deadline": "2026-05-01T12:50:00Z"}, COPIES),
    "without a run time the start must meet it": ({"usd": None, "deadline": "2026-05-01T12:39:59Z"}, COPIES),
    "copying just meets it": ({"run_seconds": 600, "deadline": "2026-05-01T12:20:00Z"}, COPIES),
    "neither meets it, and both are as soon": ({"free_in": 10, "usd": 0.0, "deadline": "2026-05-01T12:05:00Z"}, WAITS),
    "neither meets it, and copying is sooner": ({"usd": 1000.0, "run_seconds": 601, "deadline": "2026-05-01T12:20:00Z"}, COPIES),
}


@pytest.mark.parametrize("case", EDGES.values(), ids=EDGES.keys())
def test_an_edge(case: tuple[dict[str, Any], type[Decision]]) -> None:
    fields, kind = case
    assert type(decide(**fields)) is kind


def test_what_is_said_of_the_free_region_that_lost() -> None:
    decision = decide(usd=0.0626)
    assert decision.reason.text == (
        "eu has the data and is expected to be free at 2026-05-01T12:40:00Z; copying 69.8 GiB to us costs 4.70 USD for 0.5 h"
    )
    assert decision.refused["us"] == decision.reason


def test_a_region_that_is_near_and_free_is_taken_where_the_best_is_not_worth_its_copy() -> None:
    """sa has the same cards at a higher price, a quick link, and scores less."""
    sa = make_region("sa", make_node("n0"), make_node("n1", used=8))
    decision = decide(usd=1.0, more=[sa])
    assert isinstance(decision, Place)
    assert decision.chosen.region == "sa"
    assert decision.runners_up == ()
    assert {region: reason.code for region, reason in decision.refused.items()} == {"eu": "NotEnoughFree", "us": "WaitNotCopy"}


def test_no_more_than_four_runners_up_where_all_must_copy() -> None:
    names = [f"r{at}" for at in range(7)]
    snapshot = make_snapshot(
        *(make_region(name, make_node()) for name in names),
        jobs=[make_job(dataset={"name": "corpus-a"})],
        links=[make_link("eu", name, 10, 0.0) for name in names],
        datasets=[make_dataset()],
    )
    (decision,) = plan(snapshot, NOW)
    assert isinstance(decision, Place)
    assert [decision.chosen.region, *(one.region for one in decision.runners_up)] == names[:5]


def test_jobs_placed_in_this_pass_are_waited_for_too() -> None:
    """eu is free by its report; what is placed there first lasts a day, so nobody waits for it because of what ends soon."""
    held = make_workload("old-a1", make_pod(node="n1"))
    eu = make_region(
        "eu",
        make_node("n0"),
        make_node("n1", used=8),
        shows=[held],
        holdings=[make_holding(gpus=1, ends_in=timedelta(minutes=5))],
    )
    first = make_job("first", minutes_ago=9, run_seconds=86_400, allowed_regions=["eu"])
    second = make_job("second", minutes_ago=1, dataset={"name": "corpus-a"})
    snapshot = make_snapshot(
        eu,
        make_region("us", make_node()),
        jobs=[first, second],
        links=[make_link("eu", "us", 1, 0.0)],
        datasets=[make_dataset()],
    )
    regions = [decision.chosen.region for decision in plan(snapshot, NOW) if isinstance(decision, Place)]
    assert regions == ["eu", "us"]
