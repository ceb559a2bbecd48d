"""An agent that is frozen or killed: with another replica nothing is lost; without one, Kubernetes ends what it let run."""

import signal
from collections.abc import Iterator

import pytest

from reconciler.model.region_state import RegionState
from tests.e2e.faults.times import TIMES
from tests.e2e.faults.world import DEADMAN, World, end_of
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


@pytest.mark.parametrize("how", ["frozen", "killed"])
def test_without_another_replica_kubernetes_ends_the_job_and_it_goes_on_elsewhere(world: World, how: str) -> None:
    job, agent, epoch = f"deadman-{how}", world.fleet.regions[DEADMAN].agent, world.lease(DEADMAN).epoch
    first, gone = world.trained_anywhere(job, DEADMAN, *world.others(DEADMAN)), world.fleet.witness.now()
    if how == "frozen":
        agent.freeze(on=True)
    else:
        agent.stop(signal.SIGKILL)
    ended = end_of(first, TIMES.failover)
    second = world.until_trains(job, number=2, within_seconds=TIMES.failover)
    revoked = world.runs.revoked(DEADMAN)[-1]
    world.story(f"the agent of {DEADMAN} {how}", gone, ended=ended, revoked=revoked.at, elsewhere=second.began)
    assert second.region != DEADMAN
    if how == "frozen":
        agent.freeze(on=False)
    else:
        agent.start()
    until(lambda: (lease := world.lease(DEADMAN)).epoch == epoch + 1 and not lease.revoked, TIMES.failover, 0.2)
    world.until_state(DEADMAN, RegionState.READY)
    assert world.finish(job) == [first, second]
