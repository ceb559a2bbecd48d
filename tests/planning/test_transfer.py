"""What must be brought to a region before a job can start there, against sums done by hand."""

from dataclasses import replace
from typing import Any

import pytest

from reconciler.model.fleet import Dataset, Link
from reconciler.model.region import Region
from reconciler.planning.filters import Refusal
from reconciler.planning.haste import Haste
from reconciler.planning.kept import addresses
from reconciler.planning.transfer import Move, moving
from tests.builders import make_dataset, make_job, make_link, make_region, make_snapshot

US = Region(name="us")
HASTE = Haste(60.0)
"""A minute sooner is worth a dollar."""
CORPUS = make_dataset("corpus-a", "eu", size_gb=500)
OTHER = make_dataset("corpus-b", "sa", size_gb=100)
READS: dict[str, Any] = {"name": "corpus-a"}
BOTH: list[dict[str, Any]] = [{"name": "corpus-a"}, {"name": "corpus-b"}]


def move_to_us(dataset: Any, datasets: tuple[Dataset, ...], links: tuple[Link, ...] = (), region: Region = US) -> Move | Refusal:
    snapshot = make_snapshot(datasets=datasets, links=links)
    fields = {} if dataset is None else {"dataset": dataset}
    return moving(make_job(**fields), region, snapshot, addresses(snapshot.datasets), HASTE)


def moved(total: int, bytes_: int, seconds: float, usd: float | None, rtt: float | None, gbit: float | None, *uris: str) -> Move:
    return Move(total, bytes_, seconds, usd, uris, rtt, gbit)


EU, SA = "s3://data-eu/corpus-a/", "s3://data-sa/corpus-b/"

