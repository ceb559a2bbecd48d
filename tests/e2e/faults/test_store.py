"""The store is down: for less than the fence nothing stops, for longer everything stops once; nothing is moved."""

from reconciler.model.attempt import Outcome, State
from tests.e2e.faults.times import TIMES
from tests.e2e.faults.world import World, end_of
from tests.waiting import until

REGIONS = ("eu-west", "ap-south")


def test_for_less_than_the_fence_nothing_stops(world: World) -> None:
    runs = world.all_trained_anywhere({f"down-{region}": (region, *world.others(region)) for region in REGIONS})
    world.fleet.store.stop()
    try:
        world.passes(TIMES.loss.self_fence_seconds / 2)
    finally:
        world.fleet.store.start()
    world.passes(TIMES.loss.self_fence_seconds / 3)
    world.enough(*(run.job for run in runs))
    for run in runs:
        assert world.finish(run.job) == [run]


def test_for_longer_everything_stops_once_and_goes_on_from_its_checkpoint(world: World) -> None:
    places = {"long-down": REGIONS[:1], "long-down-anywhere": (REGIONS[1], *world.others(REGIONS[1]))}
    first = world.all_trained_anywhere(places)
    epochs = {region: world.lease(region).epoch for region in world.fleet.regions}
    down = world.fleet.witness.now()
    world.fleet.store.stop()
    try:
        ends = [end_of(run, TIMES.failover) for run in first]
        until(lambda: world.fleet.witness.now() > down + TIMES.loss.revoked_after_seconds + 5, TIMES.failover, 0.2)
        moved = [run.job for run in first if world.runs.attempts(run.job) != [run.attempt]]
        assert moved == []
    finally:
        world.fleet.store.start()
    second = [world.until_trains(run.job, number=2, within_seconds=TIMES.failover) for run in first]
    assert second[0].region == first[0].region
    world.story("the store down", down, stopped=max(ends), on_again=max(run.began for run in second))
    assert {region: world.lease(region).epoch for region in world.fleet.regions} == epochs, "nobody was given up"
    world.enough(*(run.job for run in first))
    for one, other in zip(first, second, strict=True):
        assert world.finish(one.job) == [one, other]
        before = world.record(one.job).attempts[0]
        assert before.state is not State.RUNNING
        assert before.outcome is not Outcome.REGION_LOST
