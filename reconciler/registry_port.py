"""What hub and staging worker ask of an image registry, as a protocol: what a name stands for, what a mirror has, its bytes.

Adapters raise the errors of ports.py only: Transient where the registry did not answer (down, overloaded, too many requests),
Refused where what answers is no registry, or asks for what cannot be given. That an image is not there, or not for us, is an
answer, never an error: a registry that is down says nothing of its images.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from reconciler.model.image_ref import ImageRef

PLATFORM = "linux/amd64"
"""Of which an image is looked at where nothing else is said: operating system and architecture."""


@dataclass(frozen=True, slots=True)
class Blob:
    """A part of an image. `size` in bytes, compressed, as it goes over a line."""

    digest: str
    size: int


@dataclass(frozen=True, slots=True)
class Resolved:
    """What an image's name stands for at present."""

    digest: str
    """Of what the name itself names: for an image of several platforms, of their index. The same on every platform."""
    blobs: tuple[Blob, ...]
    """Configuration and layers of the platform that was asked for, each once; of a platform that it has not: none."""
    manifests: tuple[str, ...] = ()
    """Digests below the index that were read for it."""
    platforms: tuple[str, ...] = ()
    """Those of the index; empty for an image of one platform."""

    @property
    def size_bytes(self) -> int | None:
        """What a node that has nothing of it fetches; None where the platform is not there."""
        return sum(blob.size for blob in self.blobs) if self.blobs else None


class Denial(Enum):
    """Why an image cannot be had."""

    MISSING = "missing"
    FORBIDDEN = "forbidden"


@dataclass(frozen=True, slots=True)
class Denied:
    """The registry answered, and has no such image for us."""

    denial: Denial
    words: str
    certain: bool
    """False: somebody with other credentials may get another answer, for the registry was asked without any."""


@dataclass(frozen=True, slots=True)
class Presence:
    """What of an image a registry has in its own storage."""

    there: frozenset[str]
    """Digests of blobs."""
    absent: frozenset[str]
    unknown: frozenset[str]
    """It does not say without fetching them."""


Took = Callable[[int], None]
"""Told of bytes as they arrive; may wait, which holds the transfer back."""


class Registry(Protocol):
    """Registries by the OCI distribution API. An image is asked for at the registry that its reference names."""

    def resolve(self, image: ImageRef, platform: str = PLATFORM, known: Resolved | None = None) -> Resolved | Denied:
        """What the name stands for. `known`: an earlier answer, given back where it holds, for one small request."""

    def present(self, image: ImageRef, blobs: Sequence[Blob]) -> Presence:
        """Which blobs the registry has itself, as far as it can be asked without making it fetch them."""

    def read(self, image: ImageRef, blob: Blob, took: Took) -> bool:
        """Have the registry give a blob, and check its bytes; they are thrown away. False: it had the blob in its own storage,
        and nothing was read. Raises Transient where it breaks off, Refused where the bytes are not those of the digest."""

    def keeps(self, image: ImageRef, blob: Blob) -> bool:
        """Whether the registry says that it has the blob in its own storage; False where it does not say."""


def bytes_of(blobs: Iterator[Blob] | Sequence[Blob], digests: frozenset[str]) -> int:
    """Bytes of those blobs that are among `digests`."""
    return sum(blob.size for blob in blobs if blob.digest in digests)
