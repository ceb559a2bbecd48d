"""What was believed at a decision is kept, and held against what came of it: through a staging, at a real hub."""

from datetime import timedelta

import pytest

from reconciler.model.attempt import Attempt, State
from reconciler.model.names import STAGING_TEAM
from reconciler.model.record import JobRecord
from reconciler.model.stage import TransferEstimate
from reconciler.planning.accuracy import Errors, Kind, accuracy
from tests.hub.rig import Rig
from tests.hub.test_cycle_staging import (
    SPACES,
    USABLE,
    done,
    fail,
    finish,
    job,
    limit,
    other_dataset,
    rig,
    say,
    task_work,
    tasks,
)
from tests.hub.words import running, succeeded

__all__ = ["rig"]
SECONDS = 200.0
"""100 GB at what may be used of the link."""


def task(rig: Rig, subject: str = "corpus@7") -> JobRecord:
    return next(one for one in tasks(rig) if one.stage is not None and one.stage.subject == subject)


def attempt_of(record: JobRecord) -> Attempt:
    assert record.last is not None
    return record.last


def errors(rig: Rig) -> dict[Kind, Errors | None]:
    lines = accuracy(rig.records().values())
    return {line.kind: line.errors for line in lines if line.region is None and line.link is None}


def test_through_a_staging(rig: Rig) -> None:
    began = rig.clock.now()
    job(rig, expected_runtime_seconds=600)
    believed = rig.attempt()
    assert believed.estimated_start_at == began + timedelta(seconds=SECONDS)
    assert believed.estimated_end_at == began + timedelta(seconds=SECONDS + 600)
    estimate = attempt_of(task(rig)).estimated_transfer
    assert estimate == TransferEstimate(
        at=began, source_region="ap", seconds=SECONDS, bytes_per_second=USABLE, size_bytes=100 * 10**9
    )
    assert set(errors(rig).values()) == {None}, "nothing has happened yet"
    rig.clock.seconds += 250
    done(rig)
    assert (rig.attempt().state, errors(rig)[Kind.TRANSFER]) == (State.GRANTED, Errors(1, 50.0, 50.0, 50.0))
    rate = errors(rig)[Kind.RATE]
    assert rate is not None
    assert rate.median == pytest.approx(-0.2), "100 GB in 250 s are four fifths of what was believed"
    rig.clock.seconds += 20
    say(rig, running(rig.attempt().name))
    assert errors(rig)[Kind.START] == Errors(1, 70.0, 70.0, 70.0)
    rig.clock.seconds += 500
    say(rig, succeeded(rig.attempt().name))
    assert errors(rig)[Kind.END] == Errors(1, -30.0, 30.0, 30.0)
    kept = rig.attempt()
    assert (kept.estimated_start_at, kept.estimated_end_at) == (believed.estimated_start_at, believed.estimated_end_at)
    assert attempt_of(task(rig)).estimated_transfer == estimate
    words = "stimates of the last 7 days, in the median: starts 1 min 10 s late (of 1), transfers 50 s longer (of 1)."
    assert f"\nE{words}\n" in rig.page()


def test_a_limit_is_no_estimate_of_an_end(rig: Rig) -> None:
    rig.job("llm-a", max_runtime_seconds=3600)
    rig.settle()
    assert rig.attempt().estimated_start_at == rig.clock.now()
    assert rig.attempt().estimated_end_at is None


def test_how_long_people_took_to_approve_is_no_error(rig: Rig) -> None:
    rig.put({"policy.yaml": "approval: {always: true}\n"})
    rig.job("llm-a", expected_runtime_seconds=600)
    rig.settle()
    rig.clock.seconds += 3600
    for region in ("eu", "us", "ap"):
        rig.tell_again(region)
    rig.merge_proposal()
    rig.settle()
    assert rig.attempt().state is State.GRANTED
    rig.clock.seconds += 15
    say(rig, running(rig.attempt().name))
    assert errors(rig)[Kind.START] == Errors(1, 15.0, 15.0, 15.0)
    assert rig.attempt().estimated_end_at == rig.clock.now() + timedelta(seconds=585)


def test_what_comes_behind_is_believed_to_come_later(rig: Rig) -> None:
    other_dataset(rig, "small", 20)
    rig.job("llm-a", dataset={"name": "corpus", "mount_path": "/data"}, allowed_regions=["eu"])
    rig.job("llm-b", dataset={"name": "small", "mount_path": "/data"}, allowed_regions=["eu"])
    rig.settle()
    whole = SECONDS + SECONDS / 5
    said = sorted(one.stage.estimated_seconds or 0.0 for one in tasks(rig) if one.stage is not None)
    assert said[1] == whole, "the second of the same decisions waits for the first"


def test_a_retry_is_no_transfer_of_its_own(rig: Rig) -> None:
    job(rig, allowed_regions=["eu"])
    fail(rig, task(rig).job_id)
    noted = [one.estimated_transfer is not None for one in rig.record(task(rig).job_id, STAGING_TEAM).attempts]
    assert noted == [True, False, False, False]
    assert errors(rig)[Kind.TRANSFER] is None


def test_what_is_brought_again_is_believed_anew(rig: Rig) -> None:
    job(rig, allowed_regions=["eu"])
    done(rig)
    limit(rig, "50G")
    finish(rig, "llm-a")
    assert attempt_of(task(rig)).estimated_transfer is None, "removing moves nothing"
    rig.put({"links.yaml": "links: [{source: ap, target: eu, gbit_per_second: 5}]\n"})
    rig.clock.seconds += 30
    rig.tell("eu", task_work(running(attempt_of(task(rig)).name)), namespaces=SPACES)
    rig.tell_again("us")
    rig.tell_again("ap")
    job(rig, "llm-b", allowed_regions=["eu"])
    say(rig, task_work(succeeded(attempt_of(task(rig)).name)))
    again = attempt_of(task(rig)).estimated_transfer
    assert again is not None
    assert (again.seconds, again.bytes_per_second) == (2 * SECONDS, USABLE // 2)
    assert again.at == rig.clock.now()
