"""Which checkpoints may go. The reconciler deletes none by itself: somebody must run `stage prune`.

Decides what is older than the newest so many complete ones. Invariants: the newest complete one never goes, nor anything that is
newer, complete or not, nor anything incomplete: somebody may be writing it. One counts as complete only after all of it was read
and is whole, so that one cut short never stands for a good one. Markers go first: what is half deleted is complete nowhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from reconciler.agent.stage.checkpoints.layouts import MARKED, Checkpoint
from reconciler.agent.stage.checkpoints.newest import as_folder, complete_ones
from reconciler.agent.stage.checkpoints.wholeness import damage
from reconciler.ports import ObjectStore


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


def prune(store: ObjectStore, prefix: str, keep: int) -> Pruned:
    """Delete complete checkpoints below a prefix, but for the `keep` newest (at least 1). Raises Transient or Refused.

    Reads those that are kept, object by object. May be stopped and repeated at any time.
    """
    below = as_folder(prefix)
    whole: list[Checkpoint] = []
    damaged: dict[str, str] = {}
    rest = complete_ones(store, below)
    while rest and len(whole) < keep:
        one = rest.pop(0)
        cut = _cut(store, below, one)
        if cut is None:
            whole.append(one)
        else:
            damaged[one.name] = cut
    going = removable([*whole, *rest], keep)
    for one in going:
        _delete(store, below, one)
    return Pruned(tuple(one.name for one in whole), damaged, tuple(one.name for one in going), sum(one.size for one in going))


def _cut(store: ObjectStore, below: str, one: Checkpoint) -> str | None:
    for name, size in sorted(one.objects.items()):
        stored = store.get(f"{below}{name}")
        if stored is None or len(stored.body) != size:
            return f"{name}: it changed meanwhile"
        cut = None if one.has(MARKED) else damage(name, stored.body)
        if cut is not None:
            return f"{name}: {cut}"
    return None


def _delete(store: ObjectStore, below: str, one: Checkpoint) -> None:
    for name in (*reversed(one.markers), *sorted(one.objects.keys() - set(one.markers))):
        store.delete(f"{below}{name}")
