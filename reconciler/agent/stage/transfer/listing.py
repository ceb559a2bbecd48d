"""What belongs to a staged folder: its objects, and the empty ones that some tools put in the place of folders. Pure.

Invariant: what is counted is what `dataset_listing.measure` counts, so that hub, agent and worker mean the same by complete.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reconciler.bulk_port import Found


@dataclass(frozen=True, slots=True)
class Listing:
    """Objects by key. `folders`: keys of empty objects that end in `/`; they are copied, and not counted. `size` in bytes."""

    objects: Mapping[str, Found]
    folders: tuple[str, ...]
    size: int

    def part(self, keys: Iterable[str]) -> "Listing":
        """Some of its objects; those that it does not have are left out."""
        objects = {key: self.objects[key] for key in keys if key in self.objects}
        return Listing(objects, (), sum(one.size for one in objects.values()))


def is_folder(key: str, size: int) -> bool:
    """Whether an object only stands for a folder."""
    return size == 0 and (key == "" or key.endswith("/"))


def listing_of(found: Iterable[Found]) -> Listing:
    """A listing as it came, in whatever order."""
    objects: dict[str, Found] = {}
    folders: list[str] = []
    for one in found:
        if is_folder(one.key, one.size):
            folders.append(one.key)
        else:
            objects[one.key] = one
    return Listing(objects, tuple(sorted(folders)), sum(one.size for one in objects.values()))


def sizes_digest(sizes: Iterable[tuple[str, int]]) -> str:
    """SHA-256 of keys and sizes: a copy has the same as its source."""
    return _digest(sizes)


def versions_digest(listing: Listing) -> str:
    """SHA-256 of keys, sizes and ETags: the same only for the same version of every object of the same store."""
    return _digest((one.key, one.size, one.etag) for one in listing.objects.values())


def _digest(lines: Iterable[tuple[object, ...]]) -> str:
    digest = hashlib.sha256()
    for line in sorted(json.dumps(line) for line in lines):
        digest.update(line.encode() + b"\n")
    return digest.hexdigest()
