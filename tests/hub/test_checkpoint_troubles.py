"""What goes wrong while a job waits for the task that copies its checkpoint: it waits no longer than it must, and nothing is lost."""

from pathlib import Path
from typing import Any

import pytest

from reconciler.model.attempt import State
from reconciler.model.names import STAGING_TEAM
from reconciler.model.record import Phase
from reconciler.planning.seeding import NO_WORKER
from tests.hub.silence import pass_time
from tests.hub.test_cycle_checkpoints import SPACES, Stores, stored
from tests.hub.words import failed, running, stopped, work

LONG = NO_WORKER.total_seconds() + 1


@pytest.fixture
def rig(tmp_path: Path) -> Stores:
    return Stores(tmp_path)


def waits(rig: Stores, *, room: bool = True, **fields: Any) -> str:
    """The job waits for its checkpoint; its attempt's name."""
    rig.paused(**fields)
    rig.tell("us", namespaces=SPACES, **({} if room else {"nodes": []}))
    rig.want(**fields)
    assert rig.attempt().state is State.STAGING
    return rig.attempt().name


def at_work(rig: Stores) -> str:
    """The worker runs; its attempt's name."""
    current = rig.task().current
    assert current is not None
    rig.say(running(current.name).model_copy(update={"namespace": STAGING_TEAM}), region="us")
    return current.name


def fail_for_good(rig: Stores) -> None:
    while rig.task().current is not None:
        rig.end_task(failed)
    rig.settle()


def test_a_long_copy_whose_worker_fails_once_is_gone_on_with(rig: Stores) -> None:
    name = waits(rig)
    at_work(rig)
    rig.pass_by(2 * LONG)
    rig.end_task(failed)
    assert (rig.attempt().name, rig.attempt().state) == (name, State.STAGING)
    assert rig.task().current is not None


def test_a_worker_that_does_not_start_is_waited_for_no_longer(rig: Stores) -> None:
    name = waits(rig)
    rig.pass_by(LONG)
    assert rig.attempt().name != name
    rig.runs_without()


def test_nor_is_one_that_does_not_stop(rig: Stores) -> None:
    name = waits(rig)
    at_work(rig)
    rig.put({"regions/us.yaml": stored("us", "drain_by: '2020-01-01T00:00:00Z'\n")})
    rig.settle()
    assert rig.task().phase is Phase.STOPPING
    assert rig.attempt().name == name
    rig.pass_by(LONG)
    rig.runs_without()


def test_a_region_that_is_declared_no_more_gets_no_worker_when_it_is_back(rig: Stores) -> None:
    waits(rig, room=False)
    rig.put({"regions/us.yaml": None})
    rig.settle()
    rig.runs_without(knows_where=False)
    assert rig.task().phase is Phase.CANCELLED
    rig.put({"regions/us.yaml": stored("us")})
    rig.say(region="us")
    assert rig.granted("us") == []


def test_a_worker_that_runs_when_its_region_is_declared_no_more_comes_to_its_end(rig: Stores) -> None:
    waits(rig)
    at_work(rig)
    rig.put({"regions/us.yaml": None})
    rig.settle()
    rig.pass_by(2 * LONG)
    rig.end_task()
    rig.runs_without()


CHANGED = {
    "has no store any more": ("object_store:", "#"),
    "has another bucket at another address": (
        "s3://bucket-us', endpoint: 'https://s3.us",
        "s3://new', endpoint: 'https://s3.new",
    ),
}


@pytest.mark.parametrize("change", CHANGED.values(), ids=CHANGED)
def test_a_worker_asks_the_store_where_the_checkpoint_was_written_though_its_region(rig: Stores, change: tuple[str, str]) -> None:
    waits(rig, room=False)
    before = rig.task().spec
    rig.put({"regions/us.yaml": stored("us").replace(*change)})
    rig.say(region="us")
    assert rig.task().current is not None
    assert (rig.task().spec.env, rig.task().spec.secrets) == (before.env, before.secrets)
    fail_for_good(rig)
    rig.runs_without(knows_where=False)


@pytest.mark.parametrize("before", ["s3://bucket-eu/llm/", "s3://elsewhere/llm/"])
def test_no_worker_is_sent_for_what_was_written_to_another_store(rig: Stores, before: str) -> None:
    first = rig.paused(checkpoint_path=before)
    rig.want()
    assert (rig.attempt().seeded_from, rig.tasks()) == (f"{before}{first}/", [])


def test_what_was_not_copied_is_no_disruption_of_the_job(rig: Stores) -> None:
    rig.put({"policy.yaml": "thresholds: {reschedules: 0}\n"})
    waits(rig)
    fail_for_good(rig)
    rig.runs_without()


def test_nor_does_it_say_anything_against_the_region_of_the_attempt(rig: Stores) -> None:
    rig.put({"regions/ap.yaml": stored("ap")})
    rig.say(region="ap")
    waits(rig, allowed_regions=["eu", "ap"])
    fail_for_good(rig)
    rig.runs_without()


@pytest.mark.parametrize("body", ["{", None], ids=["cannot be read", "is gone"])
def test_a_task_is_not_waited_for_whose_record(rig: Stores, body: str | None) -> None:
    name = waits(rig)
    rig.put({f"jobs/{STAGING_TEAM}/{rig.task().job_id}.json": body}, "status")
    rig.settle()
    assert rig.attempt().name != name
    rig.runs_without()


def test_a_hub_that_starts_anew_goes_on_waiting(rig: Stores) -> None:
    name = waits(rig)
    at_work(rig)
    rig.put({"regions/us.yaml": stored("us").replace("https://s3.us", "https://new.us")})
    rig.restart()
    rig.settle()
    assert rig.attempt().name == name
    rig.end_task()
    rig.runs_without()


def test_a_proposal_may_be_approved_when_nobody_declares_the_store_any_more(rig: Stores) -> None:
    rig.paused()
    rig.put({"policy.yaml": "approval: {always: true}\n"})
    rig.want()
    rig.put({"regions/us.yaml": None})
    rig.settle()
    rig.clock.seconds += 3 * 86400
    rig.merge_proposal()
    rig.tell_again("eu")
    rig.settle()
    rig.runs_without(knows_where=False)


def test_what_was_approved_once_is_not_asked_again_because_of_a_checkpoint(rig: Stores) -> None:
    rig.paused()
    rig.put({"policy.yaml": "approval: {always: true}\n"})
    rig.want()
    rig.merge_proposal()
    rig.settle()
    fail_for_good(rig)
    rig.runs_without()


def test_a_worker_that_was_given_up_with_its_region_writes_where_no_program_does(rig: Stores) -> None:
    waits(rig)
    name = at_work(rig)
    before = rig.attempt()
    pass_time(rig, 400, heard=("eu",))
    rig.runs_without()
    assert rig.attempt().checkpoint != before.checkpoint
    assert rig.attempt().seeded_from == before.seeded_from
    rig.tell("us", work(name, namespace=STAGING_TEAM), namespaces=SPACES, lease_epoch=2)
    rig.settle()
    assert rig.granted("us") == []


def test_a_job_that_is_sent_to_the_region_of_the_store_waits_for_nobody(rig: Stores) -> None:
    waits(rig, allowed_regions=None)
    name = at_work(rig)
    rig.edit_placement(pin="us")
    rig.settle()
    rig.say(stopped(name).model_copy(update={"namespace": STAGING_TEAM}), region="us")
    assert (rig.attempt().region, rig.attempt().stages) == ("us", ())
    assert rig.granted("us") == [rig.attempt().name]
