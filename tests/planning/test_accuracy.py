"""How far estimates were off: what counts, what is counted apart, and the figures."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from reconciler.model.attempt import Attempt, Needs, State
from reconciler.model.names import STAGING_TEAM
from reconciler.model.progress import Progress
from reconciler.model.record import JobRecord, Phase, Source
from reconciler.model.stage import StageTask, TransferEstimate
from reconciler.planning.accuracy import (
    Errors,
    Fate,
    Kind,
    Line,
    accuracy,
    errors_of,
    rated,
    recent_starts,
    recent_transfers,
)
from reconciler.planning.stage_names import key_of
from reconciler.planning.stage_specs import spec_of
from tests.builders import NOW, make_attempt, make_record

MB = 10**6


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def ran(state: State = State.SUCCEEDED, **fields: Any) -> Attempt:
    """Estimated to start at 100 s and to end at 200 s; did so at 130 s and 250 s, unless said."""
    said = {"estimated_start_at": at(100), "estimated_end_at": at(200), "started_at": at(130), "ended_at": at(250)}
    return make_attempt(state=state, **(said | fields))


ALIVE: dict[str, Any] = {"ended_at": None}
NEVER: dict[str, Any] = {"started_at": None}

JOBS: dict[str, tuple[Attempt, tuple[Fate, float | None], tuple[Fate, float | None]]] = {
    "late, and it took longer": (ran(), (Fate.RATED, 30), (Fate.RATED, 50)),
    "early": (ran(started_at=at(90), ended_at=at(180)), (Fate.RATED, -10), (Fate.RATED, -20)),
    "to the second": (ran(started_at=at(100), ended_at=at(200)), (Fate.RATED, 0), (Fate.RATED, 0)),
    "it failed: its start is known, its end says nothing": (ran(State.FAILED), (Fate.RATED, 30), (Fate.OTHERWISE, None)),
    "it was stopped": (ran(State.STOPPED), (Fate.RATED, 30), (Fate.OTHERWISE, None)),
    "it was stopped before it started": (ran(State.STOPPED, **NEVER), (Fate.OTHERWISE, None), (Fate.OTHERWISE, None)),
    "it runs": (ran(State.RUNNING, **ALIVE), (Fate.RATED, 30), (Fate.OPEN, None)),
    "it is being stopped": (ran(State.STOPPING, **ALIVE), (Fate.RATED, 30), (Fate.OPEN, None)),
    "its data is on its way": (ran(State.STAGING, **ALIVE, **NEVER), (Fate.OPEN, None), (Fate.OPEN, None)),
    "it is late, and nobody knows yet how much": (
        ran(State.GRANTED, **ALIVE, **NEVER, estimated_start_at=at(-9999)),
        (Fate.OPEN, None),
        (Fate.OPEN, None),
    ),
    "nobody said how long it runs": (ran(estimated_end_at=None), (Fate.RATED, 30), (Fate.UNKNOWN, None)),
    "it was decided before estimates were kept": (
        ran(estimated_start_at=None, estimated_end_at=None),
        (Fate.UNKNOWN, None),
        (Fate.UNKNOWN, None),
    ),
}


@pytest.mark.parametrize("case", JOBS)
def test_a_jobs_attempt(case: str) -> None:
    attempt, start, end = JOBS[case]
    found = [(one.kind, one.fate, one.error) for one in rated([make_record(attempt)])]
    assert found == [(Kind.START, *start), (Kind.END, *end)]


@pytest.mark.parametrize("state", [State.PROPOSED, State.STOPPED])
def test_what_nobody_let_go_is_no_estimate_of_anything(state: State) -> None:
    never = ran(state, placed_at=None, granted_at=None, started_at=None, ended_at=at(5) if state is State.STOPPED else None)
    assert list(rated([make_record(never)])) == []


def test_every_attempt_counts_for_itself() -> None:
    first, second = ran(State.STOPPED, **NEVER), ran().model_copy(update={"number": 2})
    starts = [one.fate for one in rated([make_record(first, second)]) if one.kind is Kind.START]
    assert starts == [Fate.OTHERWISE, Fate.RATED]


# ---- transfers ----------------------------------------------------------------------------------------------------


ESTIMATE = TransferEstimate(at=NOW, source_region="ap", seconds=100, bytes_per_second=10 * MB, size_bytes=1000 * MB)


def brought(
    number: int = 1, state: State = State.SUCCEEDED, granted: float | None = 10, ended: float | None = 110, **fields: Any
) -> Attempt:
    """1000 MB over the link from ap: believed 100 s from NOW on, at 10 MB/s; granted after 10 s, there after 110 s."""
    said: dict[str, Any] = {
        "number": number,
        "name": f"corpus-000000-a{number}",
        "region": "eu",
        "state": state,
        "run_hash": "0",
        "nodes": 1,
        "needs": Needs(),
        "decided_at": NOW,
        "placed_at": NOW,
        "granted_at": None if granted is None else at(granted),
        "ended_at": None if ended is None else at(ended),
        "estimated_transfer": ESTIMATE,
    }
    return Attempt.model_validate(said | fields)


def task(*attempts: Attempt, name: str = "corpus", kind: Any = "dataset", source: str = "ap") -> JobRecord:
    made = StageTask(
        kind=kind,
        subject=f"{name}@7",
        region="eu",
        source_region=source,
        source_uri=f"s3://{source}/x/",
        target_uri="s3://eu/staged/x/",
        size_bytes=1000 * MB,
    )
    return JobRecord(
        team=STAGING_TEAM,
        job_id=key_of(made).job_id,
        phase=Phase.SUCCEEDED,
        spec=spec_of(made, {}, 50, "reg.example.com/stage:1"),
        source=Source(path="", blob="0"),
        run_hash="0",
        submitted_at=NOW,
        stage=made,
        attempts=tuple(one.model_copy(update={"name": f"{name}-000000-a{one.number}"}) for one in attempts),
    )


def seen(total: int) -> Progress:
    return Progress(objects_done=1, objects_total=2, bytes_done=total // 2, bytes_total=total)


UNKNOWN: dict[str, Any] = {"estimated_transfer": None}
ENDED_BADLY = brought(state=State.FAILED)
EVICTION = brought(2, run_hash="other", **UNKNOWN)
FOLLOWED = {"granted": 200, "ended": 320}

TRANSFERS: dict[str, tuple[JobRecord, list[tuple[Fate, float | None]], list[tuple[Fate, float | None]]]] = {
    # time in seconds; rate as a share of what was believed
    "later, though the link gave what was believed": (task(brought()), [(Fate.RATED, 10)], [(Fate.RATED, 0.0)]),
    "quicker": (task(brought(ended=60)), [(Fate.RATED, -40)], [(Fate.RATED, 1.0)]),
    "half the rate": (task(brought(ended=210)), [(Fate.RATED, 110)], [(Fate.RATED, -0.5)]),
    "the data was half of what was declared": (
        task(brought(ended=60, progress=seen(500 * MB))),
        [(Fate.RATED, -40)],
        [(Fate.RATED, 0.0)],
    ),
    "too short to be timed": (task(brought(ended=14)), [(Fate.RATED, -86)], [(Fate.OTHERWISE, None)]),
    "it failed": (task(ENDED_BADLY), [(Fate.OTHERWISE, None)], [(Fate.OTHERWISE, None)]),
    "it failed, and a retry brought it: one transfer, disturbed": (
        task(ENDED_BADLY, brought(2, **FOLLOWED, **UNKNOWN)),
        [(Fate.OTHERWISE, None)],
        [(Fate.OTHERWISE, None)],
    ),
    "a new run goes on with what an earlier one left there": (
        task(brought(state=State.STOPPED), brought(2, **FOLLOWED)),
        [(Fate.OTHERWISE, None)] * 2,
        [(Fate.OTHERWISE, None)] * 2,
    ),
    "it was brought, removed and brought again": (
        task(
            brought(),
            EVICTION,
            brought(3, granted=210, ended=410, estimated_transfer=ESTIMATE.model_copy(update={"at": at(200)})),
        ),
        [(Fate.RATED, 10), (Fate.RATED, 110)],
        [(Fate.RATED, 0.0), (Fate.RATED, -0.5)],
    ),
    "it was removed: it had been brought": (task(brought(), EVICTION, kind="evict"), [(Fate.RATED, 10)], [(Fate.RATED, 0.0)]),
    "it is on its way": (task(brought(state=State.RUNNING, ended=None)), [(Fate.OPEN, None)], [(Fate.OPEN, None)]),
    "it waits for its grant": (
        task(brought(state=State.PLACED, granted=None, ended=None)),
        [(Fate.OPEN, None)],
        [(Fate.OPEN, None)],
    ),
    "it was decided before estimates were kept": (task(brought(**UNKNOWN)), [(Fate.UNKNOWN, None)], [(Fate.UNKNOWN, None)]),
    "nobody has brought anything yet": (task(), [], []),
}


@pytest.mark.parametrize("case", TRANSFERS)
def test_a_transfer(case: str) -> None:
    record, times, rates = TRANSFERS[case]
    found = list(rated([record]))
    assert [(one.fate, one.error) for one in found if one.kind is Kind.TRANSFER] == times
    assert [(one.fate, one.error) for one in found if one.kind is Kind.RATE] == rates
    assert {one.link for one in found} <= {("ap", "eu")}


BESIDE: dict[str, tuple[Attempt, str, Fate]] = {
    "one that began before it ended": (brought(granted=100, ended=300), "ap", Fate.SHARED),
    "one that still goes on": (brought(state=State.RUNNING, granted=0, ended=None), "ap", Fate.SHARED),
    "one that failed": (brought(state=State.FAILED, granted=50, ended=60), "ap", Fate.SHARED),
    "one after it": (brought(granted=110, ended=300), "ap", Fate.RATED),
    "one before it": (brought(granted=0, ended=10), "ap", Fate.RATED),
    "one that was never granted": (brought(state=State.STOPPED, granted=None, ended=60), "ap", Fate.RATED),
    "one over another link": (brought(granted=50, ended=300, **UNKNOWN), "us", Fate.RATED),
}


@pytest.mark.parametrize("case", BESIDE)
def test_of_a_link_that_others_used_as_well_the_rate_is_not_rated(case: str) -> None:
    other, source, fate = BESIDE[case]
    found = list(rated([task(brought()), task(other, name="other", source=source)]))
    assert next(one.fate for one in found if one.kind is Kind.RATE) is fate
    assert next(one.fate for one in found if one.kind is Kind.TRANSFER) is Fate.RATED, "how long it takes was to foresee that"


def test_a_long_one_is_beside_all_that_end_before_it() -> None:
    short = [task(brought(granted=20 * n, ended=20 * n + 10), name=f"n{n}") for n in (1, 2, 3)]
    found = rated([task(brought(granted=0, ended=500)), *short])
    assert [one.fate for one in found if one.kind is Kind.RATE] == [Fate.SHARED] * 4


# ---- figures ------------------------------------------------------------------------------------------------------

FIGURES: dict[str, tuple[list[float], Errors | None]] = {
    "none": ([], None),
    "one": ([-4.0], Errors(1, -4.0, 4.0, 4.0)),
    "as often late as early: the median is none, the errors are not": ([-10.0, 10.0], Errors(2, 0.0, 10.0, 10.0)),
    "one far off moves no median": ([1.0, 2.0, 1000.0], Errors(3, 2.0, 2.0, 1000.0)),
    "nine of ten": ([float(n) for n in range(1, 11)], Errors(10, 5.5, 5.5, 9.0)),
    "nine of eleven are too few": ([float(n) for n in range(1, 12)], Errors(11, 6.0, 6.0, 10.0)),
}


@pytest.mark.parametrize("case", FIGURES)
def test_the_figures(case: str) -> None:
    errors, figures = FIGURES[case]
    assert errors_of(errors) == figures
    assert errors_of(errors[::-1]) == figures


def test_lines_in_all_by_link_and_by_region() -> None:
    us = ran(region="us", started_at=at(100), estimated_end_at=None)
    found = accuracy([make_record(ran()), make_record(us), task(brought())])
    assert [(line.kind, line.region, line.link) for line in found] == [
        (Kind.START, None, None),
        (Kind.START, "eu", None),
        (Kind.START, "us", None),
        (Kind.END, None, None),
        (Kind.END, "eu", None),
        (Kind.END, "us", None),
        (Kind.TRANSFER, None, None),
        (Kind.TRANSFER, None, ("ap", "eu")),
        (Kind.TRANSFER, "eu", None),
        (Kind.RATE, None, None),
        (Kind.RATE, None, ("ap", "eu")),
        (Kind.RATE, "eu", None),
    ]
    assert found[0] == Line(Kind.START, errors=Errors(2, 15.0, 15.0, 30.0), unrated={})
    assert found[5] == Line(Kind.END, "us", errors=None, unrated={Fate.UNKNOWN: 1})
    assert accuracy([]) == ()


SINCE: dict[str, tuple[Attempt, bool]] = {
    "it started then": (ran(started_at=at(0)), True),
    "it started before": (ran(started_at=at(-1)), False),
    "it ended then without a start": (ran(State.STOPPED, **NEVER), True),
    "it ended before without a start": (ran(State.STOPPED, **NEVER, ended_at=at(-1)), False),
    "it has not started yet": (ran(State.GRANTED, **ALIVE, **NEVER), True),
}


@pytest.mark.parametrize("case", SINCE)
def test_since_counts_what_came_out_from_then_on(case: str) -> None:
    attempt, counts = SINCE[case]
    assert any(line.kind is Kind.START for line in accuracy([make_record(attempt)], NOW)) is counts


def test_the_short_form_says_the_same() -> None:
    records = [make_record(attempt) for attempt, *_ in JOBS.values()] + [record for record, *_ in TRANSFERS.values()]
    records.append(make_record(ran(State.PROPOSED, placed_at=None, started_at=None, ended_at=None)))
    for moment in (at(-10_000), at(100), at(130), at(111)):
        whole = {line.kind: line.errors for line in accuracy(records, moment) if line.region is None and line.link is None}
        assert recent_starts(records, moment) == whole[Kind.START]
        assert recent_transfers(records, moment) == whole[Kind.TRANSFER]
