"""`reconciler stage dataset`, `stage results`, `stage evict`: bulk from store to store, as a task or in an attempt's pod.

Decides what the options mean: above all whether the target is a copy with a marker beside it. A folder that is mounted or linked
where it stands (the volume in a pod) gets none unless asked for, for what stands beside it is not on the volume. How a copy is
made is for agent/stage/transfer.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

from reconciler.adapters.clock import SystemClock
from reconciler.agent.stage.transfer.evict import evict as evict_all
from reconciler.agent.stage.transfer.pacing import RateFile
from reconciler.agent.stage.transfer.rounds import transfer
from reconciler.agent.stage.transfer.work import Options
from reconciler.app import open_bulk
from reconciler.bulk_port import BulkStore
from reconciler.commands import screen
from reconciler.model.progress import progress_line

SOURCE, TARGET = "SOURCE_", "TARGET_"


@dataclass(frozen=True, slots=True)
class How:
    """The options: bytes a second, the file that says them, where they are kept, a marker or not or as it fits, sizes alone, and
    whether the source may be empty."""

    rate: float | None = None
    rate_file: Path | None = None
    link: Literal["source", "target"] = "source"
    marker: bool | None = None
    by_size: bool = False
    may_be_empty: bool = False


def dataset(source: str, target: str, how: How) -> None:
    """Copy a dataset, or results. Raises Refused and Transient."""
    clock = SystemClock()
    inside = is_volume(target)
    marker = not inside if how.marker is None else how.marker
    options = Options(marker=marker, link=how.link, by_size=how.by_size, may_be_empty=how.may_be_empty)
    rate = RateFile(how.rate_file, how.rate, clock.monotonic)
    with opened(source, SOURCE) as one, opened(target, TARGET, inside=inside) as other:
        staged = transfer(one, other, options, rate, clock, lambda progress: screen.say(progress_line(progress)))
    whole = f"{staged.objects} objects, {screen.size(staged.size)}"
    screen.say(f"{source} is at {target}: {whole}; {screen.size(staged.sent_bytes)} of it sent now")


def evict(target: str) -> None:
    """Remove a copy. Raises Refused and Transient."""
    with opened(target, TARGET, inside=is_volume(target)) as copy:
        objects, size = evict_all(copy, copy, Options(), SystemClock())
    screen.say(f"{target} is removed: {objects} objects, {screen.size(size)}")


@contextmanager
def opened(uri: str, prefix: str, *, inside: bool = False) -> Iterator[BulkStore]:
    """A folder of a store for the time of a `with` block; `prefix` as `open_bulk` has it. Raises Refused."""
    store = open_bulk(uri, os.environ, prefix, inside=inside)
    try:
        yield store
    finally:
        store.close()


def is_volume(uri: str) -> bool:
    """Whether it is a folder that is mounted or linked where it stands."""
    parts = urlsplit(uri)
    folder = Path(unquote(parts.path))
    return parts.scheme == "file" and (folder.is_mount() or folder.is_symlink())
