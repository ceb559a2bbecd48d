"""Warm a region's mirror for an image: have it fetch manifest and blobs before any node asks, and throw the bytes away.

Decides the order, what is tried again, and when it is done: every blob was read to its end through the mirror, with the right
bytes, or the mirror showed that it has it already, so that a start after a kill goes on where the last one was. Whether the
mirror keeps what it gave is asked at the end; not every mirror says.

Limit: the rate holds what is read here. A mirror may fetch quicker from upstream, and some (distribution in proxy mode) fetch
each blob a second time for their own storage, beside what is read.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from reconciler.model.image_ref import ImageRef
from reconciler.model.progress import Progress
from reconciler.ports import Refused, Transient
from reconciler.registry_port import PLATFORM, Blob, Denied, Registry, Resolved, Took

Pause = Callable[[float], object]
"""Waits for so many seconds."""
AGAIN_SECONDS: Final = (1.0, 5.0, 15.0)
"""Waits after tries of one blob that broke off."""
KEEPS_SECONDS: Final = (0.2, 0.5, 1.0, 3.0, 5.0)
"""Waits for a mirror to have stored what it gave."""
TELL_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Line:
    """What a transfer goes by: how it is held back, who is told, and the clock. `took` and `tell` may be called often."""

    took: Took
    tell: Callable[[Progress], None]
    monotonic: Callable[[], float]
    pause: Pause


@dataclass(frozen=True, slots=True)
class Warmed:
    """What was done. Sizes in bytes."""

    digest: str
    blobs: int
    size: int
    read_blobs: int
    read_size: int
    kept: bool | None
    """Whether the mirror now says of every blob that it has it; None: it does not say."""


@dataclass(slots=True)
class _Count:
    """How far it has come. Thrown away at the end."""

    line: Line
    total: tuple[int, int]
    done: int = 0
    done_bytes: int = 0
    part: int = 0
    """Of the blob that is being read."""
    sent: int = 0
    told_at: float = 0.0
    told_sent: int = 0
    read: list[Blob] = field(default_factory=list)

    def took(self, size: int) -> None:
        self.part += size
        self.sent += size
        self.line.took(size)
        if self.line.monotonic() - self.told_at >= TELL_SECONDS:
            self.tell()

    def tell(self) -> None:
        now = self.line.monotonic()
        passed = now - self.told_at
        progress = Progress(
            objects_done=self.done,
            objects_total=self.total[0],
            bytes_done=self.done_bytes + self.part,
            bytes_total=self.total[1],
            bytes_sent=self.sent,
            bytes_per_second=(self.sent - self.told_sent) / passed if passed > 0 else 0.0,
        )
        self.told_at, self.told_sent = now, self.sent
        self.line.tell(progress)


def warm(registry: Registry, image: ImageRef, line: Line, platform: str = PLATFORM) -> Warmed:
    """Make the mirror that `image` is named through fetch it. Raises Refused where it cannot, Transient where it breaks off."""
    resolved = _resolved(registry, image, platform)
    count = _Count(line, (len(resolved.blobs), sum(blob.size for blob in resolved.blobs)), told_at=line.monotonic())
    count.tell()
    for blob in resolved.blobs:
        if _read(registry, image, blob, count):
            count.read.append(blob)
        count.done += 1
        count.done_bytes += blob.size
        count.part = 0
    count.tell()
    kept = _kept(registry, image, resolved.blobs, line.pause)
    read_size = sum(blob.size for blob in count.read)
    return Warmed(resolved.digest, *count.total, len(count.read), read_size, kept)


def _resolved(registry: Registry, image: ImageRef, platform: str) -> Resolved:
    found = registry.resolve(image, platform)
    if isinstance(found, Denied):
        raise Refused(f"{found.words}; check the image's name, and the mirror's settings and login for it")
    if not found.blobs:
        raise Refused(f"{image} is not there for {platform}; it is for {', '.join(found.platforms) or 'no platform'}")
    return found


def _read(registry: Registry, image: ImageRef, blob: Blob, count: _Count) -> bool:
    """One blob, tried again where it breaks off."""
    for wait in AGAIN_SECONDS:
        try:
            return registry.read(image, blob, count.took)
        except Transient:
            count.part = 0
            count.line.pause(wait)
    return registry.read(image, blob, count.took)


def _kept(registry: Registry, image: ImageRef, blobs: Sequence[Blob], pause: Pause) -> bool | None:
    """Whether the mirror says that it has all of them; None where it never says so of any."""
    waits = list(KEEPS_SECONDS)
    said = False
    for blob in blobs:
        while not registry.keeps(image, blob):
            if not waits:
                return False if said else None
            pause(waits.pop(0))
        said = True
    return True
