"""How new a checkpoint is, by its name alone: stores keep no times that survive a copy.

Decides the order only. A number behind `step` counts before one behind `iter`, that before one behind `epoch`, and those before
the last whole number in the name. Lightning's `last.ckpt` is by its meaning newer than all that are numbered; its suffix `-v1`,
given where the name was taken, counts up (lightning.pytorch.callbacks.ModelCheckpoint, `save_last`, `enable_version_counter`).
"""

import re
from typing import Final

SINGLE_FILE: Final = ".ckpt"
"""What a Lightning checkpoint's name ends in, a file or, where it is sharded, a folder."""

_VERSION: Final = re.compile(r"-v([0-9]+)$")
_NAMED: Final = tuple(re.compile(rf"{word}[=_-]?([0-9]+)", re.IGNORECASE) for word in ("step", "iter(?:ation)?", "epoch"))
_WHOLE: Final = re.compile(r"(?<![0-9.])[0-9]+(?![0-9]*\.[0-9])")
"""Not a part of `0.25`: that is a loss, not a place in the run."""
_UNNAMED, _NUMBERED, _LAST = 0, 1, 2

Age = tuple[int, int, int, str]


def age_of(name: str) -> Age:
    """Sorts by how new it is: names without a number first, then by number, then those that say `last`."""
    stem, version = name, 0
    if name.endswith(SINGLE_FILE):
        stem = name.removesuffix(SINGLE_FILE)
        found = _VERSION.search(stem)
        if found is not None:
            stem, version = stem[: found.start()], int(found[1])
        if stem == "last":
            return _LAST, 0, version, name
    number = _number(stem)
    return (_UNNAMED, 0, version, name) if number is None else (_NUMBERED, number, version, name)


def _number(stem: str) -> int | None:
    for pattern in _NAMED:
        found = pattern.findall(stem)
        if found:
            return int(found[-1])
    whole = _WHOLE.findall(stem)
    return int(whole[-1]) if whole else None
