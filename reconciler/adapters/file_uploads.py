"""What is unfinished of files that are written by parts: a workplace on the same disk as the folder that they will stand in.

Decides the layout: `u-<name>/object` with the bytes at their offsets, `u-<name>/p-<number>` for each part that is there, whose
text is its size, `u-<name>/key`; `w-…` are whole files on their way. The name is drawn from key and version, so parts of another
version are never taken for parts of this one.

Invariant: a part's little file is made when its bytes are on the disk.
"""

import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from reconciler.adapters.folders import as_ports_have_it
from reconciler.bulk_port import Part, Upload, UploadLost
from reconciler.ports import Transient

_OBJECT: Final = "object"
_KEY: Final = "key"


class Uploads:
    """The workplace. Every call raises OSError; UploadLost where the upload is gone."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def temporary(self) -> Iterator[Path]:
        """A new name; what has it afterwards is removed."""
        self.path.mkdir(parents=True, exist_ok=True)
        file = self.path / f"w-{secrets.token_hex(8)}"
        try:
            yield file
        except FileNotFoundError:
            raise UploadLost(f"{file}: another worker has come to its end, and removed it") from None
        finally:
            file.unlink(missing_ok=True)

    def all(self) -> Iterator[Upload]:
        """Every upload that was begun."""
        try:
            begun = sorted(entry.name for entry in os.scandir(self.path) if entry.name.startswith("u-"))
        except FileNotFoundError:
            return
        for name in begun:
            with suppress(FileNotFoundError):  # killed before it had its key: nothing is in it
                yield Upload((self.path / name / _KEY).read_bytes().decode("utf-8", "surrogateescape"), name)

    def begin(self, key: str, mark: str) -> Upload:
        """Begin one, or go on with it."""
        named = key.encode("utf-8", "surrogateescape")
        folder = self.path / f"u-{hashlib.sha256(named + mark.encode()).hexdigest()[:32]}"
        folder.mkdir(parents=True, exist_ok=True)
        upload = Upload(key, folder.name)
        with self._there(upload):
            _write_durably(folder / _KEY, named)
        return upload

    def parts(self, upload: Upload) -> Sequence[Part]:
        """The parts that are there."""
        with self._there(upload) as folder:
            (folder / _KEY).stat()
            found = [file for file in folder.glob("p-*") if file.suffix != ".new"]
            return [Part(int(file.name[2:]), 0, int(file.read_text("ascii"))) for file in sorted(found)]

    def put_part(self, upload: Upload, part: Part, body: bytes) -> None:
        """Write one part where it belongs, and then that it is there."""
        with self._there(upload) as folder:
            file = os.open(folder / _OBJECT, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                _write_all(file, body, part.offset)
                os.fdatasync(file)
            finally:
                os.close(file)
            _write_durably(folder / f"p-{part.number:05}", str(part.size).encode())

    def finished(self, upload: Upload, size: int, modified_ns: int) -> Path:
        """The whole file, with its time of change, on the disk."""
        with self._there(upload) as folder:
            path = folder / _OBJECT
            with path.open("r+b") as file:
                if os.fstat(file.fileno()).st_size != size:
                    raise UploadLost(f"{upload.key}: {size} bytes were written, and others are there")
                os.utime(file.fileno(), ns=(modified_ns, modified_ns))
                os.fsync(file.fileno())
            return path

    def remove(self, upload: Upload) -> None:
        """Forget one."""
        _remove(self.path / upload.name)

    def clear(self) -> None:
        """Forget all, and the workplace."""
        _remove(self.path)

    @contextmanager
    def _there(self, upload: Upload) -> Iterator[Path]:
        try:
            yield self.path / upload.name
        except FileNotFoundError:
            raise UploadLost(f"{upload.key}: what was written of it is not there any more") from None


class SmallFile:
    """A small file that is none of the folder's."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> bytes | None:
        """Its bytes; None where it is not there. Raises Transient or Refused."""
        with as_ports_have_it(f"read {self._path}"):
            try:
                return self._path.read_bytes()
            except FileNotFoundError:
                return None

    def write(self, body: bytes) -> None:
        """Write it, whole or not at all."""
        with as_ports_have_it(f"write {self._path}"):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            try:
                _write_durably(self._path, body)
            except FileNotFoundError:
                raise Transient(f"write {self._path}: its folder was removed meanwhile") from None

    def delete(self) -> None:
        """Remove it if it is there."""
        with as_ports_have_it(f"delete {self._path}"):
            self._path.unlink(missing_ok=True)


def write_whole(path: Path, body: bytes, modified_ns: int) -> None:
    """A new file with its time of change, on the disk."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        _write_all(file, body, 0)
        os.utime(file, ns=(modified_ns, modified_ns))
        os.fsync(file)
    finally:
        os.close(file)


def _write_all(file: int, body: bytes, offset: int) -> None:
    left = memoryview(body)
    while left:
        written = os.pwrite(file, left, offset)
        left, offset = left[written:], offset + written


def _write_durably(path: Path, body: bytes) -> None:
    new = path.with_name(f"{path.name}.{secrets.token_hex(4)}.new")
    with new.open("wb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def _remove(folder: Path) -> None:
    """Remove a folder with all in it; what somebody else removes meanwhile is as good."""
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)
