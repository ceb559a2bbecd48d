"""When a listing of a region's store denies a copy that the ledger has, and what follows for plans."""

from datetime import timedelta
from typing import Any

import pytest

from reconciler.model.attempt import State
from reconciler.model.policy import Policy
from reconciler.model.reasons import Why, code_of
from reconciler.model.record import JobRecord, Phase
from reconciler.model.region import Region
from reconciler.model.report import CacheReport
from reconciler.model.stage import CopyFound, StageTask
from reconciler.planning.copies import (
    Listing,
    Standing,
    as_listed,
    bytes_there,
    bytes_to_bring,
    copies_of,
    is_done,
    is_lost,
    parts_of,
    standing_of,
    why_lost,
)
from reconciler.planning.evicting import to_evict
from reconciler.planning.kept import addresses
from reconciler.planning.lifecycle import settle
from reconciler.planning.plan import plan
from reconciler.planning.staging import Waiting, estimate_of, intent_of, readiness, task_for, turned
from reconciler.planning.transfer import Move, moving
from reconciler.planning.ways import Source
from tests.builders import (
    NOW,
    make_attempt,
    make_dataset,
    make_job,
    make_link,
    make_nodes,
    make_region,
    make_snapshot,
)
from tests.planning.test_staging import STORES, record_of, task_of, waits

