"""Requests to one API server over TLS, with their time-outs.

Decides how long a request may take, when connections are made anew and what a broken one means; what an answer means stands
in answers.py. Nothing is ever sent twice: whoever asked observes again and decides anew.

Invariant: no redirection is followed, for it would carry our token elsewhere.

The server gets the same time-out with each request, so that what it has begun is not done long after it was given up here. One
that lies unread before a server that hangs may still be done when that wakes; therefore every change names the version it is for.
"""

import json
import ssl
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import urllib3
from urllib3.exceptions import HTTPError

from reconciler.adapters.kube.access import Access, authorization, tls_of
from reconciler.adapters.kube.answers import Answer, Request, failure
from reconciler.ports import Clock, Refused, Transient

_CHUNK_BYTES: Final = 1 << 16
_CONNECT_SECONDS: Final = 5.0


class Connection:
    """One API server. Safe to share between threads; connections are kept and used again."""

    def __init__(self, access: Access, clock: Clock, request_seconds: float) -> None:
        """Nothing is sent yet. A request takes `request_seconds` at most, and so does its answer, once it has begun."""
        self._access = access
        self._clock = clock
        self._seconds = request_seconds
        self._pool: urllib3.HTTPSConnectionPool | None = None

    def ask(self, request: Request, take: Collection[int] = ()) -> Answer:
        """The answer's JSON. Codes in `take` are answers as well; any other that is no success is raised as an error."""
        with self._sent(request) as response:
            value = _decoded(b"".join(self._chunks(request, response)), response.status, request)
            if response.status < HTTPStatus.MULTIPLE_CHOICES or response.status in take:
                return Answer(response.status, value)
            if response.status == HTTPStatus.UNAUTHORIZED:
                self._pool = None  # a client certificate may have been replaced in its file
            raise failure(request, response.status, value)

    def tail(self, request: Request, limit: int, take: Collection[int] = ()) -> bytes | None:
        """The last `limit` bytes of an answer that is plain text, however long it is; None for a code in `take`."""
        with self._sent(request) as response:
            kept = b""
            for chunk in self._chunks(request, response):
                kept = (kept + chunk)[-max(limit, _CHUNK_BYTES) :]
            if response.status < HTTPStatus.MULTIPLE_CHOICES:
                return kept[-limit:] if limit > 0 else b""
            if response.status in take:
                return None
            raise failure(request, response.status, _decoded(kept, response.status, request))

    @contextmanager
    def _sent(self, request: Request) -> Iterator[urllib3.BaseHTTPResponse]:
        """The answer, unread, for as long as the caller reads it. Raises Transient or Refused."""
        try:
            response = self._send(request)
            whole = False
            try:
                yield response
                whole = True
            finally:
                if whole:
                    response.release_conn()
                else:
                    response.close()
        except (HTTPError, OSError) as error:
            raise self._broken(request, error) from error

    def _send(self, request: Request) -> urllib3.BaseHTTPResponse:
        if self._pool is None:
            self._pool = _pool_of(self._access)
        headers = {"Accept": "application/json, */*;q=0.5", "User-Agent": "gpu-reconciler", **authorization(self._access)}
        body = None
        if request.body is not None:
            headers["Content-Type"] = request.content
            body = json.dumps(request.body, ensure_ascii=False, separators=(",", ":")).encode()
        query = urlencode({**request.query, "timeout": f"{self._seconds:g}s"})
        return self._pool.urlopen(
            request.method,
            f"{urlsplit(self._access.server).path}{request.path}?{query}",
            body=body,
            headers=headers,
            timeout=urllib3.Timeout(total=self._seconds, connect=min(_CONNECT_SECONDS, self._seconds)),
            retries=False,
            redirect=False,
            preload_content=False,
        )

    def _chunks(self, request: Request, response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
        until = self._clock.monotonic() + self._seconds
        # Whatever has come, not a whole chunk: one that comes byte by byte must not outlast the time.
        while chunk := response.read1(_CHUNK_BYTES):
            yield chunk
            if self._clock.monotonic() > until:
                raise Transient(f"{request}: the answer was not complete after {self._seconds:g} s")

    def _broken(self, request: Request, error: Exception) -> Transient | Refused:
        where = f"{request} at {self._access.server}"
        cause = error.args[0] if error.args and isinstance(error.args[0], ssl.SSLError) else error
        if isinstance(cause, ssl.SSLCertVerificationError):
            self._pool = None  # its CA may have been replaced in its file
            return Refused(
                f"{where}: {cause.verify_message}; name the CA that signed the server's certificate, or its right address"
            )
        return Transient(f"{where}: no answer ({type(error).__name__}: {error})")


def _pool_of(access: Access) -> urllib3.HTTPSConnectionPool:
    address = urlsplit(access.server)
    return urllib3.HTTPSConnectionPool(
        str(address.hostname),
        address.port or 443,
        maxsize=4,
        block=False,
        ssl_context=tls_of(access),
        server_hostname=access.server_name,
    )


def _decoded(body: bytes, code: int, request: Request) -> Any:
    """The JSON object of an answer; of a failure also its plain text, as a proxy may write it."""
    try:
        value = json.loads(body)
    except ValueError:
        value = body.decode(errors="replace")
    if code < HTTPStatus.MULTIPLE_CHOICES and not isinstance(value, dict):
        raise Transient(f"{request}: the answer is no JSON object; something between here and the API server cut it")
    return value
