"""Seeds an attempt's checkpoint folder with the newest complete checkpoint of the attempts before it.

A checkpoint is a folder below the prefix, with whatever is in it: `<prefix>/<folder>/…`. It is complete when a marker stands
directly in it: `_COMPLETE`, which a program writes last, or `.metadata`, which PyTorch's distributed checkpoint (DCP) writes
last, after all ranks have written their parts. The newest is the one with the highest last number in its folder's name
(`step-120`, `checkpoint-500`, `epoch=3-step=1200`), then the last by name; names without a number come before all others.

Decides which checkpoint that is and in what order its objects are copied; where the stores are is for the caller.

Invariants: markers are copied last and only after everything else stands in the target, so a half-written checkpoint is
complete nowhere; a copy that was stopped at any instant goes on with what is missing; a newer checkpoint of the target's own
is never touched.

Limits: objects are read whole, so the largest must fit into memory; an object of the same name and size in the target counts
as copied; files beside the folders (such as DeepSpeed's `latest`) are not copied, since they may name an incomplete one.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from reconciler.ports import Conflict, ObjectStore, Transient

MARKERS: Final = (".metadata", "_COMPLETE")
"""In the order in which they are copied."""
_TRIES: Final = 3
_NUMBER: Final = re.compile(r"[0-9]+")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One complete checkpoint: its folder's name, and its objects by name within the folder, with their sizes in bytes."""

    folder: str
    objects: Mapping[str, int]

    @property
    def age(self) -> tuple[int, str]:
        """Sorts by how new it is."""
        numbers = _NUMBER.findall(self.folder)
        return (int(numbers[-1]) if numbers else -1), self.folder


@dataclass(frozen=True, slots=True)
class Seeded:
    """What stands in the target now. `checkpoint`: its newest complete one (None: there is none, so the program begins anew)."""

    checkpoint: str | None
    copied_objects: int = 0
    copied_bytes: int = 0


def seed(source: ObjectStore, source_prefix: str, target: ObjectStore, target_prefix: str) -> Seeded:
    """Copy the newest complete checkpoint below `source_prefix` to `target_prefix`, unless as new a one stands there.

    May be stopped and repeated at any time, and by several at once. Raises Transient or Refused.
    """
    for _ in range(_TRIES):
        newest = newest_complete(source, source_prefix)
        if newest is None or not is_missing(newest, target, target_prefix):
            there = newest_complete(target, target_prefix)
            return Seeded(there.folder if there else None)
        found = _copy(newest, source, _folder(source_prefix), target, _folder(target_prefix))
        if found is not None:
            return found
    raise Transient(f"the checkpoints below {source_prefix!r} keep changing while they are copied; stop who writes there")


def is_seeded(source: ObjectStore, source_prefix: str, target: ObjectStore, target_prefix: str) -> bool:
    """Whether `seed` would have nothing to do: for those who wait until another has copied. Raises Transient or Refused."""
    newest = newest_complete(source, source_prefix)
    return newest is None or not is_missing(newest, target, target_prefix)


def newest_complete(store: ObjectStore, prefix: str) -> Checkpoint | None:
    """The newest complete checkpoint below a prefix. Raises Transient or Refused."""
    return max(_complete(store, _folder(prefix)), key=lambda one: one.age, default=None)


def is_missing(newest: Checkpoint, target: ObjectStore, target_prefix: str) -> bool:
    """Whether the target has neither this checkpoint, up to its last marker, nor a newer one."""
    last = MARKERS.index(_markers(newest)[-1])
    return not any(
        one.age > newest.age or (one.folder == newest.folder and MARKERS.index(_markers(one)[-1]) >= last)
        for one in _complete(target, _folder(target_prefix))
    )


def _folder(prefix: str) -> str:
    """The prefix of a folder's own keys: `a/b` must not find what is below `a/b-2`."""
    return prefix if not prefix or prefix.endswith("/") else f"{prefix}/"


def _complete(store: ObjectStore, prefix: str) -> list[Checkpoint]:
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for item in store.list(prefix):
        folder, slash, name = item.key[len(prefix) :].partition("/")
        if folder and slash and name and not name.endswith("/"):  # some stores show folders as empty objects
            found[folder][name] = item.size
    return [Checkpoint(folder, objects) for folder, objects in found.items() if any(marker in objects for marker in MARKERS)]


def _markers(checkpoint: Checkpoint) -> Sequence[str]:
    return [marker for marker in MARKERS if marker in checkpoint.objects]


def _copy(checkpoint: Checkpoint, source: ObjectStore, above: str, target: ObjectStore, below: str) -> Seeded | None:
    """Copy what the target lacks; None where the source changed meanwhile, so that the choice must be made again.

    The target is listed anew before each marker: all that comes before it must stand there.
    """
    folder, sizes = f"{below}{checkpoint.folder}/", checkpoint.objects
    markers = _markers(checkpoint)
    copied: list[str] = []
    before: list[str] = []
    for names in (sorted(sizes.keys() - set(markers)), *([marker] for marker in markers)):
        there = {item.key.removeprefix(folder): item.size for item in target.list(folder)}
        if any(there.get(name) != sizes[name] for name in before):
            return None
        for name in [name for name in names if there.get(name) != sizes[name]]:
            stored = source.get(f"{above}{checkpoint.folder}/{name}")
            if stored is None or len(stored.body) != sizes[name]:
                return None
            _put(target, f"{folder}{name}", stored.body)
            copied.append(name)
        before += names
    return Seeded(checkpoint.folder, len(copied), sum(sizes[name] for name in copied))


def _put(target: ObjectStore, key: str, body: bytes) -> None:
    try:
        target.put(key, body, expect=target.etag(key))
    except Conflict:
        stored = target.get(key)  # another worker copies the same
        if stored is None or stored.body != body:
            raise Transient(f"{key} is being written by somebody else") from None
