"""What can go wrong on an actor's way to the world: stores, remotes and clusters that fail, forget to answer, or show what was.

Two kinds. A `Fuse` burns at a counted write and kills, pauses or fails its actor there. `Weather` is a share of requests that
fail for a while. Both are functions of what was armed and of how often each thing was asked, never of a thread's turn.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import pygit2
from pygit2.enums import FetchPrune

from reconciler.adapters.git import BareClone
from reconciler.ports import (
    Cluster,
    ClusterState,
    Listed,
    ObjectRef,
    ObjectStore,
    PushOutcome,
    RefUpdate,
    Stored,
    Transient,
)

T = TypeVar("T")


_HEADS = "refs/heads/"


class Killed(BaseException):
    """The actor's process was killed. No handler of its own may catch this."""


@dataclass(frozen=True, slots=True)
class Weather:
    """Shares of requests: that fail undone, that are done without an answer, that are answered with an older state."""

    fails: float = 0.0
    loses: float = 0.0
    stale: float = 0.0
    cut_off: bool = False
    """No store, no remote; what is near answers."""


FAIR = Weather()


@dataclass(slots=True)
class _Armed:
    kind: str
    on: str
    writes_left: int
    after: bool
    steps: int


class Fuse:
    """Where an actor's next writes meet what was armed.

    `kill`: it dies there. `pause`: the others go on for some steps. `lose`: it gets no answer. `delay`: it gets no answer, and
    the request arrives after so many of the world's acts.
    """

    def __init__(self, seed: str, pause: Callable[[int], None], delay: Callable[[int, Callable[[], object]], None]) -> None:
        self.seed = seed
        self.weather = FAIR
        self._pause = pause
        self._delay = delay
        self._armed: list[_Armed] = []
        self._asked: Counter[str] = Counter()

    def arm(self, kind: str, at: int, *, after: bool = False, steps: int = 0, on: str = "") -> None:
        """Let it happen at the write number `at` from now, counted from 0, of those whose name begins with `on`."""
        self._armed.append(_Armed(kind, on, at, after, steps))

    def clear(self) -> None:
        """Nothing is armed any more, and the weather is fair."""
        self._armed.clear()
        self.weather = FAIR

    def write(self, what: str, write: Callable[[], T], *, far: bool = True) -> T:
        """Do it, unless something happens before; and then whatever happens after. `far`: not in the actor's own region."""
        self._reach(what, far=far)
        armed = self._due(what)
        if armed is not None and armed.kind == "delay":
            self._delay(armed.steps, write)
            raise Transient(f"{what}: no answer in time")
        if armed is not None and not armed.after:
            self._burn(armed, what)
        if self.drawn(what, self.weather.fails):
            raise Transient(f"{what}: no answer")
        done = write()
        if armed is not None and armed.after:
            self._burn(armed, what)
        if self.drawn(what, self.weather.loses):
            raise Transient(f"{what}: the answer was lost")
        return done

    def read(self, what: str, read: Callable[[], T], *, far: bool = True) -> T:
        """Ask, unless there is no answer."""
        self._reach(what, far=far)
        if self.drawn(what, self.weather.fails):
            raise Transient(f"{what}: no answer")
        return read()

    def _reach(self, what: str, *, far: bool) -> None:
        if far and self.weather.cut_off:
            raise Transient(f"{what}: cut off")

    def drawn(self, what: str, share: float) -> bool:
        """Whether this time it is the request's turn; each thing has its own sequence of draws."""
        return share > 0 and self.chance(what) < share

    def chance(self, what: str) -> float:
        """A number from 0 to 1, the next of this thing."""
        self._asked[what] += 1
        return Random(f"{self.seed} {what} {self._asked[what]}").random()

    def _due(self, what: str) -> _Armed | None:
        for armed in self._armed:
            armed.writes_left -= what.startswith(armed.on)
        due = next((armed for armed in self._armed if armed.writes_left < 0 and what.startswith(armed.on)), None)
        if due is not None:
            self._armed.remove(due)
        return due

    def _burn(self, armed: _Armed, what: str) -> None:
        if armed.kind == "kill":
            raise Killed(what)
        if armed.kind == "pause":
            self._pause(armed.steps)
        elif armed.kind == "lose":
            raise Transient(f"{what}: {'the answer was lost' if armed.after else 'no answer'}")


class Past:
    """What stood at each key before, for answers that come from a replica that lags behind."""

    def __init__(self) -> None:
        self._bodies: defaultdict[str, list[Stored]] = defaultdict(list)

    def keep(self, key: str, stored: Stored) -> None:
        self._bodies[key].append(stored)

    def older(self, key: str, share: float) -> Stored | None:
        """One of the last five, the older the greater `share` (0 to 1); None where there is none."""
        bodies = self._bodies[key][-5:]
        return bodies[int((1 - share) * (len(bodies) - 1))] if bodies else None


