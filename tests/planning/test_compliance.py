"""Where a job's bytes may lie: tags of its team, of itself and of its data, held against the stores that it writes to."""

from typing import Any

import pytest

from reconciler.model.fleet import Team
from reconciler.planning.compliance import Demand, demands, lacking_tag, stores_of
from reconciler.planning.decisions import Impossible, Place
from reconciler.planning.kept import addresses
from reconciler.planning.override import never_in
from reconciler.planning.plan import plan
from reconciler.planning.snapshot import Snapshot
from tests.builders import NOW, TEAM, make_dataset, make_job, make_link, make_region, make_snapshot


def world(*, stores: dict[str, str | None] | None = None, team: Any = (), datasets: Any = (), **job: Any) -> Snapshot:
    """eu holds gdpr and iso, us only iso; each has a store, unless `stores` says otherwise."""
    urls = {"eu": "s3://store-eu/reconciler", "us": "s3://store-us/reconciler", **(stores or {})}
    made = {name: None if url is None else {"url": url} for name, url in urls.items()}
    tags = {"eu": ["gdpr", "iso"], "us": ["iso"]}
    return make_snapshot(
        *(make_region(name, a100=8, compliance=tags[name], object_store=made[name]) for name in ("eu", "us")),
        jobs=[make_job(**job)],
        teams=[Team(name=TEAM, compliance=tuple(team))],
        datasets=datasets,
        links=[make_link("us", "eu")],
    )


GDPR: dict[str, Any] = {"compliance": ["gdpr"]}
RESULTS = {"path": "/out", "uri": "s3://store-us/results/"}
CORPUS = make_dataset("corpus-a", "eu", residency=["gdpr"])

REFUSED: dict[str, tuple[Snapshot, str]] = {
    "a checkpoint, for the job": (
        world(checkpoint_path="s3://store-us/ck/", **GDPR),
        "its checkpoint_path s3://store-us/ck/ lies in the store of us, which lacks the tag gdpr that the job asks for",
    ),
    "results, for the team": (
        world(team=["gdpr"], outputs=[RESULTS]),
        "its output s3://store-us/results/ lies in the store of us, which lacks the tag gdpr that the team asks for",
    ),
    "results, for the data that it reads": (
        world(datasets=[CORPUS], dataset={"name": "corpus-a"}, outputs=[RESULTS]),
        "its output s3://store-us/results/ lies in the store of us, which lacks the tag gdpr that the dataset corpus-a asks for",
    ),
    "results, for one of two datasets, read by its address": (
        world(
            datasets=[make_dataset("open", "eu"), CORPUS],
            dataset=[{"name": "open"}, {"uri": "s3://data-eu/corpus-a"}],
            outputs=[RESULTS],
        ),
        "its output s3://store-us/results/ lies in the store of us, which lacks the tag gdpr that the dataset corpus-a asks for",
    ),
    "the second of two outputs": (
        world(outputs=[{"path": "/in", "uri": "s3://store-eu/x/"}, RESULTS], **GDPR),
        "its output s3://store-us/results/ lies in the store of us, which lacks the tag gdpr that the job asks for",
    ),
    "elsewhere in the bucket": (
        world(checkpoint_path="s3://store-us", **GDPR),
        "its checkpoint_path s3://store-us lies in the store of us, which lacks the tag gdpr that the job asks for",
    ),
    "a folder": (
        world(stores={"us": "file:///stores/us"}, checkpoint_path="file:///stores/us/ck/", **GDPR),
        "its checkpoint_path file:///stores/us/ck/ lies in the store of us, which lacks the tag gdpr that the job asks for",
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused_names_the_rule(case: tuple[Snapshot, str]) -> None:
    snapshot, text = case
    (decision,) = plan(snapshot, NOW)
    assert isinstance(decision, Impossible)
    assert decision.refused["eu"].code == "OutputNotCompliant"
    assert decision.refused["eu"].text == text
    never = never_in(snapshot.pending[0], "eu", snapshot)
    assert never == decision.refused["eu"]


ALLOWED: dict[str, Snapshot] = {
    "nobody asks for anything": world(checkpoint_path="s3://store-us/ck/", allowed_regions=["eu"]),
    "the tag holds there": world(checkpoint_path="s3://store-us/ck/", compliance=["iso"], allowed_regions=["eu"]),
    "in the region's own store": world(
        checkpoint_path="s3://store-eu/ck/", outputs=[{"path": "/o", "uri": "s3://store-eu/r/"}], **GDPR
    ),
    "in a store that is no region's": world(checkpoint_path="s3://mine/ck/", **GDPR),
    "in a bucket whose name only begins so": world(checkpoint_path="s3://store-us-2/ck/", **GDPR),
    "in a folder whose name only begins so": world(
        stores={"us": "file:///stores/us"}, checkpoint_path="file:///stores/us2/", **GDPR
    ),
    "in a bucket that every region has, each its own": world(
        stores={"eu": "s3://store/", "us": "s3://store/"}, checkpoint_path="s3://store/ck/", **GDPR
    ),
    "no region says where its store is": world(stores={"eu": None, "us": None}, checkpoint_path="s3://store-us/ck/", **GDPR),
}


@pytest.mark.parametrize("snapshot", ALLOWED.values(), ids=ALLOWED.keys())
def test_what_is_allowed(snapshot: Snapshot) -> None:
    (decision,) = plan(snapshot, NOW)
    assert isinstance(decision, Place)
    assert decision.chosen.region == "eu"
    assert never_in(snapshot.pending[0], "eu", snapshot) is None


def test_equal_jobs_that_write_elsewhere_are_told_of_their_own_addresses() -> None:
    jobs = [make_job(name, checkpoint_path=f"s3://store-us/{name}/", **GDPR) for name in ("a", "b")]
    fine = make_job("c", checkpoint_path="s3://store-eu/c/", **GDPR)
    snapshot = world()
    snapshot = make_snapshot(*snapshot.regions.values(), jobs=[*jobs, fine])
    said = {one.key.job_id: one for one in plan(snapshot, NOW)}
    assert [said[name].refused["eu"].numbers["uri"] for name in ("a", "b")] == ["s3://store-us/a/", "s3://store-us/b/"]
    assert isinstance(said["c"], Place)


def test_the_strictest_of_all_is_inherited() -> None:
    snapshot = world(team=["iso"], datasets=[CORPUS], dataset={"name": "corpus-a"}, compliance=["iso", "hipaa"])
    asked = demands(snapshot.pending[0], snapshot, addresses(snapshot.datasets))
    assert asked == (Demand("iso", "team"), Demand("iso", "job"), Demand("hipaa", "job"), Demand("gdpr", "dataset corpus-a"))
    assert [lacking_tag(asked, name, snapshot) for name in ("eu", "us", "mars")] == [asked[2], asked[2], asked[0]]
    assert lacking_tag(asked[:2], "us", snapshot) is None


def test_where_an_address_lies() -> None:
    stores = stores_of(world(stores={"us": "file:///stores/us/"}).regions)
    asked = (
        "s3://store-eu/x",
        "gs://store-eu/x",
        "file:///stores/us",
        "file:///stores/us/x",
        "file:///stores/usual",
        "https://a/b",
    )
    assert [stores.of(uri) for uri in asked] == [("eu",), (), ("us",), ("us",), (), ()]
    assert not stores_of({})
