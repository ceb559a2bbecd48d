"""The kubelet's own HTTPS endpoint: the logs of containers, for `kubectl logs` and the API's pods/log.

Decides what of a log is sent. Who may read is the API server's to decide; here it only shows a certificate of the region's
authority. Lines carry no times, so `timestamps`, `sinceSeconds` and `sinceTime` are refused rather than ignored.
"""

import os
import ssl
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.e2e.kubelet.api import Api

_BLOCK = 2**16
_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Log:
    """A container's log: its file, and whether nothing will be added to it any more."""

    file: Path
    is_over: Callable[[], bool]


Find = Callable[[str, str, str], Log | None]
"""The log of (namespace, pod, container), None where there is no such container here."""


class Endpoint(ThreadingHTTPServer):
    """Serves on a free port of loopback until `shutdown`."""

    daemon_threads = True

    def __init__(self, api: Api, find: Find) -> None:
        """With the kubelet's own certificate, for callers that show one of the same authority."""
        super().__init__(("127.0.0.1", 0), _Request)
        self.find = find
        self.ending = threading.Event()
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=api.ca)
        context.load_cert_chain(api.certificate, api.key)
        context.verify_mode = ssl.CERT_REQUIRED
        # Each caller's handshake in its own thread: one that is slow keeps nobody waiting.
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that hangs up, or shows no certificate, is no news; all else is."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Request(BaseHTTPRequestHandler):
    server: Endpoint

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        match [unquote(part) for part in parts.path.strip("/").split("/")]:
            case ["healthz"]:
                self._answer(200, "ok")
            case ["containerLogs", namespace, pod, container]:
                self._logs(self.server.find(namespace, pod, container), container, dict(parse_qsl(parts.query)))
            case _:
                self._answer(404, f"this kubelet has no {parts.path}")

    def _logs(self, log: Log | None, container: str, query: Mapping[str, str]) -> None:
        refused = {"timestamps", "sinceSeconds", "sinceTime"} & {key for key, value in query.items() if value != "false"}
        if refused:
            self._answer(400, f"lines of this kubelet's logs have no times: {', '.join(sorted(refused))} cannot be had")
        elif log is None:
            self._answer(404, f"container {container!r} is not on this node")
        elif query.get("previous") == "true":
            self._answer(400, f"previous terminated container {container!r} not found")
        elif not log.file.exists():
            self._answer(400, f"container {container!r} is waiting to start")
        else:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain")
            self.end_headers()
            for piece in _pieces(log, query, self.server.ending):
                self.wfile.write(piece)

    def _answer(self, status: int, words: str) -> None:
        body = f"{words}\n".encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing: the kubelet's output is for what befalls pods."""


def _pieces(log: Log, query: Mapping[str, str], ending: threading.Event) -> Iterator[bytes]:
    left = int(query["limitBytes"]) if "limitBytes" in query else None
    with log.file.open("rb") as file:
        if "tailLines" in query:
            file.seek(_start_of_last(int(query["tailLines"]), file))
        while left is None or left > 0:
            is_over = log.is_over() or ending.is_set()  # asked first: what is read after that is all
            piece = file.read(_BLOCK if left is None else min(_BLOCK, left))
            left = None if left is None else left - len(piece)
            if piece:
                yield piece
            elif is_over or query.get("follow") != "true":
                return
            else:
                ending.wait(_LOOK_SECONDS)


def _start_of_last(lines: int, file: BinaryIO) -> int:
    """Where the last so many lines begin; a last one without its end counts."""
    at = end = file.seek(0, os.SEEK_END)
    if lines <= 0:
        return end
    while at > 0:
        step = min(_BLOCK, at)
        at -= step
        file.seek(at)
        block = file.read(step)
        # The very last byte ends the last line, it does not begin another.
        found = len(block) - 1 if at + step == end else len(block)
        while (found := block.rfind(b"\n", 0, found)) >= 0:
            lines -= 1
            if lines == 0:
                return at + found + 1
    return 0