MOVES: dict[str, tuple[Any, tuple[Dataset, ...], tuple[Link, ...], Move]] = {
    "no data": (None, (), (), moved(0, 0, 0.0, 0.0, 0.0, None)),
    "data that is there": (
        READS,
        (make_dataset("corpus-a", "eu", "us"),),
        (),
        moved(500 * 10**9, 0, 0, 0.0, 0.0, None, "s3://data-us/corpus-a/"),
    ),
    "500 GB over 1 Gbit/s": (
        READS,
        (CORPUS,),
        (make_link("eu", "us", 1, 0.02, rtt_ms=80),),
        moved(500 * 10**9, 500 * 10**9, 4000.0, 10.0, 80.0, 1.0, EU),
    ),
    "a price that nobody knows": (
        READS,
        (CORPUS,),
        (make_link("eu", "us", 2, None),),
        moved(500 * 10**9, 500 * 10**9, 2000.0, None, None, 2.0, EU),
    ),
    "the quicker of two copies, where 50 minutes are worth its price": (
        READS,
        (make_dataset("corpus-a", "eu", "sa"),),
        (make_link("eu", "us", 1, 0.0, rtt_ms=1), make_link("sa", "us", 4, 0.0625, rtt_ms=9)),
        moved(500 * 10**9, 500 * 10**9, 1000.0, 31.25, 9.0, 4.0, "s3://data-sa/corpus-a/"),
    ),
    "the slower one, where they are not": (
        READS,
        (make_dataset("corpus-a", "eu", "sa"),),
        (make_link("eu", "us", 1, 0.0, rtt_ms=1), make_link("sa", "us", 4, 0.125, rtt_ms=9)),
        moved(500 * 10**9, 500 * 10**9, 4000.0, 0.0, 1.0, 1.0, EU),
    ),
    "the slower one, where nobody knows the price of the quicker": (
        READS,
        (make_dataset("corpus-a", "eu", "sa"),),
        (make_link("eu", "us", 1, 0.05, rtt_ms=1), make_link("sa", "us", 4, None, rtt_ms=9)),
        moved(500 * 10**9, 500 * 10**9, 4000.0, 25.0, 1.0, 1.0, EU),
    ),
    "of equal ones the cheaper, and an unknown price last": (
        READS,
        (make_dataset("corpus-a", "ap", "eu", "sa"),),
        (make_link("ap", "us", 4, None), make_link("eu", "us", 4, 0.2), make_link("sa", "us", 4, 0.1)),
        moved(500 * 10**9, 500 * 10**9, 1000.0, 50.0, None, 4.0, "s3://data-sa/corpus-a/"),
    ),
    "a link without bandwidth is passed over": (
        READS,
        (make_dataset("corpus-a", "eu", "sa"),),
        (make_link("eu", "us", 0, 0.0), make_link("sa", "us", 4, 0.5, rtt_ms=9)),
        moved(500 * 10**9, 500 * 10**9, 1000.0, 250.0, 9.0, 4.0, "s3://data-sa/corpus-a/"),
    ),
    "two datasets come over two links at once": (
        BOTH,
        (CORPUS, OTHER),
        (make_link("eu", "us", 1, 0.02, rtt_ms=80), make_link("sa", "us", 10, 0.1, rtt_ms=120)),
        moved(600 * 10**9, 600 * 10**9, 4000.0, 20.0, 120.0, 1.0, EU, SA),
    ),
    "two datasets come over one link one after the other": (
        BOTH,
        (CORPUS, make_dataset("corpus-b", "eu", size_gb=100)),
        (make_link("eu", "us", 1, 0.02, rtt_ms=80),),
        moved(600 * 10**9, 600 * 10**9, 4800.0, 12.0, 80.0, 1.0, EU, "s3://data-eu/corpus-b/"),
    ),
    "of two one is there": (
        BOTH,
        (CORPUS, make_dataset("corpus-b", "us", size_gb=100)),
        (make_link("eu", "us", 1, 0.02, rtt_ms=80),),
        moved(600 * 10**9, 500 * 10**9, 4000.0, 10.0, 80.0, 1.0, EU, "s3://data-us/corpus-b/"),
    ),
    "one unknown price makes the sum unknown": (
        BOTH,
        (CORPUS, OTHER),
        (make_link("eu", "us", 1, 0.02, rtt_ms=80), make_link("sa", "us", 10, None, rtt_ms=120)),
        moved(600 * 10**9, 600 * 10**9, 4000.0, None, 120.0, 1.0, EU, SA),
    ),
    "small data without a way is read from afar": (
        READS,
        (make_dataset("corpus-a", "eu", size_gb=4.9),),
        (),
        moved(4_900_000_000, 4_900_000_000, 0.0, None, None, None, EU),
    ),
    "small data beside a measured copy leaves the bandwidth unknown": (
        BOTH,
        (CORPUS, make_dataset("corpus-b", "sa", size_gb=1)),
        (make_link("eu", "us", 1, 0.02, rtt_ms=80),),
        moved(501 * 10**9, 501 * 10**9, 4000.0, None, None, None, EU, SA),
    ),
    "small data with a measured way takes it": (
        READS,
        (make_dataset("corpus-a", "eu", size_gb=1),),
        (make_link("eu", "us", 8, 0.5, rtt_ms=5),),
        moved(10**9, 10**9, 1.0, 0.5, 5.0, 8.0, EU),
    ),
    "nothing to copy": (READS, (make_dataset("corpus-a", "eu", size_gb=0),), (), moved(0, 0, 0.0, 0.0, 0.0, None, EU)),
    "a size that the job gives": (
        {"name": "corpus-a", "size": "100G"},
        (make_dataset("corpus-a", "eu", size_gb=None),),
        (make_link("eu", "us", 8, 0.5, rtt_ms=5),),
        moved(100 * 10**9, 100 * 10**9, 100.0, 50.0, 5.0, 8.0, EU),
    ),
    "a dataset that nobody registered is near nowhere and far from nowhere": (
        "s3://elsewhere/x/",
        (CORPUS,),
        (),
        moved(0, 0, 0.0, 0.0, 0.0, None, "s3://elsewhere/x/"),
    ),
    "a registered dataset by its address": (
        "s3://data-eu/corpus-a",
        (CORPUS,),
        (make_link("eu", "us", 1, 0.02, rtt_ms=80),),
        moved(500 * 10**9, 500 * 10**9, 4000.0, 10.0, 80.0, 1.0, EU),
    ),
    "by the address of another copy": (
        "s3://data-us/corpus-a/",
        (make_dataset("corpus-a", "eu", "us"),),
        (),
        moved(500 * 10**9, 0, 0, 0.0, 0.0, None, "s3://data-us/corpus-a/"),
    ),
}


