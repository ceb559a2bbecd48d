"""The judge finds what may not be: planted in its record, and made by an agent or a hub that lacks a rule."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pytest

from reconciler.agent import renewing
from reconciler.model.attempt import Attempt, Needs, Outcome, State
from reconciler.model.grants import Grant, Grants, Lease
from reconciler.model.names import JobKey
from reconciler.model.result import ResultPointer
from reconciler.planning import lifecycle
from reconciler.sim.agenda import Agenda
from reconciler.sim.happenings import Happening
from reconciler.sim.histories import play, violation
from reconciler.sim.judge import Judge, Run, Violation, spans_within
from reconciler.sim.person import PROGRAMS

NOW = datetime(2026, 5, 1, tzinfo=UTC)
KEY = JobKey("team-a", "j0")


def attempt(number: int, state: State, region: str = "eu") -> Attempt:
    name = f"j0-aaaaaa-a{number}"
    return Attempt(number=number, name=name, region=region, state=state, run_hash="a", nodes=1, needs=Needs(), decided_at=NOW)


def run(number: int, region: str = "eu", *, lasts: float | None = None, maker: str = "u1", started: float = 0.0) -> Run:
    name = f"j0-aaaaaa-a{number}"
    return Run(KEY, name, 0, 1, region, maker, started, None if lasts is None else started + lasts)


@dataclass
class Court:
    """A judge, and a ledger that says what it is told to say."""

    ledger: dict[str, Attempt] = field(default_factory=dict)
    reruns: int = 0

    def __post_init__(self) -> None:
        self.agenda = Agenda()
        self.judge = Judge(self.agenda, lambda _, name: self.ledger.get(name), lambda _: self.reruns)
        for number in (1, 2):
            self.say(attempt(number, State.GRANTED))

    def say(self, said: Attempt) -> None:
        self.ledger[said.name] = said

    def starts(self, one: Run) -> None:
        self.judge.starts(replace(one, started=self.agenda.seconds))

    def lease(self, who: str, *, revoked: bool = False, epoch: int = 1, region: str = "eu") -> None:
        lease = Lease(region=region, epoch=epoch, incarnation="x", renewal=0, revoked=revoked)
        self.judge.wrote_lease(region, who, lease.model_dump_json().encode(), self.agenda.seconds)

    def silence(self, region: str = "eu", seconds: float = 400.0) -> None:
        """A region is cut off for so long, which passes."""
        now = self.agenda.seconds
        self.judge.hinder(region, now, now + seconds)
        self.agenda.run(now + seconds)

    def grants(self, epoch: int = 1) -> None:
        grant = Grant(attempt="j0-aaaaaa-a1", team="team-a", job_id="j0", nodes=1)
        body = Grants(region="eu", term=1, version=1, epoch=epoch, attempts=(grant,)).model_dump_json().encode()
        self.judge.wrote_grants("eu", body)

    def result(self, number: int) -> None:
        pointer = ResultPointer(
            team="team-a", job_id="j0", attempt=f"j0-aaaaaa-a{number}", number=number, region="eu", succeeded_at=NOW
        )
        self.judge.wrote_result("hub-0", pointer.model_dump_json().encode())


def _two_at_once(court: Court) -> None:
    court.say(attempt(2, State.GRANTED, "us"))
    court.starts(run(1))
    court.starts(run(2, "us"))


def _one_after_the_other(court: Court) -> None:
    court.say(attempt(2, State.GRANTED, "us"))
    court.starts(replace(run(1), ends=10.0, code=1))
    court.agenda.run(10.0)
    court.starts(run(2, "us"))


def _twice(court: Court, maker: str = "u1") -> None:
    court.starts(run(1, lasts=1.0))
    court.agenda.run(5.0)
    court.starts(run(1, maker=maker))


def _after_success(court: Court) -> None:
    court.starts(replace(run(1), ends=3.0))
    court.agenda.run(5.0)
    court.starts(run(2))


def _asked_again(court: Court) -> None:
    court.reruns = 1
    _after_success(court)


def _unpublished(court: Court, state: State) -> None:
    court.say(attempt(1, state))
    court.starts(run(1))


def _ended_and_runs(court: Court) -> None:
    court.starts(run(1))
    court.judge.said_to_have_ended(KEY, attempt(1, State.STOPPED).model_copy(update={"outcome": Outcome.REGION_LOST}))


def _granted_before_the_ledger(court: Court) -> None:
    court.say(attempt(1, State.PLACED))
    court.grants()


def _given_up(court: Court, seconds: float = 400.0, *, cut: bool = True) -> None:
    court.lease("agent-eu")
    if cut:
        court.silence(seconds=seconds)
    else:
        court.agenda.run(seconds)
    court.lease("hub-0", revoked=True, epoch=2)


def _given_up_and_runs(court: Court) -> None:
    court.starts(run(1))
    _given_up(court)


def _old_grant(court: Court) -> None:
    court.grants(epoch=1)
    _given_up(court)
    court.starts(run(1))


def _two_in_a_minute(court: Court, apart: float) -> None:
    court.lease("agent-us", region="us")
    court.judge.hinder("us", 0.0, 1000.0)
    _given_up(court)
    court.agenda.run(court.agenda.seconds + apart)
    court.lease("hub-0", revoked=True, epoch=2, region="us")


def _blind(court: Court) -> None:
    court.judge.blind["hub-0"] = [(150.0, 350.0)]
    _given_up(court)


def _shown_again(court: Court) -> None:
    _given_up(court)
    court.agenda.run(court.agenda.seconds + 1.0)
    court.lease("hub-0", revoked=True, epoch=2)


def _result(court: Court, *states: State) -> None:
    for number, state in enumerate(states, start=1):
        court.say(attempt(number, state))
        court.result(number)


def _result_back(court: Court) -> None:
    _result(court, State.SUCCEEDED, State.SUCCEEDED)
    court.result(1)


PLANTED: dict[str, tuple[Callable[[Court], None], str]] = {
    "two attempts of a job run at once": (_two_at_once, "TwoAtOnce"),
    "one runs after the other has ended": (_one_after_the_other, ""),
    "an attempt is started a second time": (_twice, "ReleasedTwice"),
    "a second object runs an attempt": (lambda court: _twice(court, "u2"), "ReleasedTwice"),
    "a job that succeeded runs again": (_after_success, "RanAfterSuccess"),
    "a job that succeeded runs again, and a person asked for it": (_asked_again, ""),
    "an attempt starts that is only placed": (lambda court: _unpublished(court, State.PLACED), "StartedUngranted"),
    "an attempt starts that has ended": (lambda court: _unpublished(court, State.STOPPED), "StartedUngranted"),
    "an attempt starts that is being stopped, which may not have been heard": (
        lambda court: _unpublished(court, State.STOPPING),
        "",
    ),
    "an attempt runs that is said to have ended": (_ended_and_runs, "EndedAndRuns"),
    "a grant comes before the ledger": (_granted_before_the_ledger, "GrantBeforeLedger"),
    "a grant comes after the ledger": (lambda court: court.grants(), ""),
    "a region is given up when it is time": (_given_up, ""),
    "a region is given up too early": (lambda court: _given_up(court, 200.0), "FalseFailover"),
    "a region is given up though nothing hindered it": (lambda court: _given_up(court, cut=False), "FalseFailover"),
    "a region is given up that runs something": (_given_up_and_runs, "GivenUpAndRuns"),
    "an attempt starts by a grant that was revoked": (_old_grant, "StartedUngranted"),
    "two regions are given up within a minute": (lambda court: _two_in_a_minute(court, 30.0), "TwoGivenUpAtOnce"),
    "two regions are given up one after the other": (lambda court: _two_in_a_minute(court, 61.0), ""),
    "a hub that saw nothing gives a region up": (_blind, "GivenUpWhileBlind"),
    "a region is shown to be given up": (_shown_again, ""),
    "an agent revokes its own lease": (lambda court: court.lease("agent-eu", revoked=True), "LeaseWrong"),
    "the result is of an attempt that succeeded": (lambda court: _result(court, State.SUCCEEDED), ""),
    "the result is of an attempt that runs": (lambda court: _result(court, State.RUNNING), "ResultByTheWrongOne"),
    "the result moves back": (_result_back, "ResultByTheWrongOne"),
}


@pytest.mark.parametrize("case", PLANTED)
def test_what_is_planted_is_found(case: str) -> None:
    plant, want = PLANTED[case]
    court = Court()
    if not want:
        plant(court)
        return
    with pytest.raises(Violation) as found:
        plant(court)
    assert found.value.kind == want


def test_spans_that_overlap_count_once() -> None:
    assert spans_within([(0.0, 10.0), (5.0, 20.0), (50.0, 90.0), (200.0, 300.0)], 5.0, 80.0) == [15.0, 30.0]


# ---- programs that lack a rule ------------------------------------------------------------------------------------

LONG = list(PROGRAMS).index("long")
CUT_OFF = (Happening(5.0, "submit", 0, LONG), Happening(60.0, "cut_region", 0, 4, 1), Happening(700.0, "nothing_more"))
"""A long job starts in the first region, which is then cut off for ten minutes."""


def test_a_region_that_is_cut_off_stops_what_it_runs_and_is_given_up() -> None:
    world, found = play(0, CUT_OFF)
    assert found is None
    assert [one.region for one in world.judge.given_up] == ["eu"]
    first, second = sorted(world.judge.runs)
    assert [world.judge.runs[name][0].region for name in (first, second)] == ["eu", "us"]
    assert world.judge.runs[first][0].told


def test_an_agent_that_does_not_fence_itself_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewing, "fence_at", lambda *_: float("inf"))
    _, found = play(0, CUT_OFF)
    assert found is not None
    assert found.kind == "GivenUpAndRuns"


HOLD, WAIT = 7, 8
"""Numbers by which a job is submitted that says so of a lost region."""


@pytest.mark.parametrize("choice", [HOLD, WAIT], ids=["hold", "wait"])
def test_a_job_that_says_so_is_not_started_elsewhere_by_itself(choice: int) -> None:
    submitted, cut, end = CUT_OFF
    world, found = play(0, (submitted._replace(c=choice), cut, end))
    assert found is None
    (record,) = world.ledger.records.values()
    first, second = record.attempts
    assert (first.outcome, second.state) == (Outcome.REGION_LOST, State.SUCCEEDED)
    assert record.spec.release == (1 if choice == HOLD else 0), "one that waits for its region goes on when that is back"


def test_a_hub_that_holds_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "_over", lambda *_: None)
    submitted, cut, end = CUT_OFF
    _, found = play(0, (submitted._replace(c=HOLD), cut, end))
    assert found is not None
    assert (found.kind, "nobody released it" in found.words) == ("DoneTwice", True)


@pytest.mark.slow
def test_a_violation_is_told_by_the_happenings_that_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewing, "fence_at", lambda *_: float("inf"))
    found = next(story for seed in range(40) if (story := violation(seed)) is not None)
    assert found.kind == "GivenUpAndRuns"
    assert len(found.happenings) <= 4 < found.drawn
    assert str(found).splitlines()[-1].endswith(f"VIOLATION {found.kind}: {found.words}")
