"""The folder of a bare clone: made when missing, reused after a restart, made again when it is broken.

Decides what may be deleted: everything in a folder that bears our mark but another clone's folder in it, nothing in any other.
The clone is only a copy of the remote, so making it again loses nothing. Leftovers of a killed git or a power cut (lock files,
half-written packs and objects) are taken away when no other process of ours has the folder; else they would block later fetches.
"""

import fcntl
import os
import shutil
import zlib
from pathlib import Path
from typing import Final

import pygit2
from pygit2.enums import RepositoryOpenFlag

from reconciler.ports import Refused

MARK: Final = "gpu-reconciler.clone"
INNER: Final = "pulls"
"""A clone's folder may have another clone in it, of that name: git has no file that is called so."""
_MARK_TEXT: Final = "A copy of a Git remote. It is made again when it is broken: keep nothing of your own in this folder.\n"
_LEFTOVERS: Final = ("**/*.lock", "objects/**/tmp_*", "objects/pack/.tmp-*", "objects/pack/*.keep")
_CHUNK: Final = 1 << 16


def claim(folder: Path) -> int:
    """Make the folder ours and return a file descriptor that says "in use" until it is closed.

    Raises Refused for a folder with somebody else's files in it, and for one that cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / MARK).exists():
            if any(child.name != INNER for child in folder.iterdir()):
                raise Refused(f"{folder} has files in it and is no clone of ours; name an empty or a new folder")
            (folder / MARK).write_text(_MARK_TEXT, encoding="utf-8")
        in_use = os.open(folder / MARK, os.O_RDONLY)
        try:
            if _alone(in_use):
                _sweep(folder)
            fcntl.flock(in_use, fcntl.LOCK_SH)
        except BaseException:
            os.close(in_use)
            raise
    except OSError as broken:
        raise Refused(f"the clone's folder {folder} cannot be used: {broken}; make it writable") from broken
    return in_use


def open_or_make(folder: Path) -> pygit2.Repository:
    """The repository in a claimed folder; made anew where libgit2 finds none. Raises Refused."""
    try:
        # Without NO_SEARCH a broken clone inside another repository would open that one.
        return pygit2.Repository(str(folder), RepositoryOpenFlag.NO_SEARCH)
    except pygit2.GitError as broken:
        if "owned by" in str(broken):
            raise Refused(f"{folder} cannot be opened: {broken}; give it to the user that runs this program") from broken
    return make_again(folder)


def make_again(folder: Path) -> pygit2.Repository:
    """Empty a claimed folder and make a bare repository in it. Raises Refused where the disk says no."""
    try:
        for child in folder.iterdir():
            if child.name in (MARK, INNER):
                continue
            if child.is_dir() and not child.is_symlink():
                shutil.rmtree(child)
            else:
                child.unlink()
        return pygit2.init_repository(str(folder), bare=True, initial_head="main")
    except (OSError, pygit2.GitError) as broken:
        raise Refused(f"the clone in {folder} cannot be made again: {broken}; remove the folder") from broken


def _alone(in_use: int) -> bool:
    try:
        fcntl.flock(in_use, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sweep(folder: Path) -> None:
    for pattern in _LEFTOVERS:
        for left in folder.glob(pattern):
            if left.is_file() and left.relative_to(folder).parts[0] != INNER:
                left.unlink(missing_ok=True)
    for loose in folder.glob("objects/??/*"):
        # libgit2 1.9 reads a cut object for ever (libgit2/libgit2#7342). A missing one it reports, and that is mended.
        if not _is_whole(loose):
            loose.unlink(missing_ok=True)


def _is_whole(loose: Path) -> bool:
    """Whether a loose object's compressed bytes come to their end; a power cut may leave them cut."""
    inflating = zlib.decompressobj()
    try:
        with loose.open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                while chunk and not inflating.eof:
                    inflating.decompress(chunk, _CHUNK)
                    chunk = inflating.unconsumed_tail
    except zlib.error:
        return False
    return inflating.eof
