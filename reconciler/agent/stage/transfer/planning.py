"""What of a source is missing in a target, and into which parts an object is cut. Pure.

Decides when an object counts as there: same size, and either the same ETag, or the ETag that this worker was given when it wrote
it; where neither holds, the target is asked whether it was written as a copy of that version (`doubtful`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from reconciler.agent.stage.transfer.listing import Listing
from reconciler.bulk_port import MULTIPART_PARTS, Found, Part

_MIB: Final = 1024**2


@dataclass(frozen=True, slots=True)
class Comparison:
    """The source's objects, by what the target has of them; `strays` are keys that only the target has."""

    there: Sequence[Found]
    doubtful: Sequence[Found]
    missing: Sequence[Found]
    strays: Sequence[str]


def compare(source: Listing, target: Listing, known: Mapping[str, str], *, by_size: bool = False) -> Comparison:
    """Two listings. `known`: ETags that the target gave for what was written or asked about; `by_size`: sizes are enough."""
    there, doubtful, missing = [], [], []
    for key, wanted in source.objects.items():
        found = target.objects.get(key)
        if found is None or found.size != wanted.size:
            missing.append(wanted)
        elif by_size or found.etag in (wanted.etag, known.get(key)):
            there.append(wanted)
        else:
            doubtful.append(wanted)
    return Comparison(there, doubtful, missing, sorted(target.objects.keys() - source.objects.keys()))


def part_size(size: int, usual: int) -> int:
    """Bytes of an object's parts: the usual, or so many more that there are not too many parts."""
    least = -(-size // MULTIPART_PARTS)
    return usual if least <= usual else -(-least // _MIB) * _MIB


def parts_of(size: int, usual: int) -> list[Part]:
    """An object's parts, in order; the last may be smaller."""
    each = part_size(size, usual)
    return [Part(number, at, min(each, size - at)) for number, at in enumerate(range(0, size, each), start=1)]


def split(wanted: Sequence[Part], found: Iterable[Part]) -> tuple[list[Part], list[Part]]:
    """The parts that are there, with their offsets, and those that are missing. One of another size is missing."""
    by_number = {part.number: part for part in found}
    kept, missing = [], []
    for part in wanted:
        seen = by_number.get(part.number)
        if seen is not None and seen.size == part.size:
            kept.append(Part(part.number, part.offset, part.size, seen.etag))
        else:
            missing.append(part)
    return kept, missing
