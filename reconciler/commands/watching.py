"""Looking again and again: `status --watch`, and `submit --wait`. The ledger is read anew only when a branch has moved.

On a terminal the table is drawn in place; anywhere else each change is one line. A remote that does not answer for a while is
said and asked again; only what a person must mend ends the watch.
"""

import sys
import threading
from collections.abc import Iterator, Mapping

from reconciler.adapters.clock import SystemClock
from reconciler.app import open_repository
from reconciler.commands import screen
from reconciler.commands.ends import AnswerIsNo
from reconciler.commands.repository import Look, cache_folder, look, turn
from reconciler.commands.status import HEADERS, Status, notes, region_rows, row_of, shown_attempt, status_of
from reconciler.hub.ledger import LedgerCache
from reconciler.model.names import JobKey
from reconciler.model.record import FINISHED, JobRecord, Phase
from reconciler.ports import Transient
from reconciler.rendering.records import why_of

POLL_SECONDS = 1.0
NEEDS_A_PERSON = frozenset({Phase.IMPOSSIBLE, Phase.HELD, Phase.PROPOSED, Phase.SUSPENDED})
"""Phases that may last for ever unless somebody acts."""


class _Watch:
    """What was seen last."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._git = open_repository(url, cache_folder(url))
        self._cache = LedgerCache()
        self._heads: Mapping[str, str] | None = None
        self._trouble = ""

    def again(self) -> Look | None:
        """A new look, if any branch has moved since the last one; None also where the remote does not answer."""
        try:
            with turn(self._url):
                if self._git.heads() == self._heads:
                    return None
                seen = look(self._git, self._cache)
        except Transient as error:
            if str(error) != self._trouble:
                screen.warn(f"{error}; trying again")
            self._trouble = str(error)
            return None
        self._heads, self._trouble = seen.heads, ""
        return seen


def watch(url: str, job: str | None) -> None:
    """Show the status until interrupted; of one job, until it has ended."""
    states = _states(url, job)
    if sys.stdout.isatty():
        _draw(states, job)
    else:
        _print(states, job)


def _states(url: str, job: str | None) -> Iterator[Status | None]:
    """The status whenever it may have changed; None when it was looked at and nothing had."""
    watched, pause = _Watch(url), threading.Event()
    while True:
        seen = watched.again()
        yield None if seen is None else status_of(seen, job)
        pause.wait(POLL_SECONDS)


def _over(status: Status, job: str | None) -> bool:
    return job is not None and bool(status.records) and all(record.phase in FINISHED for record in status.records)


def _print(states: Iterator[Status | None], job: str | None) -> None:
    said: dict[JobKey, str] = {}
    for status in states:
        for record in status.records if status is not None else ():
            line = change(record)
            if said.get(record.key) != line:
                said[record.key] = line
                screen.say(f"{screen.clock(SystemClock().now())}  {line}")
        if status is not None and _over(status, job):
            return


def _draw(states: Iterator[Status | None], job: str | None) -> None:
    last: Status | None = None
    with screen.redrawn() as draw:
        for status in states:
            last = status or last
            if last is None:
                continue
            now = SystemClock().now()
            regions = [f"region {' · '.join(row)}" for row in region_rows(last, now)]
            draw(HEADERS, [row_of(record, now) for record in last.records], [*regions, *notes(last)])
            if _over(last, job):
                return


def change(record: JobRecord) -> str:
    """A job in one line, without anything that changes by itself."""
    last = shown_attempt(record)
    where = f" in {last.region} as {last.name}" if last is not None else ""
    why = why_of(record)
    return screen.one_line(f"{record.key} {record.phase}{where}" + (f": {why}" if why else ""))


def wait_for_end(url: str, key: JobKey) -> None:
    """Print each change of the job until it has ended, or nothing more happens without a person.

    Raises AnswerIsNo unless it succeeded.
    """
    watched, pause, said = _Watch(url), threading.Event(), ""
    while True:
        seen = watched.again()
        record = _taken_in(seen, key) if seen is not None else None
        if record is not None and said != change(record):
            said = change(record)
            screen.say(said)
        if record is not None and record.phase in FINISHED | NEEDS_A_PERSON:
            if record.phase is Phase.SUCCEEDED:
                return
            raise AnswerIsNo
        pause.wait(POLL_SECONDS)


def _taken_in(seen: Look, key: JobKey) -> JobRecord | None:
    """The job's record, once it is about the file that main has now."""
    record = seen.ledger.records.get(key)
    if record is None or record.source is None:
        return record
    entry = seen.git.files(seen.main).get(record.source.path) if seen.main is not None else None
    return record if entry is not None and entry.oid == record.source.blob else None
