"""Which hub leads: one lease, taken and renewed by compare-and-swap, judged by each hub's own clock."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from reconciler.adapters.file_store import FileStore
from reconciler.hub.leader import Leadership
from reconciler.model.grants import HUB_LEASE_KEY, HubLease
from reconciler.ports import Conflict, Refused, Transient
from tests.hub.doors import FaultyStore, ManualClock

SECONDS = 15.0


@dataclass
class World:
    """A store and a clock that all hubs share; each has its own view of the lease."""

    store: FaultyStore
    clock: ManualClock

    def hub(self, holder: str, seconds: float = SECONDS) -> Leadership:
        return Leadership(self.store, holder, seconds, self.clock.monotonic)  # type: ignore[arg-type]

    def lease(self) -> HubLease:
        found = self.store.inner.get(HUB_LEASE_KEY)
        assert found is not None
        return HubLease.model_validate_json(found.body)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(FaultyStore(FileStore(tmp_path)), ManualClock())


def test_the_first_hub_takes_the_lease_and_the_second_stands_by(world: World) -> None:
    one, two = world.hub("one"), world.hub("two")
    assert one.term is None
    assert one.step() == 1
    assert (one.term, two.step(), two.term) == (1, None, None)
    assert world.lease() == HubLease(holder="one", term=1, renewal=0, duration_seconds=SECONDS)


def test_a_lease_is_renewed_in_good_time_and_not_before(world: World) -> None:
    one = world.hub("one")
    one.step()
    world.clock.seconds += SECONDS / 3 - 0.1
    assert one.step() == 1
    assert world.lease().renewal == 0
    world.clock.seconds += 0.2
    assert one.step() == 1
    assert world.lease().renewal == 1


def test_a_renewal_counts_from_when_it_was_sent(world: World) -> None:
    one = world.hub("one")
    store_put = world.store.inner.put

    def slow(key: str, body: bytes, *, expect: str | None) -> str:
        world.clock.seconds += 10
        return store_put(key, body, expect=expect)

    world.store.inner.put = slow  # type: ignore[method-assign]
    assert one.step() == 1
    world.clock.seconds += SECONDS - 10 - 0.1
    assert one.term == 1
    world.clock.seconds += 0.2
    assert one.term is None


def test_a_hub_leads_only_for_the_time_of_its_lease(world: World) -> None:
    one = world.hub("one")
    one.step()
    world.clock.seconds += SECONDS + 1
    assert one.term is None
    assert one.step() == 1, "nobody else took it meanwhile"


def test_a_lease_that_is_renewed_is_never_taken(world: World) -> None:
    one, two = world.hub("one"), world.hub("two")
    one.step()
    for _ in range(40):
        world.clock.seconds += 6
        assert (one.step(), two.step()) == (1, None)


def test_a_lease_that_nobody_renews_is_taken_after_its_own_duration_by_the_observers_clock(world: World) -> None:
    one, two = world.hub("one", seconds=60), world.hub("two", seconds=5)
    one.step()
    world.clock.seconds += 1000  # nobody knows how long it lay there: the observer starts to count at its first look
    assert two.step() is None
    world.clock.seconds += 60
    assert two.step() is None
    world.clock.seconds += 0.1
    assert two.step() == 2
    assert world.lease() == HubLease(holder="two", term=2, renewal=0, duration_seconds=5)


def test_a_hub_that_slept_through_its_lease_finds_that_it_leads_no_more(world: World) -> None:
    one, two = world.hub("one"), world.hub("two")
    one.step()
    two.step()
    world.clock.seconds += SECONDS + 1
    assert two.step() == 2
    assert (one.term, one.step(), one.term) == (None, None, None)
    world.clock.seconds += SECONDS - 2
    assert (two.step(), one.step()) == (2, None)


def test_of_two_hubs_that_see_it_run_out_at_once_one_takes_it(world: World) -> None:
    world.hub("gone").step()
    one, two = world.hub("one"), world.hub("two")
    assert (one.step(), two.step()) == (None, None)
    world.clock.seconds += SECONDS + 1
    assert (one.step(), two.step()) == (2, None)
    third = world.hub("third")
    world.clock.seconds += 1
    assert third.step() is None


def test_of_two_hubs_that_find_no_lease_one_gets_it(world: World) -> None:
    one, two = world.hub("one"), world.hub("two")
    real = world.store.inner.put

    def beaten(key: str, body: bytes, *, expect: str | None) -> str:
        world.store.inner.put = real  # type: ignore[method-assign]
        assert two.step() == 1
        return real(key, body, expect=expect)

    world.store.inner.put = beaten  # type: ignore[method-assign]
    assert (one.step(), one.term, two.term) == (None, None, 1)


def test_a_renewal_whose_answer_is_lost_is_found_to_be_ours(world: World) -> None:
    one, two = world.hub("one"), world.hub("two")
    one.step()
    two.step()
    world.clock.seconds += 6
    world.store.lose_answers[HUB_LEASE_KEY] = Transient("the answer was lost")
    with pytest.raises(Transient):
        one.step()
    assert one.term == 1, "what was renewed before still holds"
    world.store.lose_answers.clear()
    assert one.step() == 1
    assert world.lease().renewal == 2
    assert two.step() is None


def test_a_store_that_does_not_answer_ends_the_lead_only_when_the_lease_has_run_out(world: World) -> None:
    one = world.hub("one")
    one.step()
    world.store.fails[HUB_LEASE_KEY] = Transient("away")
    world.clock.seconds += 6
    with pytest.raises(Transient):
        one.step()
    assert one.term == 1
    world.clock.seconds += SECONDS
    assert one.term is None


def test_a_hub_that_resigns_is_followed_at_once(world: World) -> None:
    one, two = world.hub("one"), world.hub("two")
    one.step()
    two.step()
    one.resign()
    assert one.term is None
    assert two.step() is None
    world.clock.seconds += 0.01
    assert two.step() == 2


def test_only_the_leader_can_resign(world: World) -> None:
    one, two = world.hub("one"), world.hub("two")
    two.resign()
    one.step()
    two.step()
    two.resign()
    assert world.lease().holder == "one"
    world.clock.seconds += SECONDS + 1
    assert two.step() == 2
    one.resign()
    assert (world.lease().holder, two.term) == ("two", 2)


@pytest.mark.parametrize("body", [b"", b"{", b"{}", b'{"holder": "x", "term": 0, "renewal": 0, "duration_seconds": 1}', b"\xff"])
def test_what_is_no_lease_is_refused_with_its_key(world: World, body: bytes) -> None:
    world.store.inner.put(HUB_LEASE_KEY, body, expect=None)
    with pytest.raises(Refused, match=HUB_LEASE_KEY):
        world.hub("one").step()


def test_a_lease_that_was_removed_is_taken_above_every_term_that_grants_name(world: World) -> None:
    one = world.hub("one")
    assert one.step() == 1
    assert one.step(above=1) == 1
    assert one.step(above=7) == 8
    assert (one.term, world.lease().term) == (8, 8)
    assert one.step(above=7) == 8


def test_a_hub_that_does_not_lead_raises_no_term(world: World) -> None:
    world.hub("one").step()
    two = world.hub("two")
    assert two.step(above=7) is None
    assert world.lease().term == 1


def test_a_conflict_is_never_raised(world: World) -> None:
    one = world.hub("one")
    one.step()
    world.store.fails_put[HUB_LEASE_KEY] = Conflict("somebody else")
    world.clock.seconds += 6
    assert (one.step(), one.term) == (None, None)
