"""`reconciler hub`: the central loop, until it is told to end.

Decides how it is told (SIGTERM, SIGINT: the cycle under way ends first; a second one ends at once), and where its webhooks are
heard. Secrets of webhooks come from the environment, so that no list of processes shows them.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from reconciler.app import hub_loop, hub_server, open_repository, read_settings, set_up_log
from reconciler.commands.listening import address_of
from reconciler.commands.repository import MAIN
from reconciler.model.problem import Invalid
from reconciler.ports import Refused

if TYPE_CHECKING:
    from types import FrameType

    from reconciler.hub.loop import HubLoop

SECRETS: Final = "RECONCILER_WEBHOOK_SECRETS"


def hub(url: str, folder: Path, store: str | None, listen: str | None, poll_seconds: float | None) -> None:
    """Run the hub in the foreground. Raises Refused and Transient where repository or store cannot be used at all."""
    set_up_log()
    log = structlog.get_logger("hub")
    address = None if listen is None else address_of(listen)
    poll = poll_seconds if poll_seconds is not None else _poll_seconds(url, folder)
    loop = hub_loop(url, folder, store)
    with _told_to_end(loop):
        server = None if address is None else hub_server(loop, _secrets(), *address)
        try:
            if server is not None and address is not None:
                log.info("listening", host=address[0], port=server.start())
            log.info("started", poll_seconds=poll)
            loop.run(poll)
        except OSError as error:
            raise Refused(f"{error}; name another --listen HOST:PORT") from error
        finally:
            if server is not None:
                server.stop()
    log.info("ended")


def _poll_seconds(url: str, folder: Path) -> float:
    try:
        return read_settings(open_repository(url, folder), MAIN).intervals.poll_seconds
    except Invalid as error:
        raise Refused(f"{error}; or give --poll and --store") from error


def _secrets() -> list[str]:
    return [secret.strip() for secret in os.environ.get(SECRETS, "").split(",") if secret.strip()]


@contextmanager
def _told_to_end(loop: "HubLoop") -> Iterator[None]:
    """SIGTERM and SIGINT end the loop well; the second one ends the program as it would without us."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def end(_number: int, _frame: "FrameType | None") -> None:
        restore()
        loop.stop()

    def restore() -> None:
        for number, earlier in before.items():
            signal.signal(number, earlier)

    for number in before:
        signal.signal(number, end)
    try:
        yield
    finally:
        restore()
