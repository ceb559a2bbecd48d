"""Removing a staged copy: its marker first, so that nobody takes for complete what is being removed; then all that is there.

Restartable at any instant: what is left is found by listing. Invariant: nothing is removed of a folder that nothing shows to be a
copy of ours: a marker or a note of ours beside it, or its place below `staged/`, where tasks put them.
"""

from contextlib import closing
from functools import partial

from reconciler.agent.stage.transfer.work import Options, Work, work_of
from reconciler.bulk_port import BulkSource, BulkTarget
from reconciler.model.staged import STAGED, read_marker
from reconciler.ports import Clock, Refused


def evict(source: BulkSource, target: BulkTarget, options: Options, clock: Clock) -> tuple[int, int]:
    """Remove a copy; returns its objects and bytes. `source` is the same folder, read. Raises Transient or Refused."""
    work = work_of((source, target), options, lambda: None, clock, copies=False)
    with closing(work.flight):
        _check_it_is_ours(work)
        work.ask(target.marker.delete)
        found = work.ask(lambda: list(target.list()))
        for one in found:
            work.flight.launch(0, partial(_delete, work, one.key))
        work.flight.land()
        for upload in work.ask(lambda: list(target.uploads())):
            work.ask(partial(target.abort, upload))
        work.ask(target.note.delete)
        work.ask(target.tidy)
        work.ask(target.remove_folders)
    return len(found), sum(one.size for one in found)


def _check_it_is_ours(work: Work) -> None:
    target = work.target
    marker = work.ask(target.marker.read)
    is_marked = marker is not None and read_marker(marker) is not None
    if is_marked or f"/{STAGED}" in target.uri or work.ask(target.note.read) is not None:
        return
    if marker is None and next(iter(work.ask(lambda: list(target.list()))), None) is None:
        return
    raise Refused(
        f"{target.uri} is no staged copy: nothing of ours beside it says so, and it is not in a region's {STAGED}; "
        "check the address, or remove it with your store's own tools"
    )


def _delete(work: Work, key: str) -> None:
    work.ask(lambda: work.target.delete(key))
