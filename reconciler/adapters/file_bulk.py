"""A folder of this machine as an end of a copy: a file for each object, written by parts and found again after a kill.

Decides how an object becomes a file, and how a file says of which version it is a copy: by its time of change, whose seconds are
the source's and whose nanoseconds are drawn from the mark (extended attributes are not to be had everywhere). What is missing,
and what to do about errors, is for the worker. Unlike `file_store` it locks nothing and replaces what stands there.

Invariant: a file that has its name is whole and on the disk; what is unfinished is in the workplace, and a part counts once its
own little file is there, which is written after its bytes. Links are never followed below the folder.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from reconciler.adapters.file_uploads import SmallFile, Uploads, write_whole
from reconciler.adapters.folders import FOLDER, as_ports_have_it, folder_in, if_there
from reconciler.adapters.object_keys import parts_of
from reconciler.bulk_port import Beside, BulkSource, CannotCopy, Found, Pace, Part, Stream, Upload, UploadLost, changed, mark_of
from reconciler.model.staged import MARKER_SUFFIX, NOTE_SUFFIX
from reconciler.ports import Refused

INSIDE: Final = ".partial"
"""The workplace, where nothing may stand beside the folder."""
_NOTE: Final = "note.json"


class FileBulk:
    """Both protocols of `bulk_port` on a folder. Safe to share between threads; holds nothing open between calls."""

    def __init__(self, folder: Path, *, inside: bool = False) -> None:
        """Nothing is made yet. `inside`: what is unfinished is kept in the folder, in `.partial`, not beside it."""
        self._path = folder
        self.uri = f"{folder.absolute().as_uri().rstrip('/')}/"
        self._uploads = Uploads(folder / INSIDE if inside else _beside(folder, NOTE_SUFFIX))
        self.marker: Beside = SmallFile(_beside(folder, MARKER_SUFFIX))
        self.note: Beside = SmallFile(self._uploads.path / _NOTE)

    def close(self) -> None:
        """Nothing: nothing is open."""

    # ---- reading

    def list(self) -> Iterator[Found]:
        """Every file below the folder; none where there is no folder. Raises Transient or Refused."""
        with as_ports_have_it(f"list {self._path}"), if_there(), self._root() as root:
            yield from _walk(root, [])

    @contextmanager
    def open(self, found: Found, offset: int, size: int) -> Iterator[Stream]:
        """Bytes of exactly that version. Raises Transient; Refused where the file has changed, or does so meanwhile."""
        *above, name = _parts(found.key)
        with as_ports_have_it(f"read {found.key} in {self._path}"):
            try:
                with self._root() as root, folder_in(root, above) as folder:
                    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
            except FileNotFoundError:
                raise changed(self.uri, found.key) from None
            try:
                self._check(file, found)
                os.lseek(file, offset, os.SEEK_SET)
                left = [size]
                yield Stream(lambda limit: _read(file, left, limit))
                self._check(file, found)
            finally:
                os.close(file)

    def traits(self, found: Found) -> Mapping[str, str]:  # noqa: ARG002 - the protocol's
        """A file says nothing of its content."""
        return {}

    def round_trip_seconds(self, monotonic: Callable[[], float]) -> float:  # noqa: ARG002 - the protocol's
        """None: a disk is no link."""
        return 0.0

    def hold_back(self, receive_bytes: int | None) -> None:
        """Nothing: a disk sends nothing ahead."""

    def is_copy(self, key: str, origin: Found) -> bool:
        """Whether the file there has the time and the size that a copy of that version gets."""
        *above, name = _parts(key)
        seen: os.stat_result | None = None
        where = f"look at {key} in {self._path}"
        with as_ports_have_it(where), if_there(), self._root() as root, folder_in(root, above) as folder:
            seen = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if seen is None or not stat.S_ISREG(seen.st_mode):
            return False
        return (seen.st_size, seen.st_mtime_ns) == (origin.size, _time_of(origin))

    # ---- writing

    def put(self, origin: Found, body: bytes, traits: Mapping[str, str], pace: Pace) -> str:  # noqa: ARG002 - a disk is no link
        """Write a whole file. Raises Transient or Refused."""
        *above, name = _parts(origin.key)
        with as_ports_have_it(f"write {origin.key} in {self._path}"), self._uploads.temporary() as unfinished:
            write_whole(unfinished, body, _time_of(origin))
            self._publish(unfinished, above, name)
        return _etag_of(origin.size, _time_of(origin))

    def put_folder(self, key: str) -> None:
        """Make the folder that an object `key/` stands for."""
        parts = _parts(key.rstrip("/")) if key.strip("/") else []
        with as_ports_have_it(f"make {key} in {self._path}"), self._root(make=True) as root, folder_in(root, parts, make=True):
            return

    def delete(self, key: str) -> None:
        """Remove one file if it is there."""
        *above, name = _parts(key)
        where = f"delete {key} in {self._path}"
        with as_ports_have_it(where), if_there(), self._root() as root, folder_in(root, above) as folder:
            os.unlink(name, dir_fd=folder)

    def remove_folders(self) -> None:
        """Remove the folders in which there is nothing; what is a mount stays."""
        with as_ports_have_it(f"remove {self._path}"), if_there(), self._root() as root:
            if _emptied(root, []):
                with suppress(OSError):
                    self._path.rmdir()

    # ---- by parts

    def uploads(self) -> Iterator[Upload]:
        """All unfinished uploads."""
        with as_ports_have_it(f"look into {self._uploads.path}"):
            yield from self._uploads.all()

    def begin(self, origin: Found, traits: Mapping[str, str]) -> Upload:  # noqa: ARG002 - the protocol's
        """Begin a file by parts; the same one where it was begun before."""
        _parts(origin.key)
        with as_ports_have_it(f"begin {origin.key} in {self._path}"):
            return self._uploads.begin(origin.key, mark_of(origin))

    def parts(self, upload: Upload) -> Sequence[Part]:
        """The parts that are there. Raises UploadLost."""
        with as_ports_have_it(f"look for parts of {upload.key} in {self._path}"):
            return self._uploads.parts(upload)

    def put_part(self, upload: Upload, part: Part, body: bytes, pace: Pace) -> Part:  # noqa: ARG002 - a disk is no link
        """Write one part. Raises UploadLost."""
        with as_ports_have_it(f"write a part of {upload.key} in {self._path}"):
            self._uploads.put_part(upload, part, body)
        return part

    def finish(self, upload: Upload, origin: Found, parts: Sequence[Part]) -> str:  # noqa: ARG002 - they lie one behind the other
        """Give the file its name. Raises UploadLost."""
        *above, name = _parts(origin.key)
        with as_ports_have_it(f"finish {origin.key} in {self._path}"):
            try:
                with self._uploads.finished(upload, origin.size, _time_of(origin)) as path:
                    self._publish(path, above, name)
            except FileNotFoundError:
                raise UploadLost(f"{origin.key}: another worker has finished it") from None
        return _etag_of(origin.size, _time_of(origin))

    def abort(self, upload: Upload) -> None:
        """Forget an upload."""
        with as_ports_have_it(f"abort {upload.key} in {self._path}"):
            self._uploads.remove(upload)

    def tidy(self) -> None:
        """Remove the workplace."""
        with as_ports_have_it(f"remove {self._uploads.path}"):
            self._uploads.clear()

    # ---- inside the store

    def copies_from(self, source: BulkSource) -> bool:  # noqa: ARG002 - the protocol's
        """Never: a disk does not copy by itself."""
        return False

    def copy(self, source: Any, origin: Found) -> str:  # noqa: ARG002 - the protocol's
        """Raises CannotCopy."""
        raise CannotCopy(f"{self.uri}: a folder does not copy {origin.key!r} by itself; send the bytes")

    def copy_part(self, source: Any, origin: Found, upload: Upload, part: Part) -> Part:  # noqa: ARG002 - the protocol's
        """Raises CannotCopy."""
        raise CannotCopy(f"{self.uri}: a folder does not copy {origin.key!r} by itself; send the bytes")

    # ---- the folder

    @contextmanager
    def _root(self, *, make: bool = False) -> Iterator[int]:
        if make:
            self._path.mkdir(parents=True, exist_ok=True)
        root = os.open(self._path, FOLDER)
        try:
            yield root
        finally:
            os.close(root)

    def _check(self, file: int, found: Found) -> None:
        seen = os.fstat(file)
        if not stat.S_ISREG(seen.st_mode) or _etag_of(seen.st_size, seen.st_mtime_ns) != found.etag:
            raise changed(self.uri, found.key)

    def _publish(self, file: Path, above: Sequence[str], name: str) -> None:
        with self._root(make=True) as root, folder_in(root, above, make=True) as folder:
            with suppress(FileNotFoundError):
                if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                    raise IsADirectoryError(errno.EISDIR, "there is something that is no plain file")
            os.replace(file, name, dst_dir_fd=folder)
            os.fsync(folder)


def _beside(folder: Path, suffix: str) -> Path:
    return folder.with_name(folder.name + suffix) if folder.name else folder / INSIDE / suffix


def _parts(key: str) -> list[str]:
    """The parts of a key. Raises Refused where it can be no file below the folder."""
    parts = parts_of(key)
    if parts[0] == INSIDE:
        raise Refused(f"object key {key!r} is kept for what is unfinished; rename it at the source")
    return parts


def _etag_of(size: int, modified_ns: int) -> str:
    return f"{modified_ns:x}-{size:x}"


def _time_of(origin: Found) -> int:
    """What a copy has as its time of change, in nanoseconds since 1970."""
    return int(origin.modified) * 10**9 + int(mark_of(origin)[:12], 16) % 10**9


def _read(file: int, left: list[int], limit: int) -> bytes:
    block = os.read(file, min(limit, left[0]))
    left[0] -= len(block)
    return block


def _walk(root: int, parts: list[str]) -> Iterator[Found]:
    """The files in the folder `parts` below `root`, folder by folder."""
    below: list[str] = []
    with if_there(), folder_in(root, parts) as folder, os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                below += [entry.name] if parts or entry.name != INSIDE else []
            elif entry.is_file(follow_symlinks=False):
                with suppress(FileNotFoundError):  # removed meanwhile
                    seen = entry.stat(follow_symlinks=False)
                    key = "/".join([*parts, entry.name])
                    yield Found(key, seen.st_size, _etag_of(seen.st_size, seen.st_mtime_ns), seen.st_mtime_ns // 10**9)
    for name in sorted(below):
        yield from _walk(root, [*parts, name])


def _emptied(root: int, parts: list[str]) -> bool:
    """Remove the empty folders in the folder `parts`; whether nothing is left in it."""
    is_empty = True
    with folder_in(root, parts) as folder, os.scandir(folder) as entries:
        for entry in list(entries):
            if entry.is_dir(follow_symlinks=False) and _emptied(root, [*parts, entry.name]):
                os.rmdir(entry.name, dir_fd=folder)
            else:
                is_empty = False
    return is_empty
