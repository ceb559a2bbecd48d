"""The hub's loop: one cycle at a time whatever wakes it; and the hours that the clocks of people skip or repeat."""

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger

from reconciler.adapters.clock import SystemClock
from reconciler.adapters.documents import reader
from reconciler.app import hub_server
from reconciler.hub import loop as loop_module
from reconciler.hub.loop import HubLoop
from reconciler.model.attempt import Outcome
from reconciler.model.problem import Invalid
from reconciler.model.record import Phase
from tests.agent.region import started
from tests.hub.rig import Rig
from tests.hub.words import pod, work
from tests.waiting import until

SECRET = "of-the-forge"
FOREVER = 3600.0


class Held:
    """Cycles stop at their first look at the remote until they are let go on."""

    def __init__(self, rig: Rig) -> None:
        self.begun = threading.Semaphore(0)
        self.go_on = threading.Semaphore(0)
        self.open = threading.Event()
        self.cycles = self.inside = self.most = 0
        rig.git.before_look = self._stop

    def _stop(self) -> None:
        self.cycles += 1
        self.inside += 1
        self.most = max(self.most, self.inside)
        self.begun.release()
        while not self.open.is_set() and not self.go_on.acquire(timeout=0.02):
            pass
        self.inside -= 1

    def next(self) -> None:
        """Until another cycle has begun."""
        assert self.begun.acquire(timeout=30), "no cycle began"


class Asked:
    """The hub over HTTP."""

    def __init__(self, port: int) -> None:
        self._port = port

    def _ask(self, method: str, path: str) -> tuple[int, dict[str, Any]]:
        link = http.client.HTTPConnection("127.0.0.1", self._port, timeout=20)
        try:
            link.request(method, path, b"{}" if method == "POST" else None, {"X-Gitlab-Token": SECRET})
            answer = link.getresponse()
            return answer.status, json.load(answer)
        finally:
            link.close()

    def push(self) -> None:
        """The forge tells of a push."""
        assert self._ask("POST", "/webhooks/gitlab")[0] == 202

    def absorbed(self) -> int:
        """Wake-ups that fell together with another, as /healthz counts them."""
        return int(self._ask("GET", "/healthz")[1]["absorbed_wakeups"])


@contextmanager
def at_work(rig: Rig, held: Held, poll_seconds: float) -> Iterator[tuple[HubLoop, Asked]]:
    loop = HubLoop(rig.hub, rig.clock, lambda: None)
    server = hub_server(loop, [SECRET], "127.0.0.1", 0)
    asked = Asked(server.start())
    thread = threading.Thread(target=loop.run, args=(poll_seconds,), daemon=True)
    thread.start()
    try:
        yield loop, asked
    finally:
        held.open.set()
        loop.stop()
        thread.join(20)
        server.stop()
    assert not thread.is_alive()


# ---- LO-1 ---------------------------------------------------------------------------------------------------------


def test_pushes_during_a_cycle_lead_to_one_more_and_no_second_at_once(rig: Rig) -> None:
    rig.settle()
    held = Held(rig)
    with at_work(rig, held, FOREVER) as (loop, asked):
        held.next()
        for _ in range(3):
            asked.push()
        assert held.cycles == 1, "what is told during a cycle waits for its end"
        held.go_on.release()
        held.next()
        held.go_on.release()
        until(lambda: loop.health.cycles == 2)
        until(lambda: loop.wakeups._changed._waiters)  # it waits for somebody to wake it
        assert (held.cycles, held.most, asked.absorbed()) == (2, 1, 2), "one more, and no third"


def test_a_cycle_that_outlasts_its_interval_is_never_doubled_and_the_ticks_are_counted(rig: Rig) -> None:
    """The interval is a second's fifth; the first cycle takes at least two of them, and a push is told meanwhile."""
    rig.settle()
    held = Held(rig)
    with at_work(rig, held, 0.2) as (loop, asked):
        held.next()
        asked.push()
        until(lambda: loop.wakeups.absorbed >= 2)
        assert held.cycles == 1
        held.go_on.release()
        held.next()
        assert (held.cycles, held.inside) == (2, 1)
        held.open.set()
        until(lambda: asked.absorbed() >= 2)
    assert held.most == 1


# ---- LO-5 ---------------------------------------------------------------------------------------------------------

BERLIN = ZoneInfo("Europe/Berlin")
NIGHTS = {
    "an hour is skipped": datetime(2026, 3, 28, 20, tzinfo=UTC),
    "an hour is repeated": datetime(2026, 10, 24, 20, tzinfo=UTC),
}
WRONG = {"an hour is skipped": (1, True), "an hour is repeated": (2, False)}
"""What a window of 02:30 in Berlin would do in that night: how often it opens, and whether at a time that there is not."""
HOURS = 12


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose local time is that of Berlin."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    assert time.tzname == ("CET", "CEST")
    yield
    monkeypatch.undo()
    time.tzset()


def fires(trigger: Any, begin: datetime, seconds: float) -> list[datetime]:
    """When a trigger fires in the hours after `begin`, asked as the scheduler asks it: from one fire to the next."""
    last = begin.astimezone(trigger.timezone) - timedelta(seconds=seconds)
    found: list[datetime] = []
    end = begin + timedelta(hours=HOURS)
    while (last := trigger.get_next_fire_time(last, last)).timestamp() < end.timestamp():
        found.append(last)
    return found


