"""Where a long-running command is heard over HTTP: an address in words, and a server for as long as the command runs."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from shlex import quote
from typing import TYPE_CHECKING, Any

from reconciler.ports import Refused

if TYPE_CHECKING:
    from starlette.applications import Starlette


def address_of(listen: str) -> tuple[str, int]:
    """Host and port. Raises Refused for what is no address."""
    match = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([^\[\]:]+)):([0-9]{1,5})", listen)
    if match is None or int(match[3]) > 65535:
        raise Refused(f"{quote(listen)} is no address to listen on; give HOST:PORT, such as 127.0.0.1:8080 or [::1]:8080")
    return match[1] or match[2], int(match[3])


@contextmanager
def listening_on(listen: str | None, pages: "Starlette", log: Any) -> Iterator[None]:
    """Serve the pages there for the time of a `with` block; None: nowhere. Raises Refused where the address cannot be had."""
    if listen is None:
        yield
        return
    from reconciler.adapters.webhooks import WebServer

    host, port = address_of(listen)
    server = WebServer(pages, host, port)
    try:
        log.info("listening", host=host, port=server.start())
    except OSError as error:
        raise Refused(f"{error}; name another --listen HOST:PORT") from error
    try:
        yield
    finally:
        server.stop()
