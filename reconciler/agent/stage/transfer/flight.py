"""Pieces of a transfer in threads: at most so many bytes of them at once, and an end to all when one fails for good.

Invariant: memory and what a kill costs are bounded by the bytes in flight, whatever the objects' number and sizes.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

_LEAST_BYTES: Final = 64 * 1024
_LOOK_SECONDS: Final = 0.5


class Stopped(Exception):
    """Another piece has failed; this one need not go on."""


class Flight:
    """Runs pieces. `limit` is asked anew for each, for the rate may have changed. Close it at the end."""

    def __init__(self, threads: int, limit: Callable[[], int]) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="transfer")
        self._threads, self._limit = threads, limit
        self._room = threading.Condition()
        self._bytes = self._pieces = 0
        self._failure: BaseException | None = None
        self._stop = threading.Event()

    def launch(self, size: int, piece: Callable[[], None]) -> None:
        """Run a piece of so many bytes as soon as there is room. Raises what an earlier one has failed with."""
        weight = max(size, _LEAST_BYTES)
        with self._room:
            while self._failure is None and not self._fits(weight):
                self._room.wait(_LOOK_SECONDS)
            self._raise()
            self._bytes += weight
            self._pieces += 1
        self._pool.submit(self._fly, weight, piece)

    def land(self) -> None:
        """Wait until all have ended. Raises what the first that failed has failed with; the others are cut short then."""
        with self._room:
            while self._pieces:
                self._room.wait(_LOOK_SECONDS)
            self._raise()

    def wait(self, seconds: float) -> None:
        """A pause inside a piece. Raises Stopped when it need not go on."""
        if self._stop.wait(seconds):
            raise Stopped

    def close(self) -> None:
        """End what runs, as soon as it pauses or comes to its end."""
        self._stop.set()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _fits(self, weight: int) -> bool:
        return self._pieces == 0 or (self._pieces < self._threads and self._bytes + weight <= self._limit())

    def _raise(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _fly(self, weight: int, piece: Callable[[], None]) -> None:
        failure: BaseException | None = None
        try:
            self.wait(0)
            piece()
        except BaseException as error:  # noqa: BLE001 - raised again by whoever launches or lands
            failure = error
        with self._room:
            self._failure = self._failure or failure
            if self._failure is not None:
                self._stop.set()
            self._bytes -= weight
            self._pieces -= 1
            self._room.notify_all()
