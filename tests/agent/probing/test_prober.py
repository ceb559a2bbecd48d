"""The measuring of a region's links: which, by whose word, and that nobody waits for it."""

import threading
from random import Random

from reconciler.agent.probing.prober import KEEP_SECONDS, TABLE_SECONDS, Prober
from reconciler.agent.probing.schedule import Rules
from reconciler.model.link_table import LINKS_KEY
from reconciler.model.region import StoreAddress
from reconciler.model.report import LinkProbe
from reconciler.ports import Refused, Transient
from reconciler.probe_port import Transferred
from tests.agent.probing.pretend import PretendLinks, line, publish, table_of
from tests.agent.region import HandClock, Region
from tests.agent.stores import FailingStore
from tests.waiting import until

QUICK = 2e8


class Rig:
    """The prober of eu, its links, and the store where the hub's table stands."""

    def __init__(self, *lines: object, stores: dict[str, str] | None = None, rate: float = QUICK) -> None:
        self.clock, self.store, self.down = HandClock(), FailingStore(), set[str]()
        self.links = PretendLinks("eu", self.clock, lambda *way: 0.0 if self.down & set(way) else rate)
        self.prober = Prober("eu", self.store, self.links, self.clock, Random(1), Rules())
        if lines:
            publish(self.store, table_of(*lines, stores=stores))  # type: ignore[arg-type]

    def live(self, seconds: float) -> None:
        end = self.clock.seconds + seconds
        while self.clock.seconds < end:
            self.clock.seconds += max(self.prober.step(), 0.01)

    def ways(self) -> set[tuple[str, str]]:
        return {(source, target) for source, target, *_ in self.links.moved}

    def probe(self, source: str, target: str) -> LinkProbe:
        return next(one for one in self.prober.probes() if (one.source, one.target) == (source, target))


BOTH = (line("eu", "us", 1), line("us", "eu", 1))


def test_without_a_table_nothing_is_measured_and_nothing_is_wrong() -> None:
    rig = Rig()
    rig.live(600)
    assert (rig.links.moved, rig.links.kept, rig.prober.probes(), rig.prober.health()) == ([], [], (), ())


def test_the_links_of_the_region_are_measured_both_ways_and_no_others() -> None:
    rig = Rig(*BOTH, line("us", "ap", 1), line("eu", "ap", 1))
    rig.live(300)
    assert rig.ways() == {("eu", "us"), ("us", "eu"), ("eu", "ap")}
    found = rig.probe("us", "eu")
    assert (found.bytes_per_second, found.newest_bytes_per_second, found.rtt_ms, found.problem) == (QUICK, QUICK, 20.0, "")
    assert found.samples > 1
    assert found.age_seconds is not None


def test_a_region_without_a_store_is_no_end_to_measure_to() -> None:
    rig = Rig(*BOTH, line("eu", "ap", 1), stores={"eu": "s3://eu/", "us": "s3://us/"})
    rig.live(300)
    assert rig.ways() == {("eu", "us"), ("us", "eu")}


def test_a_region_without_a_store_measures_its_links_all_the_same_and_offers_nothing() -> None:
    rig = Rig(*BOTH, stores={"us": "s3://us/"})
    rig.live(300)
    assert rig.ways() == {("eu", "us"), ("us", "eu")}
    assert rig.links.kept == []


def test_what_others_read_is_put_once_where_a_link_leads_away() -> None:
    rig = Rig(line("us", "eu", 1))
    rig.live(300)
    assert rig.links.kept == []
    publish(rig.store, table_of(*BOTH))
    rig.live(300)
    assert rig.links.kept == ["s3://bucket-eu/"]
    publish(rig.store, table_of(*BOTH, stores={"eu": "s3://moved/", "us": "s3://bucket-us/"}))
    rig.live(300)
    assert rig.links.kept == ["s3://bucket-eu/", "s3://moved/"]


def test_where_it_cannot_be_put_the_region_says_so_and_tries_again() -> None:
    rig = Rig(*BOTH)
    tries = []

    def refused(region: str, address: StoreAddress, size: int) -> None:
        tries.append(address.url)
        if len(tries) < 2:
            raise Refused("no writing here")

    rig.links.keep = refused  # type: ignore[method-assign]
    rig.live(60)
    assert [(one.code, one.message) for one in rig.prober.health()] == [
        ("LinksNotMeasured", "others cannot measure the links from here: no writing here")
    ]
    rig.live(KEEP_SECONDS)
    assert (len(tries), rig.prober.health()) == (2, ())
    assert rig.ways() == {("eu", "us"), ("us", "eu")}


def test_a_table_that_cannot_be_read_leaves_the_last_in_force() -> None:
    rig = Rig(*BOTH)
    rig.live(100)
    measured = len(rig.links.moved)
    rig.store.down = True
    rig.live(200)
    assert len(rig.links.moved) > measured
    assert rig.prober.health()[0].message == f"{LINKS_KEY}: the store does not answer"
    rig.store.down = False
    rig.store.put(LINKS_KEY, b'{"links": [{"source": 1}]}', expect=rig.store.etag(LINKS_KEY))
    rig.live(2 * TABLE_SECONDS)
    assert "it is broken at links.0.source" in rig.prober.health()[0].message
    publish(rig.store, table_of(*BOTH))
    rig.live(2 * TABLE_SECONDS)
    assert rig.prober.health() == ()


