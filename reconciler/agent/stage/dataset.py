"""Bring a dataset's objects into a folder, before the program starts.

Only what is missing is fetched: a file of the object's size stands for the object, because each is written under another name
first. Complete means: as many files and bytes as the source lists. Objects pass through memory one by one: the largest must fit.
"""

from dataclasses import dataclass
from pathlib import Path

from reconciler.ports import Listed, ObjectStore, Refused

PARTIAL = ".part"


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a fetch found and did. Sizes in bytes."""

    objects: int
    size: int
    fetched_objects: int
    fetched_size: int


def fetch(source: ObjectStore, prefix: str, folder: Path) -> Fetched:
    """Make `folder` hold every object below `prefix/`. Raises Transient; Refused where there is nothing or a key is no path."""
    below = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
    listed = [item for item in source.list(below) if item.key != below]
    if not listed:
        raise Refused(f"there is nothing below {below or 'the root of the store'}; check the dataset's URI and its version")
    missing = [item for item in listed if not _is_there(folder, _relative(item, below), item.size)]
    for item in missing:
        _write(folder / _relative(item, below), _body(source, item))
    return Fetched(len(listed), sum(item.size for item in listed), len(missing), sum(item.size for item in missing))


def _relative(item: Listed, below: str) -> Path:
    path = Path(item.key.removeprefix(below))
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise Refused(f"the object {item.key!r} cannot be a file below the dataset's folder; rename it")
    return path


def _is_there(folder: Path, path: Path, size: int) -> bool:
    file = folder / path
    return file.is_file() and file.stat().st_size == size


def _body(source: ObjectStore, item: Listed) -> bytes:
    stored = source.get(item.key)
    if stored is None or len(stored.body) != item.size:
        raise Refused(f"{item.key} changed while it was fetched; a version of a dataset must not change")
    return stored.body


def _write(file: Path, body: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(file.name + PARTIAL)
    part.write_bytes(body)
    part.replace(file)
