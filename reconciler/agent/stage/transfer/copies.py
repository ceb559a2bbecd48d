"""Which staged copies stand in a region's store, and how much of each is there: what the agent reports of them.

One listing of all of them, whatever their number; how often is for the caller. Invariant: only a copy whose listing is its
marker's, keys and sizes, is reported with as many objects as its marker names.
"""

from collections import defaultdict
from typing import Final

from reconciler.agent.stage.transfer.listing import is_folder
from reconciler.agent.stage.transfer.presence import Presence, judged
from reconciler.model.report import CacheReport
from reconciler.model.staged import MARKER_SUFFIX, NOTE_SUFFIX, StagedCopy, read_marker
from reconciler.ports import ObjectStore

ROOT: Final = "staged/"
"""Below a region's store: `staged/<dataset>@<version>/…` and the markers beside them."""


def copies(store: ObjectStore, url: str) -> tuple[CacheReport, ...]:
    """What is staged in the region's store, which is at `url`; in order of subject. Raises Transient or Refused."""
    sizes: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    marked: set[str] = set()
    for one in store.list(ROOT):
        subject, slash, key = one.key.removeprefix(ROOT).partition("/")
        if not slash and subject.endswith(MARKER_SUFFIX):
            marked.add(subject.removesuffix(MARKER_SUFFIX))
        elif slash and not subject.endswith(NOTE_SUFFIX) and not is_folder(key, one.size):
            sizes[subject].append((key, one.size))
    markers = {subject: _marker(store, subject) for subject in marked}
    return tuple(
        _reported(subject, f"{url.rstrip('/')}/{ROOT}{subject}/", judged(markers.get(subject), sizes[subject]))
        for subject in sorted(marked | sizes.keys())
    )


def _marker(store: ObjectStore, subject: str) -> StagedCopy | None:
    stored = store.get(f"{ROOT}{subject}{MARKER_SUFFIX}")
    return None if stored is None else read_marker(stored.body)


def _reported(subject: str, uri: str, seen: Presence) -> CacheReport:
    """As many objects and bytes as its marker names, but others: then nobody knows what of it is right, and none is reported."""
    counts = seen.objects, seen.size_bytes
    if not seen.is_complete and counts == (seen.objects_total, seen.size_bytes_total):
        counts = 0, 0
    return CacheReport(
        subject=subject,
        uri=uri,
        objects=counts[0],
        objects_total=seen.objects_total,
        size_bytes=counts[1],
        size_bytes_total=seen.size_bytes_total,
    )
