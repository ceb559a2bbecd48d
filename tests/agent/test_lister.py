"""What an agent says of the copies in its region's store: only what it has seen to the end, and never in anybody's way."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from reconciler.adapters.file_store import FileStore
from reconciler.agent.lister import EVERY_SECONDS, MOST_COPIES, MOST_SECONDS, NO_STORE_SECONDS, REST, Lister
from reconciler.agent.stage.transfer.listing import sizes_digest
from reconciler.app import open_regional
from reconciler.app_troubles import troubles_of
from reconciler.model.link_table import LinkTable
from reconciler.model.region import StoreAddress
from reconciler.model.report import CacheListing
from reconciler.model.staged import StagedCopy
from reconciler.ports import Listed, ObjectStore
from tests.adapters.s3_server import Fault, answering, honest, make_bucket, moto_app, s3_error, s3_store, serving
from tests.agent.probing.pretend import publish
from tests.agent.region import START, HandClock, Region
from tests.agent.stores import FailingStore
from tests.waiting import until

URL = "s3://bucket-eu/regional"
KEYS = {f"RECONCILER_STORE_EU_AWS_{name}": "test" for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY")}


def fill(store: ObjectStore, subject: str, objects: int, *, of: int = 100) -> None:
    """A copy of so many objects of 10 bytes, of which some are there."""
    sizes = [(f"{number:03}", 10) for number in range(of)]
    marker = StagedCopy(
        source="s3://ap/x/",
        objects=of,
        size_bytes=10 * of,
        listing_digest=sizes_digest(sizes),
        source_digest="0",
        finished_at=START,
    )
    for key, _ in sizes[:objects]:
        store.put(f"staged/{subject}/{key}", b"0123456789", expect=None)
    store.put(f"staged/{subject}.json", marker.model_dump_json().encode(), expect=None)


class Rig:
    """The lister of eu. `inner` is eu's store where `opened` does not say otherwise."""

    def __init__(self, url: str | None = URL, opened: Callable[[StoreAddress], ObjectStore] | None = None) -> None:
        self.clock, self.common, self.inner = HandClock(), FailingStore(), FailingStore()
        self.opened: list[str] = []
        self._open = opened
        self.lister = Lister("eu", self.common, self._opened, self.clock, Random(1))
        if url is not None:
            self.declare(url)

    def _opened(self, address: StoreAddress) -> ObjectStore:
        self.opened.append(address.url)
        return self.inner if self._open is None else self._open(address)

    def declare(self, url: str, endpoint: str | None = None) -> None:
        publish(
            self.common, LinkTable(stores={"eu": StoreAddress(url=url, endpoint=endpoint), "us": StoreAddress(url="s3://us")})
        )

    def counts(self) -> dict[str, tuple[int, int]] | None:
        """Subject → objects that are there, of how many; None where nothing is told."""
        told = self.lister.told()
        return None if told is None else {one.subject: (one.objects, one.objects_total) for one in told.caches}


@contextmanager
def bucket(fault: Fault = honest) -> Iterator[str]:
    """The endpoint of a real S3 server with the bucket of eu; `fault` stands before it."""
    app = moto_app()
    with serving(app) as url:
        make_bucket(url, "bucket-eu")
    with serving(fault(app)) as url:
        yield url


def regional(environment: dict[str, str]) -> Callable[[StoreAddress], ObjectStore]:
    return lambda address: open_regional("eu", address, environment)


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    with bucket() as url:
        yield url


def test_of_a_real_bucket_it_tells_how_much_of_each_copy_is_there(s3: str) -> None:
    with s3_store(s3, "bucket-eu", "regional") as store:
        fill(store, "corpus@7", 57)
        fill(store, "small@1", 3, of=3)
    rig = Rig(opened=regional(KEYS))
    rig.declare(URL, s3)
    rig.lister.step()
    assert rig.lister.trouble == ""
    assert rig.counts() == {"corpus@7": (57, 100), "small@1": (3, 3)}
    told = rig.lister.told()
    assert told is not None
    assert [one.uri for one in told.caches] == [f"{URL}/staged/corpus@7/", f"{URL}/staged/small@1/"]


