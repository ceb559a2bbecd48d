"""Seeds an attempt's checkpoint folder with the newest complete checkpoint of the attempts before it.

Decides which checkpoint is brought, and passes over what is cut short before anything of it is copied. How objects are moved is
for the transfer: within one store the store copies by itself, else the bytes are streamed. What is complete is for layouts.py,
whether a file is whole for wholeness.py; where the stores are is for the caller.

Invariants: nothing in the source is ever changed or deleted. Markers are copied last and only after a fresh look has found
everything else in the target, so a half-written checkpoint is complete nowhere; a copy that was stopped at any instant goes on
with what is missing; a newer checkpoint of the target's own is never touched. Of one that is passed over, or given up for an
older one, what was copied of it is taken back, for programs take the newest folder by its name.

Limits: the small files that say what belongs together (`.metadata`, indexes, `trainer_state.json`) are read whole; files beside
the folders (such as DeepSpeed's `latest`) are not copied, since they may name an incomplete one.
"""

import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from reconciler.agent.stage.checkpoints.layouts import MARKED, MARKERS, Checkpoint
from reconciler.agent.stage.checkpoints.newest import complete_ones, newest_complete, part
from reconciler.agent.stage.checkpoints.wholeness import damage
from reconciler.agent.stage.transfer.patience import Patience
from reconciler.agent.stage.transfer.rounds import transfer
from reconciler.agent.stage.transfer.work import Options, Work, work_of
from reconciler.bulk_port import BulkSource, BulkStore, Changed, Found
from reconciler.model.progress import Progress
from reconciler.ports import Clock, Transient

SEEDING: Final = Options(in_flight_bytes=32 * 1024**2, marker=False, checksums=False)
"""The step runs with the program's own memory limit, which for a program that lives in its GPU's memory may be small. A piece is
held twice while it is read, so this takes 64 MiB beside the interpreter's 100; and four parts at once are enough for a link, for
the many small files of a checkpoint count by their sizes. Its store need not give checksums as ETags."""
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
class _Way:
    """From where to where, and what was tried on it."""

    source: BulkSource
    target: BulkStore
    options: Options
    clock: Clock
    say: Callable[[Progress], None]
    ask: Patience
    passed_over: dict[str, str] = field(default_factory=dict)
    begun: list[Checkpoint] = field(default_factory=list)


def seed(
    source: BulkSource, target: BulkStore, clock: Clock, say: Callable[[Progress], None], options: Options = SEEDING
) -> Seeded:
    """Copy the newest complete checkpoint in the source's folder to the target's, unless as new a one stands there.

    May be stopped and repeated at any time, and by several at once. `say` is told while it copies. Raises Transient or Refused.
    """
    way = _Way(source, target, options, clock, say, Patience(clock.monotonic, _pause, options.patience_seconds))
    changes = 0
    while changes < _TRIES:
        try:
            seeded = _seeded(way)
        except Changed:
            changes += 1
        else:
            if seeded is not None:
                return replace(seeded, passed_over=way.passed_over)
    raise Transient(f"the checkpoints at {source.uri} keep changing while they are copied; stop who writes there")


def is_missing(newest: Checkpoint, target: BulkSource) -> bool:
    """Whether the target has neither this checkpoint, up to its last marker, nor a newer one. Raises as `newest_complete`."""
    last = _last_marker(newest)
    return not any(
        one.age > newest.age or (one.name == newest.name and _last_marker(one) >= last) for one in complete_ones(target)
    )


def _last_marker(checkpoint: Checkpoint) -> int:
    markers = checkpoint.markers
    return MARKERS.index(markers[-1].rpartition("/")[2]) if markers else -1


def _seeded(way: _Way) -> Seeded | None:
    """Bring the newest; None where it was passed over, so that the choice must be made again. Raises Changed."""
    newest = way.ask(partial(newest_complete, way.source, way.passed_over))
    if newest is None or not way.ask(partial(is_missing, newest, way.target)):
        _forget_unfinished(way, "")
        there = way.ask(partial(newest_complete, way.target))
        seeded = Seeded(there.name if there else None)
    else:
        cut = None if newest.has(MARKED) else _cut(way, newest)
        if cut is not None:
            way.passed_over[newest.name] = cut
            _take_back(way, newest)
            return None
        seeded = _brought(way, newest)
    for one in way.begun:
        if one.name != seeded.checkpoint:
            _take_back(way, one)
    return seeded


def _brought(way: _Way, newest: Checkpoint) -> Seeded:
    _forget_unfinished(way, newest.name)
    way.begun.append(newest)
    options = replace(way.options, objects=newest.objects, last=newest.markers)
    done = transfer(way.source, way.target, options, _no_rate, way.clock, way.say)
    return Seeded(newest.name, done.written_objects, done.written_size)


def _cut(way: _Way, checkpoint: Checkpoint) -> str | None:
    """Which of its objects is not whole, the first by name, and what shows it."""
    cuts: dict[str, str] = {}
    work = work_of((way.source, way.target), way.options, _no_rate, way.clock, copies=False)
    with closing(work.flight):
        for found in checkpoint.objects.values():
            work.flight.launch(0, partial(_look, work, found, cuts))
        work.flight.land()
    return next((f"{name}: {cuts[name]}" for name in sorted(cuts)), None)


def _look(work: Work, found: Found, cuts: dict[str, str]) -> None:
    cut = damage(found.key, found.size, lambda offset, size: work.ask(partial(part, work.source, found, offset, size)))
    if cut is not None:
        cuts[found.key] = cut


def _forget_unfinished(way: _Way, name: str) -> None:
    """Abort what a worker that was killed has left unfinished of other checkpoints than this one; '': of all.

    Uploads only where its note is there: then no program has begun to write in the folder, so all that is unfinished is ours.
    """
    if way.ask(way.target.note.read) is not None:
        for upload in way.ask(lambda: list(way.target.uploads())):
            if not name or upload.key.partition("/")[0] != name:
                way.ask(partial(way.target.abort, upload))
        if not name:
            way.ask(way.target.note.delete)
    if not name:
        way.ask(way.target.tidy)


def _take_back(way: _Way, checkpoint: Checkpoint) -> None:
    """Delete our own unfinished copy; nothing, where the target has a complete one of that name."""
    if any(one.name == checkpoint.name for one in way.ask(lambda: list(complete_ones(way.target)))):
        return
    there = {found.key: found.size for found in way.ask(lambda: list(way.target.list()))}
    others = sorted(checkpoint.objects.keys() - set(checkpoint.markers))
    ours = [key for key in (*reversed(checkpoint.markers), *others) if there.get(key) == checkpoint.objects[key].size]
    for key in ours:
        way.ask(partial(way.target.delete, key))
    if ours:
        way.ask(way.target.remove_folders)


def _no_rate() -> None:
    """As fast as it goes."""


def _pause(seconds: float) -> None:
    threading.Event().wait(seconds)
