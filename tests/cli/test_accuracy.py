"""`accuracy`, and its line in `status`: what they make of a ledger that a real hub wrote, and of what people type."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from reconciler.commands import accuracy, moments, status
from reconciler.commands.ends import BadInput
from reconciler.planning.accuracy import Errors, Fate, Kind, Line
from tests.cli.world import NOW, Command, HubWorld, assert_golden, failed, job, running, succeeded

JOBS = {
    "jobs/red/done.yaml": job("done", "expected_runtime_seconds: 60"),
    "jobs/red/faulty.yaml": job("faulty"),
    "jobs/blue/long.yaml": job("long"),
}


@pytest.fixture
def world(folder: Path) -> HubWorld:
    """Three jobs that were to start at once, and are seen after a minute: one has ended well, one badly, one runs."""
    made = HubWorld(folder, JOBS)
    for region in ("eu", "us"):
        made.report(region)
    made.cycle()
    names = [("red", "done"), ("red", "faulty"), ("blue", "long")]
    attempts = [one for name in names if (one := made.record(*name).current) is not None]
    start, end = NOW + timedelta(seconds=10), NOW + timedelta(seconds=50)
    shown = [
        succeeded(attempts[0].name, start, end),
        failed(attempts[1].name, start, end),
        running(attempts[2].name, start),
    ]
    made.clock.seconds += 60
    for region in ("eu", "us"):
        made.report(region, *(work for work, one in zip(shown, attempts, strict=True) if one.region == region))
    made.cycle()
    return made


def test_the_table(command: Command, world: HubWorld) -> None:
    assert_golden("accuracy.txt", command.done("accuracy", "--repo", world.url))


def test_json_has_every_figure_in_seconds(command: Command, world: HubWorld) -> None:
    said = json.loads(command.done("accuracy", "--json", "--since", "2026-05-01", "--repo", world.url))
    assert said["schema_version"] == 1
    assert said["status"] == world.look().status
    assert said["since"] == "2026-05-01T00:00:00Z"
    assert [(one["kind"], one["region"]) for one in said["estimates"] if one["region"] is None] == [
        ("start", None),
        ("end", None),
    ]
    start, end = (one for one in said["estimates"] if one["region"] is None)
    assert start == {
        "kind": "start",
        "region": None,
        "link": None,
        "unit": "seconds",
        "rated": 3,
        "median": 20.0,
        "median_absolute": 20.0,
        "p90_absolute": 60.0,
        "unknown": 0,
        "otherwise": 0,
        "shared": 0,
        "open": 0,
    }
    assert (end["rated"], end["median"], end["unknown"]) == (1, 0.0, 2), "two say only how long they may run"


def test_what_came_out_before_is_left_out(command: Command, world: HubWorld) -> None:
    said = json.loads(command.done("accuracy", "--json", "--since", "2026-05-01T12:00:30Z", "--repo", world.url))
    rated = {one["kind"]: one["rated"] for one in said["estimates"] if one["region"] is None}
    assert rated == {"start": 1, "end": 1}, "of two the start is counted back to before"


def test_a_ledger_without_anything_says_so(command: Command, folder: Path) -> None:
    world = HubWorld(folder, {})
    world.cycle()
    assert command.done("accuracy", "--repo", world.url) == "there is nothing yet to hold an estimate against\n"


def test_a_line_in_status_for_all_jobs_and_a_week(capsys: pytest.CaptureFixture[str], world: HubWorld) -> None:
    def shown(typed: str | None, now: datetime) -> bool:
        status.show(status.status_of(world.look(), typed), now)
        return "estimates of the last 7 days, in the median: starts 20 s late (of 3)\n" in capsys.readouterr().out

    assert shown(None, NOW + timedelta(minutes=2))
    assert not shown("red/done", NOW + timedelta(minutes=2)), "one job is no median"
    assert not shown(None, NOW + timedelta(days=8))


LINES: dict[str, tuple[Line, tuple[str, ...]]] = {
    "a transfer that took longer": (
        Line(Kind.TRANSFER, None, ("ap", "eu"), Errors(12, 61.0, 61.0, 3600.0), {}),
        ("transfer time", "ap → eu", "12", "1 min 1 s longer", "1 min 1 s", "1 h", "–", "–", "–", "–"),
    ),
    "a link that gave less": (
        Line(Kind.RATE, None, ("ap", "eu"), Errors(2, -0.254, 0.3, 0.5), {Fate.SHARED: 7, Fate.OPEN: 1}),
        ("transfer rate", "ap → eu", "2", "25 % slower", "30 %", "50 %", "–", "–", "7", "1"),
    ),
    "a link that gave just what was believed": (
        Line(Kind.RATE, None, None, Errors(1, 0.004, 0.004, 0.004), {}),
        ("transfer rate", "all", "1", "as estimated", "0 %", "0 %", "–", "–", "–", "–"),
    ),
    "nothing that can be rated": (
        Line(Kind.END, "eu", None, None, {Fate.UNKNOWN: 3, Fate.OTHERWISE: 2}),
        ("end", "eu", "0", "–", "–", "–", "3", "2", "–", "–"),
    ),
    "early": (
        Line(Kind.START, None, None, Errors(1, -90.0, 90.0, 90.0), {}),
        ("start", "all", "1", "1 min 30 s early", "1 min 30 s", "1 min 30 s", "–", "–", "–", "–"),
    ),
}


@pytest.mark.parametrize("case", LINES)
def test_a_row(case: str) -> None:
    line, row = LINES[case]
    assert accuracy.rows_of([line]) == [row]


def test_of_transfers_the_table_shows_links_not_regions() -> None:
    assert accuracy.rows_of([Line(Kind.TRANSFER, "eu"), Line(Kind.RATE, "eu")]) == []


SINCE = {
    "7d": NOW - timedelta(days=7),
    "1h30m": NOW - timedelta(minutes=90),
    "2026-04-01": datetime(2026, 4, 1, tzinfo=UTC),
    "2026-05-01T14:00:00+02:00": NOW,
}


@pytest.mark.parametrize("typed", SINCE)
def test_since_as_people_type_it(typed: str) -> None:
    assert moments.since(typed, NOW) == SINCE[typed]


WRONG = {
    "yesterday": "yesterday is no moment",
    "2026-02-30": "2026-02-30 is no day",
    "2026-05-01T14:00:00": "2026-05-01T14:00:00 may be in any time zone",
    "999999999d": "999999999d is longer than any calendar",
    "": "'' is no moment",
}


@pytest.mark.parametrize("typed", WRONG)
def test_what_is_no_since(typed: str) -> None:
    with pytest.raises(BadInput, match=f"^{WRONG[typed]}$"):
        moments.since(typed, NOW)
