"""When a listing in a report was begun, as a hub can know it."""

from pathlib import Path
from typing import Any

import pytest

from reconciler.adapters.file_store import FileStore
from reconciler.agent.lister import MOST_SECONDS, REST
from reconciler.hub.listed import OLD_SECONDS, ON_ITS_WAY_SECONDS
from reconciler.model.grants import report_key
from reconciler.model.report import CacheListing, CacheReport
from reconciler.planning.copies import Listing, Standing
from reconciler.ports import Transient
from tests.builders import NOW
from tests.hub.doors import FaultyStore
from tests.hub.test_regions import World

URI = "s3://eu/staged/corpus@7/"


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(FaultyStore(FileStore(tmp_path)))
    made.tell("eu", sequence=1)
    made.look("eu")
    return made


def tell(world: World, sequence: int, age: float = 20.0, **listing: Any) -> None:
    cache = CacheReport(subject="corpus@7", uri=URI, objects=7, objects_total=10, size_bytes=70, size_bytes_total=100)
    told = CacheListing(url="s3://eu", age_seconds=age, **listing)
    world.tell("eu", sequence=sequence, caches=(cache,), caches_listed=told)


def listing(world: World) -> Listing | None:
    return world.reports.listings(world.clock.now(), frozenset()).get("eu")


def begun(world: World) -> float | None:
    """Seconds after NOW."""
    found = listing(world)
    return (found.begun_at - NOW).total_seconds() if found is not None else None


def test_it_counts_from_the_look_before_the_report(world: World) -> None:
    world.clock.seconds = 1000.0
    world.look("eu")
    tell(world, 2)
    world.clock.seconds = 1090.0
    world.look("eu")
    assert begun(world) == 1000 - 20 - ON_ITS_WAY_SECONDS, "it may have been written right after that look"
    world.clock.seconds = 1500.0
    world.look("eu")
    assert begun(world) == 950, "looking again makes it no newer"
    found = listing(world)
    assert found is not None
    assert (found.url, dict(found.copies), found.names_all) == ("s3://eu", {URI: Standing(False, 70, 100)}, True)


def test_a_report_that_stood_there_at_the_first_look_says_nothing_of_when(world: World) -> None:
    tell(world, 2)
    world.__post_init__()
    world.look("eu")
    assert listing(world) is None
    tell(world, 3)
    world.look("eu")
    assert begun(world) == -20 - ON_ITS_WAY_SECONDS


def test_a_look_that_the_store_did_not_answer_is_none(world: World) -> None:
    world.clock.seconds = 600.0
    world.store.fails[report_key("eu")] = Transient("away")
    world.look("eu")
    world.store.fails.clear()
    tell(world, 2)
    world.look("eu")
    assert begun(world) == -20 - ON_ITS_WAY_SECONDS


def test_it_is_forgotten_when_it_is_old_or_its_region_says_no_more(world: World) -> None:
    tell(world, 2)
    world.look("eu")
    assert world.reports.listings(world.clock.now(), {"eu"}) == {}, "a region that is not heard of"
    world.clock.seconds = OLD_SECONDS - 20 - ON_ITS_WAY_SECONDS
    assert begun(world) is not None
    world.clock.seconds += 1
    assert begun(world) is None
    world.look("eu")
    tell(world, 3)
    world.look("eu")
    assert begun(world) is not None
    world.tell("eu", sequence=4)
    world.look("eu")
    assert begun(world) is None


def test_where_copies_are_left_out_the_others_may_be_there(world: World) -> None:
    tell(world, 2, left_out=1)
    world.look("eu")
    found = listing(world)
    assert found is not None
    assert not found.names_all


def test_what_is_there_wakes_the_hub_and_how_old_that_is_does_not(world: World) -> None:
    tell(world, 2)
    world.look("eu")
    before = world.reports.matter()
    tell(world, 3, age=300.0)
    world.look("eu")
    assert world.reports.matter() == before
    world.tell("eu", sequence=4, caches=(), caches_listed=CacheListing(url="s3://eu", age_seconds=1.0))
    world.look("eu")
    assert world.reports.matter() != before


def test_an_agent_lists_often_enough_to_be_believed() -> None:
    longest = MOST_SECONDS + 1.5 * REST * MOST_SECONDS
    assert longest + ON_ITS_WAY_SECONDS + 60.0 < OLD_SECONDS
