"""The hub's loop: one cycle at a time, whatever wakes it.

Webhooks, the poll interval and the end of a cycle only set a mark; the one worker looks at the mark, never at who set it. A mark
that is set during a cycle leads to exactly one more (the interval guard of a scheduler does not know of other triggers:
agronholm/apscheduler#423). An error ends the cycle, not the loop.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import structlog
from apscheduler.schedulers.background import BackgroundScheduler

from reconciler.hub.cycle import Hub
from reconciler.hub.ledger import Corrupt
from reconciler.hub.results import Ended, Result
from reconciler.ports import Clock, Conflict, Refused, Transient
from reconciler.receiver_port import Receivers

BACK_OFF_SECONDS = (1.0, 2.0, 5.0, 10.0, 30.0)
"""Waits after cycles that failed in a row; the last one repeats."""
MAINTENANCE_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class Health:
    """How the loop is doing, for whoever asks over HTTP."""

    cycles: int = 0
    published: int = 0
    failures_in_a_row: int = 0
    absorbed: int = 0
    """Wake-ups that came while one was already waiting, or during a cycle: they lead to one cycle together."""
    last_end: Ended | None = None
    last_success_at: float | None = None
    """By the monotonic clock, seconds."""
    trouble: str = ""


class Wakeups:
    """A mark that says "look again". Setting it twice is setting it once."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due = True
        self._absorbed = 0

    def wake(self) -> None:
        """Ask for one more cycle. From any thread; never blocks for long."""
        with self._changed:
            self._absorbed += self._due
            self._due = True
            self._changed.notify_all()

    def wait(self, seconds: float | None) -> None:
        """Until somebody asked, or `seconds` went by; takes the mark away."""
        with self._changed:
            self._changed.wait_for(lambda: self._due, seconds)
            self._due = False

    @property
    def absorbed(self) -> int:
        """How many wake-ups fell together with another."""
        return self._absorbed


class Beside(Protocol):
    """A loop that runs beside the hub's and looks at what its cycles have seen."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def wake(self) -> None:
        """A cycle has looked at something."""

    def tell(self) -> None:
        """The world outside Git has said that it changed."""


class HubLoop:
    """Runs a hub until it is told to stop."""

    def __init__(
        self,
        hub: Hub,
        clock: Clock,
        maintain: Callable[[], None],
        beside: Sequence[Beside] = (),
        receivers: Receivers | None = None,
    ) -> None:
        self._hub = hub
        self._beside = beside
        self._receivers = receivers
        self._clock = clock
        self._maintain = maintain
        self._stop = threading.Event()
        self._maintenance_due = threading.Event()
        self._log = structlog.get_logger("hub")
        self._seen_wrong = ""
        self._logged: frozenset[str] = frozenset()
        self.wakeups = Wakeups()
        self.health = Health()

    def stop(self) -> None:
        """Let the cycle under way end, and then end the loop."""
        self._stop.set()
        self.wakeups.wake()

    def tell(self) -> None:
        """Something other than branches has changed: that is for the loops beside."""
        for other in self._beside:
            other.tell()

    def run(self, poll_seconds: float) -> None:
        """Cycle until `stop`. Blocks. The remote is asked at least every `poll_seconds`."""
        scheduler = BackgroundScheduler(timezone="UTC")
        scheduler.add_job(self.wakeups.wake, "interval", seconds=poll_seconds, id="poll", max_instances=1, coalesce=True)
        scheduler.add_job(self._maintenance_due.set, "interval", seconds=MAINTENANCE_SECONDS, id="maintenance")
        scheduler.start()
        for other in self._beside:
            other.start()
        try:
            wait: float | None = 0.0
            while not self._stop.is_set():
                self.wakeups.wait(wait)
                if not self._stop.is_set():
                    wait = self.turn()
                refused = self.health.last_end is Ended.REFUSED
                if self.health.failures_in_a_row or refused:  # the next poll must not cut this short
                    self._stop.wait(wait)
        finally:
            scheduler.shutdown(wait=False)
            for other in self._beside:
                other.stop()
            self._resign()

    def turn(self) -> float | None:
        """One cycle with its log lines; returns the seconds after which the next is worth it, None for no such moment."""
        try:
            result = self._hub.cycle()
        except (Transient, Refused, Corrupt) as error:
            return self._failed(type(error).__name__, str(error))
        except Exception as error:  # noqa: BLE001 - a bug must end the cycle, not the hub: the next cycle reads everything anew
            self._log.exception("cycle failed")
            return self._failed("bug", repr(error))
        self._note(result)
        if self._maintenance_due.is_set():
            self._maintenance_due.clear()
            self._keep_up()
        return result.again_in_seconds

    def _note(self, result: Result) -> None:
        published = result.ended is Ended.PUBLISHED
        troubles = (*result.troubles, *result.ungranted, *self._told(result))
        if result.ended is not Ended.IDLE:  # which has looked at nothing, so whatever was wrong still is
            self._seen_wrong = "; ".join(troubles)
            for other in self._beside:
                other.wake()
        self.health = replace(
            self.health,
            cycles=self.health.cycles + 1,
            published=self.health.published + published,
            failures_in_a_row=0,
            absorbed=self.wakeups.absorbed,
            last_end=result.ended,
            last_success_at=self._clock.monotonic() if result.ended is not Ended.REFUSED else self.health.last_success_at,
            trouble=self._seen_wrong,
        )
        self._say(self._seen_wrong if result.ended is Ended.REFUSED and result.again_in_seconds else "")
        for event in result.events:
            self._log.info("published", what=event)
        if result.ended is not Ended.IDLE:
            for trouble in dict.fromkeys(troubles):
                if trouble not in self._logged:
                    self._log.warning("trouble", what=trouble)
            self._logged = frozenset(troubles)
        if result.ended in (Ended.RACED, Ended.DEFERRED, Ended.REFUSED):
            self._log.info("not published", why=result.ended.value, again_in_seconds=result.again_in_seconds)

    def _told(self, result: Result) -> list[str]:
        """Tell the regions' receivers what moved; what is wrong with them, as far as is known."""
        if self._receivers is None:
            return []
        self._receivers.tell(result.moved)
        return [f"the receiver of {name} did not take the news: {words}" for name, words in self._receivers.troubles().items()]

    def _failed(self, kind: str, words: str) -> float:
        failures = self.health.failures_in_a_row + 1
        wait = BACK_OFF_SECONDS[min(failures, len(BACK_OFF_SECONDS)) - 1]
        self.health = replace(self.health, cycles=self.health.cycles + 1, failures_in_a_row=failures, trouble=words)
        self._log.error("cycle failed", kind=kind, what=words, again_in_seconds=wait)
        if failures > 1:  # one may be a moment's trouble
            self._say(words)
        return wait

    def _say(self, what: str) -> None:
        try:
            self._hub.say(what)
        except (Conflict, Transient, Refused) as error:
            self._log.warning("the store does not take what is wrong", what=str(error))

    def _keep_up(self) -> None:
        try:
            self._maintain()
        except (Transient, Refused) as error:
            self._log.warning("maintenance of the clone failed", what=str(error))

    def _resign(self) -> None:
        try:
            self._hub.resign()
        except (Transient, Refused) as error:
            self._log.warning("the lead could not be given up; another hub takes it when it runs out", what=str(error))
