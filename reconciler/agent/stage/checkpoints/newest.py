"""The newest complete checkpoint below a prefix of a store.

Decides nothing of its own: layouts.py says what is complete, names.py what is newer. Small files are read, newest first, until
one is complete; large ones are not.
"""

from collections.abc import Collection

from reconciler.agent.stage.checkpoints.layouts import Checkpoint, Read, candidates, lacks
from reconciler.ports import ObjectStore


def newest_complete(store: ObjectStore, prefix: str, passed_over: Collection[str] = ()) -> Checkpoint | None:
    """The newest complete checkpoint below a prefix, but for those named. Raises Transient or Refused."""
    below = as_folder(prefix)
    read = reading(store, below)
    there = sorted(candidates(store.list(below), below), key=lambda one: one.age, reverse=True)
    return next((one for one in there if one.name not in passed_over and lacks(one, read) is None), None)


def complete_ones(store: ObjectStore, prefix: str) -> list[Checkpoint]:
    """All complete checkpoints below a prefix, the newest first. Raises Transient or Refused."""
    below = as_folder(prefix)
    read = reading(store, below)
    there = [one for one in candidates(store.list(below), below) if lacks(one, read) is None]
    return sorted(there, key=lambda one: one.age, reverse=True)


def reading(store: ObjectStore, below: str) -> Read:
    """Reads objects by their name below a prefix."""

    def read(name: str) -> bytes | None:
        stored = store.get(f"{below}{name}")
        return stored.body if stored is not None else None

    return read


def as_folder(prefix: str) -> str:
    """The prefix of a folder's own keys: `a/b` must not find what is below `a/b-2`."""
    return prefix if not prefix or prefix.endswith("/") else f"{prefix}/"
