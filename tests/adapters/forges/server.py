"""A server that answers as a forge's documentation says, and remembers what it was asked. It keeps no state: each test says all."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from reconciler.adapters.forges.shared import Account

TOKEN = "s3cr3t-t0ken-of-the-hub"


@dataclass(frozen=True, slots=True)
class Asked:
    """One request."""

    what: str
    """Method and path, without the query."""
    query: Mapping[str, str]
    said: Any
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Answer:
    """What is answered; `body` as JSON, or as it is where it is bytes."""

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


class ForgeServer:
    """Answers by method and path; what it was not told of is 404, as on every forge. `https://api.example.com` in an answer is itself."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.answers: dict[str, list[Answer]] = {}
        self.lines: set[int] = set()
        """Connections that are open now."""
        self.url = ""

    def says(self, what: str, *answers: Answer) -> None:
        """Answers to a request, in turn; the last one stays."""
        self.answers[what] = list(answers)

    def account(self, repository: str = "ml/jobs") -> Account:
        """How a client finds it."""
        return Account(self.url, repository, TOKEN)

    def made(self) -> list[str]:
        """Method and path of every request so far."""
        return [each.what for each in self.asked]

    def sent(self, what: str) -> list[Any]:
        """What was sent with each of these requests."""
        return [each.said for each in self.asked if each.what == what]


@contextmanager
def answering() -> Iterator[ForgeServer]:
    """A server on loopback for the time of a `with` block."""
    forge = ForgeServer()

    class Exchange(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            forge.lines.add(id(self))

        def finish(self) -> None:
            forge.lines.discard(id(self))
            super().finish()

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            what = f"{self.command} {parts.path}"
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            forge.asked.append(Asked(what, query, json.loads(body) if body else None, dict(self.headers)))
            waiting = forge.answers.get(what, [Answer({"message": "Not Found"}, 404)])
            answer = waiting.pop(0) if len(waiting) > 1 else waiting[0]
            content = (
                answer.body
                if isinstance(answer.body, bytes)
                else json.dumps(answer.body).replace("https://api.example.com", forge.url).encode()
            )
            self.send_response(answer.status)
            for name, value in {"Content-Type": "application/json", **answer.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_PATCH = do_PUT = do_GET  # noqa: N815 - the base class looks for these names

        def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the base class names it so
            """Keep the test's output clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Exchange)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    forge.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield forge
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
