"""Objects as plain files below one folder, for a hub and its agents on one machine (`file://`).

Decides how a key becomes a file and how a conditional write stays safe between threads and between programs. What the
objects mean is for hub and agent; which folder it is, and that it exists, is for whoever wires the store.

Invariant: an object is whole at every instant. A write is made beside its target, flushed to the disk and renamed over
it; the comparison and the rename happen under one exclusive lock, `flock` on the store's folder, which the kernel frees
when its holder dies. Readers take no lock. ETags are SHA-256 of the bytes, so equal bytes have equal ETags, as on S3.

Limits: a local disk (`flock` on a folder fails over NFS, and so is refused); a file system that tells upper from lower
case; a key is an object or a folder, never both. Links, devices and pipes are not objects: no reader follows them, and
nothing is reached through them. Names below `.partial/` are the store's own.
"""

import errno
import fcntl
import hashlib
import os
import secrets
import shutil
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import BinaryIO

from reconciler.adapters.folders import ABSENT, FOLDER, as_ports_have_it, entry_of, folder_in, if_there
from reconciler.adapters.object_keys import parts_of
from reconciler.ports import Conflict, Listed, Refused, Stored, Transient

_PARTIAL = ".partial"
_CHUNK_BYTES = 1 << 20
_PAUSES_SECONDS = 0.0005, 0.02  # first and longest


class FileStore:
    """The `ObjectStore` protocol on a folder. Safe to share between threads; holds nothing open between calls."""

    def __init__(self, folder: Path, *, lock_wait_seconds: float = 5.0) -> None:
        """Use a folder that exists, and remove there what killed writers left behind. Raises Refused or Transient."""
        self._path = folder
        self._lock_wait = lock_wait_seconds
        with self._root("open", "the folder") as root:
            _sweep(root)

    def get(self, key: str) -> Stored | None:
        """The object, or None where there is none. Raises Transient or Refused."""
        parts = _parts(key)
        with self._root("get", key) as root:
            file = _open_object(root, parts)
            if file is None:
                return None
            with file:
                body = file.read()
        return Stored(body, _etag(BytesIO(body)))

    def etag(self, key: str) -> str | None:
        """The object's ETag, None where there is no object; reads the whole file. Raises Transient or Refused."""
        parts = _parts(key)
        with self._root("get", key) as root:
            return _present_etag(root, parts)

    def put(self, key: str, body: bytes, *, expect: str | None) -> str:
        """Write and return the new ETag; `expect` None means "must not exist yet". Raises Conflict, Transient, Refused.

        On return the object is on the disk: it survives a crash of the machine, not only of this program.
        """
        parts = _parts(key)
        with self._root("put", key) as root, self._temporary(root) as (partial, temporary):
            _write(partial, temporary, BytesIO(body))
            with self._alone(root):
                if _present_etag(root, parts) != expect:
                    raise Conflict(f"put {key}: the object is not the one that was read before")
                _publish(root, partial, temporary, parts)
        return _etag(BytesIO(body))

    def list(self, prefix: str) -> Iterator[Listed]:
        """All objects whose key starts with `prefix`, in order of key (as UTF-8). Raises Transient or Refused."""
        above, slash, start = prefix.rpartition("/")
        parts = _parts(above) if slash else []
        with self._root("list", prefix) as root:
            yield from _walk(root, parts, above + slash, start)

    def copy(self, source: str, target: str) -> None:
        """Copy one object, unconditionally. Raises Transient, or Refused where there is no `source`."""
        parts, target_parts = _parts(source), _parts(target)
        with self._root("copy", f"{source} to {target}") as root:
            file = _open_object(root, parts)
            if file is None:
                raise Refused(f"copy {source}: there is no such object; list the source again before copying")
            with file, self._temporary(root) as (partial, temporary):
                _write(partial, temporary, file)
                with self._alone(root):
                    _publish(root, partial, temporary, target_parts)

    def delete(self, key: str) -> None:
        """Remove one object if it is there; its folder stays. Raises Transient or Refused."""
        *above, name = _parts(key)
        with self._root("delete", key) as root, self._alone(root), if_there(), folder_in(root, above) as folder:
            if _is_file(folder, name):
                os.unlink(name, dir_fd=folder)
                os.fsync(folder)

    @contextmanager
    def _root(self, action: str, where: str) -> Iterator[int]:
        """A descriptor of the store's folder; what the operating system refuses inside comes out as ports.py has it.

        The folder is never made here: an empty store in the place of one whose disk is not mounted looks like lost state.
        """
        with as_ports_have_it(f"{action} {where} in the object store {self._path}"):
            root = os.open(self._path, FOLDER)
            try:
                yield root
            finally:
                os.close(root)

    def _alone(self, root: int) -> AbstractContextManager[None]:
        return _locked(root, fcntl.LOCK_EX, self._lock_wait)

    @contextmanager
    def _temporary(self, root: int) -> Iterator[tuple[int, str]]:
        """The folder of unfinished writes and a new name in it. The shared lock tells `_sweep` that a writer lives."""
        with folder_in(root, [_PARTIAL], make=True) as partial, _locked(partial, fcntl.LOCK_SH, self._lock_wait):
            name = secrets.token_hex(16)
            try:
                yield partial, name
            finally:
                with suppress(FileNotFoundError):  # renamed into its place, or never written
                    os.unlink(name, dir_fd=partial)


