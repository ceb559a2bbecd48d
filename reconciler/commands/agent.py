"""`reconciler agent`: a region on this machine with its agent, until it is told to end. What runs there runs on.

The programs of a region survive the command: started again in the same folder, it takes them over.
"""

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.agent.settings import Settings
from reconciler.app import set_up_log
from reconciler.app_region import LocalRegion, RegionOptions
from reconciler.commands.repository import MAIN

if TYPE_CHECKING:
    from types import FrameType


def agent(url: str, region: str, folder: Path, store: str | None, images: Sequence[str], look_seconds: float) -> None:
    """Run a local region in the foreground. Raises Refused and Transient where repository or store cannot be used."""
    set_up_log()
    settings = Settings(look_seconds=look_seconds, poll_seconds=min(look_seconds, 1.0))
    options = RegionOptions(
        region, url, folder, store, MAIN, tuple(images) or ("*",), poll_seconds=max(look_seconds, 0.5), agent=settings
    )
    found = LocalRegion(options)
    with _told_to_end(found):
        found.run()


@contextmanager
def _told_to_end(region: LocalRegion) -> Iterator[None]:
    """SIGTERM and SIGINT end it well."""

    def end(_number: int, _frame: "FrameType | None") -> None:
        region.stop()

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
