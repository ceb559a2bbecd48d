"""Measuring the links of a region, one after the other, in a thread of its own; the report says what was found.

Decides which link is measured next: the one that has been due for longest. One probe at a time, so that none measures another.
The table of links and where the stores answer are the hub's word (`hub/links.json`); without it nothing is measured.

Invariant: nothing here is waited for by the agent's steps: they read what was found last, a value that is replaced whole.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final

from reconciler.agent.probing.schedule import Course, Rules, Try, after, after_failure, begun, due_at, told
from reconciler.agent.probing.table import Way, lines_of, newer_table, other_end
from reconciler.model.link_table import LINKS_KEY, LinkLine, LinkTable
from reconciler.model.report import Health, LinkProbe
from reconciler.ports import Clock, ObjectStore, Refused, Transient
from reconciler.probe_port import LinkStores

TABLE_SECONDS: Final = 15.0
"""Between looks at the table of links."""
KEEP_SECONDS: Final = 600.0
"""Between tries to put there what others read, where that failed."""
AT_ONCE: Final = float("-inf")


@dataclass(frozen=True, slots=True)
class Measuring:
    """What is known at one moment."""

    table: LinkTable = LinkTable()  # noqa: RUF009 - a frozen value
    etag: str | None = None
    looked_at: float = AT_ONCE
    lines: Mapping[Way, LinkLine] = field(default_factory=dict)
    """The links of this region that can be measured."""
    courses: Mapping[Way, Course] = field(default_factory=dict)
    kept_at: float = AT_ONCE
    """When it was last tried to put into the region's own store what others read; infinite when it is there."""
    unread: str = ""
    """Why the table cannot be read."""
    unkept: str = ""
    """Why others are given nothing to read."""


class Prober:
    """Measures one region's links. `store` is the common one, where the table of links stands."""

    def __init__(self, region: str, store: ObjectStore, stores: LinkStores, clock: Clock, chance: Random, rules: Rules) -> None:
        self._region = region
        self._store = store
        self._stores = stores
        self._clock = clock
        self._chance = chance
        self._rules = rules
        self._known = Measuring()

    def probes(self) -> tuple[LinkProbe, ...]:
        """What was found, for the report; from any thread, at once."""
        known, now = self._known, self._clock.monotonic()
        tried = ((known.lines[way], course) for way, course in sorted(known.courses.items()) if course.is_tried)
        return tuple(told(course, line, now) for line, course in tried)

    def health(self) -> tuple[Health, ...]:
        """What keeps links from being measured at all; from any thread, at once."""
        known = self._known
        return tuple(Health(code="LinksNotMeasured", message=words) for words in (known.unread, known.unkept) if words)

    def run(self, stop: threading.Event) -> None:
        """Measure until `stop` is set. Ends within the seconds of one probe."""
        while not stop.is_set():
            try:
                pause = self.step()
            except Exception as error:  # noqa: BLE001 - a bug ends this step, not the measuring; the report shows it
                self._known = replace(self._known, unread=f"Bug: {type(error).__name__}: {error}")
                pause = TABLE_SECONDS
            stop.wait(pause)

    def step(self) -> float:
        """One probe at most; returns the seconds until the next may be made, or the table is looked at again."""
        self._known = self._with_table(self._known)
        self._known = self._with_own_object(self._known)
        now = self._clock.monotonic()
        dues = {way: due_at(course, self._known.lines[way], now, self._rules) for way, course in self._known.courses.items()}
        due, way = min(((at, way) for way, at in dues.items() if at is not None), default=(float("inf"), None))
        if way is None or due > now:
            return max(min(due, self._known.looked_at + TABLE_SECONDS) - now, 0.0)
        courses = {**self._known.courses, way: self._tried(self._known.lines[way], self._known.courses[way])}
        self._known = replace(self._known, courses=courses)
        return 0.0

    def _tried(self, line: LinkLine, course: Course) -> Course:
        """The link's course after one probe."""
        began = self._clock.monotonic()
        size, most = self._rules.sizes[course.step], self._rules.most_seconds
        other = other_end(self._region, line)
        move = self._stores.read if line.target == self._region else self._stores.write
        try:
            found = move(other, self._known.table.stores[other], size, most)
        except (Transient, Refused) as error:
            return after_failure(course, str(error), Try(line, began, self._clock.monotonic()), self._chance)
        except Exception as error:  # noqa: BLE001 - a bug ends this probe, not the measuring; the report shows it
            words = f"Bug: {type(error).__name__}: {error}"
            return after_failure(course, words, Try(line, began, self._clock.monotonic()), self._chance)
        return after(course, found, Try(line, began, self._clock.monotonic()), self._rules, self._chance)

    def _with_table(self, known: Measuring) -> Measuring:
        """With the table as it stands, if it is time to look. One that cannot be read leaves the last in force."""
        now = self._clock.monotonic()
        if now < known.looked_at + TABLE_SECONDS:
            return known
        known = replace(known, looked_at=now)
        try:
            newer = newer_table(self._store, known.etag)
        except (Transient, Refused) as error:
            return replace(known, unread=f"{LINKS_KEY}: {error}")
        known = replace(known, unread="")
        return known if newer is None else self._with_lines(known, *newer)

    def _with_lines(self, known: Measuring, table: LinkTable, etag: str) -> Measuring:
        """With the courses of the table's links: those that go on, and new ones. To a store that has moved leads another link."""
        lines, now = lines_of(self._region, table), self._clock.monotonic()
        moved = {name for name, address in table.stores.items() if known.table.stores.get(name) != address}
        courses = {
            way: begun(now, self._chance)
            if way not in known.courses or other_end(self._region, line) in moved
            else known.courses[way]
            for way, line in lines.items()
        }
        kept_at = AT_ONCE if self._region in moved else known.kept_at
        return replace(known, table=table, etag=etag, lines=lines, courses=courses, kept_at=kept_at)

    def _with_own_object(self, known: Measuring) -> Measuring:
        """With what others read put into this region's store, once, where a link leads away from here."""
        now = self._clock.monotonic()
        address = known.table.stores.get(self._region)
        leads_away = any(line.source == self._region for line in known.table.links)
        if address is None or not leads_away or now < known.kept_at + KEEP_SECONDS:
            return known
        try:
            self._stores.keep(self._region, address, self._rules.sizes[-1])
        except (Transient, Refused) as error:
            return replace(known, kept_at=now, unkept=f"others cannot measure the links from here: {error}")
        return replace(known, kept_at=float("inf"), unkept="")