class FaultyStore:
    """`ports.ObjectStore` as one actor sees it."""

    def __init__(self, store: ObjectStore, fuse: Fuse, past: Past) -> None:
        self._store = store
        self._fuse = fuse
        self._past = past

    def get(self, key: str) -> Stored | None:
        return self._fuse.read(f"get {key}", lambda: self._stale(key) or self._store.get(key))

    def etag(self, key: str) -> str | None:
        stale = self._stale(key)
        return self._fuse.read(f"etag {key}", lambda: stale.etag if stale is not None else self._store.etag(key))

    def put(self, key: str, body: bytes, *, expect: str | None) -> str:
        def write() -> str:
            etag = self._store.put(key, body, expect=expect)
            self._past.keep(key, Stored(body, etag))
            return etag

        return self._fuse.write(f"put {key}", write)

    def list(self, prefix: str) -> Iterator[Listed]:
        return self._store.list(prefix)

    def copy(self, source: str, target: str) -> None:
        self._store.copy(source, target)

    def delete(self, key: str) -> None:
        self._store.delete(key)

    def _stale(self, key: str) -> Stored | None:
        """An older state, where it is one's turn. Never of a lease: whoever holds one must see his own writes."""
        if "lease" in key or not self._fuse.drawn(f"stale {key}", self._fuse.weather.stale):
            return None
        return self._past.older(key, self._fuse.chance(f"age {key}"))


class FaultyGit:
    """`ports.GitRepository` as one actor sees it: asking, fetching and pushing can fail; its clone is its own.

    `quick`: branches are asked for and fetched by libgit2 in this process, which takes a tenth of the time. Objects and pushes
    are the clone's own either way.
    """

    def __init__(self, remote: Path, folder: Path, fuse: Fuse, *, quick: bool) -> None:
        self._clone = BareClone(str(remote), folder)
        self._fuse = fuse
        self._remote = pygit2.Repository(str(remote))
        self._folder = folder
        self._quick = quick

    def heads(self) -> Mapping[str, str]:
        return self._fuse.read("heads", self._clone.heads if not self._quick else self._quick_heads)

    def fetch(self) -> Mapping[str, str]:
        return self._fuse.read("fetch", self._clone.fetch if not self._quick else self._quick_fetch)

    def push(self, updates: Sequence[RefUpdate]) -> PushOutcome:
        return self._fuse.write("push", lambda: self._clone.push(updates))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clone, name)

    def _quick_heads(self) -> Mapping[str, str]:
        refs = sorted(ref for ref in self._remote.references if ref.startswith(_HEADS))
        return {ref.removeprefix(_HEADS): str(self._remote.references[ref].target) for ref in refs}

    def _quick_fetch(self) -> Mapping[str, str]:
        heads = self._quick_heads()
        if heads:
            here = pygit2.Repository(str(self._folder)) if self._folder.exists() else self._clone._repository()
            here.remotes.create_anonymous(self._remote.path).fetch([f"+{_HEADS}*:refs/remotes/origin/*"], prune=FetchPrune.PRUNE)
        return heads


class FaultyCluster:
    """`ports.Cluster` as one agent sees it. `cluster` gives the one that is there when a request arrives."""

    def __init__(self, cluster: Callable[[], Cluster], fuse: Fuse) -> None:
        self._cluster = cluster
        self._fuse = fuse

    def read(self) -> ClusterState:
        return self._fuse.read("read cluster", lambda: self._cluster().read(), far=False)

    def patch(self, target: ObjectRef, body: Mapping[str, Any]) -> ObjectRef:
        return self._fuse.write(f"patch {target.kind}", lambda: self._cluster().patch(target, body), far=False)

    def delete(self, target: ObjectRef, grace_seconds: int | None) -> None:
        self._fuse.write(f"delete {target.kind}", lambda: self._cluster().delete(target, grace_seconds), far=False)

    def log_tail(self, namespace: str, pod: str, limit: int) -> str:
        return self._cluster().log_tail(namespace, pod, limit)

    def complaints(self, target: ObjectRef, limit: int) -> Sequence[str]:
        return self._cluster().complaints(target, limit)

    def read_record(self) -> Stored | None:
        return self._fuse.read("read record", lambda: self._cluster().read_record(), far=False)

    def write_record(self, body: bytes, *, expect: str | None) -> str:
        return self._fuse.write("write record", lambda: self._cluster().write_record(body, expect=expect), far=False)
