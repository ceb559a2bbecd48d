"""Two hubs that both believe that they lead: a paused one's late pushes and grants, a lost lease, a clock that stands still.

Each history here is one that a guard of the protocol exists for; the judges of the world (witness, ledger) look on.
"""

from collections.abc import Collection
from pathlib import Path

import pytest

from reconciler.model.grants import HUB_LEASE_KEY
from reconciler.model.names import JobKey
from reconciler.model.record import Phase
from tests.sim import ending
from tests.sim.person import Fields
from tests.sim.world import Choices, World

pytestmark = pytest.mark.slow

X, Y = JobKey("team-a", "x"), JobKey("team-a", "y")
GRANTS = "put regions/us/grants"
SECOND, SYNC = "hub-1", "sync-us"


def _job(key: JobKey, seconds: int, **more: object) -> Fields:
    env = {"SIM_SECONDS": str(seconds)}
    return {"job_id": key.job_id, "image": "reg.example.com/train:1", "gpu": {"count": 1}, "env": env, **more}


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Two hubs, of which the first leads; y runs in us, the cheaper region."""
    made = World(tmp_path, 0, Choices(hubs=2))
    push(made, Y, _job(Y, 90))
    turns(made, 5, without=[SECOND])
    assert [run.key for run in made.witness.running()] == [Y]
    assert (made.hubs[0].hub.leads, made.hubs[1].hub.leads) == (True, False)
    return made


def push(world: World, key: JobKey, fields: Fields | None) -> None:
    world.person.edit(f"jobs/{key.team}/{key.job_id}.yaml", fields)


def turns(world: World, number: int, seconds: float = 2.0, without: Collection[str] = ()) -> None:
    for _ in range(number):
        world.turn(seconds, [actor for actor in world.actors if actor.name not in without])


@pytest.mark.parametrize("lost", [0, 40])
def test_a_paused_leaders_grants_come_late(world: World, lost: int) -> None:
    """It published x and stood still before it granted x. Meanwhile x was taken away, and so many grants of its successor's were
    lost: where all of them were, the late ones arrive, and x may run until it is stopped again."""

    def meanwhile(steps: int) -> None:
        turns(world, 6)  # x's object is made
        push(world, X, None)
        for _ in range(lost):
            world.hubs[1].fuse.arm("lose", 0, on=GRANTS)
        turns(world, 8, without=[SYNC] if lost else [])  # and stays
        assert world.hubs[1].hub.leads

    world.later = meanwhile
    world.hubs[0].fuse.arm("pause", 0, on=GRANTS)
    push(world, X, _job(X, 300))
    turns(world, 8)
    assert world.hubs[0].starts == 1
    world.clear_faults()
    assert ending.drain(world) == []
    assert world.ledger.records[X].phase is Phase.CANCELLED
    assert [run.key for run in world.witness.runs] == ([Y, X] if lost > 1 else [Y])


def test_grants_that_arrive_after_what_they_grant_was_taken_away(world: World) -> None:
    world.hubs[0].fuse.arm("delay", 0, on=GRANTS, steps=30)
    push(world, X, _job(X, 20))
    world.turn(1.0, [world.hubs[0]])
    push(world, X, None)
    turns(world, 8, without=[SECOND])
    assert ending.drain(world) == []
    assert [run.key for run in world.witness.runs] == [Y], "x never ran"


def test_a_paused_leaders_push_comes_too_late(world: World) -> None:
    """It had decided x for one region; while it stood still another hub placed x, and x ran."""

    def meanwhile(steps: int) -> None:
        turns(world, 15)
        assert world.ledger.records[X].phase in (Phase.RUNNING, Phase.STARTING)

    world.later = meanwhile
    world.hubs[0].fuse.arm("pause", 0, on="push")
    push(world, X, _job(X, 60))
    turns(world, 2)
    assert ending.drain(world) == []
    assert world.ledger.records[X].phase is Phase.SUCCEEDED
    assert len(world.ledger.records[X].attempts) == 1


def test_a_clock_that_stands_still_makes_two_leaders(world: World) -> None:
    first, second = world.hubs
    first.clock.stop()
    turns(world, 12, without=[first.name])
    assert first.hub.leads
    assert second.hub.leads
    for number in range(3):
        push(world, X, _job(X, 15, description=f"words {number}", rerun=number))
        turns(world, 2)
        world.turn(1.0, [second, first, second, first])
    assert ending.drain(world) == []
    assert world.ledger.records[X].rerun == 2


@pytest.mark.parametrize("again", [1, 2])
def test_a_lease_that_was_deleted_makes_two_leaders(world: World, again: int) -> None:
    """And the terms go on: what the old leader wrote does not outrank what the new one writes."""
    for number in range(again):
        world.place.store.delete(HUB_LEASE_KEY)
        second = world.hubs[(number + 1) % 2]
        world.turn(1.0, [second])
        assert world.hubs[0].hub.leads
        assert second.hub.leads
        push(world, X, _job(X, 15, rerun=number))
        world.turn(1.0, [*world.hubs, *world.hubs])
        turns(world, 15)
    assert ending.drain(world) == []
    assert world.ledger.records[X].phase is Phase.SUCCEEDED
    assert len(world.ledger.records[X].attempts) == again


def test_hubs_that_take_turns(world: World) -> None:
    """Each leads for a while and is killed in its next push; the other takes over."""
    for number in range(3):
        leader = world.hubs[number % 2]
        leader.fuse.arm("kill", 0, after=number == 1, on="push")
        push(world, X, _job(X, 10, rerun=number))
        turns(world, 12)
    assert ending.drain(world) == []
    assert len(world.ledger.records[X].attempts) >= 1
    assert world.ledger.records[X].rerun == 2