@pytest.mark.parametrize("case", MOVES.values(), ids=MOVES.keys())
def test_a_move(case: tuple[Any, tuple[Dataset, ...], tuple[Link, ...], Move]) -> None:
    dataset, datasets, links, move = case
    found = move_to_us(dataset, datasets, links)
    assert isinstance(found, Move)
    assert replace(found, sources=()) == move
    assert move_to_us(dataset, datasets[::-1], links[::-1]) == found


NO_WAYS: dict[str, tuple[tuple[Dataset, ...], tuple[Link, ...], str]] = {
    "no link": ((CORPUS,), (make_link("us", "eu"),), "corpus-a cannot come to us: there is no link from eu"),
    "no link from either copy": (
        (make_dataset("corpus-a", "sa", "eu"),),
        (),
        "corpus-a cannot come to us: there is no link from eu or sa",
    ),
    "a link of no bandwidth": (
        (CORPUS,),
        (make_link("eu", "us", 0),),
        "corpus-a cannot come to us: the link from eu has no bandwidth",
    ),
    "a link of unknown bandwidth": (
        (CORPUS,),
        (make_link("eu", "us", None),),
        "corpus-a cannot come to us: the bandwidth of the link from eu is not known",
    ),
    "a size that nobody knows": (
        (make_dataset("corpus-a", "eu", size_gb=None),),
        (make_link("eu", "us", 1),),
        "corpus-a cannot come to us: its size is not known",
    ),
    "just not small": (
        (make_dataset("corpus-a", "eu", size_gb=None, size="5G"),),
        (),
        "corpus-a cannot come to us: there is no link from eu",
    ),
    "a tag that does not hold there": (
        (make_dataset("corpus-a", "eu", "us", residency=["gdpr", "eea"]),),
        (),
        "corpus-a must stay where the tag eea holds; us does not carry it",
    ),
}


@pytest.mark.parametrize("case", NO_WAYS.values(), ids=NO_WAYS.keys())
def test_no_way(case: tuple[tuple[Dataset, ...], tuple[Link, ...], str]) -> None:
    datasets, links, text = case
    refusal = move_to_us(READS, datasets, links)
    assert isinstance(refusal, Refusal)
    assert (refusal.ever, refusal.reason.text) == (True, text)


def test_data_may_go_where_its_tags_hold() -> None:
    dataset = make_dataset("corpus-a", "eu", residency=["gdpr", "eea"])
    region = Region(name="us", compliance=("eea", "iso", "gdpr"))
    snapshot = make_snapshot(make_region("eu", compliance=["eea", "gdpr"]), datasets=[dataset], links=[make_link("eu", "us")])
    assert isinstance(moving(make_job(dataset=READS), region, snapshot, addresses(snapshot.datasets)), Move)


def test_of_two_datasets_that_share_an_address_the_first_by_name_is_meant() -> None:
    shared = {"uri": "s3://shared/x/", "replicas": [{"region": "eu"}]}
    one, other = Dataset.model_validate({"name": "a", **shared}), Dataset.model_validate({"name": "b", **shared})
    assert addresses({"a": one, "b": other}) == addresses({"b": other, "a": one}) == {"s3://shared/x": one}
