"""Regions that are given up one after the other: in their turn, and whether or not another of them can be."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from reconciler.adapters.file_store import FileStore
from reconciler.hub.losing import in_turn
from reconciler.hub.regions import Reports
from reconciler.hub.watch import Watch, Watched
from reconciler.model.grants import Lease, lease_key, report_key
from reconciler.model.region import LossTimes
from reconciler.model.region_state import RegionState
from reconciler.ports import Refused
from tests.builders import make_nodes, make_report
from tests.hub.doors import FaultyStore, ManualClock

STEP = 10.0
QUIET = ("ap", "eu")
"""They fall silent, and a person has confirmed that unless a test says otherwise."""
HEARD = "us"


@dataclass
class Post:
    """A watch over three regions with leases, of which one goes on to report."""

    folder: Path
    clock: ManualClock = field(default_factory=ManualClock)
    sequence: int = 0
    confirmed: tuple[str, ...] = QUIET
    never_led: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.store = FaultyStore(FileStore(self.folder))
        self.watch, self.reports = Watch(self.store, self.clock.monotonic), Reports(self.store, self.clock.monotonic)
        self.watch.declare(dict.fromkeys((*QUIET, HEARD), LossTimes()))
        for name in (*QUIET, HEARD):
            lease = Lease(region=name, epoch=3, incarnation="one", renewal=0)
            self.store.inner.put(lease_key(name), lease.model_dump_json().encode(), expect=None)
            self.report(name)

    def report(self, name: str) -> None:
        self.sequence += 1
        body = make_report(name, make_nodes(1), (), sequence=self.sequence).model_dump_json().encode()
        self.store.inner.put(report_key(name), body, expect=self.store.inner.etag(report_key(name)))

    def step(self) -> Watched:
        self.report(HEARD)
        self.reports.look((*QUIET, HEARD))
        self.watch.look(self.reports)
        return self.watch.step(self.confirmed, self.never_led, {})

    def pass_time(self, seconds: float) -> Watched:
        found = Watched({})
        for _ in range(int(seconds / STEP)):
            self.clock.seconds += STEP
            found = self.step()
        return found

    def revoked(self) -> list[str]:
        return sorted(self.watch.revoked())


@pytest.fixture
def post(tmp_path: Path) -> Post:
    return Post(tmp_path)


def test_each_waits_for_its_turn_and_is_told_when_that_is(post: Post) -> None:
    found = post.pass_time(330.0)
    while not post.revoked():
        found = post.pass_time(STEP)
    assert post.revoked() == ["ap"]
    assert (found.verdicts["eu"].state, found.verdicts["eu"].next_in) == (RegionState.LOST, 60.0)
    assert post.pass_time(20.0).verdicts["eu"].next_in == 40.0
    post.pass_time(40.0)
    assert post.revoked() == ["ap", "eu"]


def test_the_moment_that_is_promised_first_knows_of_the_others(post: Post) -> None:
    """And what is told does not move: each word of it is a commit."""
    found = post.pass_time(200.0)
    promised = {name: post.clock.seconds + (found.verdicts[name].next_in or 0.0) for name in QUIET}
    assert sorted(promised, key=lambda name: promised[name]) == ["ap", "eu"]
    assert promised["eu"] - promised["ap"] == 60.0
    given_up: dict[str, float] = {}
    while len(given_up) < 2:
        post.pass_time(STEP)
        given_up |= {name: post.clock.seconds for name in post.revoked() if name not in given_up}
    assert all(abs(given_up[name] - promised[name]) < STEP for name in QUIET)


def test_turns() -> None:
    assert in_turn({"ap": 100.0, "eu": 110.0, "us": 300.0}, 0.0) == {"ap": 100.0, "eu": 160.0, "us": 300.0}
    assert in_turn({"ap": 100.0, "eu": 0.0}, 30.0) == {"eu": 30.0, "ap": 100.0}
    assert in_turn({"ap": 0.0, "eu": 0.0}, 0.0, ["eu", "ap"]) == {"eu": 0.0, "ap": 60.0}
    assert in_turn({}, 5.0) == {}


def test_one_that_cannot_be_given_up_stands_in_nobodys_way_and_has_no_moment(post: Post) -> None:
    post.store.fails_put[lease_key("ap")] = Refused("you may not write that")
    found = post.pass_time(440.0)
    assert post.revoked() == ["eu"]
    assert (found.verdicts["ap"].state, found.verdicts["ap"].next_in) == (RegionState.LOST, None)
    assert found.troubles == {"ap": "you may not write that"}, "also between two tries"
    del post.store.fails_put[lease_key("ap")]
    found = post.pass_time(60.0)
    assert post.revoked() == ["ap", "eu"]
    assert found.troubles == {}


def test_one_whose_lease_cannot_be_looked_at_has_no_moment_either(post: Post) -> None:
    post.pass_time(250.0)
    post.store.fails[lease_key("ap")] = Refused("you may not read that")
    found = post.pass_time(300.0)
    assert post.revoked() == ["eu"]
    assert (found.verdicts["ap"].next_in, found.troubles) == (None, {"ap": "you may not read that"})


@pytest.mark.parametrize(
    ("never_led", "given_up"), [((), []), (("ap",), ["eu"])], ids=["two that had agents", "one that had none"]
)
def test_a_region_whose_agent_never_came_is_no_sign_that_the_hub_is_blind(
    post: Post, never_led: tuple[str, ...], given_up: list[str]
) -> None:
    post.confirmed, post.never_led = (), never_led
    if never_led:
        post.store.inner.delete(lease_key("ap"))
    post.pass_time(340.0)
    assert post.revoked() == given_up
