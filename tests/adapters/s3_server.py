"""A real S3 server on loopback for the tests, and what may stand between it and its callers.

The server is moto's, in this program's own threads. A fault is a WSGI middleware in front of it: the callers talk HTTP
to a store that really ignores a header, really loses an answer, or really cuts a body.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from reconciler.adapters.s3_answers import ClientFactory
from reconciler.adapters.s3_store import S3Store

Start = Callable[..., Any]
App = Callable[[dict[str, Any], Start], Iterable[bytes]]
Fault = Callable[[App], App]


@dataclass
class Requests:
    """A fault that only counts: the methods of the requests that came, in order."""

    methods: list[str] = field(default_factory=list)

    def __call__(self, app: App) -> App:
        def counting(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
            self.methods.append(environ["REQUEST_METHOD"])
            return app(environ, start)

        return counting


def honest(app: App) -> App:
    """No fault."""
    return app


def ignoring(*headers: str) -> Fault:
    """A store that takes these headers and does not look at them."""
    names = {f"HTTP_{header.upper().replace('-', '_')}" for header in headers}
    return lambda app: lambda environ, start: app({k: v for k, v in environ.items() if k not in names}, start)


def renaming_status(old: int, new: str) -> Fault:
    """A store that says `new` where moto says `old`."""

    def fault(app: App) -> App:
        def renamed(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
            def started(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
                return start(new if status.startswith(str(old)) else status, headers, *rest)

            return app(environ, started)

        return renamed

    return fault


def answering(status: str, body: bytes, *, methods: tuple[str, ...], times: int = 1_000_000) -> Fault:
    """A store that answers the first `times` requests of these methods like this, without doing anything."""
    left = [times]

    def fault(app: App) -> App:
        def answered(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
            if environ["REQUEST_METHOD"] not in methods or left[0] == 0:
                return app(environ, start)
            left[0] -= 1
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            start(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
            return [body]

        return answered

    return fault


def s3_error(code: str, message: str = "as the test wants it") -> bytes:
    return f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>{message}</Message></Error>'.encode()


def losing_answers(*methods: str) -> Fault:
    """A store that does what is asked, and whose connection breaks before it says so."""

    def fault(app: App) -> App:
        def lost(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
            answer = app(environ, start)
            if environ["REQUEST_METHOD"] not in methods:
                return answer
            b"".join(answer)
            environ["werkzeug.socket"].shutdown(2)
            return []

        return lost

    return fault


def cutting_bodies(share: float) -> Fault:
    """A store whose connection breaks in the middle of the bodies that it gives out."""

    def fault(app: App) -> App:
        def cut(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
            body = b"".join(app(environ, start))
            return [body[: int(len(body) * share)]] if environ["REQUEST_METHOD"] == "GET" else [body]

        return cut

    return fault


def changing_query(old: str, new: str) -> Fault:
    """A store that reads another query than the one that was sent."""

    def fault(app: App) -> App:
        def changed(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
            query = environ["QUERY_STRING"].replace(old, new)
            path = environ["REQUEST_URI"].partition("?")[0]
            return app({**environ, "QUERY_STRING": query, "REQUEST_URI": f"{path}?{query}"}, start)

        return changed

    return fault


def changing_headers(change: Callable[[str, dict[str, str]], dict[str, str]]) -> Fault:
    """A store whose answers have other headers; `change` gets the request's method."""

    def fault(app: App) -> App:
        def changed(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
            def started(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
                return start(status, list(change(environ["REQUEST_METHOD"], dict(headers)).items()), *rest)

            return app(environ, started)

        return changed

    return fault


@contextmanager
def serving(app: App, ssl_context: Any = None) -> Iterator[str]:
    """Serve an application on a free port of loopback, a thread a request; yields its URL."""
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"

        def log(self, *_: Any) -> None:
            """Nothing: the tests read what came back, not a log."""

    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet, ssl_context=ssl_context)
    server.daemon_threads = True  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http{'s' if ssl_context else ''}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def moto_app() -> App:
    """moto's S3, as an application. Its buckets live as long as this program."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

    return _knowing_uploads(DomainDispatcherApplication(create_backend_app))


def _knowing_uploads(app: App) -> App:
    """moto fails with a KeyError where an upload is gone that a part is put to, or that is completed. S3 says that it is gone."""

    def answered(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        try:
            return app(environ, start)
        except KeyError:
            if "uploadId=" not in environ["QUERY_STRING"]:
                raise
        said = s3_error("NoSuchUpload")
        start("404 NOT FOUND", [("Content-Type", "application/xml"), ("Content-Length", str(len(said)))])
        return [said]

    return answered


def client_factory(url: str, **settings: Any) -> ClientFactory:
    """Clients with credentials of their own, so that no test depends on the environment."""
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1", **settings}
    return lambda config: _session().client("s3", endpoint_url=url, config=config, **keys)


@cache
def _session() -> Any:
    """One for all tests: it keeps the descriptions of the API that it has read, which takes 0.2 s."""
    from boto3.session import Session

    return Session()


def make_bucket(url: str, name: str) -> None:
    from botocore.config import Config

    with closing(client_factory(url)(Config())) as client:
        client.create_bucket(Bucket=name)


@contextmanager
def s3_store(url: str, bucket: str, prefix: str = "") -> Iterator[S3Store]:
    """A store on a bucket behind `url`."""
    with closing(S3Store(bucket, prefix, client_factory=client_factory(url))) as store:
        yield store
