"""Removing a staged copy: its marker first, so that nobody takes for complete what is being removed; then all that is there.

Restartable at any instant: what is left is found by listing.
"""

from contextlib import closing
from functools import partial

from reconciler.agent.stage.transfer.work import Options, Work, work_of
from reconciler.bulk_port import BulkSource, BulkTarget
from reconciler.ports import Clock


def evict(source: BulkSource, target: BulkTarget, options: Options, clock: Clock) -> tuple[int, int]:
    """Remove a copy; returns its objects and bytes. `source` is the same folder, read. Raises Transient or Refused."""
    work = work_of((source, target), options, lambda: None, clock, copies=False)
    with closing(work.flight):
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


def _delete(work: Work, key: str) -> None:
    work.ask(lambda: work.target.delete(key))
