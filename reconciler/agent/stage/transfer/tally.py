"""How far a transfer has come, counted by its threads and told every few seconds."""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from reconciler.model.progress import Progress

TELL_SECONDS: Final = 3.0
_WINDOW_SECONDS: Final = 10.0


class Tally:
    """Counts of one start of the worker."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._objects = self._objects_total = self._size = self._size_total = self._sent = 0
        self._past: deque[tuple[float, int]] = deque()

    def found(self, objects: int, size: int, objects_total: int, size_total: int) -> None:
        """What is there as a look at the target has found it, and what must be there."""
        with self._lock:
            self._objects, self._size = objects, size
            self._objects_total, self._size_total = objects_total, size_total

    def there(self, size: int, *, objects: int = 0) -> None:
        """So many bytes more are in the target, and so many objects whole."""
        with self._lock:
            self._objects += objects
            self._size += size

    def sent(self, size: int) -> None:
        """So many bytes came over the link."""
        with self._lock:
            self._sent += size

    def progress(self) -> Progress:
        """Where it is now. The rate is over the time since the last ten seconds' calls."""
        now = self._monotonic()
        with self._lock:
            self._past.append((now, self._sent))
            while len(self._past) > 2 and now - self._past[1][0] >= _WINDOW_SECONDS:
                self._past.popleft()
            since, before = self._past[0]
            return Progress(
                objects_done=min(self._objects, self._objects_total),
                objects_total=self._objects_total,
                bytes_done=min(self._size, self._size_total),
                bytes_total=self._size_total,
                bytes_sent=self._sent,
                bytes_per_second=round((self._sent - before) / (now - since), 1) if now > since else 0.0,
            )


@contextmanager
def telling(tick: Callable[[], None], every_seconds: float = TELL_SECONDS) -> Iterator[None]:
    """Inside, `tick` is called every few seconds, in a thread of its own. What it raises is raised at the end."""
    ended, failures = threading.Event(), list[Exception]()

    def run() -> None:
        try:
            while not ended.wait(every_seconds):
                tick()
        except Exception as error:  # noqa: BLE001 - raised below
            failures.append(error)

    thread = threading.Thread(target=run, name="telling", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    if failures:
        raise failures[0]
