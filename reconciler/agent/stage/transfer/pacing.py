"""A rate that all threads of a transfer keep together, and that may change while it runs.

Decides how much may go over the link now; which rate, is for the hub. Tokens come as time goes by; who takes some may leave a
debt of one block, which the next one waits for. So over any span of time no more than rate × span, a twentieth of a second's
worth and one block goes out.

The rate is what the link carries, and the link carries headers too: of every rate a share is left for those of Ethernet, IP
and TCP, and each request counts some bytes more than its body.
"""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from reconciler.model.names import PACE_UNLIMITED
from reconciler.ports import Refused

BODY_SHARE: Final = 0.935
REQUEST_BYTES: Final = 512
_BURST_SECONDS: Final = 0.05
_LOOK_SECONDS: Final = 0.25
_BLOCK_BYTES: Final = (4 * 1024, 64 * 1024)
_FREE_BLOCK_BYTES: Final = 1024 * 1024
_READ_AGAIN_SECONDS: Final = 1.0

RateNow = Callable[[], float | None]
"""Bytes a second; None: no limit; 0: pause."""


class Pacer:
    """One end of a copy. Safe to share between threads; they take turns in the order in which they came."""

    def __init__(self, rate: RateNow, monotonic: Callable[[], float], wait: Callable[[float], None]) -> None:
        self._rate, self._monotonic, self._wait = rate, monotonic, wait
        self._turn = threading.Lock()
        self._tokens, self._seen = 0.0, monotonic()

    def block(self) -> int:
        """How many bytes to take at a time: so few that a slow rate is kept too."""
        rate = self._rate()
        least, most = _BLOCK_BYTES
        return _FREE_BLOCK_BYTES if rate is None else int(min(most, max(least, rate * _BURST_SECONDS)))

    def take(self, size: int) -> None:
        """Wait until so many bytes may go."""
        with self._turn:
            while not self._took(size):
                self._wait(self._until_some())

    def _took(self, size: int) -> bool:
        rate, now = self._rate(), self._monotonic()
        passed, self._seen = now - self._seen, now
        if rate is None:
            self._tokens = 0.0
            return True
        rate *= BODY_SHARE
        self._tokens = min(self._tokens + passed * rate, rate * _BURST_SECONDS)
        if rate <= 0 or self._tokens < 0:
            return False
        self._tokens -= size
        return True

    def _until_some(self) -> float:
        rate = self._rate()
        return _LOOK_SECONDS if not rate else min(_LOOK_SECONDS, max(0.001, -self._tokens / (rate * BODY_SHARE)))


class RateFile:
    """A rate that a file says (the pod's annotation, by the downward API), read again every second; else the given one."""

    def __init__(self, path: Path | None, otherwise: float | None, monotonic: Callable[[], float]) -> None:
        self._path, self._otherwise, self._monotonic = path, otherwise, monotonic
        self._read_at: float | None = None
        self._now = otherwise

    def __call__(self) -> float | None:
        """The rate now. Raises Refused for a file that says no number."""
        now = self._monotonic()
        if self._path is not None and (self._read_at is None or now - self._read_at >= _READ_AGAIN_SECONDS):
            self._read_at = now
            self._now = _rate_in(self._path, self._otherwise)
        return self._now


def _rate_in(path: Path, otherwise: float | None) -> float | None:
    try:
        text = path.read_text("ascii").strip().strip('"')
    except FileNotFoundError:
        return otherwise
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"the rate in {path} cannot be read: {error}; write bytes a second there, as a number") from None
    if not text:
        return otherwise
    if text == PACE_UNLIMITED:
        return None
    try:
        rate = float(text)
    except ValueError:
        rate = -1.0
    if not 0 <= rate < float("inf"):
        raise Refused(f"{path} says {text[:40]!r}, which is no rate; write bytes a second there, as a number")
    return rate
