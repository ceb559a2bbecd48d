"""Hubs that die, freeze, are two, or see only half of the world: regions are given up once, jobs go on once."""

import os
import random
import secrets
import signal
from collections.abc import Iterator, Sequence

import pytest

from reconciler.model.attempt import Outcome, State
from reconciler.model.region_state import RegionState
from tests.e2e.faults.times import HUB_LEASE, TIMES
from tests.e2e.faults.wires import Cut
from tests.e2e.faults.world import World
from tests.e2e.programs import Program
from tests.waiting import until

REGION = "us-east"
SLOW = TIMES.failover + 2 * HUB_LEASE
KILLS = 5
BUSY = 4.0
"""A hub that has just begun to lead, and one that has just given a region up, has so many seconds of work that a kill can fall into."""


def states(world: World, job: str) -> list[State]:
    """Of all attempts."""
    return [attempt.state for attempt in world.record(job).attempts]


def is_lost(world: World, _job: str) -> bool:
    return world.state(REGION) is RegionState.LOST


def is_proven(world: World, job: str) -> bool:
    return states(world, job)[:1] == [State.STOPPED] and len(states(world, job)) == 2


def granted_elsewhere(world: World, job: str) -> list[str]:
    names = {attempt.name for attempt in world.record(job).attempts}
    return sorted(names & {name for region in world.others(REGION) for name in world.granted(region)})


def killed_and_followed(world: World) -> None:
    """SIGKILL, and another on the same folder."""
    world.fleet.hub.stop(signal.SIGKILL)
    world.wires.mend(["hub-store"])
    world.fleet.hub.start()


def test_a_hub_that_is_killed_at_any_step_of_a_failover_is_followed_by_one_that_goes_on(world: World) -> None:
    job, revoked = "through-kills", len(world.runs.revoked(REGION))
    first = world.trained_anywhere(job, REGION, *world.others(REGION))
    cut = world.fleet.witness.now()
    with world.wires.cut_off(world.ways(REGION), Cut.SILENT):
        world.until_ledger(lambda: is_lost(world, job), SLOW)
        killed_and_followed(world)
        until(lambda: world.lease(REGION).revoked, SLOW, 0.005)
        killed_and_followed(world)
        assert states(world, job) == [State.RUNNING], "killed after the revocation, before anything was said of it"
        world.until_ledger(lambda: is_proven(world, job), SLOW)
        world.wires.cut(["hub-store"])
        assert granted_elsewhere(world, job) == [], "cut off after the push that proves it, before the grant"
        killed_and_followed(world)
        until(lambda: granted_elsewhere(world, job), SLOW, 0.005)
        killed_and_followed(world)
        world.until_ledger(lambda: states(world, job) == [State.STOPPED, State.RUNNING], SLOW)
        killed_and_followed(world)
        second = world.until_trains(job, number=2, within_seconds=SLOW)
    world.story("five hubs killed", cut, ended=first.ended or cut, elsewhere=second.began)
    assert len(world.runs.revoked(REGION)) == revoked + 1
    world.until_state(REGION, RegionState.READY, SLOW)
    assert world.finish(job) == [first, second]


def killed_at_random(world: World, delays: Sequence[float]) -> Iterator[str]:
    """Kill the hub so long after it has begun to have work, each time; the jobs that are pushed meanwhile, so that it has."""
    begun = world.fleet.witness.now()
    for number, delay in enumerate(delays):
        at = begun + delay
        until(lambda at=at: world.fleet.witness.now() >= at, SLOW, 0.005)
        term = world.term()
        killed_and_followed(world)
        world.train(f"random-{number}", *world.others(REGION))
        yield f"random-{number}"
        until(lambda term=term: world.term() > term, SLOW, 0.005)
        begun = world.fleet.witness.now()


def test_a_hub_that_is_killed_at_moments_drawn_at_random_is_followed_by_one_that_goes_on(world: World) -> None:
    seed = int(os.environ.get("FAULTS_SEED") or secrets.randbelow(2**32))
    draw = random.Random(seed)
    delays = [round(draw.uniform(0.0, BUSY), 3) for _ in range(KILLS)]
    title = f"hubs killed at random (FAULTS_SEED={seed}: {delays})"
    print(title)
    job, revoked = "random", len(world.runs.revoked(REGION))
    first = world.trained_anywhere(job, REGION, *world.others(REGION))
    cut = world.fleet.witness.now()
    with world.wires.cut_off(world.ways(REGION), Cut.SILENT):
        until(lambda: world.lease(REGION).revoked, SLOW, 0.005)
        meanwhile = list(killed_at_random(world, delays))
        second = world.until_trains(job, number=2, within_seconds=SLOW)
    world.story(title, cut, ended=first.ended or cut, elsewhere=second.began)
    assert len(world.runs.revoked(REGION)) == revoked + 1
    world.until_state(REGION, RegionState.READY, SLOW)
    once = [world.until_trains(each, within_seconds=SLOW) for each in meanwhile]
    world.enough(job, *meanwhile)
    assert world.finish(job) == [first, second]
    assert [world.finish(each) for each in meanwhile] == [[run] for run in once]


@pytest.fixture
def second_hub(world: World) -> Iterator[Program]:
    """Stands by; ended afterwards, and the first leads again."""
    found = world.fleet.another_hub("hub-2")
    found.start()
    found.until_said("listening")
    yield found
    term = world.term()
    found.stop()
    until(lambda: world.term() > term, SLOW, 0.3)


def test_a_leader_that_sleeps_through_its_lease_in_a_failover_finds_another_that_has_gone_on(
    world: World, second_hub: Program
) -> None:
    job = "two-hubs"
    first = world.trained_anywhere(job, REGION, *world.others(REGION))
    term = world.hub_file().term
    with world.wires.cut_off(world.ways(REGION), Cut.UNANSWERED):
        world.until_ledger(lambda: is_proven(world, job), SLOW)
        world.fleet.hub.freeze(on=True)
        assert granted_elsewhere(world, job) == [], "it sleeps after the push that proves it, before its grants"
        second = world.until_trains(job, number=2, within_seconds=SLOW)
        later = world.hub_file().term
        assert later > term
        world.fleet.hub.freeze(on=False)
        world.passes(HUB_LEASE / 2)
        assert world.hub_file().term == later
        assert {world.grants(region).term for region in world.others(REGION)} == {later}
        second_hub.check()
    world.until_state(REGION, RegionState.READY, SLOW)
    assert world.finish(job) == [first, second]
    assert world.record(job).attempts[0].outcome is Outcome.REGION_LOST


@pytest.mark.parametrize("way", ["hub-store", "hub-git"])
def test_a_hub_that_sees_only_half_of_the_world_gives_nobody_up(world: World, way: str) -> None:
    job = f"without-{way}"
    run = world.trained_anywhere(job, REGION, *world.others(REGION))
    epochs = {region: world.lease(region).epoch for region in world.fleet.regions}
    with world.wires.cut_off([way], Cut.SILENT):
        world.train(f"{job}-later", REGION)
        world.passes(TIMES.loss.revoked_after_seconds + TIMES.loss.unknown_seconds)
    world.until_trains(f"{job}-later", REGION, within_seconds=SLOW)
    assert {region: world.lease(region).epoch for region in world.fleet.regions} == epochs
    world.enough(job, f"{job}-later")
    assert world.finish(job) == [run]
    world.finish(f"{job}-later")
