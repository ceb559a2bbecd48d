"""Hubs and agents as processes of their own that kill themselves, with SIGKILL, right before or right after one chosen write.

The parent drives them in lockstep over a pipe: `("step", seconds)` makes one cycle or step at that moment of virtual time, so a
death leaves exactly what was written until then. An agent's cluster and sync engine are the parent's: it asks for them over the
same pipe, as an agent asks an API server.
"""

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

from reconciler.adapters.documents import reader
from reconciler.adapters.file_store import FileStore
from reconciler.adapters.git import BareClone
from reconciler.agent.loop import Agent
from reconciler.agent.settings import Settings
from reconciler.hub.cycle import Hub
from reconciler.hub.results import HubOptions
from reconciler.ports import (
    Cluster,
    ClusterState,
    Conflict,
    ObjectRef,
    PushOutcome,
    RefUpdate,
    Refused,
    Stored,
    SyncEngine,
    SyncState,
    Transient,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Doom:
    """At which write a process dies, counted from 1, and whether that write is done before. 0: it lives."""

    at: int = 0
    after: bool = False


@dataclass(frozen=True, slots=True)
class Body:
    """What one process is made of. `folder`: that of its clone; `start`: the moment that is second 0."""

    name: str
    remote: Path
    store: Path
    folder: Path
    start: datetime
    doom: Doom


class Fate:
    """Counts writes, and keeps the appointment."""

    def __init__(self, doom: Doom, tell: Callable[[tuple[Any, ...]], None]) -> None:
        self._doom = doom
        self._tell = tell
        self._writes = 0

    def write(self, what: str, write: Callable[[], T]) -> T:
        self._writes += 1
        if self._writes == self._doom.at and not self._doom.after:
            self._die(what)
        done = write()
        if self._writes == self._doom.at:
            self._die(what)
        return done

    def _die(self, what: str) -> None:
        self._tell(("dies", what))
        os.kill(os.getpid(), signal.SIGKILL)


class ToldClock:
    """The parent's time."""

    def __init__(self, start: datetime) -> None:
        self._start = start
        self.seconds = 0.0

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return 5000.0 + self.seconds


class MortalStore(FileStore):
    """A store to which every write may be the last."""

    def __init__(self, folder: Path, fate: Fate) -> None:
        super().__init__(folder)
        self._fate = fate

    def put(self, key: str, body: bytes, *, expect: str | None) -> str:
        return self._fate.write(f"put {key}", lambda: FileStore.put(self, key, body, expect=expect))


class MortalGit(BareClone):
    """A clone in which every tree and commit, and every push, may be the last."""

    def __init__(self, remote: Path, folder: Path, fate: Fate) -> None:
        super().__init__(str(remote), folder)
        self._fate = fate

    def write_tree(self, base: str | None, changes: Mapping[str, str | None]) -> str:
        return self._fate.write("tree", lambda: BareClone.write_tree(self, base, changes))

    def commit(self, tree: str, parents: Sequence[str], message: str, when: datetime) -> str:
        return self._fate.write("commit", lambda: BareClone.commit(self, tree, parents, message, when))

    def push(self, updates: Sequence[RefUpdate]) -> PushOutcome:
        return self._fate.write("push", lambda: BareClone.push(self, updates))


class Distant:
    """`ports.Cluster` and `ports.SyncEngine` at the other end of the pipe."""

    def __init__(self, ask: Callable[[str, tuple[Any, ...]], Any], fate: Fate) -> None:
        self._ask = ask
        self._fate = fate

    def read(self) -> ClusterState:
        return self._ask("read", ())

    def patch(self, target: ObjectRef, body: Mapping[str, Any]) -> ObjectRef:
        what = (
            "release"
            if "activeDeadlineSeconds" in body.get("spec", {})
            else "suspend"
            if "suspend" in body.get("spec", {})
            else "gate"
        )
        return self._fate.write(what, lambda: self._ask("patch", (target, body)))

    def delete(self, target: ObjectRef, grace_seconds: int | None) -> None:
        self._fate.write("delete", lambda: self._ask("delete", (target, grace_seconds)))

    def log_tail(self, namespace: str, pod: str, limit: int) -> str:
        return self._ask("log_tail", (namespace, pod, limit))

    def complaints(self, target: ObjectRef, limit: int) -> Sequence[str]:
        return self._ask("complaints", (target, limit))

    def read_record(self) -> Stored | None:
        return self._ask("read_record", ())

    def write_record(self, body: bytes, *, expect: str | None) -> str:
        return self._fate.write("record", lambda: self._ask("write_record", (body, expect)))

    def state(self) -> SyncState:
        return self._ask("state", ())

    def nudge(self, commit: str) -> None:
        self._fate.write("nudge", lambda: self._ask("nudge", (commit,)))


def live_as_hub(pipe: Connection, body: Body) -> None:
    """A hub's life: one cycle for each `step`, answered by how it ended."""
    fate, clock = Fate(body.doom, pipe.send), ToldClock(body.start)
    options = HubOptions(body.name, "https://git.example.com/jobs", "reg.example.com/stage:1")
    hub = Hub(MortalGit(body.remote, body.folder, fate), MortalStore(body.store, fate), reader, clock, options)
    while True:
        clock.seconds = pipe.recv()
        try:
            said = hub.cycle().ended.name
        except (Transient, Refused) as error:
            said = repr(error)
        pipe.send(("done", said))


def live_as_agent(pipe: Connection, body: Body) -> None:
    """An agent's life: one step for each `step`, with whatever it asks of its region in between."""
    fate, clock = Fate(body.doom, pipe.send), ToldClock(body.start)

    def ask(what: str, arguments: tuple[Any, ...]) -> Any:
        pipe.send(("ask", what, arguments))
        answer = pipe.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer

    region = Distant(ask, fate)
    region_name = body.name.partition("/")[0]
    settings = Settings(look_seconds=3.0, rest_seconds=0.1)
    agent = Agent(region_name, region, region, MortalStore(body.store, fate), clock, settings, body.name)
    while True:
        clock.seconds = pipe.recv()
        agent.step()
        bugs = sorted(about for code, about in agent.memory.troubles if code == "Bug")
        pipe.send(("done", f"bug in {bugs}" if bugs else ""))


def answer(cluster: Cluster, engine: SyncEngine, what: str, arguments: tuple[Any, ...]) -> Any:
    """What a region answers to an agent's request."""
    try:
        if what in ("state", "nudge"):
            return getattr(engine, what)(*arguments)
        if what == "write_record":
            return cluster.write_record(arguments[0], expect=arguments[1])
        return getattr(cluster, what)(*arguments)
    except (Conflict, Transient, Refused) as error:
        return error
