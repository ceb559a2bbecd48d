"""Ways by which data comes: over links as they are measured and held, from staged copies, behind what is under way already."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from reconciler.model.fleet import Dataset, Replica
from reconciler.model.policy import Policy
from reconciler.model.reasons import Why, because
from reconciler.model.region import Region
from reconciler.planning.decisions import Decision, Impossible, Place, Wait
from reconciler.planning.filters import Refusal
from reconciler.planning.haste import Haste
from reconciler.planning.kept import addresses
from reconciler.planning.measured import Measured
from reconciler.planning.plan import plan
from reconciler.planning.snapshot import Arriving
from reconciler.planning.transfer import Move, moving
from tests.builders import (
    IMAGE,
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

URGENT = Haste(200.0)
GB = 10**9
MB = 10**6
VOLUME = "volume:///datasets/corpus-a/"
WEST, SOUTH = ("eu", "us"), ("sa", "us")
FULL = because(Why.LINK_FULL, source="eu", target="us", since="", held_mb=0, usable_mb=0)
CORPUS = make_dataset("corpus-a", "eu", size_gb=500)


def seen(mb: float, hours: float = 0.0, rtt: float | None = None) -> Measured:
    return Measured(mb * MB, hours * 3600.0, 3, rtt)


def to_us(
    *, haste: Haste = URGENT, regions: Any = (), dataset: Any = CORPUS, links: Any = None, **network: Any
) -> Move | Refusal:
    """What bringing corpus-a to us takes, by default policy: eu has it, 10 Gbit/s away by word of mouth, sa is nearer."""
    made = links or [make_link("eu", "us", 10, 0.02, rtt_ms=80), make_link("sa", "us", 8, 0.05, rtt_ms=30)]
    snapshot = make_snapshot(*regions, datasets=[dataset], links=made, policy=Policy(), **network)
    return moving(make_job(dataset={"name": "corpus-a"}), Region(name="us"), snapshot, addresses(snapshot.datasets), haste)


MOVES: dict[str, tuple[dict[str, Any], tuple[str, float, float | None, float | None]]] = {
    # from, seconds, price, rtt
    "declared only: 80 % of half of it": ({}, ("eu", 1000.0, 10.0, 80.0)),
    "measured: 80 % of it": ({"measured": {WEST: seen(1000, rtt=95.0)}}, ("eu", 625.0, 10.0, 95.0)),
    "measured by a connection that tells no round trip": ({"measured": {WEST: seen(1000)}}, ("eu", 625.0, 10.0, 80.0)),
    "measured long ago": ({"measured": {WEST: seen(1000, 7)}}, ("eu", 1250.0, 10.0, 80.0)),
    "others hold half, for all that is known for ever": (
        {"measured": {WEST: seen(1000)}, "held": {WEST: 400 * MB}},
        ("eu", 1250.0, 10.0, 80.0),
    ),
    "others hold half, and are soon done": (
        {"measured": {WEST: seen(1000)}, "held": {WEST: 400 * MB}, "queued": {WEST: 80 * GB}},
        ("eu", 725.0, 10.0, 80.0),
    ),
    "others hold all, and their end is known": (
        {"measured": {WEST: seen(1000)}, "held": {WEST: 800 * MB}, "queued": {WEST: 800 * GB}},
        ("eu", 1625.0, 10.0, 80.0),
    ),
    "a staged copy nearer by is a source": (
        {"copies": {"corpus-a@": {"sa": "s3://store-sa/staged/corpus-a@/"}}, "measured": {SOUTH: seen(1000)}},
        ("sa", 625.0, 25.0, 30.0),
    ),
    "but not a dearer one without haste": (
        {"copies": {"corpus-a@": {"sa": "s3://x/"}}, "measured": {SOUTH: seen(1000)}, "haste": Haste(0.0)},
        ("eu", 1000.0, 10.0, 80.0),
    ),
    "where the deadline can be met only so": (
        {"copies": {"corpus-a@": {"sa": "s3://x/"}}, "measured": {SOUTH: seen(1000)}, "haste": Haste(0.0, 999.0)},
        ("sa", 625.0, 25.0, 30.0),
    ),
    "where neither meets it, the sooner": (
        {"copies": {"corpus-a@": {"sa": "s3://x/"}}, "measured": {SOUTH: seen(1000)}, "haste": Haste(0.0, 1.0)},
        ("sa", 625.0, 25.0, 30.0),
    ),
    "a full link is passed over": (
        {"copies": {"corpus-a@": {"sa": "s3://x/"}}, "full": {WEST: FULL}},
        ("sa", 1250.0, 25.0, 30.0),
    ),
    "one that carries nothing at present as well": (
        {"copies": {"corpus-a@": {"sa": "s3://x/"}}, "measured": {WEST: seen(0)}},
        ("sa", 1250.0, 25.0, 30.0),
    ),
    "what is on its way is waited for, and paid already": (
        {"arriving": {"corpus-a@": {"us": Arriving("sa", "s3://x/", 100 * GB, 300.0)}}},
        ("sa", 300.0, 0.0, None),
    ),
    "a copy of another version is none": (
        {"copies": {"corpus-a@v1": {"us": "s3://x/"}, "corpus-b@": {"us": "s3://x/"}}},
        ("eu", 1000.0, 10.0, 80.0),
    ),
}


@pytest.mark.parametrize("case", MOVES.values(), ids=MOVES.keys())
def test_a_way(case: tuple[dict[str, Any], tuple[str, float, float | None, float | None]]) -> None:
    fields, (region, seconds, usd, rtt) = case
    move = to_us(**fields)
    assert isinstance(move, Move)
    (source,) = move.sources
    assert source is not None
    assert (source.region, move.seconds, move.price_usd, move.rtt_ms) == (region, pytest.approx(seconds), usd, rtt)
    assert (source.subject, source.dataset, source.bytes) == ("corpus-a@", "corpus-a", move.move_bytes)
    assert move.uris == (source.uri,)


def test_a_staged_copy_in_the_region_is_read_there() -> None:
    move = to_us(dataset=replace_version(CORPUS, "v2"), copies={"corpus-a@v2": {"us": "s3://store-us/staged/corpus-a@v2/"}})
    assert isinstance(move, Move)
    assert (move.move_bytes, move.seconds, move.uris, move.sources) == (0, 0.0, ("s3://store-us/staged/corpus-a@v2/",), (None,))


def replace_version(dataset: Any, version: str) -> Any:
    return dataset.model_copy(update={"version": version})


NO_WAYS: dict[str, tuple[dict[str, Any], str, bool]] = {
    "all of it is held, nobody knows until when": (
        {"held": {WEST: 10**10}},
        "other transfers hold all of the link from eu at present",
        False,
    ),
    "the link is full": ({"full": {WEST: FULL}}, "the link from eu is full at present", False),
    "it carries nothing at present": ({"measured": {WEST: seen(0)}}, "the link from eu carries nothing at present", False),
    "it was declared to carry nothing": (
        {"links": [make_link("eu", "us", 0)], "measured": {WEST: seen(100)}},
        "the link from eu has no bandwidth",
        True,
    ),
    "one is down for ever, the other for now": (
        {
            "links": [make_link("eu", "us", 0), make_link("sa", "us", 1)],
            "copies": {"corpus-a@": {"sa": "s3://x/"}},
            "full": {SOUTH: FULL},
        },
        "the link from sa is full at present",
        False,
    ),
}


@pytest.mark.parametrize("case", NO_WAYS.values(), ids=NO_WAYS.keys())
def test_no_way(case: tuple[dict[str, Any], str, bool]) -> None:
    fields, cause, ever = case
    refusal = to_us(**fields)
    assert isinstance(refusal, Refusal)
    assert (refusal.reason.text, refusal.ever) == (f"corpus-a cannot come to us: {cause}", ever)


def test_a_measured_link_needs_no_declared_capacity() -> None:
    move = to_us(links=[make_link("eu", "us", None, None)], measured={WEST: seen(100)})
    assert isinstance(move, Move)
    assert (move.seconds, move.price_usd) == (6250.0, None)


STRICT = make_dataset("corpus-a", "eu", "sa", size_gb=500, residency=["gdpr"])


def test_data_is_not_read_through_a_region_without_its_tag() -> None:
    """sa has a copy, is nearer, and lacks the tag: the copy there is no source. Neither is that of a region nobody declares."""
    us = Region(name="us", compliance=("gdpr",))
    regions = [make_region("eu", compliance=["gdpr"]), make_region("sa"), make_region("us", compliance=["gdpr"])]
    links = [make_link("eu", "us", 1, 0.02), make_link("sa", "us", 100, 0.0)]

    def bring(*views: Any) -> Move | Refusal:
        snapshot = make_snapshot(*views, datasets=[STRICT], links=links)
        return moving(make_job(dataset={"name": "corpus-a"}), us, snapshot, addresses(snapshot.datasets))

    move = bring(*regions)
    assert isinstance(move, Move)
    assert [source.region for source in move.sources if source is not None] == ["eu"]
    refusal = bring(*regions[1:])
    assert isinstance(refusal, Refusal)
    assert (
        refusal.reason.text == "corpus-a cannot come to us: eu, which has it, does not carry the tag gdpr that it must stay under"
    )
    small = make_dataset("corpus-a", "sa", size_gb=1, residency=["gdpr"])
    snapshot = make_snapshot(*regions, datasets=[small], links=[])
    refusal = moving(make_job(dataset={"name": "corpus-a"}), us, snapshot, addresses(snapshot.datasets))
    assert isinstance(refusal, Refusal)


def test_what_is_on_a_shared_file_system_is_there_and_copied_to_nowhere() -> None:
    on_volume = Dataset(name="corpus-a", uri="s3://home/corpus-a/", size_gb=50, replicas=(Replica(region="eu", uri=VOLUME),))
    both = on_volume.model_copy(update={"replicas": (*on_volume.replicas, Replica(region="us"))})
    regions = [make_region(name, a100=8) for name in ("eu", "sa")]
    links = [make_link("eu", "sa", 10, 0.0), make_link("us", "sa", 10, 0.0)]
    job = make_job(dataset={"name": "corpus-a"})

    def move(dataset: Dataset, region: str) -> Move | Refusal:
        snapshot = make_snapshot(*regions, jobs=[job], links=links, datasets=[dataset])
        return moving(job, snapshot.regions[region].region, snapshot, addresses({}))

    here = move(on_volume, "eu")
    assert isinstance(here, Move)
    assert (here.uris, here.move_bytes) == ((VOLUME,), 0)
    refused = move(on_volume, "sa")
    assert isinstance(refused, Refusal)
    assert refused.ever
    assert "it is on the shared file system of eu only, from which nothing is copied" in refused.reason.text
    copied = move(both, "sa")
    assert isinstance(copied, Move)
    assert copied.uris == ("s3://home/corpus-a/",)


@pytest.mark.parametrize(
    "uri", ["volume:///../etc", "volume:///a/../b", "volume:////a", "volume://host/a", "volume:///", "volume:///.x"]
)
def test_a_folder_of_a_shared_file_system_is_one_below_its_root(uri: str) -> None:
    with pytest.raises(ValidationError):
        Replica(region="eu", uri=uri)


# ---- in a pass -----------------------------------------------------------------------------------------------------


def placed(decisions: tuple[Decision, ...]) -> dict[str, tuple[str, float, float | None]]:
    """Job → region, seconds until its start, price."""
    return {
        one.key.job_id: (one.chosen.region, (one.chosen.start_at - NOW).total_seconds(), one.chosen.price_usd)
        for one in decisions
        if isinstance(one, Place)
    }


def test_what_one_job_brings_others_share_and_other_data_comes_behind_it() -> None:
    data = [make_dataset(name, "eu", size_gb=125) for name in ("corpus-a", "corpus-b")]
    jobs = [
        make_job(name, minutes_ago=60 - at, dataset={"name": dataset}, run_seconds=0)
        for at, (name, dataset) in enumerate(
            (("one", "corpus-a"), ("two", "corpus-a"), ("three", "corpus-b"), ("four", "corpus-b"))
        )
    ]
    snapshot = make_snapshot(
        make_region("us", *make_nodes(4), prices={"A100": 0.0}),
        jobs=jobs,
        links=[make_link("eu", "us", 1, 0.02)],
        datasets=data,
    )
    assert placed(plan(snapshot, NOW)) == {
        "one": ("us", 1000.0, 2.5),
        "two": ("us", 1000.0, 0.0),
        "three": ("us", 2000.0, 2.5),
        "four": ("us", 2000.0, 0.0),
    }


def test_the_start_is_the_latest_of_data_and_image() -> None:
    for pull, start in ((100.0, 500.0), (900.0, 900.0)):
        snapshot = make_snapshot(
            make_region("us", a100=8),
            jobs=[make_job(dataset={"name": "corpus-a"})],
            links=[make_link("eu", "us", 8, 0.0)],
            datasets=[CORPUS],
            image_seconds={IMAGE: {"us": pull}},
        )
        assert placed(plan(snapshot, NOW))["llm-a"][1] == start


def test_a_link_that_falls_to_a_third_turns_placements_away() -> None:
    """us and sa are free and alike; the data is in eu. Both links are declared alike; what is measured decides."""
    regions = [make_region(name, a100=8) for name in ("sa", "us")]
    links = [make_link("eu", "sa", 10, 0.0), make_link("eu", "us", 10, 0.0)]

    def chosen(measured: Mapping[tuple[str, str], Measured]) -> str:
        jobs = [make_job(dataset={"name": "corpus-a"}, strategy="soonest")]
        return placed(plan(make_snapshot(*regions, jobs=jobs, links=links, datasets=[CORPUS], measured=measured), NOW))["llm-a"][
            0
        ]

    assert chosen({("eu", "sa"): seen(1000), WEST: seen(900)}) == "sa"
    assert chosen({("eu", "sa"): seen(333), WEST: seen(900)}) == "us"


# ---- 500 GB in eu, which is free in 40 minutes; us is free now ------------------------------------------------------


def decide(
    gbit: float | None = 1.0,
    usd: float | None = 0.02,
    size_gb: float | None = 500,
    *,
    more: Any = (),
    links: Any = (),
    **fields: Any,
) -> Decision:
    held = make_workload("old-a1", make_pod(node="n0"))
    eu = make_region("eu", make_node(used=8), shows=[held], holdings=[make_holding(ends_in=timedelta(minutes=40))])
    job = {name: fields.pop(name) for name in ("deadline", "priority") if name in fields}
    snapshot = make_snapshot(
        eu,
        make_region("us", make_node()),
        *more,
        jobs=[make_job(dataset={"name": "corpus-a"}, **job)],
        links=[make_link("eu", "us", gbit, usd), *links],
        datasets=[make_dataset(size_gb=size_gb)],
        policy=fields.pop("policy", Policy()),
        **fields,
    )
    (decision,) = plan(snapshot, NOW)
    return decision


WHOLE = Policy.model_validate({"thresholds": WHOLE_LINKS})
SOON = "2026-05-01T12:30:00Z"

EDGES: dict[str, tuple[dict[str, Any], type[Decision], str]] = {
    "as declared and unmeasured: 167 minutes": ({}, Wait, "takes until 2026-05-01T14:46:40Z"),
    "if all that is declared were given: 67 minutes": ({"policy": WHOLE}, Wait, "takes until 2026-05-01T13:06:40Z"),
    "measured at all that is declared: 83 minutes": ({"measured": {WEST: seen(125)}}, Wait, "takes until 2026-05-01T13:23:20Z"),
    "measured at three times that, and declared by nobody": (
        {"gbit": None, "measured": {WEST: seen(375)}},
        Wait,
        "costs 10.00 USD",
    ),
    "the same, and urgent": ({"gbit": None, "measured": {WEST: seen(375)}, "priority": 500}, Place, ""),
    "no bytes": ({"size_gb": 0}, Place, ""),
    "no bytes, and no bandwidth that anybody knows": ({"size_gb": 0, "gbit": None}, Place, ""),
    "bandwidth unknown": ({"gbit": None}, Wait, "every region that could run it is busy"),
    "bandwidth 0": ({"gbit": 0}, Wait, "every region that could run it is busy"),
    "price unknown, and waiting is sooner": ({"usd": None}, Wait, "takes until"),
    "price unknown, and copying is sooner": ({"usd": None, "gbit": 25}, Wait, "has no known price"),
    "free, and copying is sooner": ({"usd": 0.0, "gbit": 25}, Place, ""),
    "size unknown": ({"size_gb": None}, Wait, "every region that could run it is busy"),
    "a deadline that neither way meets": ({"deadline": SOON}, Wait, "neither waiting for eu"),
    "a deadline that neither way meets, and copying is sooner": ({"deadline": SOON, "gbit": 5}, Place, "neither waiting for eu"),
    "a deadline that only copying meets, at a price that nobody knows": ({"deadline": SOON, "usd": None, "gbit": 25}, Place, ""),
}


@pytest.mark.parametrize("case", EDGES.values(), ids=EDGES.keys())
def test_copy_or_wait(case: tuple[dict[str, Any], type[Decision], str]) -> None:
    fields, kind, text = case
    decision = decide(**fields)
    assert type(decision) is kind
    assert text in decision.reason.text


def test_of_two_free_regions_the_one_whose_price_is_known_is_copied_to() -> None:
    """The way to us costs nobody knows what, that to sa a dollar; sa scores no better."""
    sa = make_region("sa", make_node("n0"), make_node("n1", used=8))
    to_sa = make_link("eu", "sa", 25, 0.002)
    decision = decide(25, None, more=[sa], links=[to_sa])
    assert isinstance(decision, Place)
    assert (decision.chosen.region, decision.refused["us"].text.split("; ")[1]) == (
        "sa",
        "copying 465.7 GiB to us has no known price",
    )
    dear = decide(25, None, more=[sa], links=[make_link("eu", "sa", 25, 1.0)])
    assert isinstance(dear, Wait)
    assert "costs 500.00 USD" in dear.refused["sa"].text


def test_size_unknown_and_no_copy_anywhere_is_told_at_once() -> None:
    snapshot = make_snapshot(
        make_region("us", a100=8),
        jobs=[make_job(dataset={"name": "corpus-a"})],
        links=[make_link("eu", "us")],
        datasets=[make_dataset(size_gb=None)],
    )
    (decision,) = plan(snapshot, NOW)
    assert isinstance(decision, Impossible)
    assert decision.reason.text == "corpus-a cannot come to us: its size is not known"
