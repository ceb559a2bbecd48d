"""Ends of a copy in memory, for what is tried very often; like `transfer.ends.Ends`.

Its ETags are numbers, no checksums; `md5`: what it nevertheless gives as every object's checksum.
"""

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from reconciler.bulk_port import Beside, BulkSource, CannotCopy, Found, Pace, Part, Stream, Upload, UploadLost, changed, mark_of


@dataclass(frozen=True)
class Held:
    body: bytes
    etag: str
    mark: str = ""


@dataclass
class Begun:
    key: str
    mark: str
    parts: dict[int, bytes] = field(default_factory=dict)


class MemoryEnds:
    """A store. `before` and `after` are called with each call of an end: its name and its whole key; what they raise is raised."""

    kind = "memory"

    def __init__(self, *, copies: bool = True) -> None:
        self.objects: dict[str, Held] = {}
        self.begun: dict[str, Begun] = {}
        self.beside: dict[str, bytes] = {}
        self.copies = copies
        self.before: Callable[[str, str], None] = lambda _call, _key: None
        self.after: Callable[[str, str], None] = lambda _call, _key: None
        self.read_bytes = 0
        self.md5 = ""
        self.lock = threading.RLock()
        self.numbers = itertools.count(1)

    def end(self, name: str) -> "MemoryBulk":
        return MemoryBulk(self, name)

    def write(self, name: str, objects: Mapping[str, bytes]) -> None:
        for key, body in objects.items():
            self.hold(f"{name}/{key}" if name else key, body)

    def remove(self, name: str, key: str) -> None:
        self.objects.pop(f"{name}/{key}", None)

    def read(self, name: str) -> dict[str, bytes]:
        return {key.removeprefix(f"{name}/"): one.body for key, one in self.objects.items() if key.startswith(f"{name}/")}

    def hold(self, key: str, body: bytes, mark: str = "") -> str:
        with self.lock:
            self.objects[key] = Held(body, f"e{next(self.numbers)}", mark)
            return self.objects[key].etag


