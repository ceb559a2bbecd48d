"""Regions that are to be empty by some moment: what is moved, what stays until then, and what is stopped."""

from pathlib import Path

import pytest

from reconciler.model.attempt import Outcome, State
from reconciler.model.record import Phase
from reconciler.model.region_state import RegionState
from tests.hub.rig import Rig, two_regions
from tests.hub.silence import state
from tests.hub.words import region_file, stopped

BY = "2026-05-01T13:00:00Z"
HOUR = 3600.0


@pytest.fixture
def local(tmp_path: Path) -> Rig:
    return two_regions(tmp_path)


def drain(rig: Rig, by: str = BY) -> None:
    rig.put({"regions/eu.yaml": region_file("eu", 1.0, f'drain_by: "{by}"\n')})
    rig.settle()


def later(rig: Rig, seconds: float) -> None:
    """Much later; both regions have gone on to report."""
    rig.clock.seconds += seconds
    rig.tell_again("us")
    rig.tell_again("eu")
    rig.settle()


def where(rig: Rig, job_id: str = "llm-a") -> list[tuple[str, State]]:
    return [(one.region, one.state) for one in rig.record(job_id).attempts]


def full(rig: Rig) -> None:
    """No room in us."""
    rig.jobs("other-a", "other-b", allowed_regions=["us"])
    rig.settle()
    rig.tell_running("us")
    rig.settle()


def test_a_job_moves_by_its_checkpoint_when_there_is_room_elsewhere(local: Rig) -> None:
    first = local.placed(checkpoint_path="s3://models/llm/")
    drain(local)
    moving = local.attempt()
    assert (moving.state, moving.outcome) == (State.STOPPING, Outcome.MOVED)
    assert moving.reason is not None
    assert moving.reason.text == "eu is being drained: it is stopped there, with time to save a checkpoint, to go on in us"
    assert local.granted("us") == []
    local.tell("eu", stopped(first.name))
    local.settle()
    assert where(local) == [("eu", State.STOPPED), ("us", State.GRANTED)]
    assert local.attempt().seeded_from == first.checkpoint
    found = local.hub_file().regions["eu"]
    assert (found.state, found.reason.numbers["attempts"]) == (RegionState.DRAINING, 0)


def test_a_job_that_ends_before_stays_and_is_stopped_at_the_moment_if_it_has_not(local: Rig) -> None:
    local.placed(expected_runtime_seconds=1800)
    drain(local)
    assert where(local) == [("eu", State.RUNNING)]
    later(local, HOUR - 10)
    assert where(local) == [("eu", State.STOPPING)], "it should have ended, and has not: it is moved while there is time"


def test_a_job_for_which_there_is_no_room_stays_until_the_moment_and_waits_then(local: Rig) -> None:
    first = local.placed()
    full(local)
    drain(local)
    later(local, HOUR - 10)
    assert where(local) == [("eu", State.RUNNING)]
    later(local, 20)
    stopping = local.attempt()
    assert (stopping.state, stopping.outcome, stopping.reason and stopping.reason.code) == (
        State.STOPPING,
        Outcome.MOVED,
        "DrainOver",
    )
    over = local.hub_file().regions["eu"]
    assert (over.next_at, over.reason.text) == (
        None,
        f"the time to drain eu ended at {BY}: 1 attempts still stand there; each of them is stopped, with time to save a checkpoint",
    )
    local.tell("eu", stopped(first.name))
    local.settle()
    assert local.record().phase is Phase.PENDING
    assert local.record().waits["eu"].text == f"eu is being drained (`drain_by: {BY}`): nothing new goes there"


def test_a_job_that_may_run_nowhere_else_stays_until_the_moment(local: Rig) -> None:
    first = local.placed(allowed_regions=["eu"])
    drain(local)
    assert local.attempt() == first
    later(local, HOUR)
    assert local.attempt().state is State.STOPPING
    local.tell("eu", stopped(first.name))
    local.settle()
    assert local.record().phase is Phase.PENDING


def test_what_waits_goes_before_what_runs_well_where_it_is(local: Rig) -> None:
    """Room in us for one: the job that waits takes it, though the other is more urgent."""
    local.jobs("other-a", allowed_regions=["us"])
    local.placed(priority="high")
    local.tell_running("us")
    local.job("waiting", allowed_regions=["us"])
    drain(local)
    assert local.attempt("waiting").state is State.GRANTED
    assert where(local) == [("eu", State.RUNNING)]


def test_a_move_that_a_person_must_approve_is_not_made_before_the_moment(local: Rig) -> None:
    local.placed()
    local.put({"policy.yaml": "approval: {regions: [us]}\n"})
    drain(local)
    assert where(local) == [("eu", State.RUNNING)]
    later(local, HOUR)
    assert where(local) == [("eu", State.STOPPING)]


def test_a_proposal_there_is_taken_back(local: Rig) -> None:
    local.put({"policy.yaml": "approval: {regions: [eu]}\n"})
    local.job()
    local.settle()
    assert where(local) == [("eu", State.PROPOSED)]
    drain(local)
    assert where(local) == [("eu", State.STOPPED), ("us", State.GRANTED)]


def test_in_a_region_that_is_not_heard_of_nothing_is_stopped(local: Rig) -> None:
    first = local.placed()
    for _ in range(6):
        local.clock.seconds += 10
        local.tell_again("us")
        local.cycle()
    assert state(local) is RegionState.UNKNOWN
    drain(local, "2026-05-01T12:01:00Z")
    assert local.attempt().state is first.state


def test_a_region_that_is_drained_no_more_takes_jobs_again(local: Rig) -> None:
    drain(local)
    local.job()
    local.settle()
    assert local.attempt().region == "us"
    local.put({"regions/eu.yaml": region_file("eu", 1.0)})
    local.job("next")
    local.settle()
    assert local.attempt("next").region == "eu"
    assert state(local) is RegionState.READY
