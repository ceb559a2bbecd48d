"""How much of a staged copy is there. Complete: its marker is, and the listing has what the marker says, keys and sizes.

Told from one listing of a region's store: a copy that lost objects since (a cache that evicts, a person who deletes) is no longer
complete, and by how much is told. Reads only.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from reconciler.agent.stage.transfer.listing import is_folder, sizes_digest
from reconciler.model.staged import MARKER_SUFFIX, StagedCopy, read_marker
from reconciler.ports import ObjectStore


@dataclass(frozen=True, slots=True)
class Presence:
    """What is there, of what the marker names. Without a marker nobody knows of how much it is a part: the totals are 0."""

    objects: int
    objects_total: int
    size_bytes: int
    size_bytes_total: int
    is_complete: bool
    marker: StagedCopy | None = None


def complete(store: ObjectStore, folder: str) -> Presence:
    """Look at the copy in `folder` (with or without its last `/`). Raises Transient or Refused."""
    name = folder.rstrip("/")
    stored = store.get(name + MARKER_SUFFIX)
    marker = None if stored is None else read_marker(stored.body)
    below = f"{name}/"
    sizes = [(one.key.removeprefix(below), one.size) for one in store.list(below)]
    return judged(marker, [(key, size) for key, size in sizes if not is_folder(key, size)])


def judged(marker: StagedCopy | None, sizes: Sequence[tuple[str, int]]) -> Presence:
    """The same of a listing that was taken: keys in the folder and sizes, without what stands for folders. Pure."""
    objects, size = len(sizes), sum(size for _, size in sizes)
    if marker is None:
        return Presence(objects, 0, size, 0, is_complete=False)
    same = (objects, size) == (marker.objects, marker.size_bytes) and sizes_digest(sizes) == marker.listing_digest
    return Presence(objects, marker.objects, size, marker.size_bytes, same, marker)
