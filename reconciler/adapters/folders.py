"""Folders of this machine, walked so that no link leads out of them; and what it means when the system says no.

Shared by the stores that keep objects as files: `file_store`, whose objects decide things, and `file_bulk`, which moves bulk.
"""

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from reconciler.ports import Refused, Transient

FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY
ABSENT: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO)
"""What the system says where there is no file of that name, or something that is none."""

_TODO: Final = {
    errno.ENOENT: "create the store's folder, or correct its address",
    errno.EACCES: "give this account the right to read and write there",
    errno.EPERM: "give this account the right to read and write there",
    errno.EROFS: "mount the store's disk writable",
    errno.ENOSPC: "free some space on the store's disk",
    errno.EDQUOT: "raise this account's quota on the store's disk",
    errno.ENAMETOOLONG: "use a key whose parts have at most 255 bytes",
    errno.ENOTDIR: "a file or a link stands where a folder must be; remove it, or use another key or folder",
    errno.EISDIR: "a folder or a link has the object's name; remove it, or use another key",
    errno.EBADF: "use a folder on a local disk; this file system (NFS?) cannot lock one",
    errno.ENOLCK: "use a folder on a local disk; this file system (NFS?) cannot lock one",
}


@contextmanager
def as_ports_have_it(what: str) -> Iterator[None]:
    """Inside, what the operating system refuses comes out as Transient or Refused. `what`: what is done, and where."""
    try:
        yield
    except OSError as error:
        said = f"{what}: {error.strerror}"
        if error.errno not in _TODO:
            raise Transient(said) from error
        raise Refused(f"{said}; {_TODO[error.errno]}") from error


@contextmanager
def if_there() -> Iterator[None]:
    """Go on where what is asked for is not there, or is no object."""
    try:
        yield
    except OSError as error:
        if error.errno not in ABSENT:
            raise


@contextmanager
def folder_in(root: int, parts: Sequence[str], *, make: bool = False) -> Iterator[int]:
    """A descriptor of a folder below `root`, reached step by step so that no link can lead out of the store."""
    current = os.dup(root)
    try:
        for part in parts:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=current)
                    os.fsync(current)
            deeper = os.open(part, FOLDER | os.O_NOFOLLOW, dir_fd=current)
            os.close(current)
            current = deeper
        yield current
    finally:
        os.close(current)


def entry_of(entry: os.DirEntry[str]) -> Iterator[tuple[bytes, str, int | None]]:
    """Sort key, name and size (None: a folder) of what stands in a folder; nothing for what is no object."""
    if entry.is_dir(follow_symlinks=False):
        yield os.fsencode(entry.name) + b"/", entry.name, None
    elif entry.is_file(follow_symlinks=False):
        with suppress(FileNotFoundError):  # removed meanwhile
            yield os.fsencode(entry.name), entry.name, entry.stat(follow_symlinks=False).st_size
