"""Requests to one API server through the official client, with their time-outs.

Decides how long a request may take, when credentials are loaded anew and what a broken connection means; what an answer means
stands in answers.py. Nothing is ever sent twice: whoever asked observes again and decides anew. Of the client the lowest layer is
used: its models cost memory and time, and its calls raise where an answer is meant.

Invariant: no redirection is followed, for it would carry our token elsewhere.

The server gets the same time-out with each request, so that what it has begun is not done long after it was given up here. One
that lies unread before a server that hangs may still be done when that wakes; therefore every change names the version it is for.
"""

import json
import ssl
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode

import urllib3
from kubernetes.client.api_client import ApiClient
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from reconciler.adapters.kube.access import Access, Credentials
from reconciler.adapters.kube.answers import Answer, Request, failure
from reconciler.ports import Clock, Refused, Transient

_CHUNK_BYTES: Final = 1 << 16
Timeout = float | tuple[float, float]
"""Seconds for a whole request, or for the connection and for each silence after it."""


class Stream:
    """An answer that comes line by line, for as long as the server has something to say."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self._response = response
        self.more = False
        """Whether another line came with the last one."""

    def __iter__(self) -> Iterator[bytes]:
        """Whole lines; what was cut off in the middle of one is not given out."""
        rest = b""
        while chunk := self._response.read1(_CHUNK_BYTES):
            *lines, rest = (rest + chunk).split(b"\n")
            for number, line in enumerate(lines, 1):
                self.more = number < len(lines)
                yield line

    def end(self) -> None:
        """Let whoever reads it, in another thread, come to its end."""
        self._response.shutdown()


class Connection:
    """One API server. Safe to share between threads; connections are kept and used again."""

    def __init__(self, access: Access, clock: Clock, request_seconds: float) -> None:
        """Nothing is sent yet. A request takes `request_seconds` at most, and so does its answer, once it has begun."""
        self._access = access
        self._clock = clock
        self._seconds = request_seconds
        self._lock = threading.Lock()
        self._loaded: tuple[Credentials, ApiClient] | None = None

    def ask(self, request: Request, take: Collection[int] = ()) -> Answer:
        """The answer's JSON. Codes in `take` are answers as well; any other that is no success is raised as an error."""
        with self._sent(request) as response:
            return self._answer(request, response, take)

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
            raise self._failure(request, response.status, _decoded(kept, response.status, request))

    @contextmanager
    def stream(self, request: Request, silence_seconds: float) -> Iterator[Stream]:
        """An answer without end. One that says nothing for so long is taken for dead: Transient."""
        with self._sent(request, (self._seconds, silence_seconds)) as response:
            if response.status >= HTTPStatus.MULTIPLE_CHOICES:
                self._answer(request, response, ())
            yield Stream(response)
            # Its connection is of no use to others: more may come.
            response.close()

    def close(self) -> None:
        """Give up the connections that are kept; a later request makes new ones."""
        self._forget()

    def _answer(self, request: Request, response: urllib3.BaseHTTPResponse, take: Collection[int]) -> Answer:
        value = _decoded(b"".join(self._chunks(request, response)), response.status, request)
        if response.status < HTTPStatus.MULTIPLE_CHOICES or response.status in take:
            return Answer(response.status, value)
        raise self._failure(request, response.status, value)

    def _failure(self, request: Request, code: int, value: Any) -> Exception:
        if code == HTTPStatus.UNAUTHORIZED:
            self._forget()  # a token or a client certificate may have been replaced
        return failure(request, code, value)

    @contextmanager
    def _sent(self, request: Request, timeout: Timeout | None = None) -> Iterator[urllib3.BaseHTTPResponse]:
        """The answer, unread, for as long as the caller reads it. Raises Transient or Refused."""
        try:
            response = self._send(request, timeout)
            whole = False
            try:
                yield response
                whole = True
            finally:
                if whole:
                    response.release_conn()
                else:
                    response.close()
        except (HTTPError, OSError, ApiException) as error:
            raise self._broken(request, error) from error

    def _send(self, request: Request, timeout: Timeout | None) -> urllib3.BaseHTTPResponse:
        credentials, client = self._client()
        headers = {"Accept": "application/json, */*;q=0.5", "User-Agent": "gpu-reconciler"}
        authorization = credentials.authorization()
        if authorization:
            headers["Authorization"] = authorization
        query = dict(request.query)
        if request.body is not None:
            headers["Content-Type"] = request.content
        if timeout is None:
            query["timeout"] = f"{self._seconds:g}s"
        address = f"{credentials.configuration.host}{request.path}?{urlencode(query)}"
        limit = timeout or self._seconds
        found: urllib3.BaseHTTPResponse = client.call_api(
            request.method, address, headers, request.body, _request_timeout=limit
        ).response
        return found

    def _client(self) -> tuple[Credentials, ApiClient]:
        with self._lock:
            if self._loaded is None:
                credentials = self._access.load()
                self._loaded = credentials, ApiClient(credentials.configuration)
            return self._loaded

    def _forget(self) -> None:
        with self._lock:
            loaded, self._loaded = self._loaded, None
        if loaded is not None:
            loaded[1].close()  # type: ignore[no-untyped-call]

    def _chunks(self, request: Request, response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
        until = self._clock.monotonic() + self._seconds
        # Whatever has come, not a whole chunk: one that comes byte by byte must not outlast the time.
        while chunk := response.read1(_CHUNK_BYTES):
            yield chunk
            if self._clock.monotonic() > until:
                raise Transient(f"{request}: the answer was not complete after {self._seconds:g} s")

    def _broken(self, request: Request, error: Exception) -> Transient | Refused:
        where = f"{request} by {self._access.origin}"
        # The client tells of broken TLS in an error of its own.
        cause = error.__context__ if isinstance(error, ApiException) and error.__context__ is not None else error
        inner = cause.args[0] if cause.args and isinstance(cause.args[0], ssl.SSLError) else cause
        if isinstance(inner, ssl.SSLCertVerificationError):
            self._forget()  # its CA may have been replaced in its file
            return Refused(
                f"{where}: {inner.verify_message}; name the CA that signed the server's certificate, or its right address"
            )
        return Transient(f"{where}: no answer ({type(cause).__name__}: {cause})")


def _decoded(body: bytes, code: int, request: Request) -> Any:
    """The JSON object of an answer; of a failure also its plain text, as a proxy may write it."""
    try:
        value = json.loads(body)
    except ValueError:
        value = body.decode(errors="replace")
    if code < HTTPStatus.MULTIPLE_CHOICES and not isinstance(value, dict):
        raise Transient(f"{request}: the answer is no JSON object; something between here and the API server cut it")
    return value
