"""What a worker that was killed has left: unfinished uploads, and the note that says of which version they are.

An upload does not say of what it is a part, so a worker writes down the source's version before it begins the first. Uploads are
kept where that is still the version, and cut into the same parts; else they are aborted. Where nothing is large enough for an
upload, nothing is written down, and uploads are not asked for: that takes rights of its own in a store. Invariant: no part of
another version ever becomes part of an object.
"""

import json
from collections.abc import Iterator
from functools import partial

from reconciler.agent.stage.transfer.listing import Listing, versions_digest
from reconciler.agent.stage.transfer.work import Work
from reconciler.bulk_port import Upload


def begun(work: Work, pinned: Listing) -> dict[str, Upload]:
    """Unfinished uploads that can be gone on with, by key; the others of ours are aborted, and the note is written."""
    note = json.dumps({"source": work.source.uri, "version": versions_digest(pinned), "part_bytes": work.part_bytes}).encode()
    before = work.ask(work.target.note.read)
    if not _may_be_any(work, pinned, before):
        return {}
    is_same = before == note
    kept: dict[str, Upload] = {}
    for upload in _ours(work, pinned):
        origin = pinned.objects.get(upload.key)
        if is_same and origin is not None and origin.size > work.part_bytes and upload.key not in kept:
            kept[upload.key] = upload
        else:
            work.ask(partial(work.target.abort, upload))
    if not is_same:
        work.ask(partial(work.target.note.write, note))
    return kept


def remove(work: Work, pinned: Listing) -> None:
    """Abort what is unfinished, for nothing is missing any more, and remove the note."""
    if _may_be_any(work, pinned, work.ask(work.target.note.read)):
        for upload in _ours(work, pinned):
            work.ask(partial(work.target.abort, upload))
        work.ask(work.target.note.delete)
    work.ask(work.target.tidy)


def _may_be_any(work: Work, pinned: Listing, note: bytes | None) -> bool:
    return work.options.marker or note is not None or any(one.size > work.part_bytes for one in pinned.objects.values())


def _ours(work: Work, pinned: Listing) -> Iterator[Upload]:
    """All below a copy that is ours alone; else only those of the source's keys."""
    for upload in work.ask(lambda: list(work.target.uploads())):
        if work.options.marker or upload.key in pinned.objects:
            yield upload
