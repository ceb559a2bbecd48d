"""A token server for tests, as registries send their clients to: it gives signed tokens to who has the right name and word.

Source: distribution's "Token Authentication Implementation": a JWT whose header carries the certificate that the registry trusts.
"""

import base64
import json
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

ISSUER, SERVICE = "tests-issuer", "tests-registry"


class TokenServer:
    """On loopback. `logins`: who may pull and push; nobody else gets a token. `asked`: the scopes asked for, and by whom."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._key, self.certificate = folder / "key.pem", folder / "cert.pem"
        made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={ISSUER}", "-days", "2"]
        subprocess.run([*made, "-keyout", self._key, "-out", self.certificate], check=True, capture_output=True)
        self.logins: dict[str, str] = {}
        self.asked: list[tuple[str, str | None]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _door_of(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        self.realm = f"http://127.0.0.1:{self._server.server_address[1]}/token"

    def stop(self) -> None:
        """End."""
        self._server.shutdown()
        self._server.server_close()

    @property
    def settings(self) -> dict[str, Any]:
        """`auth` of a registry that sends its clients here."""
        told = {"realm": self.realm, "service": SERVICE, "issuer": ISSUER, "rootcertbundle": str(self.certificate)}
        return {"auth": {"token": told}}

    def token(self, scopes: list[str], user: str) -> str:
        """What opens those scopes for five minutes."""
        lines = self.certificate.read_text().splitlines()
        header = {"typ": "JWT", "alg": "RS256", "x5c": ["".join(line for line in lines if "-----" not in line)]}
        now = int(time.time())
        access = [dict(zip(("type", "name", "actions"), _parts(scope), strict=True)) for scope in scopes]
        claims = {
            "iss": ISSUER,
            "sub": user,
            "aud": SERVICE,
            "exp": now + 300,
            "nbf": now - 10,
            "iat": now,
            "jti": "x",
            "access": access,
        }
        signed = ".".join(_url64(json.dumps(part).encode()) for part in (header, claims))
        made = subprocess.run(
            ["openssl", "dgst", "-sha256", "-sign", self._key], input=signed.encode(), check=True, capture_output=True
        )
        return f"{signed}.{_url64(made.stdout)}"


def _parts(scope: str) -> tuple[str, str, list[str]]:
    kind, _, rest = scope.partition(":")
    name, _, actions = rest.rpartition(":")
    return kind, name, actions.split(",")


def _url64(body: bytes) -> str:
    return base64.urlsafe_b64encode(body).rstrip(b"=").decode()


def _door_of(server: TokenServer) -> type[BaseHTTPRequestHandler]:
    class Door(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            scopes = parse_qs(urlsplit(self.path).query).get("scope", [])
            kind, _, said = (self.headers.get("Authorization") or "").partition(" ")
            user, _, word = base64.b64decode(said).decode().partition(":") if kind == "Basic" else ("", "", "")
            server.asked += [(scope, user or None) for scope in scopes]
            good = bool(user) and server.logins.get(user) == word
            body = json.dumps({"token": server.token(scopes, user)} if good else {"details": "wrong"}).encode()
            self.send_response(200 if good else 401)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Not to the tests' output."""

    return Door


@contextmanager
def token_server(folder: Path) -> Iterator[TokenServer]:
    """One for the time of a `with` block."""
    server = TokenServer(folder)
    try:
        yield server
    finally:
        server.stop()
