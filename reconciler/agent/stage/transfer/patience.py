"""Asking again what was not answered, with growing pauses, for as long as a transfer may stand still.

Decides when to give up: when this call has failed often, and nothing at all has come through for so long. One object that fails
while others get through is asked for again and again, for the others' time is not lost.
"""

from collections.abc import Callable
from typing import Final, TypeVar

from reconciler.bulk_port import UploadLost
from reconciler.ports import Transient

T = TypeVar("T")

_LEAST_FAILURES: Final = 6
_FIRST_PAUSE_SECONDS: Final = 0.2
_LONGEST_PAUSE_SECONDS: Final = 15.0


class Patience:
    """Shared by all threads of a transfer: what gets through for one counts for all."""

    def __init__(self, monotonic: Callable[[], float], wait: Callable[[float], None], limit_seconds: float) -> None:
        self._monotonic, self._wait, self._limit = monotonic, wait, limit_seconds
        self._moved_at = monotonic()

    def moved(self) -> None:
        """Something came through."""
        self._moved_at = self._monotonic()

    def __call__(self, ask: Callable[[], T]) -> T:
        """The answer. Raises Transient at the end of patience; UploadLost and all other errors at once."""
        began, failures = self._monotonic(), 0
        while True:
            try:
                answer = ask()
            except UploadLost:
                raise
            except Transient:
                failures += 1
                stood = self._monotonic() - max(began, self._moved_at)
                if failures >= _LEAST_FAILURES and stood >= self._limit:
                    raise
                self._wait(min(_FIRST_PAUSE_SECONDS * 2 ** min(failures - 1, 10), _LONGEST_PAUSE_SECONDS))
            else:
                self.moved()
                return answer
