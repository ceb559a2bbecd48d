"""Which checkpoints may go. The reconciler deletes none by itself: somebody must run `stage prune`.

Decides what is older than the newest so many complete ones. Invariants: the newest complete one never goes, nor anything that is
newer, complete or not, nor anything incomplete: somebody may be writing it. One counts as complete only after all its files were
looked at and are whole, so that one cut short never stands for a good one. Markers go first: what is half deleted is complete
nowhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from reconciler.agent.stage.checkpoints.layouts import MARKED, Checkpoint
from reconciler.agent.stage.checkpoints.newest import complete_ones, part
from reconciler.agent.stage.checkpoints.wholeness import damage
from reconciler.bulk_port import BulkStore, Changed, changed
from reconciler.ports import Transient


@dataclass(frozen=True, slots=True)
class Pruned:
    """What was kept and what has gone, the newest first."""

    kept: tuple[str, ...]
    damaged: dict[str, str]
    """Checkpoints that look complete and are not → what shows it. They were left."""
    removed: tuple[str, ...]
    removed_bytes: int


def removable(complete: Sequence[Checkpoint], keep: int) -> tuple[Checkpoint, ...]:
    """Those of the complete checkpoints that are older than the `keep` newest. Raises ValueError where `keep` is below 1."""
    if keep < 1:
        raise ValueError("the newest complete checkpoint is always kept; keep 1 or more")
    return tuple(sorted(complete, key=lambda one: one.age, reverse=True)[keep:])


def prune(store: BulkStore, keep: int) -> Pruned:
    """Delete complete checkpoints in a folder, but for the `keep` newest (at least 1). Raises Transient or Refused.

    Looks at the files of those that are kept, at their heads and ends. May be stopped and repeated at any time.
    """
    try:
        return _pruned(store, keep)
    except Changed:
        raise Transient(
            f"the checkpoints at {store.uri} change while they are looked at; nothing was removed, do it again"
        ) from None


def _pruned(store: BulkStore, keep: int) -> Pruned:
    whole: list[Checkpoint] = []
    damaged: dict[str, str] = {}
    rest = list(complete_ones(store))
    while rest and len(whole) < keep:
        one = rest.pop(0)
        cut = _cut(store, one)
        if cut is None:
            whole.append(one)
        else:
            damaged[one.name] = cut
    going = removable([*whole, *rest], keep)
    if going:
        _check_unchanged(store, whole)
    for one in going:
        _delete(store, one)
    return Pruned(tuple(one.name for one in whole), damaged, tuple(one.name for one in going), sum(one.size for one in going))


def _cut(store: BulkStore, one: Checkpoint) -> str | None:
    for name, found in [] if one.has(MARKED) else sorted(one.objects.items()):
        try:
            cut = damage(name, found.size, partial(part, store, found))
        except Changed:
            cut = "it changed meanwhile"
        if cut is not None:
            return f"{name}: {cut}"
    return None


def _check_unchanged(store: BulkStore, kept: Sequence[Checkpoint]) -> None:
    """Before others go: most of their objects were not read, so that nothing has told yet that they are still there."""
    there = {found.key: found for found in store.list()}
    for one in kept:
        for name, found in one.objects.items():
            if there.get(name) != found:
                raise changed(store.uri, name)


def _delete(store: BulkStore, one: Checkpoint) -> None:
    for name in (*reversed(one.markers), *sorted(one.objects.keys() - set(one.markers))):
        store.delete(name)