class MemoryBulk:
    """`bulk_port.BulkStore` on a folder of it."""

    def __init__(self, store: MemoryEnds, name: str) -> None:
        self.store = store
        self._below = f"{name}/" if name else ""
        self.uri = f"memory://{self._below}"
        self.marker: Beside = _Beside(store, f"{name}.json")
        self.note: Beside = _Beside(store, f"{name}.staging")

    def close(self) -> None:
        """Nothing is open."""

    @contextmanager
    def _call(self, name: str, key: str = "") -> Iterator[str]:
        whole = self._below + key
        self.store.before(name, whole)
        with self.store.lock:
            yield whole
        self.store.after(name, whole)

    def list(self) -> Iterator[Found]:
        with self._call("list"):
            there = [(key, one) for key, one in sorted(self.store.objects.items()) if key.startswith(self._below)]
        yield from (Found(key.removeprefix(self._below), len(one.body), one.etag) for key, one in there)

    @contextmanager
    def open(self, found: Found, offset: int, size: int) -> Iterator[Stream]:
        with self._call("open", found.key) as key:
            held = self._same(found, key)
        left = [held.body[offset : offset + size]]

        def read(limit: int) -> bytes:
            block, left[0] = left[0][:limit], left[0][limit:]
            with self.store.lock:
                self.store.read_bytes += len(block)
            return block

        yield Stream(read, {}, self.store.md5)

    def _same(self, found: Found, key: str) -> Held:
        held = self.store.objects.get(key)
        if held is None or held.etag != found.etag:
            raise changed(self.uri, found.key)
        return held

    def traits(self, found: Found) -> Mapping[str, str]:  # noqa: ARG002 - the protocol's
        return {}

    def round_trip_seconds(self, monotonic: Callable[[], float]) -> float:  # noqa: ARG002 - the protocol's
        return 0.0

    def hold_back(self, receive_bytes: int | None) -> None:
        """Nothing is sent ahead."""

    def is_copy(self, key: str, origin: Found) -> bool:
        with self._call("is_copy", key) as whole:
            held = self.store.objects.get(whole)
            return held is not None and (held.mark, len(held.body)) == (mark_of(origin), origin.size)

    def put(self, origin: Found, body: bytes, traits: Mapping[str, str], pace: Pace) -> str:  # noqa: ARG002 - the protocol's
        with self._call("put", origin.key) as key:
            return self.store.hold(key, body, mark_of(origin))

    def put_folder(self, key: str) -> None:
        with self._call("put_folder", key) as whole:
            self.store.hold(whole, b"")

    def delete(self, key: str) -> None:
        with self._call("delete", key) as whole:
            self.store.objects.pop(whole, None)

    def remove_folders(self) -> None:
        """There are none."""

    def uploads(self) -> Iterator[Upload]:
        with self._call("uploads"):
            there = [(name, one.key) for name, one in self.store.begun.items() if one.key.startswith(self._below)]
        yield from (Upload(key.removeprefix(self._below), name) for name, key in there)

    def begin(self, origin: Found, traits: Mapping[str, str]) -> Upload:  # noqa: ARG002 - the protocol's
        with self._call("begin", origin.key) as key:
            name = f"u{next(self.store.numbers)}"
            self.store.begun[name] = Begun(key, mark_of(origin))
            return Upload(origin.key, name)

    def _begun(self, upload: Upload) -> Begun:
        if upload.name not in self.store.begun:
            raise UploadLost(f"{upload.key}: gone")
        return self.store.begun[upload.name]

    def parts(self, upload: Upload) -> Sequence[Part]:
        with self._call("parts", upload.key):
            return [Part(number, 0, len(body), f"p{number}") for number, body in self._begun(upload).parts.items()]

    def put_part(self, upload: Upload, part: Part, body: bytes, pace: Pace) -> Part:  # noqa: ARG002 - the protocol's
        with self._call("put_part", upload.key):
            self._begun(upload).parts[part.number] = body
        return Part(part.number, part.offset, part.size, f"p{part.number}")

    def finish(self, upload: Upload, origin: Found, parts: Sequence[Part]) -> str:  # noqa: ARG002 - the protocol's
        with self._call("finish", upload.key) as key:
            begun = self._begun(upload)
            body = b"".join(begun.parts[part.number] for part in sorted(parts, key=lambda one: one.number))
            del self.store.begun[upload.name]
            return self.store.hold(key, body, begun.mark)

    def abort(self, upload: Upload) -> None:
        with self._call("abort", upload.key):
            self.store.begun.pop(upload.name, None)

    def copies_from(self, source: BulkSource) -> bool:
        return isinstance(source, MemoryBulk) and source.store is self.store and self.store.copies

    def copy(self, source: Any, origin: Found) -> str:
        if not self.store.copies:
            raise CannotCopy("no")
        with self._call("copy", origin.key) as key:
            return self.store.hold(key, source.held(origin).body, mark_of(origin))

    def copy_part(self, source: Any, origin: Found, upload: Upload, part: Part) -> Part:
        with self._call("copy_part", origin.key):
            body = source.held(origin).body[part.offset : part.offset + part.size]
            self._begun(upload).parts[part.number] = body
        return Part(part.number, part.offset, part.size, f"p{part.number}")

    def held(self, found: Found) -> Held:
        """An object of exactly that version, for the store itself."""
        return self._same(found, self._below + found.key)

    def tidy(self) -> None:
        """What is unfinished here is an upload."""


class _Beside:
    def __init__(self, store: MemoryEnds, key: str) -> None:
        self._store, self._key = store, key

    def read(self) -> bytes | None:
        self._store.before("read beside", self._key)
        return self._store.beside.get(self._key)

    def write(self, body: bytes) -> None:
        self._store.before("write beside", self._key)
        self._store.beside[self._key] = body
        self._store.after("write beside", self._key)

    def delete(self) -> None:
        self._store.before("delete beside", self._key)
        self._store.beside.pop(self._key, None)
        self._store.after("delete beside", self._key)
