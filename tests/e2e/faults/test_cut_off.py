"""A region that is cut off: for a moment, for long enough to be told of, and for so long that its jobs go on elsewhere."""

from reconciler.model.record import Phase
from reconciler.model.region_state import RegionState
from tests.e2e.faults.times import TIMES
from tests.e2e.faults.world import World

REGION, OTHER = "eu-west", "ap-south"


def test_for_a_moment_nothing_happens(world: World) -> None:
    run = world.trained_anywhere("moment", REGION, OTHER)
    with world.wires.cut_off(world.ways(REGION)):
        world.passes(TIMES.loss.unknown_seconds * 0.6)
    seen = []
    world.passes(TIMES.loss.unknown_seconds, lambda: seen.append(world.state(REGION)))
    assert RegionState.LOST not in seen
    assert world.finish("moment") == [run]


def test_until_it_is_lost_and_no_longer_its_jobs_go_on_undisturbed(world: World) -> None:
    run = world.trained_anywhere("while-lost", REGION, OTHER)
    epoch = world.lease(REGION).epoch
    with world.wires.cut_off(world.ways(REGION)):
        world.until_state(REGION, RegionState.UNKNOWN)
        world.until_state(REGION, RegionState.LOST)
        assert world.record("while-lost").phase is Phase.RUNNING
    world.until_state(REGION, RegionState.READY)
    assert (world.lease(REGION).epoch, world.lease(REGION).revoked) == (epoch, False)
    assert world.finish("while-lost") == [run]