def test_the_credentials_and_the_endpoint_of_that_store_go_before_all_others(s3: str) -> None:
    said = {**KEYS, "RECONCILER_STORE_EU_AWS_ENDPOINT_URL_S3": s3, "RECONCILER_STORE_EU_AWS_REGION": "us-east-1"}
    rig = Rig(opened=regional({**said, "AWS_ACCESS_KEY_ID": "another", "AWS_SECRET_ACCESS_KEY": "another"}))
    rig.declare(URL, "http://127.0.0.1:9")
    rig.lister.step()
    assert rig.lister.trouble == ""


def test_of_a_folder_as_well(tmp_path: Path) -> None:
    fill(FileStore(tmp_path), "corpus@7", 70)
    rig = Rig(tmp_path.as_uri(), regional({}))
    rig.lister.step()
    assert rig.counts() == {"corpus@7": (70, 100)}


def test_a_folder_that_is_not_on_this_machine_is_no_empty_store(tmp_path: Path) -> None:
    rig = Rig((tmp_path / "elsewhere").as_uri(), regional({}))
    rig.lister.step()
    assert rig.counts() is None
    assert "there is no such folder on this machine" in rig.lister.trouble
    (tmp_path / "elsewhere").mkdir()
    rig.lister.step()
    assert (rig.counts(), rig.lister.trouble) == ({}, "")


def test_who_may_not_list_knows_nothing_and_says_what_to_do() -> None:
    refused = answering("403 Forbidden", s3_error("AccessDenied"), methods=("GET",))
    with bucket(refused) as url:
        rig = Rig(opened=regional(KEYS))
        rig.declare(URL, url)
        rig.lister.step()
    assert rig.counts() is None
    assert "AccessDenied" in rig.lister.trouble
    assert "let the agent's credentials list `staged/` there, and read `staged/*.json`" in rig.lister.trouble


def test_a_bucket_that_is_not_there_is_no_empty_one(s3: str) -> None:
    rig = Rig(opened=regional(KEYS))
    rig.declare("s3://nothing-here/x", s3)
    rig.lister.step()
    assert rig.counts() is None
    assert "NoSuchBucket" in rig.lister.trouble


def test_what_was_known_is_not_told_any_more_when_the_store_is_down() -> None:
    rig = Rig()
    fill(rig.inner, "corpus@7", 100)
    rig.lister.step()
    assert rig.counts() == {"corpus@7": (100, 100)}
    rig.inner.down = True
    rig.lister.step()
    assert (rig.counts(), "does not answer" in rig.lister.trouble) == (None, True)
    rig.inner.down = False
    rig.lister.step()
    assert (rig.counts(), rig.lister.trouble) == ({"corpus@7": (100, 100)}, "")


def test_a_region_without_a_store_has_nothing_to_tell_and_no_trouble() -> None:
    rig = Rig(url=None)
    assert rig.lister.step() == NO_STORE_SECONDS
    assert (rig.counts(), rig.lister.trouble, rig.opened) == (None, "", [])
    rig.declare(URL)
    rig.lister.step()
    assert (rig.counts(), rig.opened) == ({}, [URL])


def test_where_the_hubs_table_cannot_be_read_nothing_is_told() -> None:
    rig = Rig()
    rig.common.down = True
    assert rig.lister.step() == NO_STORE_SECONDS
    assert (rig.counts(), "hub/links.json" in rig.lister.trouble) == (None, True)


def test_a_store_that_has_moved_is_listed_where_it_is() -> None:
    rig = Rig()
    rig.lister.step()
    rig.lister.step()
    rig.declare("s3://moved")
    rig.lister.step()
    told = rig.lister.told()
    assert told is not None
    assert (rig.opened, told.listing.url) == ([URL, "s3://moved"], "s3://moved")


class Slow(FailingStore):
    """Each line of its listing takes a while."""

    def __init__(self, clock: HandClock, seconds: float) -> None:
        super().__init__()
        self.clock, self.seconds = clock, seconds

    def list(self, prefix: str) -> Iterator[Listed]:
        for line in super().list(prefix):
            self.clock.seconds += self.seconds
            yield line


