"""Transfers to and from the regions' stores, timed, and what the kernel says of the very connection they were made over.

Decides how one transfer is made, what its rate is, and by whose credentials. When, how large, and what it means for a link is for
the agent. Invariant: no call outlasts its seconds by much, and none leaves a connection or an object of its own behind.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from urllib.parse import unquote, urlsplit

from reconciler.adapters.link_probe import folder
from reconciler.adapters.link_probe.buckets import Bucket, opened
from reconciler.adapters.link_probe.connection import received, sent
from reconciler.adapters.link_probe.pace import BLOCK
from reconciler.model.region import StoreAddress
from reconciler.ports import Refused, Transient
from reconciler.probe_port import Transferred

FOLDER = ".gpu-reconciler/probe"
"""Below a region's store: `read`, which others read, and while it is written `from-<region>`."""
READ = f"{FOLDER}/read"
_KEEP_SECONDS = 120.0


class Links:
    """The `LinkStores` protocol. `region`: our own, whose name stands in what it writes. For one thread."""

    def __init__(self, region: str, environment: Mapping[str, str], monotonic: Callable[[], float]) -> None:
        self._written = f"{FOLDER}/from-{region}"
        self._environment = environment
        self._monotonic = monotonic
        self._buckets: dict[tuple[str, StoreAddress], Bucket] = {}
        self._block = Random(region).randbytes(BLOCK)  # noqa: S311 - bytes that nothing on the way can make fewer

    def keep(self, region: str, address: StoreAddress, size: int) -> None:
        """See to it that `size` bytes stand in that store for others to read. Raises Transient or Refused."""
        if (place := _folder(address)) is not None:
            folder.keep(place / READ, self._block, size)
            return
        bucket = self._bucket(region, address)
        if bucket.size_of(READ) != size:
            found = sent(bucket.asking(READ, "put_object"), self._block, size, _KEEP_SECONDS, self._monotonic)
            if found.moved_bytes < size:
                raise Transient(f"{READ} could not be written to the store of {region} in {_KEEP_SECONDS:.0f} s")

    def read(self, region: str, address: StoreAddress, size: int, most_seconds: float) -> Transferred:
        """Bring `size` bytes from there. Raises Transient or Refused."""
        if (place := _folder(address)) is not None:
            return folder.read(place / READ, size, most_seconds, self._monotonic)
        bucket = self._bucket(region, address)
        return received(bucket.asking(READ, "get_object"), size, most_seconds, self._monotonic)

    def write(self, region: str, address: StoreAddress, size: int, most_seconds: float) -> Transferred:
        """Bring `size` bytes there, and remove them again. Raises Transient or Refused."""
        if (place := _folder(address)) is not None:
            return folder.write(place / self._written, self._block, size, most_seconds, self._monotonic)
        bucket = self._bucket(region, address)
        found = sent(bucket.asking(self._written, "put_object"), self._block, size, most_seconds, self._monotonic)
        if found.moved_bytes == size:  # else the store has made no object of it
            bucket.remove(self._written)
        return found

    def _bucket(self, region: str, address: StoreAddress) -> Bucket:
        if (region, address) not in self._buckets:
            self._buckets[region, address] = opened(region, address, self._environment)
        return self._buckets[region, address]


def _folder(address: StoreAddress) -> Path | None:
    """The folder that a store is; None for a bucket. Raises Refused for what is neither."""
    parts = urlsplit(address.url)
    if parts.scheme not in ("file", "s3"):
        raise Refused(f"{address.url}: links are measured to stores that are file:///folder or s3://bucket/prefix")
    return Path(unquote(parts.path)) if parts.scheme == "file" else None
