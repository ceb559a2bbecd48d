"""Watches: one thread a collection that lists it, follows its changes and begins anew whatever ends them.

Decides when to list and when to go on from the last version, how long a silence is borne, and how often the copy is compared
with a whole list. What an event means is copies.py's; whether a copy is fresh enough is for whoever reads it.

Invariants: a watch begins at the version of a list that is in the copy, or at the last that it told: nothing is lost between.
Nothing that happens here ends the thread but `stop`, and whatever went wrong last is told by `trouble`.

The client's own watches and informers do not do for this: they make models of all objects, which costs ten times the memory; they
know no time-out, so that a stream that goes silent stays so for ever; a failed list, and an error of a reader, is something that
they log; and nobody can tell how old a copy is.
"""

import json
import threading
from dataclasses import dataclass
from typing import Final

from reconciler.adapters.kube.answers import Request
from reconciler.adapters.kube.connection import Connection, Stream
from reconciler.adapters.kube.copies import Copy
from reconciler.adapters.kube.listing import Collection, Until, every
from reconciler.ports import Clock, Conflict, KubeObject, Refused, Transient, Wake

_SHORT_SECONDS: Final = 1.0
"""A watch that ends sooner than this has failed, whatever it said."""


@dataclass(frozen=True, slots=True)
class Times:
    """All in seconds."""

    watch_seconds: int = 240
    """Until the server ends a watch."""
    silence_seconds: float = 90.0
    """Without a word: a server tells at least every minute how far it is."""
    relist_seconds: float = 900.0
    """Between whole lists, by which a watch that keeps something back is found out."""
    look_seconds: float = 30.0
    """For a whole list."""
    retry_seconds: float = 0.5
    """After a failure; twice as long after each more, ..."""
    longest_retry_seconds: float = 20.0
    """... up to this."""
    page: int = 100
    """Objects in one answer. Larger ones cost memory: 500 pods are 50 MB while they are read."""


class Watch:
    """One collection, followed from `start` to `stop`. `wake` is called for changes of what is read."""

    def __init__(self, connection: Connection, wanted: Collection, clock: Clock, times: Times, wake: Wake) -> None:
        self.wanted = wanted
        self._connection = connection
        self._clock = clock
        self._times = times
        self._wake = wake
        self._copy = Copy(wanted.kind)
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._stream: Stream | None = None
        self._trouble = self._withheld = ""
        self._listed = float("-inf")
        self._thread = threading.Thread(target=self._run, name=f"watch {wanted.kind}", daemon=True)

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self._thread.start()

    def stop(self, within_seconds: float) -> None:
        """End it; returns when it has ended, or after that time."""
        with self._lock:
            self._stopped.set()
            if self._stream is not None:
                self._stream.end()
        self._thread.join(within_seconds)

    def items(self, since: float) -> list[KubeObject] | None:
        """The collection, if the copy was known to be so at that moment (monotonic seconds) or later; else None."""
        return self._copy.since(since)

    @property
    def trouble(self) -> str:
        """What went wrong last, in words; '' where all is well."""
        return self._trouble or self._withheld

    def _run(self) -> None:
        failures = 0
        while not self._stopped.is_set():
            begun = self._clock.monotonic()
            try:
                self._turn()
                failures = 0 if self._clock.monotonic() - begun >= _SHORT_SECONDS else failures + 1
            except Conflict as error:  # a version that is not kept any more is nobody's fault
                self._copy.expire()
                failures += 1
                self._trouble = str(error) if failures > 1 else self._trouble
            except (Transient, Refused) as error:
                failures += 1
                self._trouble = str(error)
            except Exception as error:  # noqa: BLE001 - a bug costs its turn, not the watch; `trouble` shows it
                self._copy.expire()
                failures += 1
                self._trouble = f"bug: {type(error).__name__}: {error}"
            if failures:
                self._stopped.wait(min(self._times.retry_seconds * 2 ** min(failures - 1, 10), self._times.longest_retry_seconds))

    def _turn(self) -> None:
        now = self._clock.monotonic()
        if not self._copy.version or now >= self._listed + self._times.relist_seconds:
            self._list(now)
        self._follow()

    def _list(self, now: float) -> None:
        found = every(self._connection, self.wanted, Until(self._clock, now + self._times.look_seconds, self._times.page))
        withheld = self._copy.withheld(found.items)
        self._listed = now
        self._trouble = ""
        self._withheld = f"its watch kept {withheld} changes back; all was read anew" if withheld else ""
        if self._copy.replace(found.items, found.version, now):
            self._wake()

    def _follow(self) -> None:
        query = {
            "watch": "1",
            "resourceVersion": self._copy.version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(self._times.watch_seconds),
        }
        if self.wanted.label:
            query["labelSelector"] = self.wanted.label
        request = Request("GET", self.wanted.path, query)
        with self._connection.stream(request, self._times.silence_seconds) as stream:
            self._trouble = ""
            with self._lock:
                self._stream = stream
                if self._stopped.is_set():
                    return
            try:
                self._take(stream)
            finally:
                with self._lock:
                    self._stream = None

    def _take(self, stream: Stream) -> None:
        changed = False
        for line in stream:
            changed = self._copy.take(_event(line), self._clock.monotonic()) or changed
            if changed and not stream.more:  # one call for all that came together
                self._wake()
                changed = False
        if changed:
            self._wake()


def _event(line: bytes) -> dict[str, object]:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise Conflict(f"the watch said what is no JSON: {line[:100]!r}") from error
    if not isinstance(found, dict):
        raise Conflict(f"the watch said {line[:100]!r}, which is no event")
    return found
