"""A folder of files as if it had been committed: for looking at a jobs repository before anything is.

Decides what a commit of the folder would hold, untracked and ignored files included, and names contents by Git's own
object ids, so that what is read here and what is read from a commit are seen to be the same. Filters (`autocrlf`, LFS) are
not applied. What the files mean is for whoever reads them.

Invariant: no link is followed, and bytes are given out under an object id only if they have it.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from reconciler.ports import EntryKind, Refused, Transient, TreeEntry

_GIT: Final = ".git"
_CHUNK_BYTES: Final = 1 << 20
_NO_COMMIT: Final = "0" * 40
"""In the place of a nested repository's commit, which nobody asks for."""


@dataclass(frozen=True, slots=True)
class WorkTree:
    """The files of a folder at one instant. `entries`, `read` and `size` are as a commit's in `GitRepository`."""

    entries: Mapping[str, TreeEntry]
    _files: Mapping[str, tuple[Path, int]] = field(repr=False)
    """Object id → a file that had it, and its bytes' number."""

    def size(self, oid: str) -> int:
        """Bytes of a blob, without reading it. KeyError for an id that is not in `entries`."""
        return self._files[oid][1]

    def read(self, oid: str) -> bytes:
        """A blob's bytes. Raises Transient where its file has changed since."""
        path, size = self._files[oid]
        try:
            with _opened(path) as file:
                body = file.read(size + 1)
        except OSError as error:
            raise Transient(f"{path} was there and cannot be read now: {error.strerror}; try again") from error
        if _blob_id(size, iter([body])) != oid:
            raise Transient(f"{path} changed while it was read; try again")
        return body


def read_folder(folder: Path, wanted: Callable[[str], bool] = lambda _: True) -> WorkTree:
    """What a commit of `folder` would hold, by path in UTF-8 order. Hidden files and folders are left out.

    `wanted` is asked for the path of every other file; one that is not wanted is neither listed nor opened. Raises Refused
    where something cannot be read.
    """
    entries: dict[str, TreeEntry] = {}
    files: dict[str, tuple[Path, int]] = {}
    try:
        for entry, path in _walk(folder, ""):
            if not wanted(path):
                continue
            place = Path(entry.path)
            if entry.is_symlink():
                target = os.fsencode(place.readlink())
                entries[path] = TreeEntry(_blob_id(len(target), iter([target])), EntryKind.LINK)
            elif entry.is_dir():
                entries[path] = TreeEntry(_NO_COMMIT, EntryKind.SUBMODULE)
            else:
                oid, size = _hashed(place)
                entries[path] = TreeEntry(oid, EntryKind.FILE)
                files[oid] = (place, size)
    except OSError as error:
        raise Refused(f"{error.filename or folder} cannot be read: {error.strerror}; name a folder that can be") from error
    return WorkTree(dict(sorted(entries.items(), key=lambda item: os.fsencode(item[0]))), files)


def _walk(folder: Path, above: str) -> Iterator[tuple[os.DirEntry[str], str]]:
    """Files, links and nested repositories below a folder, with their paths. Pipes and devices are passed over, as by Git."""
    with os.scandir(folder) as found:
        inside = list(found)
    for entry in inside:
        path = above + entry.name
        if entry.name.startswith(".") and not entry.name.startswith(".."):
            continue
        if not entry.is_dir(follow_symlinks=False):
            if entry.is_symlink() or entry.is_file(follow_symlinks=False):
                yield entry, path
        elif (Path(entry.path) / _GIT).exists():
            yield entry, path
        else:
            yield from _walk(Path(entry.path), f"{path}/")


def _hashed(path: Path) -> tuple[str, int]:
    with _opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        return _blob_id(size, iter(lambda: file.read(_CHUNK_BYTES), b"")), size


def _opened(path: Path) -> BinaryIO:
    """The file itself: something else may have taken its place, and a pipe would wait for its writer."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FileNotFoundError(errno.ENOENT, "it is no regular file any more", str(path))
    return open(descriptor, "rb")  # noqa: PTH123 - a descriptor has no Path


def _blob_id(size: int, chunks: Iterator[bytes]) -> str:
    """Git's id of a blob."""
    digest = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()
