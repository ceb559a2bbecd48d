"""Which staged copies stand in a region's store, and how much of each is there: what the agent reports of them.

One listing of all of them, whatever their number; how often is for the caller. Stores list in order of key, so one copy after the
other is judged: what is held at a time is one copy's keys, and of a very large one only their number and bytes. Invariant: only a
copy whose listing is its marker's, keys and sizes, is reported with as many objects as its marker names; of one with more than
COMPARED objects number and bytes must do.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Final

from reconciler.agent.stage.transfer.listing import is_folder
from reconciler.agent.stage.transfer.presence import judged
from reconciler.model.report import CacheReport
from reconciler.model.staged import MARKER_SUFFIX, NOTE_SUFFIX, STAGED, StagedCopy, read_marker
from reconciler.ports import Listed, ObjectStore, Refused

COMPARED: Final = 200_000
"""Objects of one copy whose keys are compared with the marker's: some 60 MB while it is judged."""


def copies(store: ObjectStore, url: str, look: Callable[[], None] = lambda: None) -> tuple[CacheReport, ...]:
    """What is staged in the region's store, which is at `url`; in order of subject. Raises Transient or Refused.

    `look` is called for each object, and ends the listing by what it raises.
    """
    marked: set[str] = set()
    found: dict[str, CacheReport] = {}
    for (subject, is_inside), lines in groupby(_looked_at(store.list(STAGED), look), _place_of):
        if not is_inside and subject.endswith(MARKER_SUFFIX):
            marked.add(subject.removesuffix(MARKER_SUFFIX))
        elif is_inside and not subject.endswith(NOTE_SUFFIX):
            if subject in found:
                raise Refused(f"{url}: the store does not list in order of key, as S3 does; use one that does")
            found[subject] = _reported(store, url, subject, lines)
    found |= {subject: _reported(store, url, subject, ()) for subject in marked - found.keys()}
    return tuple(cache for _, cache in sorted(found.items()))


def _looked_at(lines: Iterable[Listed], look: Callable[[], None]) -> Iterator[Listed]:
    for line in lines:
        look()
        yield line


def _place_of(line: Listed) -> tuple[str, bool]:
    """The first part of its name below the root, and whether there is more."""
    first, slash, _ = line.key.removeprefix(STAGED).partition("/")
    return first, bool(slash)


def _reported(store: ObjectStore, url: str, subject: str, lines: Iterable[Listed]) -> CacheReport:
    """As many objects and bytes as its marker names, but others: then nobody knows what of it is right, and none is reported."""
    below, objects, size_bytes = f"{STAGED}{subject}/", 0, 0
    sizes: list[tuple[str, int]] = []
    for line in lines:
        key = line.key.removeprefix(below)
        if not is_folder(key, line.size):
            objects, size_bytes = objects + 1, size_bytes + line.size
            if objects <= COMPARED:
                sizes.append((key, line.size))
    marker = _marker(store, subject)
    total = (0, 0) if marker is None else (marker.objects, marker.size_bytes)
    if (objects, size_bytes) == total and objects <= COMPARED and not judged(marker, sizes).is_complete:
        objects, size_bytes = 0, 0
    return CacheReport(
        subject=subject,
        uri=f"{url.rstrip('/')}/{below}",
        objects=objects,
        objects_total=total[0],
        size_bytes=size_bytes,
        size_bytes_total=total[1],
    )


def _marker(store: ObjectStore, subject: str) -> StagedCopy | None:
    stored = store.get(f"{STAGED}{subject}{MARKER_SUFFIX}")
    return None if stored is None else read_marker(stored.body)