def _parts(key: str) -> list[str]:
    """The parts of a key. Raises Refused where it could name anything but a file of its own below the folder."""
    parts = parts_of(key)
    if parts[0] == _PARTIAL:
        raise Refused(f"object key {key!r} is kept for the store's unfinished writes; use another first part")
    return parts


def _etag(content: BytesIO | BufferedReader) -> str:
    return hashlib.file_digest(content, "sha256").hexdigest()


@contextmanager
def _locked(folder: int, kind: int, wait_seconds: float) -> Iterator[None]:
    """Hold a lock on a folder. Raises Transient: a holder that is stopped, not dead, must not hang a renewal for ever."""
    (pause, longest), waited = _PAUSES_SECONDS, 0.0
    while not _lock_now(folder, kind):
        if waited >= wait_seconds:
            raise Transient(f"the object store stayed locked by other writers for {wait_seconds} s; nothing was written")
        time.sleep(pause)
        waited += pause
        pause = min(2 * pause, longest)
    try:
        yield
    finally:
        # To close the descriptor would not do: a child forked meanwhile by another thread has the lock as well.
        fcntl.flock(folder, fcntl.LOCK_UN)


def _lock_now(folder: int, kind: int) -> bool:
    with suppress(BlockingIOError):
        fcntl.flock(folder, kind | fcntl.LOCK_NB)
        return True
    return False


def _open_object(root: int, parts: Sequence[str]) -> BufferedReader | None:
    """An object's file, None where there is none. What it reads is one version: files are replaced, never changed."""
    try:
        with folder_in(root, parts[:-1]) as folder:
            # Without O_NONBLOCK, to open a pipe that somebody left there would wait for its writer.
            descriptor = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except OSError as error:
        if error.errno in ABSENT:
            return None
        raise
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    return None


def _present_etag(root: int, parts: Sequence[str]) -> str | None:
    with _open_object(root, parts) or nullcontext() as file:
        return None if file is None else _etag(file)


def _is_file(folder: int, name: str) -> bool:
    return stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)


def _write(partial: int, temporary: str, content: BinaryIO) -> None:
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=partial)
    with os.fdopen(descriptor, "wb") as file:
        shutil.copyfileobj(content, file, _CHUNK_BYTES)
        file.flush()
        os.fsync(descriptor)


def _publish(root: int, partial: int, temporary: str, parts: Sequence[str]) -> None:
    """Give the finished file its place, for good. The caller holds the lock."""
    *above, name = parts
    with folder_in(root, above, make=True) as folder:
        with suppress(FileNotFoundError):
            if not _is_file(folder, name):
                raise IsADirectoryError(errno.EISDIR, "there is something that is no plain file")
        os.replace(temporary, name, src_dir_fd=partial, dst_dir_fd=folder)
        os.fsync(folder)


def _sweep(root: int) -> None:
    """Remove what killed writers left; not while any writer is at work, and not by one who may only read."""
    with if_there(), folder_in(root, [_PARTIAL]) as partial:
        if os.access(_PARTIAL, os.W_OK, dir_fd=root) and _lock_now(partial, fcntl.LOCK_EX):
            for name in os.listdir(partial):  # noqa: PTH208 - a descriptor is no Path
                os.unlink(name, dir_fd=partial)
            fcntl.flock(partial, fcntl.LOCK_UN)


def _walk(root: int, parts: Sequence[str], path: str, start: str) -> Iterator[Listed]:
    """The objects in the folder `parts` below `root` (`path` is its key with a `/`) whose name starts with `start`."""
    found: list[tuple[bytes, str, int | None]] = []
    with if_there(), folder_in(root, parts) as folder, os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(start) and (path or entry.name != _PARTIAL):
                found += entry_of(entry)
    # A folder sorts as `name/`, for that is how the keys below it go on.
    for _, name, size in sorted(found):
        if size is None:
            yield from _walk(root, [*parts, name], f"{path}{name}/", "")
        else:
            yield Listed("/".join(_parts(path + name)), size)
