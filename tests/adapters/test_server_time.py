"""What time it is elsewhere, by a real HTTP server that says what it is told to."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from reconciler.adapters.server_time import ahead_of
from reconciler.ports import Transient

NOW = datetime(2026, 5, 1, 12, 0, 0, 400_000, tzinfo=UTC)


class At:
    """A clock that stands."""

    def now(self) -> datetime:
        return NOW

    def monotonic(self) -> float:
        return 0.0


@contextmanager
def saying(date: str | None, code: int = 403) -> Iterator[str]:
    class Exchange(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response_only(code)
            if date is not None:
                self.send_header("Date", date)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Keep the test's output clean."""

    server = HTTPServer(("127.0.0.1", 0), Exchange)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


DATES = {
    "the same second": (NOW, 0.0),
    "a second later, which whole seconds may hide": (NOW.replace(second=1), 0.6),
    "a minute ahead": (NOW.replace(minute=1), 59.6),
    "an hour behind": (NOW.replace(hour=11), -3599.4),
}


@pytest.mark.parametrize(("date", "ahead"), DATES.values(), ids=DATES.keys())
def test_dates(date: datetime, ahead: float) -> None:
    with saying(format_datetime(date.replace(microsecond=0), usegmt=True)) as url:
        assert ahead_of(url, At()) == pytest.approx(ahead)


@pytest.mark.parametrize("date", [None, "yesterday"])
def test_a_server_that_does_not_say(date: str | None) -> None:
    with saying(date) as url, pytest.raises(Transient, match="does not say what time it is"):
        ahead_of(url, At())


def test_a_server_that_is_not_there() -> None:
    with saying(None) as url:
        pass
    with pytest.raises(Transient, match="does not answer"):
        ahead_of(url, At())


def test_an_address_that_is_none() -> None:
    with pytest.raises(Transient, match="does not answer"):
        ahead_of("http://a..b/x", At())
