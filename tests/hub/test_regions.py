"""What regions report: which report is believed, how old it is, and what a store that fails does to that."""

import threading
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from reconciler.adapters.file_store import FileStore
from reconciler.hub.regions import Reports, seen_of
from reconciler.model.grants import report_key
from reconciler.model.report import Health, LinkProbe
from reconciler.ports import Refused, Transient
from tests.builders import NOW, make_nodes, make_report
from tests.hub.doors import FaultyStore, ManualClock
from tests.hub.words import running

NAMES = ("eu", "us")


@dataclass
class World:
    """A store, a clock, and what a hub knows of the reports."""

    store: FaultyStore
    clock: ManualClock = field(default_factory=ManualClock)

    def __post_init__(self) -> None:
        self.reports = Reports(self.store, self.clock.monotonic)  # type: ignore[arg-type]

    def body(self, region: str, **fields: Any) -> bytes:
        return make_report(region, fields.pop("nodes", make_nodes(2)), **fields).model_dump_json().encode()

    def write(self, region: str, body: bytes) -> None:
        self.store.inner.put(report_key(region), body, expect=self.store.inner.etag(report_key(region)))

    def tell(self, region: str, **fields: Any) -> None:
        self.write(region, self.body(region, **fields))

    def look(self, *names: str) -> None:
        self.reports.look(names or NAMES)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(FaultyStore(FileStore(tmp_path)))


def test_a_region_that_never_reported_has_no_age(world: World) -> None:
    world.look()
    assert (world.reports.seen, world.reports.age_seconds("eu"), world.reports.troubles) == ({}, None, {})


def test_a_report_is_as_old_as_the_time_since_it_was_seen_to_change(world: World) -> None:
    world.tell("eu", sequence=1)
    world.look()
    assert world.reports.age_seconds("eu") == 0
    world.clock.seconds += 25
    world.look()
    assert world.reports.age_seconds("eu") == 25
    world.tell("eu", sequence=2)
    world.look()
    assert world.reports.age_seconds("eu") == 0


@pytest.mark.parametrize("minutes", [-11, 11])
def test_a_region_whose_clock_is_wrong_is_as_fresh_as_any_other(world: World, minutes: int) -> None:  # LR-5
    for sequence in range(1, 5):
        world.tell("eu", sequence=sequence, sent_at=NOW + timedelta(minutes=minutes, seconds=15 * sequence))
        world.look()
        assert world.reports.age_seconds("eu") == 0
        world.clock.seconds += 15


def test_after_a_start_every_age_begins_anew(world: World) -> None:  # LR-3
    world.tell("eu")
    world.look()
    world.clock.seconds += 7200
    assert world.reports.age_seconds("eu") == 7200
    world.reports = Reports(world.store, world.clock.monotonic)  # type: ignore[arg-type]
    world.look()
    assert world.reports.age_seconds("eu") == 0


def test_a_report_that_was_written_again_unchanged_is_not_a_new_one(world: World) -> None:
    world.tell("eu", sequence=7)
    world.look()
    world.clock.seconds += 20
    world.tell("eu", sequence=7, health=(Health(code="X", message="another body, the same sequence"),))
    world.look()
    assert world.reports.age_seconds("eu") == 20


def test_an_older_report_of_the_same_agent_changes_nothing(world: World) -> None:
    world.tell("eu", sequence=7, grants_version=4)
    world.look()
    world.clock.seconds += 5
    world.tell("eu", sequence=6, grants_version=3)
    world.look()
    assert (world.reports.seen["eu"].grants_version, world.reports.age_seconds("eu")) == (4, 5)


def test_an_agent_that_started_anew_may_begin_its_count_again(world: World) -> None:
    world.tell("eu", sequence=700, incarnation="one")
    world.look()
    world.clock.seconds += 5
    world.tell("eu", sequence=1, incarnation="two")
    world.look()
    assert (world.reports.seen["eu"].incarnation, world.reports.age_seconds("eu")) == ("two", 0)