def test_a_link_that_is_gone_is_forgotten_and_one_to_another_store_begins_anew() -> None:
    rig = Rig(*BOTH, line("eu", "ap", 1))
    rig.live(600)
    assert {(one.source, one.target) for one in rig.prober.probes()} == {("eu", "us"), ("us", "eu"), ("eu", "ap")}
    stores = {"eu": "s3://bucket-eu/", "us": "s3://elsewhere/"}
    publish(rig.store, table_of(*BOTH, stores=stores))
    rig.live(2 * TABLE_SECONDS)
    assert rig.prober.probes() == ()
    rig.live(600)
    known = rig.probe("eu", "us").samples
    publish(rig.store, table_of(line("eu", "us", 2), line("us", "eu", 2), stores=stores))
    rig.live(2 * TABLE_SECONDS)
    assert rig.probe("eu", "us").samples >= known, "what is declared of it is not the link"


def test_a_full_link_is_left_alone_until_it_is_not() -> None:
    rig = Rig(line("eu", "us", 1, held=int(1.1e8)), line("us", "eu", 1))
    rig.live(600)
    assert rig.ways() == {("us", "eu")}
    publish(rig.store, table_of(*BOTH))
    rig.live(200)
    assert rig.ways() == {("us", "eu"), ("eu", "us")}


def test_a_link_that_is_down_is_a_problem_in_words_and_the_others_go_on() -> None:
    rig = Rig(*BOTH, line("eu", "ap", 1))
    rig.live(300)
    rig.down = {"us"}
    before = len(rig.links.moved)
    rig.live(600)
    gone, well = rig.probe("us", "eu"), rig.probe("eu", "ap")
    assert (gone.problem, gone.bytes_per_second) == ("the connection was refused", QUICK)
    assert gone.age_seconds is not None
    assert gone.age_seconds > 300
    assert (well.problem, well.bytes_per_second) == ("", QUICK)
    assert sum(1 for *way, _, size in rig.links.moved[before:] if size) >= 3
    rig.down = set()
    rig.live(600)
    assert rig.probe("us", "eu").problem == ""


def test_a_bug_in_one_probe_ends_that_probe_only() -> None:
    rig = Rig(*BOTH)

    def broken(*_: object) -> Transferred:
        raise ZeroDivisionError("division by zero")

    rig.links.read = broken  # type: ignore[method-assign]
    rig.live(300)
    assert rig.probe("us", "eu").problem == "Bug: ZeroDivisionError: division by zero"
    assert rig.probe("eu", "us").bytes_per_second == QUICK


def test_a_fall_to_a_third_shows_after_two_probes() -> None:
    now = {"rate": 1.2e8}
    rig = Rig(*BOTH)
    rig.links.rate = lambda *_: now["rate"]
    rig.live(3600)
    assert rig.probe("us", "eu").bytes_per_second == 1.2e8
    now["rate"] = 4e7
    before = len(rig.links.moved)
    while sum(1 for way in rig.links.moved[before:] if way[:2] == ("us", "eu")) < 2:
        rig.live(1)
    assert rig.probe("us", "eu").bytes_per_second == 4e7


# ---- beside the agent ---------------------------------------------------------------------------------------------


def test_the_report_says_what_was_measured() -> None:
    region, rig = Region(), Rig(*BOTH)
    region.agent.prober = rig.prober
    region.advance(15)
    assert region.report().probes == ()
    rig.live(300)
    region.advance(15)
    assert [(one.source, one.target) for one in region.report().probes] == [("eu", "us"), ("us", "eu")]
    assert region.report().probes[0].bytes_per_second == QUICK
    rig.store.down = True
    rig.live(60)
    region.advance(15)
    assert region.health() == ["LinksNotMeasured"]


def test_what_is_measured_is_no_reason_to_hurry_a_report() -> None:
    region, rig = Region(report_seconds=10.0), Rig(*BOTH)
    region.agent.prober = rig.prober
    region.advance(30)
    first = region.report().sequence
    for _ in range(10):
        rig.live(30)
        region.advance(2)
    assert region.report().sequence - first <= 3


def test_a_probe_that_hangs_delays_neither_the_lease_nor_the_report() -> None:
    hangs, over = threading.Event(), threading.Event()
    region, rig = Region(), Rig(*BOTH)

    def hanging(*_: object) -> Transferred:
        hangs.set()
        over.wait(60)
        raise Transient("it hung")

    rig.links.read = rig.links.write = hanging  # type: ignore[method-assign]
    rig.clock.seconds = 0.0
    rig.prober.step()
    rig.clock.seconds += 1000.0
    region.agent.prober = rig.prober
    stop = threading.Event()
    measuring = threading.Thread(target=rig.prober.run, args=(stop,), daemon=True)
    measuring.start()
    try:
        until(hangs.is_set)
        region.advance(120)
        assert region.report().sequence > 10
        assert region.lease().renewal >= 5
        assert measuring.is_alive()
    finally:
        over.set()
        stop.set()
        measuring.join(20)
    assert not measuring.is_alive()
    assert {one.problem for one in rig.prober.probes()} <= {"it hung"}
