"""A way between a program and a server whose bandwidth, and nothing else, is what a test wants: a TCP proxy on loopback.

Connections are made as quickly as ever; only bytes are slow. What it holds back stays with the sender: its own buffers are small.
"""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

_CHUNK = 16 * 1024
_BUFFER = 32 * 1024


@dataclass
class _Lane:
    """One direction, shared by all connections."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    free_at: float = 0.0
    carried: int = 0


class Throttle:
    """`bytes_per_second` of each direction, by turns for all connections; None: no limit, 0: nothing moves. May be changed any time."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._server = (parts.hostname or "", parts.port or 80)
        self._door = socket.create_server(("127.0.0.1", 0))
        self._scheme = parts.scheme
        self._over = threading.Event()
        self._changed = threading.Condition()
        self._rate: float | None = None
        self._open: list[socket.socket] = []
        self.connections = 0
        self._lanes = (_Lane(), _Lane())
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._door.getsockname()[1]}"

    @property
    def bytes_per_second(self) -> float | None:
        return self._rate

    @bytes_per_second.setter
    def bytes_per_second(self, rate: float | None) -> None:
        with self._changed:
            self._rate = rate
            self._changed.notify_all()

    @property
    def received_bytes(self) -> int:
        """What the server's callers have got of it."""
        return self._lanes[1].carried

    def close(self) -> None:
        """End everything, whatever is under way."""
        self._over.set()
        with self._changed:
            self._changed.notify_all()
        for each in (self._door, *self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        while not self._over.is_set():
            try:
                near, _ = self._door.accept()
            except OSError:
                return
            self.connections += 1
            far = socket.create_connection(self._server)
            self._open += [near, far]
            for each in (near, far):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
                each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
            for lane, source, target in zip(self._lanes, (near, far), (far, near), strict=True):
                threading.Thread(target=self._carry, args=(lane, source, target), daemon=True).start()

    def _carry(self, lane: _Lane, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while some := source.recv(_CHUNK):
                self._wait_turn(lane, len(some))
                target.sendall(some)
                with lane.lock:
                    lane.carried += len(some)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _wait_turn(self, lane: _Lane, count: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._rate != 0 or self._over.is_set())
            rate = self._rate
        if rate is None or self._over.is_set():
            return
        with lane.lock:
            now = time.monotonic()
            lane.free_at = (
                max(lane.free_at, now - 0.05) + count / rate
            )  # a little is made up for, or a slow timer lowers the rate
            wait = lane.free_at - now
        if wait > 0:
            self._over.wait(wait)


@contextmanager
def throttled(url: str) -> Iterator[Throttle]:
    """A way to the server at `url`, for the time of a `with` block."""
    made = Throttle(url)
    try:
        yield made
    finally:
        made.close()
