"""What the staging worker asks of the two ends of a copy, as protocols: a folder of a store, by streams and by parts.

Apart from `ObjectStore`, whose objects decide things and are small: here objects may have any size and any key, nothing is
compared and swapped, and what is half written is found again. Keys are relative to the folder, as they stand in the store.
Adapters raise the errors of ports.py, and `UploadLost`.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from reconciler.ports import Refused, Transient

Pace = Callable[[int], None]
"""Called before so many bytes are sent; returns when they may be."""

MULTIPART_PARTS = 10_000
"""At most so many parts an object: https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html"""


class UploadLost(Transient):
    """An unfinished upload, or what was written of it, is not there any more: somebody finished or removed it. Look again."""


class CannotCopy(Refused):
    """The store does not copy by itself from there; the bytes must be sent."""


class Changed(Refused):
    """What is copied is not what was listed. Its words are for datasets; who copies what may change looks again."""


@dataclass(frozen=True, slots=True)
class Found:
    """One line of a listing. `etag`: what the store says of the version; two versions of an object differ in it."""

    key: str
    size: int
    etag: str
    modified: float = 0.0
    """Seconds since 1970, by the store's clock."""


@dataclass(frozen=True, slots=True)
class Upload:
    """An object that is written by parts, unfinished."""

    key: str
    name: str


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an object: `number` counts from 1. `etag`: what the store said of it; '' while it is not there."""

    number: int
    offset: int
    size: int
    etag: str = ""


@dataclass(frozen=True, slots=True)
class Stream:
    """An object's bytes as they come. `read(limit)` returns b'' at the end; raises Transient."""

    read: Callable[[int], bytes]
    traits: Mapping[str, str] = field(default_factory=dict)
    """What the source says of the content: `ContentType`, `ContentEncoding`."""
    md5: str = ""
    """Of the whole object, in hex, where the store has it; ''."""


def changed(what: str, key: str) -> Changed:
    """The error of an object that is not what it was when it was listed."""
    return Changed(
        f"{what}: {key!r} changed while it was being copied; a version of a dataset must not change: "
        "publish what is new as a new version, or stage again when nobody writes there any more"
    )


def mark_of(origin: Found) -> str:
    """What a copy carries to say of what it is a copy: equal marks are copies of one version of an object."""
    return hashlib.sha256(f"{origin.size} {origin.etag}".encode()).hexdigest()[:32]


class BulkSource(Protocol):
    """The end that is read. Safe to share between threads."""

    uri: str

    def list(self) -> Iterator[Found]:
        """Every object below the folder, however many pages that takes. Raises Transient or Refused."""

    def open(self, found: Found, offset: int, size: int) -> AbstractContextManager[Stream]:
        """Bytes of exactly that version. Raises Transient, Refused, and Changed where the object has changed."""

    def traits(self, found: Found) -> Mapping[str, str]:
        """What `Stream.traits` says, without the bytes."""

    def round_trip_seconds(self, monotonic: Callable[[], float]) -> float:
        """How long the store's host takes to answer; 0 where that is not known."""

    def hold_back(self, receive_bytes: int | None) -> None:
        """So much may be on its way to each connection and not read yet; None: as the system likes. For new connections."""


class BulkTarget(Protocol):
    """The end that is written. Safe to share between threads. What is written twice is the same as once."""

    uri: str

    def list(self) -> Iterator[Found]:
        """Every object below the folder. Raises Transient or Refused."""

    def is_copy(self, key: str, origin: Found) -> bool:
        """Whether the object that stands there was written as a copy of that version. Raises Transient or Refused."""

    def put(self, origin: Found, body: bytes, traits: Mapping[str, str], pace: Pace) -> str:
        """Write a whole object; returns its ETag. It is there whole or not at all, and the store has checked it."""

    def put_folder(self, key: str) -> None:
        """Write the empty object `key/` that stands for a folder, as the store has such."""

    def delete(self, key: str) -> None:
        """Remove one object if it is there."""

    def remove_folders(self) -> None:
        """Remove the folders that are left when all objects are gone, where a store has such."""

    def uploads(self) -> Iterator[Upload]:
        """All unfinished uploads below the folder, oldest first."""

    def begin(self, origin: Found, traits: Mapping[str, str]) -> Upload:
        """Begin an object by parts."""

    def parts(self, upload: Upload) -> Sequence[Part]:
        """The parts of it that are there, without their offsets. Raises UploadLost."""

    def put_part(self, upload: Upload, part: Part, body: bytes, pace: Pace) -> Part:
        """Write one part; returns it with its ETag. Raises UploadLost."""

    def finish(self, upload: Upload, origin: Found, parts: Sequence[Part]) -> str:
        """Make the object of its parts; returns its ETag. Raises UploadLost."""

    def abort(self, upload: Upload) -> None:
        """Forget an upload and its parts; one that is gone is success."""

    def copies_from(self, source: BulkSource) -> bool:
        """Whether the store may copy from there by itself, without our sending the bytes."""

    def copy(self, source: Any, origin: Found) -> str:
        """Copy a whole object inside the store; returns its ETag. Raises CannotCopy, and what `open` and `put` raise."""

    def copy_part(self, source: Any, origin: Found, upload: Upload, part: Part) -> Part:
        """Copy one part inside the store. Raises CannotCopy, and what `open` and `put_part` raise."""

    marker: "Beside"
    """`<folder>.json`, which says that the copy is complete."""
    note: "Beside"
    """What the worker wrote down for its next start, where no program looks for objects."""

    def tidy(self) -> None:
        """Remove what stands in the folder of ours that is no object, uploads apart."""


class BulkStore(BulkSource, BulkTarget, Protocol):
    """Either end."""

    def close(self) -> None:
        """Close what is kept open."""


class Beside(Protocol):
    """A small object that is none of the folder's."""

    def read(self) -> bytes | None:
        """Its bytes; None where it is not there. Raises Transient or Refused."""

    def write(self, body: bytes) -> None:
        """Write it, whole or not at all."""

    def delete(self) -> None:
        """Remove it if it is there."""
