"""A folder as a region's store: a copy on this machine, block by block, until its time is over."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from reconciler.adapters.link_probe.pace import BLOCK, Pace, blocks
from reconciler.ports import Refused, Transient
from reconciler.probe_port import Transferred


def keep(path: Path, block: bytes, size: int) -> None:
    """See to it that a file of `size` bytes is there. Raises Refused."""
    with _on(path):
        if path.is_file() and path.stat().st_size == size:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.part")
        with part.open("wb") as file:
            for some in blocks(block, size):
                file.write(some)
        part.replace(path)


def read(path: Path, size: int, most_seconds: float, monotonic: Callable[[], float]) -> Transferred:
    """Read so many bytes of it. Raises Transient where it is not there (yet), Refused where it cannot be read."""
    with _on(path), path.open("rb", buffering=0) as file:
        pace = Pace(size, monotonic)
        while pace.moved < size and monotonic() - pace.began < most_seconds:
            some = file.read(min(BLOCK, size - pace.moved))
            if not some:
                break
            pace.note(pace.moved + len(some))
        return pace.told()


def write(path: Path, block: bytes, size: int, most_seconds: float, monotonic: Callable[[], float]) -> Transferred:
    """Write so many bytes there, to the disk, and remove them. Raises Transient or Refused."""
    with _on(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with path.open("wb", buffering=0) as file:
                pace = Pace(size, monotonic)
                for some in blocks(block, size):
                    if monotonic() - pace.began >= most_seconds:
                        break
                    file.write(some)
                    pace.note(pace.moved + len(some))
                os.fsync(file.fileno())
                return pace.told(buffered=True)
        finally:
            path.unlink(missing_ok=True)


@contextmanager
def _on(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise Transient(f"{path} is not there; the agent of that region puts it there, unless it runs with --no-probe") from None
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}; let the agent read and write there") from error
