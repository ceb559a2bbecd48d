"""A thread beside the hub's that takes one turn after another: when it is woken, and after the wait that its last turn gave.

Decides nothing of what a turn does. Invariant: a turn that is due when the thread is told to end is not begun.
"""

import threading
from collections.abc import Callable

_END_SECONDS = 30.0


def _nothing() -> None:
    """At an end that leaves nothing open."""


class Turns:
    """`turn` returns the seconds until the next one at the latest, and raises nothing; `at_end` is run by the thread, last."""

    def __init__(self, name: str, turn: Callable[[], float], at_end: Callable[[], None] = _nothing) -> None:
        self._turn, self._at_end = turn, at_end
        self._changed = threading.Condition()
        self._due, self._ends = False, False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """End after the turn under way."""
        self._set(ends=True)
        if self._thread.is_alive():
            self._thread.join(_END_SECONDS)

    def wake(self) -> None:
        """Take a turn as soon as the one under way is over."""
        self._set()

    def _set(self, *, ends: bool = False) -> None:
        with self._changed:
            self._due, self._ends = True, self._ends or ends
            self._changed.notify_all()

    def _run(self) -> None:
        wait = 0.0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._due, wait)
                self._due = False
                if self._ends:
                    break
            wait = self._turn()
        self._at_end()
