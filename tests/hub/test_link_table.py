"""What the hub says of the links in the store: to agents which there are, to people what they were measured to do."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from reconciler.hub.fleet import Fleet, directed
from reconciler.hub.link_table import MEASURED_KEY, LinkTables, MeasuredTable, measured_table, read_measured, table_of
from reconciler.hub.regions import RegionSeen, seen_of
from reconciler.hub.results import Ended
from reconciler.model.fleet import Link, Links
from reconciler.model.link_table import LINKS_KEY, LinkTable
from reconciler.model.policy import Policy, Settings
from reconciler.model.region import Region, StoreAddress
from reconciler.model.report import LinkProbe
from reconciler.ports import Conflict, Transient
from tests.agent.stores import FailingStore
from tests.builders import NOW, make_report
from tests.hub.doors import ManualClock
from tests.hub.rig import Rig
from tests.hub.words import FILES, region_file

EU, US = StoreAddress(url="s3://eu/"), StoreAddress(url="s3://us/", endpoint="https://s3.us.example.com")
LINE = Link(source="eu", target="us", gbit_per_second=1.0)


def fleet(*links: Link, stores: Mapping[str, StoreAddress | None] | None = None) -> Fleet:
    stores = {"eu": EU, "us": US, "ap": None} if stores is None else stores
    regions = {name: Region(name=name, object_store=store) for name, store in stores.items()}
    return Fleet(regions, directed(Links(links=links)), {}, {}, Policy(), Settings())


def probe(rate: float | None = 1e8, **more: Any) -> LinkProbe:
    said = {"source": "eu", "target": "us", "samples": 3, "rtt_ms": 80.5, "age_seconds": 20.0} | more
    return LinkProbe(bytes_per_second=rate, newest_bytes_per_second=rate, **said)


def seen(region: str, *probes: LinkProbe) -> dict[str, RegionSeen]:
    return {region: seen_of(make_report(region, probes=probes))}


# ---- the table for the agents -------------------------------------------------------------------------------------


def test_it_has_the_stores_the_declared_links_and_what_is_held() -> None:
    back = Link(source="us", target="eu")
    found = table_of(fleet(LINE, back), {("eu", "us"): 5_000_000})
    assert found.stores == {"eu": EU, "us": US}
    assert [(line.source, line.target, line.gbit_per_second, line.held_bytes_per_second) for line in found.links] == [
        ("eu", "us", 1.0, 5_000_000),
        ("us", "eu", None, 0),
    ]


def test_a_symmetric_link_is_two_and_one_that_is_only_used_is_there_too() -> None:
    both = LINE.model_copy(update={"symmetric": True})
    found = table_of(fleet(both), {("ap", "eu"): 7})
    assert [(line.source, line.target, line.gbit_per_second) for line in found.links] == [
        ("ap", "eu", None),
        ("eu", "us", 1.0),
        ("us", "eu", 1.0),
    ]


class World:
    """The writer, and a store that can fail."""

    def __init__(self) -> None:
        self.clock, self.store = ManualClock(), FailingStore()
        self.tables = LinkTables(self.store, self.clock)

    def follow(self, *links: Link, held: Mapping[tuple[str, str], int] | None = None, **more: Any) -> list[str]:
        regions, ages = more.get("regions", {}), more.get("ages", {})
        which = more.get("fleet", fleet(*links))
        return [trouble.subject for trouble in self.tables.follow(which, held or {}, regions, ages)]

    def table(self) -> LinkTable:
        found = self.store.get(LINKS_KEY)
        assert found is not None
        return LinkTable.model_validate_json(found.body)


def test_it_is_written_when_it_says_something_new_and_only_then() -> None:
    world = World()
    assert world.follow(LINE) == []
    assert world.store.writes == 1
    world.follow(LINE)
    assert world.store.writes == 1
    world.follow(LINE, held={("eu", "us"): 5})
    world.follow(LINE, held={("eu", "us"): 5})
    assert (world.store.writes, world.table().links[0].held_bytes_per_second) == (2, 5)
    world.follow()
    assert (world.store.writes, world.table().links) == (3, ())


def test_a_new_hub_finds_what_stands_there() -> None:
    world = World()
    world.follow(LINE)
    world.tables = LinkTables(world.store, world.clock)
    assert (world.follow(LINE), world.store.writes) == ([], 1)
    assert (world.follow(LINE, held={("eu", "us"): 5}), world.store.writes) == ([], 2)


def test_where_there_is_nothing_to_say_the_store_is_not_even_asked() -> None:
    world = World()
    world.store.down = True
    assert world.follow(fleet=fleet(stores={"eu": None})) == []


def test_what_is_there_and_is_none_of_ours_is_written_over() -> None:
    world = World()
    world.store.put(LINKS_KEY, b"{", expect=None)
    assert world.follow(LINE) == []
    assert world.table().links[0].source == "eu"


def test_what_cannot_be_written_is_told_and_tried_again() -> None:
    world = World()
    world.follow(LINE)
    world.store.down = True
    assert world.follow(LINE, held={("eu", "us"): 5}) == [LINKS_KEY]
    assert world.follow(LINE, held={("eu", "us"): 5}) == [LINKS_KEY]
    world.store.down = False
    assert world.follow(LINE, held={("eu", "us"): 5}) == []
    assert world.table().links[0].held_bytes_per_second == 5


def test_another_writer_in_between_is_told_and_then_written_over() -> None:
    world = World()
    world.follow(LINE)
    world.store.put(LINKS_KEY, b"{}", expect=world.store.etag(LINKS_KEY))
    assert world.follow(LINE, held={("eu", "us"): 5}) == [LINKS_KEY]
    assert world.follow(LINE, held={("eu", "us"): 5}) == []
    assert world.table().links[0].held_bytes_per_second == 5


def test_a_write_that_was_done_and_whose_answer_was_lost_is_not_done_twice() -> None:
    world = World()
    world.store.lose_answers = True
    assert world.follow(LINE) == [LINKS_KEY]
    world.store.lose_answers = False
    assert world.follow(LINE) == []
    assert world.store.writes == 1


# ---- what was measured --------------------------------------------------------------------------------------------


def test_what_was_measured_is_told_with_when_by_the_hubs_clock() -> None:
    found = measured_table(seen("eu", probe()), {"eu": 40.0}, NOW)
    (line,) = found.links
    assert (line.source, line.target, line.bytes_per_second, line.samples, line.rtt_ms) == ("eu", "us", 1e8, 3, 80.5)
    assert (line.at, line.problem) == (NOW - timedelta(seconds=60), "")


def test_a_try_that_failed_is_told_in_words_with_or_without_a_rate() -> None:
    found = measured_table(
        seen("eu", probe(problem="reset"), probe(None, age_seconds=None, target="ap", problem="refused")), {"eu": 0.0}, NOW
    )
    assert [(line.target, line.bytes_per_second, line.problem) for line in found.links] == [
        ("ap", None, "refused"),
        ("us", 1e8, "reset"),
    ]


def test_a_region_that_never_reported_to_this_hub_says_nothing() -> None:
    assert measured_table(seen("eu", probe(problem="reset")), {"eu": None}, NOW) == MeasuredTable()


def test_it_is_written_at_news_and_else_once_a_minute() -> None:
    world, ages = World(), {"eu": 0.0}

    def told(rate: float, **more: Any) -> MeasuredTable:
        world.follow(LINE, regions=seen("eu", probe(rate, **more)), ages=ages)
        return read_measured(world.store)

    first = told(1e8)
    assert first.links[0].bytes_per_second == 1e8
    world.clock.seconds += 5
    assert told(1.05e8) == first, "no news, and too soon"
    assert told(3e7).links[0].bytes_per_second == 3e7
    assert told(3e7, problem="reset").links[0].problem == "reset"
    world.clock.seconds += 61
    assert told(3.05e7, problem="reset").links[0].bytes_per_second == 3.05e7
    assert read_measured(FailingStore()) == MeasuredTable()


# ---- in the cycle -------------------------------------------------------------------------------------------------

WIRED = {
    **FILES,
    "regions/eu.yaml": region_file("eu", 1.0, "object_store: {url: 's3://eu/'}\n"),
    "regions/us.yaml": region_file("us", 20.0, "object_store: {url: 's3://us/'}\n"),
    "links.yaml": "links: [{source: eu, target: us, gbit_per_second: 1, symmetric: true}]\n",
}


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    made = Rig(tmp_path, files=WIRED)
    made.tell("eu", probes=(probe(),))
    made.tell("us")
    return made


def agents_table(rig: Rig) -> LinkTable:
    found = rig.store.inner.get(LINKS_KEY)
    assert found is not None
    return LinkTable.model_validate_json(found.body)


def test_a_cycle_tells_the_agents_and_people(rig: Rig) -> None:
    rig.settle()
    assert [(line.source, line.target) for line in agents_table(rig).links] == [("eu", "us"), ("us", "eu")]
    assert agents_table(rig).stores["us"].url == "s3://us/"
    assert [line.bytes_per_second for line in read_measured(rig.store.inner).links] == [1e8]
    rig.put({"links.yaml": "links: [{source: eu, target: us, gbit_per_second: 2}]\n"})
    rig.settle()
    assert [line.gbit_per_second for line in agents_table(rig).links] == [2.0]


@pytest.mark.parametrize("error", [Transient("away"), Conflict("another")], ids=["a store that is away", "a lost race"])
def test_what_cannot_be_written_stops_nothing_and_is_told_if_it_stays(rig: Rig, error: Exception) -> None:
    rig.store.fails_put = {LINKS_KEY: error, MEASURED_KEY: error}
    rig.job()
    rig.settle()
    assert rig.granted("eu") == [rig.attempt().name]
    rig.clock.seconds += 11
    rig.tell_again("eu", probes=(probe(),))
    rig.tell_again("us")
    rig.settle()
    told = {trouble.subject for trouble in rig.hub_file().troubles if trouble.code == "LinksNotWritten"}
    assert told == {LINKS_KEY, MEASURED_KEY}
    rig.store.fails_put = {}
    for _ in range(3):
        rig.clock.seconds += 11
        rig.tell_again("eu", probes=(probe(),))
        rig.tell_again("us")
        rig.settle()
    assert agents_table(rig).links
    assert not [trouble for trouble in rig.hub_file().troubles if trouble.code == "LinksNotWritten"]


def test_measuring_alone_wakes_no_hub_but_a_link_that_falls_does(rig: Rig) -> None:
    rig.settle()
    rig.cycle(Ended.IDLE)
    for rate in (1.1e8, 0.9e8, 1.05e8):
        rig.tell_again("eu", probes=(probe(rate),))
        rig.cycle(Ended.IDLE)
    rig.tell_again("eu", probes=(probe(3.3e7),))
    rig.cycle(Ended.QUIET)
    assert [line.bytes_per_second for line in read_measured(rig.store.inner).links] == [3.3e7]
