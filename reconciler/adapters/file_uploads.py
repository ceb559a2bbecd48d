"""What is unfinished of files that are written by parts: a workplace on the same disk as the folder that they will stand in.

Decides the layout: `u-<name>/object` with the bytes at their offsets, `u-<name>/p-<number>` for each part that is there, whose
text is its size, `u-<name>/key`; `w-…` are whole files and `f-…` finished uploads on their way. The name is drawn from key and
version, so parts of another version are never taken for parts of this one.

Invariant: a part's little file is made when its bytes are on the disk, in the folder that their object is in. Who finishes an
object takes its whole folder away first: another worker's next part begins a new object, of which the earlier ones are no parts.
"""

import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from reconciler.adapters.folders import FOLDER, as_ports_have_it
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
        file = self._drawn("w")
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
        upload = Upload(key, f"u-{sha256(named + mark.encode()).hexdigest()[:32]}")
        (self.path / upload.name).mkdir(parents=True, exist_ok=True)
        with self._folder(upload) as folder:
            _write_durably(_KEY, named, folder)
        return upload

    def parts(self, upload: Upload) -> Sequence[Part]:
        """The parts that are there."""
        with self._folder(upload) as folder:
            os.stat(_KEY, dir_fd=folder)
            return list(_parts_in(folder))

    def put_part(self, upload: Upload, part: Part, body: bytes) -> None:
        """Write one part where it belongs, and then that it is there."""
        with self._folder(upload) as folder:
            file = os.open(_OBJECT, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666, dir_fd=folder)
            try:
                _write_all(file, body, part.offset)
                os.fdatasync(file)
            finally:
                os.close(file)
            _write_durably(f"p-{part.number:05}", str(part.size).encode(), folder)

    @contextmanager
    def finished(self, upload: Upload, size: int, modified_ns: int) -> Iterator[Path]:
        """The whole file, with its time of change, on the disk; the upload is forgotten where nothing is raised inside."""
        with self._folder(upload) as folder:
            _check_whole(folder, upload, size)
        taken, left = self._drawn("f"), self.path / upload.name
        with _lost_where_absent(upload):
            left.rename(taken)
        try:
            with _lost_where_absent(upload), _opened(taken) as folder:
                _check_whole(folder, upload, size)
                with (taken / _OBJECT).open("r+b") as file:
                    os.utime(file.fileno(), ns=(modified_ns, modified_ns))
                    os.fsync(file.fileno())
            yield taken / _OBJECT
        except OSError:
            with suppress(OSError):  # somebody has begun it anew, who is nearer to its end
                taken.rename(left)
            raise
        finally:
            shutil.rmtree(taken, ignore_errors=True)  # the rest goes with the workplace

    def remove(self, upload: Upload) -> None:
        """Forget one."""
        taken = self._drawn("f")
        with suppress(FileNotFoundError):
            (self.path / upload.name).rename(taken)
        shutil.rmtree(taken, ignore_errors=True)

    def clear(self) -> None:
        """Forget all, and the workplace; what somebody else removes meanwhile is as good."""
        with suppress(FileNotFoundError):
            shutil.rmtree(self.path)

    def _drawn(self, kind: str) -> Path:
        return self.path / f"{kind}-{secrets.token_hex(8)}"

    @contextmanager
    def _folder(self, upload: Upload) -> Iterator[int]:
        """The upload's folder, which is the same one all the while, whatever has its name."""
        with _lost_where_absent(upload), _opened(self.path / upload.name) as folder:
            yield folder


@contextmanager
def _lost_where_absent(upload: Upload) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise UploadLost(f"{upload.key}: what was written of it is not there any more") from None


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    folder = os.open(path, FOLDER | os.O_CLOEXEC)
    try:
        yield folder
    finally:
        os.close(folder)


def _parts_in(folder: int) -> Iterator[Part]:
    for name in sorted(name for name in os.listdir(folder) if name.startswith("p-") and not name.endswith(".new")):
        file = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
        with os.fdopen(file, encoding="ascii") as text:
            yield Part(int(name[2:]), 0, int(text.read()))


def _check_whole(folder: int, upload: Upload, size: int) -> None:
    """Raises UploadLost where a byte is missing: a file with holes has its size, too."""
    found = os.stat(_OBJECT, dir_fd=folder).st_size
    there = sum(part.size for part in _parts_in(folder))
    if not found == there == size:
        raise UploadLost(f"{upload.key}: {size} bytes were written, and others are there")


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


def _write_durably(name: str | Path, body: bytes, folder: int | None = None) -> None:
    """Whole or not at all. `folder`: the descriptor of what the name is in."""
    new = f"{name}.{secrets.token_hex(4)}.new"
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=folder), "wb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, name, src_dir_fd=folder, dst_dir_fd=folder)
