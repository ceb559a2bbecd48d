"""The agent of a region as a process of its own, with watches: `python -m tests.e2e.agent_process KUBECONFIG STORE SECONDS`.

Until it is told to end; it looks every SECONDS, and whenever it is woken. There is no sync engine.
"""

import secrets
import signal
import sys
import threading
from pathlib import Path

from reconciler.adapters.clock import SystemClock
from reconciler.adapters.file_store import FileStore
from reconciler.adapters.kube import KubeCluster, from_kubeconfig
from reconciler.agent.loop import Agent
from reconciler.agent.settings import Settings
from reconciler.ports import SyncState


class NoEngine:
    """A branch that nobody applies."""

    def state(self) -> SyncState:
        return SyncState(None, {}, frozenset())

    def nudge(self, commit: str) -> None:
        raise AssertionError(f"there are no grants, and so no {commit}")


def main(kubeconfig: str, store: str, look_seconds: str) -> None:
    stop, wake = threading.Event(), threading.Event()
    signal.signal(signal.SIGTERM, lambda _number, _frame: (stop.set(), wake.set()))
    clock = SystemClock()
    cluster = KubeCluster(from_kubeconfig(Path(kubeconfig)), clock)
    cluster.start(wake.set)
    settings = Settings(look_seconds=float(look_seconds))
    agent = Agent("eu", cluster, NoEngine(), FileStore(Path(store)), clock, settings, secrets.token_hex(8))
    agent.run(stop, wake)
    cluster.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