def triggers_of(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Every trigger that the loop really sets, by name."""
    made: list[BackgroundScheduler] = []

    class Noted(BackgroundScheduler):  # type: ignore[misc]
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            made.append(self)

    monkeypatch.setattr(loop_module, "BackgroundScheduler", Noted)
    held = Held(rig)
    with at_work(rig, held, 20.0):
        held.next()
        (scheduler,) = made
        return {job.id: job.trigger for job in scheduler.get_jobs()}


@pytest.mark.slow
@pytest.mark.parametrize("night", NIGHTS)
@pytest.mark.usefixtures("berlin")
def test_what_comes_at_intervals_comes_at_intervals_in_both_nights(rig: Rig, monkeypatch: pytest.MonkeyPatch, night: str) -> None:
    triggers = triggers_of(rig, monkeypatch)
    assert {type(trigger) for trigger in triggers.values()} == {IntervalTrigger}, "no hour of any calendar"
    assert {str(trigger.timezone) for trigger in triggers.values()} == {"UTC"}
    for name, seconds in {"poll": 20.0, "maintenance": 3600.0}.items():
        moments = fires(triggers[name], NIGHTS[night], seconds)
        elapsed = [(moment - NIGHTS[night]).total_seconds() for moment in moments]
        assert elapsed == [number * seconds for number in range(int(HOURS * 3600 / seconds))]


@pytest.mark.parametrize("night", NIGHTS)
def test_a_window_in_local_time_would_not(night: str) -> None:
    """So that the test above can fail: the same question to a trigger that goes by the hours of Berlin."""
    moments = fires(CronTrigger(hour=2, minute=30, timezone=BERLIN), NIGHTS[night], 1)
    there_is_not = [
        moment.astimezone(UTC).astimezone(BERLIN).replace(tzinfo=None) != moment.replace(tzinfo=None) for moment in moments
    ]
    assert (len(moments), any(there_is_not)) == WRONG[night]


@pytest.mark.parametrize("night", NIGHTS)
@pytest.mark.usefixtures("berlin")
def test_a_run_time_of_eight_hours_is_eight_hours_in_both_nights(rig: Rig, night: str) -> None:
    rig.clock.now = lambda: NIGHTS[night] + timedelta(seconds=rig.clock.seconds)  # type: ignore[method-assign]
    rig.job(max_runtime_seconds=8 * 3600)
    rig.settle()
    begun = rig.clock.now()

    def runs_on() -> Phase:
        rig.tell("eu", work(rig.attempt().name, "Released", pod(rig.attempt().name, started_at=begun)))
        rig.settle()
        return rig.record().phase

    assert runs_on() is Phase.RUNNING
    rig.clock.seconds += 8 * 3600 - 1
    rig.restart()
    assert runs_on() is Phase.RUNNING
    rig.clock.seconds += 16
    assert runs_on() is Phase.STOPPING
    assert rig.attempt().outcome is Outcome.DEADLINE_EXCEEDED


LOCAL_TIMES = ["2026-03-29T02:30:00", "2026-03-29T02:30:00+02:00", "2026-10-25 02:30", "02:30 Europe/Berlin"]


@pytest.mark.parametrize("text", LOCAL_TIMES)
def test_a_time_of_a_file_is_in_utc_or_refused(text: str) -> None:
    job = "job_id: llm-a\ngpu: {count: 8}\nimage: reg.example.com:5000/team/train:1.4\ndeadline: "
    assert reader.read_job(f'{job}"2026-03-29T02:30:00Z"'.encode(), "jobs/team-a/a.yaml").deadline == "2026-03-29T02:30:00Z"
    with pytest.raises(Invalid):
        reader.read_job(f'{job}"{text}"'.encode(), "jobs/team-a/a.yaml")


@pytest.mark.usefixtures("berlin")
def test_the_machines_clock_is_read_in_utc() -> None:
    now = SystemClock().now()
    assert now.utcoffset() == timedelta(0)
    assert abs(now.timestamp() - time.time()) < 60


HOUR = 3600.0
JUMPS = {"an hour on": HOUR, "an hour back": -HOUR}


@pytest.mark.parametrize("ahead", JUMPS.values(), ids=JUMPS)
def test_a_wall_clock_that_jumps_an_hour_changes_no_lease_and_stops_nothing(ahead: float) -> None:
    region = started()
    region.advance(30)
    renewed = region.lease().renewal
    region.clock.wall_ahead = ahead
    region.advance(30)
    assert region.phases("train-a1") == ["Running"]
    assert (region.lease().epoch, region.lease().renewal > renewed) == (1, True)
    assert region.health() == []


@pytest.mark.parametrize("ahead", JUMPS.values(), ids=JUMPS)
def test_a_wall_clock_that_jumps_an_hour_makes_no_report_old(rig: Rig, ahead: float) -> None:
    before = rig.placed()
    right: Callable[[], datetime] = rig.clock.now
    rig.clock.now = lambda: right() + timedelta(seconds=ahead)  # type: ignore[method-assign]
    rig.job("next", gpus=1)
    rig.settle()
    assert rig.attempt() == before
    assert rig.record("next").phase is Phase.STARTING
