"""A small image registry over real HTTP, for tests: it can ask for tokens, redirect, refuse, break off, and be down."""

import base64
import hashlib
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
DOCKER = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it came."""

    method: str
    path: str
    authorization: str | None


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer in place of the right one. `cut`: the body breaks off after so many bytes."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    cut: int | None = None


def digest_of(body: bytes) -> str:
    """By sha256."""
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


class SmallRegistry:
    """Its dictionaries are what it has; `instead` answers what a test wants, by method and path."""

    def __init__(self) -> None:
        self.manifests: dict[tuple[str, str], tuple[str, bytes]] = {}
        self.blobs: dict[str, bytes] = {}
        self.instead: dict[tuple[str, str], Reply] = {}
        self.asked: list[Asked] = []
        self.logins: dict[str, str] = {}
        self.wants_token = False
        self.anonymous = False
        self._given = 0
        self._server: ThreadingHTTPServer | None = None
        self.port = 0

    @property
    def host(self) -> str:
        """As an image names it."""
        return f"127.0.0.1:{self.port}"

    def push(self, repository: str, tag: str, sizes: Sequence[int] = (1000,), kind: str = MANIFEST) -> str:
        """An image with layers of so many bytes; its digest."""
        bodies = [b"{}", *(bytes([at + 1]) * size for at, size in enumerate(sizes))]
        self.blobs |= {digest_of(body): body for body in bodies}
        parts = [{"mediaType": "x", "digest": digest_of(body), "size": len(body)} for body in bodies]
        return self.put(repository, tag, {"schemaVersion": 2, "mediaType": kind, "config": parts[0], "layers": parts[1:]}, kind)

    def put(self, repository: str, tag: str, document: Mapping[str, Any], kind: str) -> str:
        """Any document; its digest."""
        body = json.dumps(document).encode()
        self.manifests[repository, tag] = self.manifests[repository, digest_of(body)] = (kind, body)
        return digest_of(body)

    def start(self) -> None:
        """Serve; on the same port as before, if it served before."""
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), _door_of(self))
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def stop(self) -> None:
        """Be down."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()

    def count(self, part: str) -> int:
        """Requests whose path has `part` in it."""
        return sum(part in one.path for one in self.asked)

    def answer(self, method: str, path: str, authorization: str | None) -> Reply:
        """What a request gets."""
        self.asked.append(Asked(method, path, authorization))
        parts = urlsplit(path)
        instead = self.instead.get((method, parts.path))
        if instead is not None:
            return instead
        if parts.path == "/token":
            return self._token(parse_qs(parts.query), authorization)
        refused = self._refused(authorization)
        return refused if refused is not None else self._found(parts.path)

    def _token(self, query: Mapping[str, list[str]], authorization: str | None) -> Reply:
        if not self.anonymous and not self._is_login(authorization):
            return Reply(401, {}, b'{"details": "incorrect username or password"}')
        scope = query["scope"][0]
        self._given += 1
        return Reply(200, {}, json.dumps({"token": f"for {scope} {self._given}", "expires_in": 300}).encode())

    def _is_login(self, authorization: str | None) -> bool:
        if authorization is None or not authorization.startswith("Basic "):
            return False
        user, _, word = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        return self.logins.get(user) == word

    def _refused(self, authorization: str | None) -> Reply | None:
        body = b'{"errors": [{"code": "UNAUTHORIZED"}]}'
        if self.wants_token:
            if authorization is not None and authorization.startswith("Bearer for repository:"):
                return None
            realm = f'Bearer realm="http://{self.host}/token",service="tests",scope="repository:x:pull"'
            return Reply(401, {"WWW-Authenticate": realm}, body)
        if self.logins and not self._is_login(authorization):
            return Reply(401, {"WWW-Authenticate": 'Basic realm="tests"'}, body)
        return None

    def _found(self, path: str) -> Reply:
        repository, _, what = path.removeprefix("/v2/").rpartition("/")
        repository, _, kind = repository.rpartition("/")
        if kind == "manifests" and (repository, what) in self.manifests:
            media, body = self.manifests[repository, what]
            return Reply(200, {"Content-Type": media, "Docker-Content-Digest": digest_of(body)}, body)
        if kind == "blobs" and what in self.blobs:
            return Reply(200, {"Docker-Content-Digest": what}, self.blobs[what])
        code = "MANIFEST_UNKNOWN" if kind == "manifests" else "BLOB_UNKNOWN"
        return Reply(404, {"Content-Type": "application/json"}, json.dumps({"errors": [{"code": code}]}).encode())


def _door_of(registry: SmallRegistry) -> type[BaseHTTPRequestHandler]:
    class Door(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _reply(self) -> None:
            reply = registry.answer(self.command, self.path, self.headers.get("Authorization"))
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply.body if reply.cut is None else reply.body[: reply.cut])
            if reply.cut is not None:
                self.close_connection = True

        do_GET = do_HEAD = _reply  # noqa: N815 - as the library calls them

        def log_message(self, *_: object) -> None:
            """Not to the tests' output."""

    return Door


@contextmanager
def small_registry() -> Iterator[SmallRegistry]:
    """One for the time of a `with` block."""
    registry = SmallRegistry()
    registry.start()
    try:
        yield registry
    finally:
        registry.stop()
