"""When a checkpoint is complete, for the layouts that training programs write. docs/checkpoints.md says the same to people.

Decides from the names and sizes of a listing and from the small files that say what belongs together; the large files are for
wholeness.py. A checkpoint is a folder `<prefix>/<name>/…`, or a file `<prefix>/<name>.ckpt`. It is
complete when

- `_COMPLETE` stands in it: the program's own word, which it writes last; nothing else is asked.
- `.metadata` stands in it (PyTorch DCP): written by the coordinator after all ranks, under another name first
  (torch/distributed/checkpoint/filesystem.py, `finish`). All `.distcp` files that it names must be there. A folder that is called
  `….ckpt` is Lightning's, which writes `meta.pt` after that (lightning/fabric/strategies/fsdp.py, `save_checkpoint`).
- `trainer_state.json` stands in it (Hugging Face Trainer): written last by rank 0, after model, optimizer, scheduler and its own
  random state (transformers/trainer.py, `_save_checkpoint`; huggingface/transformers#35782 shows a half one). What was brought by
  a tool that copies in any order is not in that order any more: so there must be weights, every shard that an index names, every
  part of a DCP folder in it, and of a DeepSpeed checkpoint the `latest` that DeepSpeed writes last.
- it is a file `*.ckpt` (Lightning): whole by its own bytes, see wholeness.py.

Invariant: what is complete here stays complete when more objects are added beside it.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from reconciler.agent.stage.checkpoints.names import SINGLE_FILE, Age, age_of
from reconciler.bulk_port import Found

DCP, LIGHTNING, TRAINER, MARKED = ".metadata", "meta.pt", "trainer_state.json", "_COMPLETE"
MARKERS: Final = (DCP, LIGHTNING, TRAINER, MARKED)
"""In the order in which they are copied: each after all that it vouches for."""

_UNFINISHED: Final = re.compile(r"^(\.|tmp-)|(\.tmp|\.part|\.incomplete)$|\.orbax-checkpoint-tmp")
"""Names under which libraries write what they rename when it is done."""
_SHARD: Final = re.compile(rb"__[0-9]+_[0-9]+\.distcp")
_WEIGHTS: Final = (".safetensors", ".bin", ".pt", ".pth", ".distcp", ".msgpack", ".h5")
_BESIDE_WEIGHTS: Final = re.compile(r"^(training_args\.bin|optimizer.*|scheduler.*|scaler.*|rng_state.*)$")
_INDEX: Final = ".index.json"
_PART: Final = re.compile(r"^(.+)-[0-9]{5}-of-[0-9]{5}(\.safetensors|\.bin)$")
"""A shard of the model; without the index, nobody knows which tensor is in which."""

Read = Callable[[str], bytes | None]
"""An object's bytes by its name below the prefix; None where it is gone."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint: its name, and its objects by name below the prefix, as they were listed."""

    name: str
    objects: Mapping[str, Found]

    @property
    def age(self) -> Age:
        """Sorts by how new it is."""
        return age_of(self.name)

    @property
    def size(self) -> int:
        """Bytes of all its objects."""
        return sum(one.size for one in self.objects.values())

    @property
    def markers(self) -> tuple[str, ...]:
        """Those of its objects that say that others are complete, in the order in which they are copied."""
        return tuple(found for marker in MARKERS if (found := f"{self.name}/{marker}") in self.objects)

    def has(self, marker: str) -> bool:
        """Whether a marker stands directly in it."""
        return f"{self.name}/{marker}" in self.objects


def candidates(listed: Iterable[Found]) -> list[Checkpoint]:
    """All that could be a checkpoint in a folder, complete or not."""
    found: dict[str, dict[str, Found]] = defaultdict(dict)
    for one in listed:
        first, slash, rest = one.key.partition("/")
        if one.key.endswith("/") or (slash and not (first and rest)):  # some stores show folders as empty objects
            continue
        if slash or (first.endswith(SINGLE_FILE) and first != SINGLE_FILE):
            found[first][one.key] = one
    return [Checkpoint(name, objects) for name, objects in found.items()]


def lacks(found: Checkpoint, read: Read) -> str | None:
    """What a candidate lacks to be complete, for people; None where it is complete, as far as it can be told from here."""
    if found.has(MARKED):
        return None
    if _UNFINISHED.search(found.name):
        return "its name says that it is being written"
    if found.name in found.objects:
        return None if found.objects[found.name].size else "it is empty"
    if not found.has(DCP) and not found.has(TRAINER):
        return f"none of {DCP}, {TRAINER}, {MARKED} is in it"
    return next(_gaps(found, read), None)


def _gaps(found: Checkpoint, read: Read) -> Iterator[str]:
    if found.has(TRAINER):
        yield from _trainer_gaps(found, read)
    elif found.name.endswith(SINGLE_FILE) and not found.has(LIGHTNING):
        yield f"{LIGHTNING} is not in it"
    for folder in sorted({name.rpartition("/")[0] for name in found.objects if name.endswith((".distcp", f"/{DCP}"))}):
        yield from _shards_missing(found, folder, read)


def _trainer_gaps(found: Checkpoint, read: Read) -> Iterator[str]:
    if not isinstance(_json(read(f"{found.name}/{TRAINER}")).get("global_step"), int):
        yield f"{TRAINER} cannot be read"
    if not any(name.endswith(_WEIGHTS) and not _BESIDE_WEIGHTS.match(name.rpartition("/")[2]) for name in found.objects):
        yield "no weights are in it"
    wanted = {f"{part[1]}{part[2]}{_INDEX}" for name in found.objects if (part := _PART.match(name))}
    for index in sorted(wanted | {name for name in found.objects if name.endswith(_INDEX)}):
        shards = _json(read(index)).get("weight_map")
        if not isinstance(shards, dict) or not shards:
            yield f"{index} cannot be read"
            continue
        yield from _absent(found, index.rpartition("/")[0], {str(shard) for shard in shards.values()})
    yield from _deepspeed_gaps(found, read)


def _deepspeed_gaps(found: Checkpoint, read: Read) -> Iterator[str]:
    folders = {parts[1] for name in found.objects if len(parts := name.split("/")) > 2}
    if not any(folder.startswith("global_step") for folder in folders):
        return
    latest = (read(f"{found.name}/latest") or b"").decode(errors="replace").strip()
    if latest not in folders:
        yield "`latest`, which DeepSpeed writes last, names no folder in it"


def _shards_missing(found: Checkpoint, folder: str, read: Read) -> Iterator[str]:
    """Names of shards are read out of the pickle's bytes: to load a pickle is to run what is in it."""
    body = read(f"{folder}/{DCP}") if f"{folder}/{DCP}" in found.objects else None
    if body is None:
        yield f"{folder}/{DCP} is missing"
    elif not (body.startswith(b"\x80") and body.endswith(b".")):  # opcodes PROTO and STOP
        yield f"{folder}/{DCP} is cut short"
    else:
        yield from _absent(found, folder, {name.decode() for name in _SHARD.findall(body)})


def _absent(found: Checkpoint, folder: str, names: set[str]) -> Iterator[str]:
    there = {name for name, one in found.objects.items() if one.size}
    yield from (f"{folder}/{name} is missing" for name in sorted(names) if f"{folder}/{name}" not in there)


def _json(body: bytes | None) -> dict[str, Any]:
    try:
        value = json.loads(body or b"")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