GB = 10**9
LATER = NOW + timedelta(hours=1)
URI = "s3://eu-bucket/x/staged/corpus@7/"
WHOLE, PART = Standing(is_whole=True, size_bytes=GB, size_bytes_total=GB), Standing(False, 7 * GB // 10, GB)


def brought(found: CopyFound | None = None, phase: Phase = Phase.SUCCEEDED, **task: Any) -> JobRecord:
    """A copy of 1 GB that was brought, and was seen to be there at NOW."""
    ended = make_attempt(state=State.SUCCEEDED).model_copy(update={"ended_at": NOW})
    return record_of(task_of().model_copy(update={"found": found, **task}), phase, attempts=(ended,))


def listing(*standing: Standing, names_all: bool = True, seconds: float = 3600, url: str = "s3://eu-bucket/x/") -> Listing:
    return Listing(url, dict(zip([URI], standing, strict=False)), names_all, NOW + timedelta(seconds=seconds))


def lost(share: float = 0.7, hours: int = 1) -> CopyFound:
    return CopyFound(share=share, at=NOW + timedelta(hours=hours))


SEEN: dict[str, tuple[JobRecord, Listing | None, CopyFound | None]] = {
    "all of it": (brought(), listing(WHOLE), None),
    "nobody has looked": (brought(), None, None),
    "a part of it": (brought(), listing(PART), lost()),
    "nothing of it": (brought(), listing(), lost(0.0)),
    "other bytes, as many as there should be": (brought(), listing(Standing(False, 0, GB)), lost(0.0)),
    "its objects, and no marker: so much of what was declared": (brought(), listing(Standing(False, GB // 2, 0)), lost(0.5)),
    "more bytes than were ever declared, and no marker": (brought(), listing(Standing(False, 3 * GB, 0)), lost(1.0)),
    "no marker, and nobody knows how much it should be": (brought(size_bytes=None), listing(Standing(False, GB, 0)), lost(0.0)),
    "nothing of it, in a listing from before it was there": (brought(), listing(seconds=-1), None),
    "nothing of it, in a listing of that very moment": (brought(), listing(seconds=0), None),
    "it is not named where not all are": (brought(), listing(names_all=False), None),
    "it is named where not all are": (brought(), listing(PART, names_all=False), lost()),
    "nothing of it, in another store": (brought(), listing(url="s3://eu-bucket/xx"), None),
    "nothing of it, in a store around its own": (brought(), listing(url="s3://eu-bucket"), None),
    "it is called like what no listing names": (
        brought(subject="corpus@7.staging", target_uri="s3://eu-bucket/x/staged/corpus@7.staging/"),
        listing(),
        None,
    ),
    "the store's address is written without its end": (brought(), listing(url="s3://eu-bucket/x"), lost(0.0)),
    "it was lost, and is whole again": (brought(lost()), listing(WHOLE, seconds=7200), None),
    "it was lost, and an older listing has it whole": (brought(lost(hours=2)), listing(WHOLE), lost(hours=2)),
    "it was lost, and nobody has looked since": (brought(lost()), None, lost()),
    "it was lost, and a little more since: no news": (brought(lost(0.74)), listing(PART, seconds=7200), lost(0.74)),
    "it was lost, and much more since": (brought(lost(0.9)), listing(PART, seconds=7200), lost(0.7, 2)),
    "it was lost, and nothing is left": (brought(lost(0.01)), listing(seconds=7200), lost(0.0, 2)),
    "it was lost, and has been brought since: that is over": (brought(lost(hours=-1)), None, None),
    "it is being brought": (brought(phase=Phase.RUNNING), listing(), None),
    "it failed": (brought(phase=Phase.FAILED), listing(PART), None),
    "it is to be removed": (brought(kind="evict"), listing(), None),
}


@pytest.mark.parametrize("case", SEEN)
def test_what_a_listing_says(case: str) -> None:
    record, seen, found = SEEN[case]
    after = as_listed(record, seen)
    assert after.stage is not None
    assert after.stage.found == found
    assert is_lost(after) == (found is not None)
    if record.stage is not None and record.stage.found == found:
        assert after is record, "what is nothing new changes nothing, and costs no commit"


CACHES = {
    "all": ((100, 100, GB, GB), True),
    "57 of 100": ((57, 100, 57, 100), False),
    "empty objects are missing": ((99, 100, GB, GB), False),
    "no marker": ((100, 0, GB, 0), False),
    "neither objects nor a marker that can be read": ((0, 0, 0, 0), False),
}


@pytest.mark.parametrize("case", CACHES)
def test_what_counts_as_whole(case: str) -> None:
    (objects, of_objects, size, of_size), whole = CACHES[case]
    said = {"objects": objects, "objects_total": of_objects, "size_bytes": size, "size_bytes_total": of_size}
    assert standing_of(CacheReport(subject="corpus@7", uri=URI, **said)) == Standing(whole, size, of_size)


def test_what_is_lost_is_no_copy_and_no_reason_to_start() -> None:
    there, gone = brought(), brought(lost())
    assert (is_done(there), is_done(gone)) == (True, False)
    assert (copies_of([there]), copies_of([gone])) == ({"corpus@7": {"eu": URI}}, {})
    assert (parts_of([there]), parts_of([gone])) == ({}, {"corpus@7": {"eu": 0.7}})
    assert parts_of([brought(lost(), Phase.FAILED), brought(lost(hours=-1), region="us")]) == {"corpus@7": {"eu": 0.7}}
    assert parts_of([brought(lost(), Phase.RUNNING)]) == {}
    attempt = waits("a", task_of()).current
    assert attempt is not None
    assert readiness(attempt, {there.key: there}) == "ready"
    assert readiness(attempt, {gone.key: gone}) == "waiting"


def test_it_is_brought_again_for_who_waits_and_for_nobody_else() -> None:
    gone = brought(lost())
    anew, left = intent_of(gone, Waiting(50), STORES).wanted, intent_of(gone, None, STORES).wanted
    assert anew is not None
    assert left is not None
    assert (anew.spec.rerun, left.spec.rerun) == (1, 0)


def test_the_task_says_what_was_lost_until_it_is_back() -> None:
    reason = settle(brought(lost()), Policy(), NOW).why
    assert reason is not None
    assert (reason.code, reason.numbers) == (code_of(Why.COPY_LOST), COPY_LOST)
    assert why_lost(brought(lost(), Phase.RUNNING)) == reason, "while it is brought again"
    assert [str(why_lost(brought(lost(share)))).count(f"'percent': {shown}") for share, shown in PERCENT.items()] == [1] * 4
    assert why_lost(brought()) is None
    assert why_lost(brought(lost(hours=-1))) is None


PERCENT = {0.57: 57, 0.29: 29, 0.9999: 99, 0.0: 0}
COPY_LOST = {"what": "corpus@7", "region": "eu", "percent": 70}


def test_what_stands_there_counts_for_the_limit() -> None:
    whole, part, nothing = brought(), brought(lost()), brought(lost(0.0))
    assert [bytes_there(one) for one in (whole, part, nothing)] == [GB, 7 * GB // 10, 0]
    assert to_evict([part], {}, {"eu": 7 * GB // 10}) == frozenset()
    assert to_evict([part], {}, {"eu": 7 * GB // 10 - 1}) == {part.job_id}
    assert to_evict([nothing], {}, {"eu": -1}) == frozenset(), "what is gone need not be removed"


def test_what_was_removed_by_our_own_task_is_not_lost() -> None:
    removing = turned(brought(lost()), waited_for=False, evict=True).stage
    assert removing is not None
    assert (removing.kind, removing.found) == ("evict", None)


def test_only_what_is_missing_has_to_come() -> None:
    assert [bytes_to_bring(task_of().model_copy(update={"found": one})) for one in (None, lost(), lost(0.0))] == [
        GB,
        3 * GB // 10,
        GB,
    ]
    assert bytes_to_bring(task_of().model_copy(update={"found": lost(), "size_bytes": None})) is None


def task(**fields: Any) -> StageTask:
    return task_of().model_copy(update={"estimated_seconds": 9.0, "estimated_bytes_per_second": GB, **fields})


def test_no_estimate_is_rated_by_a_copy_of_which_most_was_there() -> None:
    assert estimate_of(record_of(task(), Phase.PENDING)) is not None
    assert estimate_of(record_of(task(found=lost()), Phase.PENDING)) is None


# ---- what plans make of it ----------------------------------------------------------------------------------------

CORPUS = make_dataset("corpus-a", "sa", size_gb=500)
LINKS = [make_link("sa", "us", 8, 0.05), make_link("eu", "us", 8, 0.01)]


def to_us(**fields: Any) -> tuple[Move, Source | None]:
    snapshot = make_snapshot(datasets=[CORPUS], links=LINKS, **fields)
    found = moving(make_job(dataset={"name": "corpus-a"}), Region(name="us"), snapshot, addresses(snapshot.datasets))
    assert isinstance(found, Move)
    return found, found.sources[0]


def test_the_share_that_is_there_need_not_come_and_is_not_paid() -> None:
    (none, _), (most, source) = to_us(), to_us(parts={"corpus-a@": {"us": 0.7}})
    assert source is not None
    assert (none.move_bytes, most.move_bytes) == (500 * GB, 150 * GB)
    assert (none.total_bytes, most.total_bytes) == (500 * GB, 500 * GB)
    assert most.seconds == pytest.approx(0.3 * none.seconds)
    assert most.price_usd == pytest.approx(0.3 * (none.price_usd or 0))
    assert (source.bytes, source.there) == (150 * GB, 350 * GB)


def test_a_part_elsewhere_is_no_source() -> None:
    assert [source.region if source is not None else None for _, source in (to_us(parts={"corpus-a@": {"eu": 0.99}}),)] == ["sa"]


def test_the_task_is_of_the_whole_copy() -> None:
    _, source = to_us(parts={"corpus-a@": {"us": 0.7}})
    assert source is not None
    view = make_region("us", *make_nodes(1), namespaces=["gpu-staging"], object_store={"url": "s3://us"})
    made = task_for(source, view)
    assert made is not None
    assert made.size_bytes == 500 * GB


@pytest.mark.parametrize(("share", "affinity"), [(None, 0.0), (0.0, 0.0), (0.57, 0.57), (0.7, 0.7), (1.0, 1.0)])
def test_the_share_is_scored_not_yes_or_no(share: float | None, affinity: float) -> None:  # OS-5
    us = make_region("us", *make_nodes(1))
    parts = {} if share is None else {"corpus-a@": {"us": share}}
    job = make_job(dataset={"name": "corpus-a"})
    (decision,) = plan(make_snapshot(us, jobs=[job], datasets=[CORPUS], links=LINKS, parts=parts), NOW)
    (found,) = [value for name, value, _ in decision.chosen.terms if name == "data affinity"]  # type: ignore[union-attr]
    assert found == pytest.approx(affinity)
