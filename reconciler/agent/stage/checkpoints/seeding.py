"""Seeds an attempt's checkpoint folder with the newest complete checkpoint of the attempts before it.

Decides in what order its objects are copied, and passes over what turns out to be cut short on the way. What is complete is for
layouts.py; where the stores are is for the caller.

Invariants: nothing in the source is ever changed or deleted. Markers are copied last and only after everything else stands in the
target, so a half-written checkpoint is complete nowhere; a copy that was stopped at any instant goes on with what is missing; a
newer checkpoint of the target's own is never touched. Of one that is passed over, what was copied of it is taken back, for
programs take the newest folder by its name.

Limits: objects are read whole, so the largest must fit into memory; an object of the same name and size in the target counts as
copied; files beside the folders (such as DeepSpeed's `latest`) are not copied, since they may name an incomplete one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from reconciler.agent.stage.checkpoints.layouts import MARKED, MARKERS, Checkpoint
from reconciler.agent.stage.checkpoints.newest import as_folder, complete_ones, newest_complete
from reconciler.agent.stage.checkpoints.wholeness import damage
from reconciler.ports import Conflict, ObjectStore, Transient

_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class Seeded:
    """What stands in the target now. `checkpoint`: its newest complete one (None: there is none, so the program begins anew)."""

    checkpoint: str | None
    copied_objects: int = 0
    copied_bytes: int = 0
    passed_over: Mapping[str, str] = field(default_factory=dict)
    """Newer checkpoints that looked complete and are not → what shows it."""


@dataclass(frozen=True, slots=True)
class _Cut:
    """An object of the checkpoint that is not whole."""

    what: str


@dataclass(frozen=True, slots=True)
class _Way:
    """From where to where; the prefixes end in `/`, or are empty."""

    source: ObjectStore
    above: str
    target: ObjectStore
    below: str


def seed(source: ObjectStore, source_prefix: str, target: ObjectStore, target_prefix: str) -> Seeded:
    """Copy the newest complete checkpoint below `source_prefix` to `target_prefix`, unless as new a one stands there.

    May be stopped and repeated at any time, and by several at once. Raises Transient or Refused.
    """
    way = _Way(source, as_folder(source_prefix), target, as_folder(target_prefix))
    passed_over: dict[str, str] = {}
    tries = 0
    while tries < _TRIES:
        newest = newest_complete(source, way.above, passed_over)
        if newest is None or not is_missing(newest, target, way.below):
            there = newest_complete(target, way.below)
            return Seeded(there.name if there else None, passed_over=passed_over)
        found = _copy(newest, way)
        if isinstance(found, Seeded):
            return replace(found, passed_over=passed_over)
        if isinstance(found, _Cut):
            passed_over[newest.name] = found.what
            _take_back(newest, way)
        else:
            tries += 1
    raise Transient(f"the checkpoints below {source_prefix!r} keep changing while they are copied; stop who writes there")


def is_missing(newest: Checkpoint, target: ObjectStore, target_prefix: str) -> bool:
    """Whether the target has neither this checkpoint, up to its last marker, nor a newer one. Raises Transient or Refused."""
    last = _last_marker(newest)
    return not any(
        one.age > newest.age or (one.name == newest.name and _last_marker(one) >= last)
        for one in complete_ones(target, target_prefix)
    )


def _last_marker(checkpoint: Checkpoint) -> int:
    markers = checkpoint.markers
    return MARKERS.index(markers[-1].rpartition("/")[2]) if markers else -1


def _copy(checkpoint: Checkpoint, way: _Way) -> Seeded | _Cut | None:
    """Copy what the target lacks; None where the source changed meanwhile, so that the choice must be made again.

    The target is listed anew before each marker: all that comes before it must stand there.
    """
    sizes, copied = checkpoint.objects, list[str]()
    before: list[str] = []
    for names in (sorted(sizes.keys() - set(checkpoint.markers)), *([marker] for marker in checkpoint.markers)):
        there = _sizes(way, checkpoint.name)
        if any(there.get(name) != sizes[name] for name in before):
            return None
        for name in [name for name in names if there.get(name) != sizes[name]]:
            stored = way.source.get(f"{way.above}{name}")
            if stored is None or len(stored.body) != sizes[name]:
                return None
            cut = None if checkpoint.has(MARKED) else damage(name, stored.body)
            if cut is not None:
                return _Cut(f"{name}: {cut}")
            _put(way.target, f"{way.below}{name}", stored.body)
            copied.append(name)
        before += names
    return Seeded(checkpoint.name, len(copied), sum(sizes[name] for name in copied))


def _sizes(way: _Way, name: str) -> dict[str, int]:
    """Sizes of the target's objects that have the checkpoint's names."""
    return {item.key.removeprefix(way.below): item.size for item in way.target.list(f"{way.below}{name}")}


def _take_back(checkpoint: Checkpoint, way: _Way) -> None:
    """Delete our own unfinished copy; nothing, where the target has a complete one of that name."""
    if any(one.name == checkpoint.name for one in complete_ones(way.target, way.below)):
        return
    there = _sizes(way, checkpoint.name)
    others = sorted(checkpoint.objects.keys() - set(checkpoint.markers))
    for name in (*reversed(checkpoint.markers), *others):
        if there.get(name) == checkpoint.objects[name]:
            way.target.delete(f"{way.below}{name}")


def _put(target: ObjectStore, key: str, body: bytes) -> None:
    try:
        target.put(key, body, expect=target.etag(key))
    except Conflict:
        stored = target.get(key)  # another worker copies the same
        if stored is None or stored.body != body:
            raise Transient(f"{key} is being written by somebody else") from None
