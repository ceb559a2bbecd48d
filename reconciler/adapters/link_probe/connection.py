"""One request over a connection of its own, whose socket can be asked: what is read is counted as it comes in, what is written as
the other end acknowledges it.

boto3 lets nobody see its sockets, so only the signed address is its work. Every operation on the socket has a time-out, and a
timer ends the connection when the transfer's time is over; what has moved by then counts.
"""

import base64
import hashlib
import http.client
import re
import select
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from reconciler.adapters.link_probe import tcp
from reconciler.adapters.link_probe.pace import BLOCK, Pace, blocks
from reconciler.ports import Refused, Transient
from reconciler.probe_port import TcpFacts, Transferred

OPERATION_SECONDS: Final = 5.0
"""Without a byte for so long, a connection is taken for broken."""
_OFTEN_SECONDS: Final = 0.02
"""Between looks at how much was acknowledged."""
_MOST_WORDS: Final = 1000
_AGAIN: Final = frozenset({408, 425, 429})
_TODO: Final = {
    301: "say in the region's file in which `location` its store is",
    307: "say in the region's file in which `location` its store is",
    403: "let the agent's credentials read and write `.gpu-reconciler/probe/` there",
}
_ABSENT: Final = "the agent of that region puts it there, unless it runs with --no-probe"


@dataclass(frozen=True, slots=True)
class Request:
    """A request that has been signed. `what`: how it is named to people; the address itself is a secret for a while."""

    what: str
    url: str
    authorities: str
    """File of the authorities that TLS believes."""


@dataclass(frozen=True, slots=True)
class _Wire:
    """A connection. `sock` is a second handle of its socket, below TLS and not closed by http.client."""

    sock: socket.socket
    http: http.client.HTTPConnection
    connect_ms: float
    _over: threading.Event = field(default_factory=threading.Event)

    @property
    def is_over(self) -> bool:
        """Whether its time is over."""
        return self._over.is_set()

    def rests(self, seconds: float) -> bool:
        """Wait a little; True where its time is over."""
        return self._over.wait(seconds)

    def give_time(self, seconds: float) -> None:
        """For an answer that comes when the store has put away what it was given. The timer counts all the same."""
        if self.http.sock is not None:
            self.http.sock.settimeout(seconds)

    def end(self) -> None:
        """For the timer: whoever waits for the socket is woken."""
        self._over.set()
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:  # the other end was quicker
            return

    def facts(self) -> TcpFacts:
        """What is known of it; at least how long it took to be made, which is a round trip."""
        return tcp.facts(self.sock) or TcpFacts(rtt_ms=self.connect_ms)


def received(request: Request, size: int, most_seconds: float, monotonic: Callable[[], float]) -> Transferred:
    """Read so many bytes of an object. Raises Transient or Refused."""
    with _wire(request, most_seconds, monotonic) as wire:
        target, host = _target(request)
        wire.http.request("GET", target, headers={"Host": host, "Range": f"bytes=0-{size - 1}", "Accept-Encoding": "identity"})
        with wire.http.getresponse() as answer:
            _check(request, answer)
            pace = Pace(size, monotonic)
            try:
                _take(answer, pace, wire)
            except OSError:
                if not wire.is_over:
                    raise
        if pace.moved < size and not wire.is_over:
            raise Transient(f"{request.what}: the connection ended after {pace.moved} of {size} bytes")
        return pace.told(wire.facts())


def _take(answer: http.client.HTTPResponse, pace: Pace, wire: _Wire) -> None:
    room = memoryview(bytearray(BLOCK))
    while pace.moved < pace.size and not wire.is_over:
        count = answer.readinto(room[: min(BLOCK, pace.size - pace.moved)])
        if not count:
            return
        pace.note(pace.moved + count)


def sent(request: Request, block: bytes, size: int, most_seconds: float, monotonic: Callable[[], float]) -> Transferred:
    """Write an object of so many bytes. Raises Transient or Refused.

    It carries its MD5: there are stores (versitygw) that make an object of what has come where a connection ends early.
    """
    digest = _md5(block, size)
    with _wire(request, most_seconds, monotonic) as wire:
        target, host = _target(request)
        wire.http.putrequest("PUT", target, skip_host=True, skip_accept_encoding=True)
        for name, value in (("Host", host), ("Content-Length", str(size)), ("Content-MD5", digest)):
            wire.http.putheader(name, value)
        wire.http.endheaders()
        pace = Pace(size, monotonic)
        try:
            _give(pace, wire, block)
        except OSError:
            # A store that takes nothing more may have said why.
            if not wire.is_over and not _has_answer(wire):
                raise
        wire.give_time(most_seconds)
        try:
            with wire.http.getresponse() as answer:
                _check(request, answer)
                pace.note(size)
        except (OSError, http.client.HTTPException):
            if not wire.is_over:
                raise
        return pace.told(wire.facts(), buffered=True)


