"""What becomes of each attempt in a region that is to be empty by some moment."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from reconciler.model.policy import Policy
from reconciler.model.reasons import Why, code_of
from reconciler.planning.draining import Exit, Leaving, exits
from reconciler.planning.snapshot import Snapshot
from tests.builders import NOW, make_job, make_region, make_snapshot

BY = "2026-05-01T13:00:00Z"
MINUTE = timedelta(minutes=1)
DRAINS = (Why.DRAIN_MOVED, Why.DRAIN_OVER)


def leaving(job_id: str = "llm-a", *, ends_in: timedelta | None = None, region: str = "eu", **fields: Any) -> Leaving:
    kept = {name: fields.pop(name) for name in ("moving", "silent") if name in fields}
    return Leaving(make_job(job_id, **fields), region, None if ends_in is None else NOW + ends_in, **kept)


def world(us: int = 8, by: str = BY, at_once: int = 8) -> Snapshot:
    """eu is to be empty; us has so many free cards."""
    policy = Policy.model_validate({"thresholds": {"drain_at_once": at_once}})
    return make_snapshot(make_region("eu", a100=16, drain_by=by), make_region("us", a100=us), policy=policy)


def hows(found: Sequence[Exit]) -> dict[str, str]:
    return {each.key.job_id: each.how for each in found}


CASES: dict[str, tuple[Leaving, Snapshot, str]] = {
    "there is room elsewhere": (leaving(), world(), "moves"),
    "there is none": (leaving(), world(us=0), "waits"),
    "there is room for less than it needs": (leaving(gpus=8, nodes=2), world(us=8), "waits"),
    "it ends before": (leaving(ends_in=30 * MINUTE), world(), "ends"),
    "it ends after": (leaving(ends_in=90 * MINUTE), world(), "moves"),
    "it should have ended, and nobody knows when it will": (leaving(ends_in=-MINUTE), world(), "moves"),
    "a person pinned it there": (leaving(pin="eu"), world(), "waits"),
    "it may run nowhere else": (leaving(allowed_regions=["eu"]), world(), "waits"),
    "its region is silent": (leaving(silent=True), world(), "waits"),
    "its region is silent when the time is over": (leaving(silent=True), world(by="2026-05-01T11:59:00Z"), "waits"),
    "the time is over": (leaving(), world(us=0, by="2026-05-01T12:00:00Z"), "stops"),
    "the time is over, and it would end soon": (leaving(ends_in=MINUTE), world(by="2026-05-01T11:59:00Z"), "stops"),
    "it is on its way": (leaving(moving=True), world(by="2026-05-01T11:59:00Z"), "is moving"),
}


@pytest.mark.parametrize(("one", "snapshot", "how"), CASES.values(), ids=CASES.keys())
def test_how_an_attempt_leaves_when(one: Leaving, snapshot: Snapshot, how: str) -> None:
    (found,) = exits([one], snapshot, NOW)
    assert found.how == how
    assert (found.reason is not None) == (how in ("moves", "stops")), "what is stopped says why, and only that"


def test_why_it_is_stopped() -> None:
    (moves,), (stops,) = exits([leaving()], world(), NOW), exits([leaving()], world(by="2026-05-01T12:00:00Z"), NOW)
    found = [each.reason for each in (moves, stops)]
    assert [reason and reason.code for reason in found] == [code_of(why) for why in DRAINS]
    assert [reason and dict(reason.numbers) for reason in found] == [
        {"region": "eu", "to": "us"},
        {"region": "eu", "by": "2026-05-01T12:00:00Z"},
    ]


def test_room_is_given_once_and_the_more_urgent_goes_first() -> None:
    found = exits([leaving("a"), leaving("b", priority="high"), leaving("c")], world(us=8), NOW)
    assert hows(found) == {"a": "waits", "b": "moves", "c": "waits"}


def test_what_is_on_its_way_finds_its_room() -> None:
    found = exits([leaving("a", moving=True), leaving("b", priority="high")], world(us=8), NOW)
    assert hows(found) == {"a": "is moving", "b": "waits"}
    found = exits([leaving("a", moving=True), leaving("b", priority="high")], world(us=16), NOW)
    assert hows(found) == {"a": "is moving", "b": "moves"}


def test_a_few_at_a_time() -> None:
    jobs = [leaving(f"job-{number}") for number in range(5)]
    assert list(hows(exits(jobs, world(us=80, at_once=2), NOW)).values()).count("moves") == 2
    on_their_way = [leaving("x", moving=True), *jobs]
    assert list(hows(exits(on_their_way, world(us=80, at_once=2), NOW)).values()).count("moves") == 1
    over = world(us=80, by="2026-05-01T12:00:00Z", at_once=2)
    assert set(hows(exits(jobs, over, NOW)).values()) == {"stops"}, "at the moment itself nothing waits for the others"
