"""An object store in memory: one truth for all, as S3 gives it.

Decides ETags, conditions and order; what goes wrong on the way to it is for ways.py. Invariant: an object is replaced only from
the ETag that its writer names; every body that ever stood at a key is kept in order, for answers that come from the past.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256

from reconciler.adapters.object_keys import parts_of
from reconciler.ports import Conflict, Listed, Refused, Stored

_OLDER = 5
"""Earlier states of an object that an answer may show."""


def _nobody(_who: str, _key: str, _stored: Stored, _sent: float) -> None:
    return


@dataclass(slots=True)
class Shelf:
    """The objects themselves. `written` is called after each write: by whom, where, what stands there now, when that was sent."""

    objects: dict[str, Stored] = field(default_factory=dict)
    past: dict[str, list[Stored]] = field(default_factory=dict)
    written: Callable[[str, str, Stored, float], None] = _nobody

    def put(self, who: str, key: str, body: bytes, expect: str | None, sent: float = 0.0) -> str:
        """Replace an object by compare-and-swap; returns its new ETag. Raises Conflict."""
        known = self.objects.get(key)
        if (known.etag if known is not None else None) != expect:
            raise Conflict(f"put {key}: the object is not the one that was read before")
        stored = Stored(body, sha256(body).hexdigest())
        self.objects[key] = stored
        past = self.past.setdefault(key, [])
        past.append(stored)
        del past[:-_OLDER]
        self.written(who, key, stored, sent)
        return stored.etag


class MemoryStore:
    """`ports.ObjectStore` over a shelf. `who` writes is told to whoever watches the shelf."""

    def __init__(self, shelf: Shelf, who: str = "") -> None:
        """One program's way to the shelf."""
        self._shelf = shelf
        self._who = who

    def get(self, key: str) -> Stored | None:
        """The object, or None where there is none."""
        return self._shelf.objects.get(_checked(key))

    def etag(self, key: str) -> str | None:
        """The object's ETag without its bytes."""
        stored = self._shelf.objects.get(_checked(key))
        return None if stored is None else stored.etag

    def put(self, key: str, body: bytes, *, expect: str | None) -> str:
        """Write and return the new ETag; `expect` None means "must not exist yet". Raises Conflict."""
        return self.put_sent(key, body, expect, 0.0)

    def put_sent(self, key: str, body: bytes, expect: str | None, sent: float) -> str:
        """The same for a request that was sent at that second, and may have been long under way."""
        return self._shelf.put(self._who, _checked(key), bytes(body), expect, sent)

    def list(self, prefix: str) -> Iterator[Listed]:
        """All objects whose key starts with `prefix`, in order of key (as UTF-8)."""
        above, slash, _ = prefix.rpartition("/")
        if slash:
            _checked(above)
        keys = sorted(self._shelf.objects, key=str.encode)
        first = bisect_left(keys, prefix.encode("utf-8", "surrogatepass"), key=str.encode)
        for key in keys[first:]:
            if not key.startswith(prefix):
                return
            yield Listed(key, len(self._shelf.objects[key].body))

    def copy(self, source: str, target: str) -> None:
        """Copy one object, unconditionally. Raises Refused where there is no `source`."""
        stored = self.get(source)
        _checked(target)
        if stored is None:
            raise Refused(f"copy {source}: there is no such object; list the source again before copying")
        self._shelf.put(self._who, target, stored.body, self.etag(target))

    def delete(self, key: str) -> None:
        """Remove one object if it is there."""
        self._shelf.objects.pop(_checked(key), None)


@lru_cache(maxsize=1024)
def _checked(key: str) -> str:
    """The key itself. Raises Refused where another store would not take it."""
    parts_of(key)
    return key
