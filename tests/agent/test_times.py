"""The times that an agent keeps stand in its lease; where a restart changes them, the shorter hold until it renews."""

from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.adapters.file_store import FileStore
from reconciler.agent.lease import Holding, LeaseHeld, Taking, renew, unread
from reconciler.model.grants import Lease, lease_key
from tests.agent.region import Region, started
from tests.agent.stores import FailingStore

A1 = "train-a1"


def cut_off(region: Region) -> None:
    assert isinstance(region.store, FailingStore)
    region.store.down = True


def restarted(region: Region, self_fence: float, fence_kill: int = 30) -> None:
    region.agent = replace(
        region.agent,
        settings=replace(region.agent.settings, self_fence_seconds=self_fence, fence_kill_seconds=fence_kill),
        incarnation=f"after-{self_fence}",
        memory=type(region.agent.memory)(),
    )


def test_the_lease_says_how_long_its_agent_lets_ours_run() -> None:
    region = started()
    assert (region.lease().self_fence_seconds, region.lease().fence_kill_seconds) == (240.0, 30.0)
    restarted(region, 120.0, 20)
    region.advance(25)
    assert (region.lease().self_fence_seconds, region.lease().fence_kill_seconds) == (120.0, 20.0)


def test_an_agent_that_starts_again_with_longer_times_goes_by_the_shorter_ones_until_it_has_said_so() -> None:
    """The hub goes by the lease, which says 240 s + 30 s."""
    region = started()
    cut_off(region)
    restarted(region, 600.0)
    region.advance(235)
    assert region.phases(A1) == ["Running"]
    region.advance(40)
    assert region.phases(A1) == []


def test_an_agent_that_starts_again_with_shorter_times_goes_by_those() -> None:
    region = started()
    cut_off(region)
    restarted(region, 60.0)
    region.advance(95)
    assert region.phases(A1) == []


@pytest.mark.parametrize(("said", "after"), [(240.0, 300.0), (600.0, 660.0), (60.0, 300.0)])
def test_another_agents_lease_is_taken_over_when_the_longer_of_both_times_has_passed(
    tmp_path: Path, said: float, after: float
) -> None:
    store = FileStore(tmp_path)
    lease = Lease(region="eu", epoch=3, incarnation="other", renewal=1, self_fence_seconds=said)
    store.put(lease_key("eu"), lease.model_dump_json().encode(), expect=None)
    taking = Taking("eu", "me", 0.0, valid=False, is_new_here=True)
    with pytest.raises(LeaseHeld) as first:
        renew(store, Holding(), taking)
    with pytest.raises(LeaseHeld) as later:
        renew(store, unread(first.value.holding), replace(taking, now=after - 1))
    assert renew(store, unread(later.value.holding), replace(taking, now=after)).epoch == 4
