"""An agent that is frozen or killed: with another replica nothing is lost; without one, Kubernetes ends what it let run."""

import signal
from collections.abc import Iterator

import pytest

from reconciler.model.region_state import RegionState
from tests.e2e.faults.times import TIMES
from tests.e2e.faults.world import World
from tests.e2e.fleet.up import RegionUp
from tests.waiting import until

REGION, OTHER = "us-east", "eu-west"
LEAD_SECONDS = 90.0


def holder(region: RegionUp) -> str:
    return region.kubectl("get", "lease", "agent", "-n", "gpu-reconciler", "-o", "jsonpath={.spec.holderIdentity}")


@pytest.fixture
def region(world: World) -> Iterator[RegionUp]:
    """A region with both replicas; afterwards with its first alone."""
    found = world.fleet.regions[REGION]
    found.standby.start()
    found.standby.until_said("stands by")
    yield found
    found.standby.stop()
    found.agent.start()
    until(lambda: holder(found) != "", LEAD_SECONDS, 0.5)


def test_a_replica_goes_on_for_one_that_is_frozen_longer_than_its_fence_and_for_one_that_is_killed(
    world: World, region: RegionUp
) -> None:
    run, before = world.trained_anywhere("two-replicas", REGION, OTHER), holder(region)
    frozen = world.fleet.witness.now()
    region.agent.freeze(on=True)
    until(lambda: holder(region) not in ("", before), LEAD_SECONDS, 0.5)
    until(lambda: world.fleet.witness.now() > frozen + TIMES.loss.self_fence_seconds + 1, LEAD_SECONDS, 0.5)
    region.agent.freeze(on=False)
    region.agent.until_said("leads no more")
    world.until_state(REGION, RegionState.READY)
    after = holder(region)
    region.standby.stop(signal.SIGKILL)
    until(lambda: holder(region) not in ("", after), LEAD_SECONDS, 0.5)
    world.until_state(REGION, RegionState.READY)
    assert world.finish("two-replicas") == [run]