def whole(world: World) -> bytes:
    return world.body("eu", sequence=2)


HALF: dict[str, tuple[Any, str]] = {  # OS-7
    "zero bytes": (lambda _: b"", "broken at its beginning"),
    "an empty object": (lambda _: b"{}", "broken at region"),
    "cut at 60 per cent": (lambda body: body[: len(body) * 6 // 10], "broken at its beginning"),
    "cut before its last bracket": (lambda body: body[:-1], "broken at its beginning"),
    "an unknown schema": (lambda body: body.replace(b'"schema_version":1', b'"schema_version":9'), "broken at schema_version"),
    "no workloads at all": (lambda body: body.replace(b'"workloads":[],', b""), "broken at workloads"),
    "no nodes at all": (lambda body: body[: body.index(b'"nodes"')] + body[body.index(b'"workloads"') :], "broken at nodes"),
    "a field that nobody knows": (lambda body: body.replace(b'"workloads"', b'"x":1,"workloads"'), "broken at x"),
    "no text at all": (lambda _: b"\xff\xfe\x00", "broken at its beginning"),
    "null": (lambda _: b"null", "broken at its beginning"),
    "a number for a name": (lambda body: body.replace(b'"incarnation":"one"', b'"incarnation":1'), "broken at incarnation"),
}


@pytest.mark.parametrize(("cut", "words"), HALF.values(), ids=HALF)
def test_half_a_report_is_none_and_the_last_good_one_stays_in_force_and_ages(world: World, cut: Any, words: str) -> None:
    world.tell("eu", sequence=1, workloads=(running("llm-a-000000-a1"),))
    world.look()
    before = world.reports.seen["eu"]
    world.clock.seconds += 12
    world.write("eu", cut(whole(world)))
    world.look()
    world.clock.seconds += 12
    world.look()
    assert (world.reports.seen["eu"], world.reports.age_seconds("eu")) == (before, 24)
    assert words in world.reports.troubles["eu"]
    world.tell("eu", sequence=3)
    world.look()
    assert (world.reports.troubles, world.reports.age_seconds("eu")) == ({}, 0)


@pytest.mark.parametrize(("cut", "words"), HALF.values(), ids=HALF)
def test_half_a_first_report_says_nothing(world: World, cut: Any, words: str) -> None:
    world.write("eu", cut(whole(world)))
    world.look()
    assert (world.reports.seen, world.reports.age_seconds("eu")) == ({}, None)
    assert words in world.reports.troubles["eu"]


def test_the_report_of_another_region_is_not_believed(world: World) -> None:
    world.write("eu", world.body("us"))
    world.look()
    assert world.reports.seen == {}
    assert world.reports.troubles == {"eu": "its report names the region us"}


@pytest.mark.parametrize("error", [Transient("it does not answer"), Refused("it may not be read")])
def test_a_store_that_fails_for_one_region_leaves_the_others_alone(world: World, error: Exception) -> None:
    world.tell("eu")
    world.tell("us")
    world.look()
    world.clock.seconds += 10
    world.tell("us", sequence=2)
    world.store.fails[report_key("eu")] = error
    world.look()
    assert (world.reports.age_seconds("eu"), world.reports.age_seconds("us")) == (10, 0)
    assert world.reports.troubles == {"eu": str(error)}


@pytest.mark.parametrize("reported", [True, False])
def test_a_store_that_answers_again_is_no_trouble_any_more(world: World, reported: bool) -> None:
    if reported:
        world.tell("eu")
    world.store.fails[report_key("eu")] = Transient("it does not answer")
    world.look()
    assert "eu" in world.reports.troubles
    world.store.fails.clear()
    world.look()
    assert world.reports.troubles == {}
    world.store.fails[report_key("eu")] = Transient("it does not answer")
    world.look()
    world.store.fails.clear()
    world.look()
    assert world.reports.troubles == {}, "though the report is the same as before"


def test_a_broken_report_stays_a_trouble_until_a_good_one_comes(world: World) -> None:
    world.write("eu", b"{}")
    world.look()
    world.look()
    assert "eu" in world.reports.troubles
    world.store.fails[report_key("eu")] = Transient("away")
    world.look()
    world.store.fails.clear()
    world.look()
    assert "broken" in world.reports.troubles["eu"]


def test_a_region_that_is_asked_for_no_more_is_no_trouble(world: World) -> None:
    world.write("eu", b"{}")
    world.look()
    world.look("us")
    assert world.reports.troubles == {}


def test_a_report_that_did_not_change_is_not_read_again(world: World) -> None:
    world.tell("eu")
    world.look("eu")
    world.store.asked.clear()
    world.look("eu")
    assert world.store.asked == [f"etag {report_key('eu')}"]


MATTERS: dict[str, tuple[dict[str, Any], bool]] = {
    "the sequence": ({"sequence": 2}, False),
    "the agent's clock": ({"sent_at": NOW.replace(year=2030)}, False),
    "the commit that was applied": ({"synced_commit": "c1"}, False),
    "a node": ({"nodes": make_nodes(1)}, True),
    "a GPU in use": ({"nodes": make_nodes(2, used=1)}, True),
    "a workload": ({"workloads": (running("llm-a-000000-a1"),)}, True),
    "a namespace": ({"namespaces": ("team-z",)}, True),
    "the grants that were acted upon": ({"grants_version": 3}, True),
    "the lease's epoch": ({"lease_epoch": 2}, True),
    "what cannot be applied": ({"sync_errors": {"manifests/x.yaml": "bad"}}, True),
    "another start of the agent": ({"incarnation": "two"}, True),
    "a link that was measured": ({"probes": (LinkProbe(source="eu", target="us", bytes_per_second=1e8),)}, True),
    "a link that could not be measured": ({"probes": (LinkProbe(source="eu", target="us", problem="no"),)}, False),
}


@pytest.mark.parametrize(("fields", "matters"), MATTERS.values(), ids=MATTERS)
def test_only_what_a_decision_could_depend_on_wakes_the_hub(world: World, fields: dict[str, Any], matters: bool) -> None:
    world.tell("eu", sequence=1)
    world.look("eu")
    before = world.reports.matter()
    world.tell("eu", **{"sequence": 2, **fields})
    world.look("eu")
    assert (world.reports.matter() != before) is matters


def test_a_links_rate_matters_when_it_has_changed_by_much_however_slowly(world: World) -> None:
    woken = []
    for sequence, rate in enumerate((100, 110, 120, 124, 130, 120, 110, 100, 90, 30), start=1):
        before = world.reports.matter()
        world.tell("eu", sequence=sequence, probes=(LinkProbe(source="eu", target="us", bytes_per_second=float(rate)),))
        world.look("eu")
        woken += [rate] if world.reports.matter() != before else []
    assert woken == [100, 130, 90, 30]


def test_what_is_kept_of_a_report_is_what_it_said() -> None:
    work = running("llm-a-000000-a1")
    report = make_report("eu", make_nodes(2), (work,), grants_version=4, lease_epoch=2, synced_commit="c", sync_errors={"a": "b"})
    seen = seen_of(report)
    assert (seen.workloads, seen.grants_version, seen.lease_epoch, seen.synced_commit) == ({work.attempt: work}, 4, 2, "c")
    assert (seen.sync_errors, seen.incarnation, seen.sequence) == ({"a": "b"}, "one", 1)


@pytest.mark.parametrize(("at_once", "by_others"), [(1, False), (2, True)], ids=["one at a time", "two side by side"])
def test_only_one_at_a_time_is_read_by_whoever_looks(tmp_path: Path, at_once: int, by_others: bool) -> None:
    asked_by: set[int] = set()

    class Watched(FileStore):
        def etag(self, key: str) -> str | None:
            asked_by.add(threading.get_ident())
            return super().etag(key)

    reports = Reports(Watched(tmp_path), lambda: 0.0, at_once)
    reports.look(("ap", "eu", "us", "za"))
    assert (asked_by != {threading.get_ident()}) is by_others
