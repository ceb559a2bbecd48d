"""Webhooks in: a forge says that something was pushed. The body is believed only for its signature, and then not read.

A delivery carries at most the news that it is time to look; what happened is read from Git. Signatures are verified over the
raw bytes.
Two secrets may hold at once, so that they can be changed without a gap.
"""

import asyncio
import hashlib
import hmac
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

BODY_LIMIT = 1024 * 1024

Headers = Mapping[str, str]


def _hmac(secret: bytes, body: bytes, algorithm: str = "sha256") -> str:
    return hmac.new(secret, body, algorithm).hexdigest()


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), expected.encode())


def _github(secret: bytes, headers: Headers, body: bytes) -> bool:
    return _same(headers.get("x-hub-signature-256", ""), f"sha256={_hmac(secret, body)}")


def _gitea(secret: bytes, headers: Headers, body: bytes) -> bool:
    given = headers.get("x-gitea-signature") or headers.get("x-forgejo-signature") or ""
    return _same(given, _hmac(secret, body))


def _gitlab(secret: bytes, headers: Headers, _: bytes) -> bool:
    # GitLab sends the secret itself; comparing digests keeps the comparison's time independent of it.
    given = headers.get("x-gitlab-token", "").encode("latin-1", "replace")  # as it was sent, byte for byte
    return _same(hashlib.sha256(given).hexdigest(), hashlib.sha256(secret).hexdigest())


def _generic(secret: bytes, headers: Headers, body: bytes) -> bool:
    algorithm, _, digest = headers.get("x-signature", "").partition("=")
    return algorithm in ("sha256", "sha512") and _same(digest, _hmac(secret, body, algorithm))


SENDERS: Mapping[str, Callable[[bytes, Headers, bytes], bool]] = {
    "github": _github,
    "gitlab": _gitlab,
    "gitea": _gitea,
    "forgejo": _gitea,
    "generic": _generic,
}
"""How each kind of sender proves itself; `generic` as Flux's generic-hmac receivers are called."""


def signed(sender: str, secrets: Sequence[str], headers: Headers, body: bytes) -> bool:
    """Whether a delivery proves that its sender knows one of the secrets. No secrets: nothing is believed."""
    verify = SENDERS[sender]
    return any(verify(secret.encode(), headers, body) for secret in secrets if secret)


EVENTS = ("x-gitea-event", "x-forgejo-event", "x-github-event", "x-gitlab-event")
ONLY_BRANCHES = frozenset({"push", "create", "delete", "push hook", "tag push hook"})
"""Kinds of delivery that tell of branches only, and most of them of the hub's own pushes."""


def concerns_pulls(headers: Headers) -> bool:
    """Whether a delivery may be about more than branches. The kind is not signed, so it decides only who looks."""
    kind = next((headers[name] for name in EVENTS if name in headers), "")
    return kind.lower() not in ONLY_BRANCHES


def application(
    secrets: Sequence[str],
    wake: Callable[[], None],
    health: Callable[[], tuple[bool, dict[str, Any]]],
    tell: Callable[[], None] = lambda: None,
) -> Starlette:
    """POST /webhooks/<sender> wakes the hub; GET /healthz answers 200 or 503 with the loop's figures.

    `tell` is called as well where a delivery may be about pull requests.
    """

    async def deliver(request: Request) -> Response:
        sender = request.path_params["sender"]
        if sender not in SENDERS:
            return JSONResponse({"error": f"no such sender; known: {', '.join(sorted(SENDERS))}"}, 404)
        body = await _bounded(request)
        if body is None:
            return JSONResponse({"error": f"a delivery has at most {BODY_LIMIT} bytes"}, 413)
        if not signed(sender, secrets, request.headers, body):
            return JSONResponse({"error": "the signature does not fit; is the secret the same on both sides?"}, 401)
        wake()
        if concerns_pulls(request.headers):
            tell()
        return JSONResponse({"accepted": True}, 202)

    async def healthz(_: Request) -> Response:
        good, figures = health()
        return JSONResponse(figures, 200 if good else 503)

    return Starlette(routes=[Route("/webhooks/{sender}", deliver, methods=["POST"]), Route("/healthz", healthz)])


async def _bounded(request: Request) -> bytes | None:
    """The body, or None where it is larger than a delivery may be; no more than the limit is ever held."""
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > BODY_LIMIT:
                return None
    except ClientDisconnect:
        return None
    return bytes(body)


class WebServer:
    """Serves an application from a thread of its own. `start` returns the port once it listens."""

    def __init__(self, app: Starlette, host: str, port: int) -> None:
        config = uvicorn.Config(app, host=host, port=port, log_level="warning", lifespan="off", access_log=False)
        self._server = uvicorn.Server(config)
        self._address = (host, port)
        self._sockets: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve, name="webhooks", daemon=True)
        self._listening = threading.Event()
        self._failure: BaseException | None = None

    def start(self) -> int:
        """Listen. Raises OSError where the address cannot be had."""
        host, port = self._address
        try:
            # Opened here: the server would end the program with words of its own.
            self._sockets = [socket.create_server(self._address, family=socket.AF_INET6 if ":" in host else socket.AF_INET)]
        except OSError as error:
            raise OSError(f"cannot listen on {host}:{port}: {error.strerror}") from error
        self._thread.start()
        self._listening.wait()
        if self._failure is not None:
            raise OSError(f"cannot listen on {host}:{port}") from self._failure
        return int(self._sockets[0].getsockname()[1])

    def stop(self) -> None:
        """Answer what is under way, then end; nothing where it never listened."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(10)

    def _serve(self) -> None:
        try:
            asyncio.run(self._run())
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits in `start`
            self._failure = error
        finally:
            self._listening.set()

    async def _run(self) -> None:
        serving = asyncio.ensure_future(self._server.serve(self._sockets))
        while not self._server.started and not serving.done():
            await asyncio.sleep(0.01)
        self._listening.set()
        with suppress(asyncio.CancelledError):
            await serving