def slow(seconds: float) -> Rig:
    rig = Rig()
    rig.inner = Slow(rig.clock, seconds)
    fill(rig.inner, "corpus@7", 100)
    return rig


def test_a_listing_that_takes_too_long_is_given_up_and_tells_nothing() -> None:
    rig = slow(MOST_SECONDS / 50)
    rest = rig.lister.step()
    assert (rig.counts(), "has not come to its end within 600 s" in rig.lister.trouble) == (None, True)
    assert rest >= REST * MOST_SECONDS


def test_the_longer_a_listing_takes_the_seldomer_it_is_made() -> None:
    rests = [slow(seconds).lister.step() for seconds in (0.0, 0.1, 5.0)]
    assert [EVERY_SECONDS <= rest <= 1.5 * EVERY_SECONDS for rest in rests] == [True, True, False]
    assert rests[2] >= REST * 5.0 * 101


def test_its_age_counts_from_where_it_was_begun() -> None:
    rig = slow(1.0)
    rig.lister.step()
    rig.clock.seconds += 9.0
    told = rig.lister.told()
    assert told is not None
    assert told.listing == CacheListing(url=URL, age_seconds=110.0)


def test_of_very_many_copies_those_that_lack_something_are_told_first() -> None:
    rig = Rig()
    for number in range(MOST_COPIES + 7):
        fill(rig.inner, f"c{number:04}@1", 1 if number % 100 == 99 else 2, of=2)
    rig.lister.step()
    told = rig.lister.told()
    assert told is not None
    assert (len(told.caches), told.listing.left_out) == (MOST_COPIES, 7)
    assert [one.subject for one in told.caches[:6]] == [f"c0{hundred}99@1" for hundred in range(5)] + ["c0000@1"]


# ---- beside the agent ---------------------------------------------------------------------------------------------


def test_the_report_says_what_stands_there_and_how_long_ago_that_was_looked() -> None:
    region, rig = Region(), Rig()
    rig.clock = region.clock
    rig.lister = Lister("eu", rig.common, rig._opened, rig.clock, Random(1))
    fill(rig.inner, "corpus@7", 57)
    region.agent.lister = rig.lister
    region.advance(15)
    assert (region.report().caches, region.report().caches_listed) == (None, None)
    rig.lister.step()
    region.advance(30)
    report = region.report()
    assert report.caches is not None
    assert report.caches_listed is not None
    assert [(one.subject, one.objects, one.objects_total) for one in report.caches] == [("corpus@7", 57, 100)]
    assert 10 <= report.caches_listed.age_seconds <= 30
    rig.inner.down = True
    rig.lister.step()
    region.advance(30)
    assert (region.report().caches, region.report().caches_listed) == (None, None)
    assert region.health() == [], "it is for the region's own people: the log says it"
    assert ("CopiesNotListed", "the region's store") in troubles_of(region.agent, region.clock.monotonic())


def test_a_listing_that_hangs_delays_neither_the_lease_nor_the_report() -> None:
    hangs, over = threading.Event(), threading.Event()
    region, rig = Region(), Rig()

    class Hanging(FailingStore):
        def list(self, prefix: str) -> Iterator[Listed]:
            hangs.set()
            over.wait(60)
            yield from super().list(prefix)

    rig.inner = Hanging()
    region.agent.lister = rig.lister
    listing = threading.Thread(target=rig.lister.step, daemon=True)
    listing.start()
    try:
        until(hangs.is_set)
        region.advance(120)
        assert region.report().sequence > 10
        assert region.lease().renewal >= 5
        assert region.report().caches is None
        assert listing.is_alive()
    finally:
        over.set()
        listing.join(20)
    assert rig.counts() == {}


def test_it_ends_when_it_is_told_to() -> None:
    rig = Rig()
    stop = threading.Event()
    running = threading.Thread(target=rig.lister.run, args=(stop,), daemon=True)
    running.start()
    stop.set()
    running.join(20)
    assert not running.is_alive()
