"""A region that is cut off: for a moment, for long enough to be told of, and for so long that its jobs go on elsewhere."""

import pytest

from reconciler.model.attempt import Outcome, State
from reconciler.model.record import Phase
from reconciler.model.region_state import RegionState
from tests.e2e.faults.times import TIMES
from tests.e2e.faults.wires import Cut
from tests.e2e.faults.world import TEAM, World, end_of
from tests.waiting import until

REGION, OTHER = "eu-west", "ap-south"


def test_for_less_than_the_fence_its_jobs_go_on_undisturbed(world: World) -> None:
    run, epoch = world.trained_anywhere("cut-off", REGION, OTHER), world.lease(REGION).epoch
    seen = set()
    with world.wires.cut_off(world.ways(REGION)):
        world.passes(TIMES.moment)
    world.passes(TIMES.loss.unknown_seconds, lambda: seen.add(world.state(REGION)))
    assert RegionState.LOST not in seen
    cut = world.fleet.witness.now()
    with world.wires.cut_off(world.ways(REGION)):
        world.until_state(REGION, RegionState.UNKNOWN)
        unknown = world.fleet.witness.now()
        world.passes(cut + TIMES.told - world.fleet.witness.now(), lambda: seen.add(world.state(REGION)))
    mended = world.fleet.witness.now()
    world.until_state(REGION, RegionState.READY)
    assert seen <= {RegionState.READY, RegionState.UNKNOWN}
    world.story(f"{REGION} cut off for less", cut, unknown=unknown, mended=mended, ready=world.fleet.witness.now())
    with world.wires.cut_off(world.ways(REGION)):
        world.until_state(REGION, RegionState.LOST)
        assert world.record("cut-off").phase is Phase.RUNNING
    world.until_state(REGION, RegionState.READY)
    assert (world.lease(REGION).epoch, world.lease(REGION).revoked) == (epoch, False)
    assert world.finish("cut-off") == [run]


def came_back(world: World, region: str, epoch: int, old: str) -> None:
    """It has its next epoch, takes new work, and does not start its old job again."""
    until(lambda: (lease := world.lease(region)).epoch == epoch + 1 and not lease.revoked, TIMES.failover, 0.2)
    world.until_state(region, RegionState.READY)
    until(lambda: world.grants(region).epoch == epoch + 1, 60.0, 0.2)
    world.trained_anywhere(f"next-in-{region}", region)
    world.finish(f"next-in-{region}")
    assert old not in world.granted(region)
    until(lambda: world.fleet.regions[region].job(TEAM, old) is None, 60.0, 0.3)


def replayed(world: World, region: str, commit: str, old: str) -> None:
    """An old commit comes back on its branch while nobody corrects it: the engine makes the old Job again, and nothing starts."""
    world.fleet.hub.freeze(on=True)
    try:
        world.fleet.person.fetched(f"region/{region}")
        world.fleet.person.git("push", "--quiet", "--force", "origin", f"{commit}:refs/heads/region/{region}")

        def is_there() -> bool:
            world.fleet.regions[region].reconcile()
            return world.fleet.regions[region].job(TEAM, old) is not None

        until(is_there, 60.0, 1.0)
        world.passes(TIMES.report * 3)
        job = world.fleet.regions[region].job(TEAM, old)
        assert job is not None
        assert job["spec"]["suspend"] is True
    finally:
        world.fleet.hub.freeze(on=False)
    until(lambda: world.fleet.regions[region].job(TEAM, old) is None, TIMES.failover, 0.5)


@pytest.mark.parametrize(("region", "how"), [("eu-west", Cut.REFUSED), ("ap-south", Cut.SILENT)], ids=["refused", "silent"])
def test_for_long_its_jobs_end_by_the_fence_and_go_on_elsewhere(world: World, region: str, how: Cut) -> None:
    job, others = f"long-{region}", world.others(region)
    # Told to end, it goes on for longer than the fence waits.
    grace = TIMES.loss.fence_kill_seconds * 3
    first = world.trained_anywhere(job, region, *others, stubborn=True, grace_seconds=grace)
    commit, epoch, revoked = world.branch(f"region/{region}"), world.lease(region).epoch, len(world.runs.revoked(region))
    world.until_renewal_is_near(region)
    cut = world.fleet.witness.now()
    with world.wires.cut_off(world.ways(region), how):
        ended = end_of(first, TIMES.failover)
        assert world.record(job).phase is Phase.RUNNING
        assert len(world.runs.revoked(region)) == revoked, "stopped by itself, before anybody took its right away"
        until(lambda: len(world.runs.attempts(job)) == 2, TIMES.failover, 0.2)
        second = world.runs.of(job)[1]
        assert second.region in others
        world.story(f"{region} {how.value}", cut, ended=ended, revoked=world.runs.revoked(region)[-1].at, elsewhere=second.began)
        before = world.record(job).attempts[0]
        assert (before.state, before.outcome) == (State.STOPPED, Outcome.REGION_LOST)
        assert world.state(region) is RegionState.REVOKED
        world.passes(cut + TIMES.long - world.fleet.witness.now())
        assert (world.state(region), world.runs.attempts(job)) == (RegionState.REVOKED, [first.attempt, second.attempt])
    came_back(world, region, epoch, first.attempt)
    replayed(world, region, commit, first.attempt)
    assert world.finish(job) == [first, second]
