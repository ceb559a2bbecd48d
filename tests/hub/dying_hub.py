"""A hub in a process of its own that kills itself at its n-th write, before or after it was done.

`python -m tests.hub.dying_hub FOLDER URL N WHEN`: runs cycles until all jobs have ended (exit code 0), or dies by SIGKILL.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from reconciler.adapters.clock import SystemClock
from reconciler.adapters.documents import reader
from reconciler.adapters.file_store import FileStore
from reconciler.adapters.git import BareClone
from reconciler.hub.cycle import Hub, HubOptions
from reconciler.model.record import FINISHED

WRITES = {"push", "put", "commit", "write_tree"}
"""What is a write: each may be the last thing that the process did, or never did."""


class Dying:
    """An adapter whose writes are counted; at the chosen one the process is gone."""

    count = 0

    def __init__(self, inner: Any, last: int, when: str) -> None:
        self._inner, self._last, self._when = inner, last, when

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        return self._watched(found) if name in WRITES else found

    def _watched(self, write: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any, **named: Any) -> Any:
            Dying.count += 1
            if Dying.count == self._last and self._when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            answer = write(*arguments, **named)
            if Dying.count == self._last:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        return watched


def main(folder: Path, url: str, last: int, when: str, jobs: int) -> None:
    """Cycle until `jobs` jobs have ended."""
    git = Dying(BareClone(url, folder / "clone"), last, when)
    store = Dying(FileStore(folder / "store"), last, when)
    options = HubOptions(f"hub-{os.getpid()}", url, "reg.example.com/stage:1", lease_seconds=0.5, resync_seconds=0.2)
    hub = Hub(git, store, reader, SystemClock(), options)
    pause = threading.Event()
    while True:
        hub.cycle()
        records = hub._eyes.look(git.fetch()).ledger.records.values()
        if len(records) == jobs and all(record.phase in FINISHED for record in records):
            return
        pause.wait(0.02)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4], int(sys.argv[5]))
