"""Keeps a region's objects in one file, so that a region that was killed goes on where it was.

Decides the file's form and when it is on the disk; what is in it is `objects`'. Invariant: the file is whole at every
instant, and on the disk when `keep` returns: it is written beside its place, flushed and renamed over it. One region at a
time: the folder is locked with `flock`, which the kernel frees when its holder dies. A copy of a folder is refused: a file
in it says which machine and which inodes it was made with, and a copy has others.
"""

import fcntl
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reconciler.ports import Refused, Transient

_FILE = "objects.json"
_SEAT = "seat.json"
_FORM = 1


@dataclass(frozen=True, slots=True)
class Kept:
    """What the file holds: this cluster's own name, the last resource version and all objects."""

    origin: str
    version: int
    objects: list[dict[str, Any]]


def load(folder: Path) -> Kept | None:
    """What was kept last in a region's folder, None in a new one. Needs no lock. Raises Refused where it is not one of ours."""
    file = folder / _FILE
    if not file.exists():
        return None
    try:
        said = json.loads(file.read_bytes())
        form, kept = said["form"], Kept(said["origin"], said["version"], said["objects"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Refused(f"{file} cannot be read ({error}); put a good copy there, or move it away to begin anew") from error
    if form != _FORM:
        raise Refused(f"{file} has form {form}, this program knows {_FORM}; use the program that wrote it")
    return kept


class Folder:
    """A region's folder, held by this program alone until `close`."""

    def __init__(self, path: Path) -> None:
        """Make the folder if need be and lock it. Raises Refused where that cannot be, or another region holds it."""
        self._path = path
        try:
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise Refused(f"the region's folder {path} cannot be used: {error.strerror}; give it a folder of its own") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise Refused(f"{path} is in use by another region; stop that one, or give this one a folder of its own") from None
        try:
            _be_seated(path)
        except BaseException:
            self.close()
            raise

    def load(self) -> Kept | None:
        """What was kept last, None in a new folder. Raises Refused where the file is not one of ours."""
        return load(self._path)

    def keep(self, kept: Kept) -> None:
        """Replace what is kept. Raises Transient where the disk does not take it."""
        said = {"form": _FORM, "origin": kept.origin, "version": kept.version, "objects": kept.objects}
        temporary = self._path / f"{_FILE}.new"
        try:
            with temporary.open("w", encoding="utf-8") as file:
                json.dump(said, file, separators=(",", ":"))
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._path / _FILE)
            os.fsync(self._lock)
        except OSError as error:
            raise Transient(f"the region's objects could not be kept in {temporary}: {error.strerror}") from error

    def close(self) -> None:
        """Let another region have the folder; may be called again."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _be_seated(folder: Path) -> None:
    """Write down where the folder is, if that is not written yet. Raises Refused where it was written of another folder.

    The inode of the file itself is in it, for two folders on file systems of their own may well have the same one. Renamed and
    moved within its file system, a folder keeps both.
    """
    file = folder / _SEAT
    try:
        if not file.exists():
            temporary = folder / f"{_SEAT}.new"
            with temporary.open("w", encoding="utf-8") as written:
                json.dump(_seat(folder, written.fileno()), written)
                written.flush()
                os.fsync(written.fileno())
            temporary.replace(file)
        with file.open(encoding="utf-8") as read:
            said, found = json.load(read), _seat(folder, read.fileno())
    except (OSError, ValueError) as error:
        raise Refused(f"{file} cannot be read or written ({error}); delete it if this folder is no copy") from error
    if said != found:
        raise Refused(
            f"{folder} is a copy of another region's folder, and what that one starts would be started here once more; give "
            f"this region an empty folder, or, if the agent of that one has ended and will never be started again, delete {file}"
        )


def _seat(folder: Path, file: int) -> dict[str, Any]:
    return {"machine": _machine(), "folder": folder.stat().st_ino, "file": os.fstat(file).st_ino}


def _machine() -> str:
    """What names this machine; '' where the system does not tell."""
    try:
        return Path("/etc/machine-id").read_text("ascii").strip()
    except OSError:
        return ""
