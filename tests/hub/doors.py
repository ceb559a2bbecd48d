"""Clock, Git and store between a hub under test and the world: the real ones, watched, and made to fail when a test wants that."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from reconciler.adapters.git import BareClone
from reconciler.ports import Listed, ObjectStore, PushOutcome, RefUpdate, Stored, Transient
from tests.builders import NOW


class ManualClock:
    """Both clocks, moved by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return 1000.0 + self.seconds


class WatchedGit:
    """A `GitRepository` that remembers its pushes. `before_push` is called once, before the next push is sent."""

    def __init__(self, inner: BareClone) -> None:
        self.inner = inner
        self.pushes: list[Sequence[RefUpdate]] = []
        self.before_push: list[Callable[[], object]] = []
        self.before_look: Callable[[], None] | None = None
        self.fails: Exception | None = None
        """Raised instead of asking the remote, while it is set."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def heads(self) -> Mapping[str, str]:
        if self.before_look is not None:
            self.before_look()
        if self.fails is not None:
            raise self.fails
        return self.inner.heads()

    def push(self, updates: Sequence[RefUpdate]) -> PushOutcome:
        if self.before_push:
            self.before_push.pop(0)()
        self.pushes.append(updates)
        return self.inner.push(updates)


class FaultyStore:
    """An `ObjectStore` whose requests for some keys fail. `lose_answers`: those writes are done, and their answers lost."""

    def __init__(self, inner: ObjectStore) -> None:
        self.inner = inner
        self.fails: dict[str, Exception] = {}
        """Key → what every request for it raises."""
        self.fails_put: dict[str, Exception] = {}
        self.lose_answers: dict[str, Exception] = {}
        self.asked: list[str] = []
        self.down = False
        """Whether nothing answers."""
        self.stale: dict[str, str] = {}
        """Key → the old ETag that is answered."""

    def _ask(self, what: str, key: str) -> None:
        self.asked.append(f"{what} {key}")
        if self.down:
            raise Transient("the store does not answer")
        if key in self.fails:
            raise self.fails[key]

    def get(self, key: str) -> Stored | None:
        self._ask("get", key)
        return self.inner.get(key)

    def etag(self, key: str) -> str | None:
        self._ask("etag", key)
        return self.stale.get(key) or self.inner.etag(key)

    def put(self, key: str, body: bytes, *, expect: str | None) -> str:
        self._ask("put", key)
        if key in self.fails_put:
            raise self.fails_put[key]
        etag = self.inner.put(key, body, expect=expect)
        if key in self.lose_answers:
            raise self.lose_answers[key]
        return etag

    def list(self, prefix: str) -> Iterable[Listed]:
        return self.inner.list(prefix)

    def copy(self, source: str, target: str) -> None:
        self.inner.copy(source, target)

    def delete(self, key: str) -> None:
        self.inner.delete(key)