def _md5(block: bytes, size: int) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    for some in blocks(block, size):
        digest.update(some)
    return base64.b64encode(digest.digest()).decode()


def _give(pace: Pace, wire: _Wire, block: bytes) -> None:
    """Send all, and see it arrive. Raises TimeoutError where nothing moves any more."""
    before = tcp.acknowledged(wire.sock)
    for some in blocks(block, pace.size):
        wire.http.send(some)
        _note(pace, wire, before)
    if before is None:
        return
    moved_at, moved = pace.monotonic(), pace.moved
    while pace.moved < pace.size and not wire.rests(_OFTEN_SECONDS):
        _note(pace, wire, before)
        if pace.moved > moved:
            moved_at, moved = pace.monotonic(), pace.moved
        elif pace.monotonic() - moved_at > OPERATION_SECONDS:
            raise TimeoutError(f"nothing has arrived for {OPERATION_SECONDS:.0f} s")


def _note(pace: Pace, wire: _Wire, before: int | None) -> None:
    after = tcp.acknowledged(wire.sock)
    if before is not None and after is not None:
        pace.note(min(after - before, pace.size))


def _has_answer(wire: _Wire) -> bool:
    return bool(select.select([wire.sock], [], [], 0)[0])


def _target(request: Request) -> tuple[str, str]:
    parts = urlsplit(request.url)
    return f"{parts.path}?{parts.query}", parts.netloc


def _check(request: Request, answer: http.client.HTTPResponse) -> None:
    """Raises Transient or Refused for an answer that is none of the bytes."""
    if answer.status in (200, 206):
        return
    body = answer.read(_MOST_WORDS).decode(errors="replace")
    code, message = (found[1] if (found := re.search(f"<{name}>([^<]*)<", body)) else "" for name in ("Code", "Message"))
    text = " ".join(f"{request.what}: HTTP {answer.status} {code or answer.reason} {message}".split())[:_MOST_WORDS]
    if code == "NoSuchKey":
        raise Transient(f"{text}; {_ABSENT}")
    if answer.status in _AGAIN or answer.status >= 500:
        raise Transient(text)
    raise Refused(f"{text}; {_TODO.get(answer.status, 'correct the address of the store, or the credentials for it')}")


@contextmanager
def _wire(request: Request, most_seconds: float, monotonic: Callable[[], float]) -> Iterator[_Wire]:
    """A connection for one request, which is ended after its seconds whatever happens. Errors come out as those of ports.py."""
    try:
        with _connected(request, monotonic) as wire:
            timer = threading.Timer(most_seconds, wire.end)
            timer.daemon = True
            timer.start()
            try:
                yield wire
            finally:
                timer.cancel()
    except ssl.SSLCertVerificationError as error:
        todo = "name the authority that signed the store's certificate in AWS_CA_BUNDLE"
        raise Refused(f"{request.what}: {error.verify_message}; {todo}") from None
    except (OSError, http.client.HTTPException) as error:
        raise Transient(f"{request.what}: {str(error) or type(error).__name__}") from None


@contextmanager
def _connected(request: Request, monotonic: Callable[[], float]) -> Iterator[_Wire]:
    parts = urlsplit(request.url)
    is_secure = parts.scheme == "https"
    host, port = parts.hostname or "", parts.port or (443 if is_secure else 80)
    sock, seconds = _connect(host, port, monotonic)
    with sock, sock.dup() as handle:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with _secured(sock, host, request) if is_secure else sock as talking:
            connection = http.client.HTTPConnection(host, port, timeout=OPERATION_SECONDS)
            connection.sock = talking
            with closing(connection):
                yield _Wire(handle, connection, seconds * 1000)


def _secured(sock: socket.socket, host: str, request: Request) -> ssl.SSLSocket:
    return ssl.create_default_context(cafile=request.authorities).wrap_socket(sock, server_hostname=host)


def _connect(host: str, port: int, monotonic: Callable[[], float]) -> tuple[socket.socket, float]:
    """A connection to the first address of the host that takes one, and the seconds that this took. Raises OSError."""
    refused: OSError | None = None
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        sock = socket.socket(family, kind, protocol)
        sock.settimeout(OPERATION_SECONDS)
        began = monotonic()
        try:
            sock.connect(address)
        except OSError as error:
            sock.close()
            refused = error
        else:
            return sock, monotonic() - began
    raise refused or OSError(f"{host} has no address")
