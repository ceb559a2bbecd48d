"""The newest complete checkpoint in a folder of a store.

Decides nothing of its own: layouts.py says what is complete, names.py what is newer. Small files are read, newest first, until
one is complete; large ones are not. Invariant: what is read is of the version that was listed, else `Changed` is raised.
"""

from collections.abc import Collection, Iterator
from functools import partial

from reconciler.agent.stage.checkpoints.layouts import Checkpoint, candidates, lacks
from reconciler.bulk_port import BulkSource, Found
from reconciler.ports import Transient


def newest_complete(store: BulkSource, passed_over: Collection[str] = ()) -> Checkpoint | None:
    """The newest complete checkpoint in a folder, but for those named. Raises Transient, Refused and Changed."""
    return next(complete_ones(store, passed_over), None)


def complete_ones(store: BulkSource, passed_over: Collection[str] = ()) -> Iterator[Checkpoint]:
    """The complete checkpoints in a folder but for those named, the newest first. Raises Transient, Refused and Changed."""
    for one in sorted(candidates(store.list()), key=lambda one: one.age, reverse=True):
        if one.name not in passed_over and lacks(one, partial(_read, store, one)) is None:
            yield one


def part(store: BulkSource, found: Found, offset: int, size: int) -> bytes:
    """Some bytes of an object. Raises Transient, Refused and Changed."""
    body = bytearray()
    if size > 0:
        with store.open(found, offset, size) as stream:
            while len(body) < size:
                block = stream.read(size - len(body))
                if not block:
                    raise Transient(f"{store.uri}{found.key}: the connection ended before the object did")
                body.extend(block)
    return bytes(body)


def _read(store: BulkSource, checkpoint: Checkpoint, name: str) -> bytes | None:
    found = checkpoint.objects.get(name)
    return None if found is None else part(store, found, 0, found.size)
