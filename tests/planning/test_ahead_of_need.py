"""What is staged before a GPU is free: for whom, where to, and not beyond the budget."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings

from reconciler.model.policy import Policy
from reconciler.model.quantity import whole
from reconciler.planning.ahead_of_need import Wish, ahead_of_need
from reconciler.planning.decisions import Place, Wait
from reconciler.planning.plan import plan
from reconciler.planning.snapshot import Arriving, JobView, Snapshot
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
from tests.examples import examples
from tests.planning.worlds import numbers, snapshot_of

GB = 10**9


def busy(name: str, minutes: float, **fields: Any) -> Any:
    """A region with a store, whose only cards are taken for so long."""
    shows = [make_workload(f"old-{name}-a1", make_pod(node="n0"))]
    holdings = [make_holding(f"old-{name}-a1", ends_in=timedelta(minutes=minutes))]
    store = {"url": f"s3://store-{name}/"}
    return make_region(name, make_node("n0", used=8), shows=shows, holdings=holdings, **{"object_store": store, **fields})


def job(name: str, **fields: Any) -> JobView:
    return make_job(name, dataset=fields.pop("dataset", {"name": "corpus-a"}), **fields)


TWO = (job("a"), job("b"))


def world(*jobs: JobView, regions: Sequence[Any] = (), usd: float | None = 0.01, rules: Any = None, **more: Any) -> Snapshot:
    """us is free in 30 minutes, 200 GB would be there in 20; eu has them and is free in an hour."""
    fields: dict[str, Any] = {"datasets": [make_dataset("corpus-a", "eu", size_gb=200)], **more}
    return make_snapshot(
        *(regions or (busy("eu", 60), busy("us", 30))),
        jobs=jobs,
        links=[make_link("eu", "us", 4 / 3, usd)],
        policy=Policy.model_validate({"thresholds": WHOLE_LINKS, "ahead_of_need": rules or {}}),
        **fields,
    )


def wishes(snapshot: Snapshot, **spent: Any) -> tuple[Wish, ...]:
    return ahead_of_need(plan(snapshot, NOW), snapshot, **spent)


def told(found: tuple[Wish, ...]) -> list[tuple[str, str, str, list[str], int]]:
    return [(one.subject, one.source.region, one.target, [key.job_id for key in one.jobs], one.priority) for one in found]


def test_two_jobs_will_want_it_so_it_is_brought_once() -> None:
    found = wishes(world(*TWO, job("c", priority=80)))
    assert told(found) == [("corpus-a@", "eu", "us", ["a", "b", "c"], 80)]
    (wish,) = found
    assert (wish.source.uri, wish.source.bytes, wish.source.price_usd) == ("s3://data-eu/corpus-a/", 200 * GB, 2.0)


NONE: dict[str, Snapshot] = {
    "one job alone": world(job("a")),
    "the region that has it is free first": world(*TWO, regions=(busy("eu", 29), busy("us", 30))),
    "it is free before the data would be there elsewhere": world(*TWO, regions=(busy("eu", 19), busy("us", 1))),
    "nobody knows the price": world(*TWO, usd=None),
    "half an hour is not worth the price": world(*TWO, usd=0.1),
    "a region without a store": world(*TWO, regions=(busy("eu", 60), busy("us", 30, object_store=None))),
    "it is on its way": world(*TWO, arriving={"corpus-a@": {"us": Arriving("eu", "s3://data-eu/corpus-a/", 10**11, 600.0)}}),
    "it was staged": world(*TWO, copies={"corpus-a@": {"us": "s3://store-us/staged/corpus-a@/"}}),
    "it may not go there": world(*TWO, datasets=[make_dataset("corpus-a", "eu", size_gb=200, residency=["gdpr"])]),
    "nobody knows when anything is free": world(
        *TWO, regions=[replace(one, holdings=()) for one in (busy("eu", 60), busy("us", 30))]
    ),
    "a larger number is asked for": world(*TWO, rules={"jobs": 3}),
    "more than may be under way": world(*TWO, rules={"size": "199G"}),
    "dearer than a day may be": world(*TWO, rules={"usd_per_day": 1.99}),
    "switched off": world(*TWO, rules={"size": "0"}),
    "without data": world(make_job("a"), make_job("b")),
}


@pytest.mark.parametrize("snapshot", NONE.values(), ids=NONE.keys())
def test_no_wish(snapshot: Snapshot) -> None:
    assert wishes(snapshot) == ()


def test_the_budget_counts_what_is_under_way_and_what_was_spent() -> None:
    snapshot = world(*TWO, rules={"size": "300G", "usd_per_day": 5.0})
    assert len(wishes(snapshot, bytes_under_way=100 * GB, usd_spent=3.0)) == 1
    assert wishes(snapshot, bytes_under_way=100 * GB + 1) == ()
    assert wishes(snapshot, usd_spent=3.01) == ()


def test_the_most_wanted_comes_first_and_a_smaller_one_may_fill_what_is_left() -> None:
    names = ("corpus-a", "corpus-b", "corpus-c")
    data = [make_dataset(name, "eu", size_gb=size) for name, size in zip(names, (200, 190, 10), strict=True)]
    jobs = [
        job(f"{name[-1]}{at}", dataset={"name": name}, priority=50 + at)
        for name, most in zip(names, (2, 3, 2), strict=True)
        for at in range(most)
    ]
    both = world(*jobs, datasets=data, rules={"size": "1T"})
    assert [(one.subject, len(one.jobs)) for one in wishes(both)] == [("corpus-b@", 3), ("corpus-a@", 2), ("corpus-c@", 2)]
    some = world(*jobs, datasets=data, rules={"size": "200G"})
    assert [one.subject for one in wishes(some)] == ["corpus-b@", "corpus-c@"]


def test_what_a_placement_brings_is_not_wished_for() -> None:
    """us has room for one of three; it brings the data, so nobody else has to."""
    us = busy("us", 30)
    roomy = make_region(
        "us",
        make_node("n0", used=8),
        make_node("n1"),
        holdings=us.holdings,
        object_store={"url": "s3://store-us/"},
        shows=[make_workload("old-us-a1", make_pod(node="n0"))],
    )
    snapshot = world(*TWO, job("c"), regions=(busy("eu", 300), roomy))
    decisions = plan(snapshot, NOW)
    (placed,) = [one for one in decisions if isinstance(one, Place)]
    assert placed.chosen.sources[0] is not None
    waiting = [one for one in decisions if isinstance(one, Wait)]
    assert [one.expected.region for one in waiting if one.expected is not None and one.expected.sources[0]] == ["us", "us"]
    assert ahead_of_need(decisions, snapshot) == ()
    assert len(ahead_of_need(waiting, snapshot)) == 1


@settings(max_examples=examples(150), deadline=None, derandomize=True)
@given(numbers)
def test_in_any_world_the_budget_holds_and_what_is_wished_for_is_missing_and_allowed(number: int) -> None:
    snapshot = snapshot_of(number)
    rules = snapshot.policy.ahead_of_need
    decisions = plan(snapshot, NOW)
    found = ahead_of_need(decisions, snapshot)
    assert sum(one.source.bytes for one in found) <= whole(rules.size)
    assert sum(one.source.price_usd or 0.0 for one in found) <= rules.usd_per_day
    for one in found:
        dataset, region = snapshot.datasets[one.source.dataset], snapshot.regions[one.target].region
        assert one.target not in {copy.region for copy in dataset.replicas} | snapshot.copies.get(one.subject, {}).keys()
        assert set(dataset.residency) <= set(region.compliance)
        assert len(one.jobs) >= rules.jobs
    assert ahead_of_need(plan(replace(snapshot, pending=snapshot.pending[::-1]), NOW), snapshot) == found
