"""Being woken by programs' ends, by news, or by time, whichever comes first.

Invariant: an end that is missed here is only seen later, for whoever waits looks from time to time anyhow.
"""

import os
import selectors
from collections.abc import Callable


class Ends:
    """Whose programs' ends are waited for. One thread waits; any may `wake` it."""

    def __init__(self) -> None:
        self._watched: dict[tuple[str, str], int] = {}
        self._woken = os.eventfd(0, os.EFD_NONBLOCK)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._woken, selectors.EVENT_READ, None)

    def wake(self) -> None:
        """Let `wait` return."""
        os.eventfd_write(self._woken, 1)

    def wait(self, seconds: float) -> set[str]:
        """Wait so long at most; returns the uids of pods of which a program has ended."""
        ended = set()
        for key, _ in self._selector.select(seconds):
            if key.data is None:
                os.eventfd_read(self._woken)
            else:
                self._forget(key.data)
                ended.add(key.data[0])
        return ended

    def watch(self, uid: str, container: str, shim_of: Callable[[str, str], int | None]) -> None:
        """Wait for the end of a container's program, by the shim beside it."""
        key = uid, container
        shim = None if key in self._watched else shim_of(uid, container)
        if shim is None:
            return
        try:
            self._watched[key] = os.pidfd_open(shim)
        except ProcessLookupError:  # it ended in this moment; the next look shows it
            return
        self._selector.register(self._watched[key], selectors.EVENT_READ, key)

    def drop(self, uid: str) -> None:
        """A pod whose programs' ends are of no interest any more."""
        for key in [key for key in self._watched if key[0] == uid]:
            self._forget(key)

    def _forget(self, key: tuple[str, str]) -> None:
        pidfd = self._watched.pop(key)
        self._selector.unregister(pidfd)
        os.close(pidfd)
