"""What seeding moves over the wire, and how much memory it takes: to a real S3 server over HTTP, and as a process with a limit."""

import filecmp
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.agent.stage.checkpoints.seeding import SEEDING, Seeded
from reconciler.bulk_port import Found, Pace, Part, Stream, Upload, mark_of
from reconciler.model.progress import Progress
from reconciler.ports import Refused
from tests.adapters.s3_server import App, Start, answering, moto_app, s3_error, serving
from tests.agent.stage import layouts
from tests.agent.stage.memory import MemoryBulk, MemoryEnds
from tests.agent.stage.test_seeding import BY_PARTS, NEW, OLD, WANTED, WRITTEN, seeded
from tests.agent.stage.transfer.ends import PART, Ends, s3_end

# ---- what goes over the wire --------------------------------------------------------------------------------------------


class Counted:
    """Counts the bytes of objects that callers were sent and have sent."""

    def __init__(self) -> None:
        self.received = self.sent = 0
        self.lists_uploads = False

    def __call__(self, app: App) -> App:
        def counting(environ: dict[str, Any], start: Start) -> Any:
            body = list(app(environ, start))
            is_object = environ["REQUEST_METHOD"] == "GET" and "list-type=" not in environ["QUERY_STRING"]
            self.lists_uploads |= environ["REQUEST_METHOD"] == "GET" and "uploads" in environ["QUERY_STRING"]
            self.received += sum(map(len, body)) if is_object else 0
            self.sent += int(environ.get("CONTENT_LENGTH") or 0) if environ["REQUEST_METHOD"] == "PUT" else 0
            return body

        return counting


CHECKPOINT = {
    "step-20/model.safetensors": layouts.tensors(2 * PART + 8),
    "step-20/optimizer.pt": layouts.archive(PART),
    "step-20/trainer_state.json": b'{"global_step": 20}',
}


def test_within_one_store_only_heads_and_ends_come_over_the_wire() -> None:
    counted = Counted()
    with serving(counted(moto_app())) as url:
        ends = Ends("s3", url, Path())
        ends.write(OLD, CHECKPOINT)
        counted.sent = 0
        said: list[Progress] = []
        with closing(ends.end(OLD)) as one, closing(ends.end(NEW)) as other:
            done = seeded(one, other, BY_PARTS, said)
        received, sent = counted.received, counted.sent
        size = sum(map(len, CHECKPOINT.values()))
        assert (done.copied_objects, done.copied_bytes) == (len(CHECKPOINT), size)
        assert received < 150_000
        assert sent < 1_000, "nothing but the worker's note"
        last = said[-1]
        assert (last.objects_done, last.objects_total, last.bytes_done, last.bytes_total) == (3, 3, size, size)
        assert last.bytes_sent == 0
        assert ends.read(NEW) == CHECKPOINT


def test_without_large_objects_no_right_to_uploads_is_asked_for() -> None:
    counted = Counted()
    with serving(counted(moto_app())) as url:
        ends = Ends("s3", url, Path())
        ends.write(OLD, WRITTEN)
        with closing(ends.end(OLD)) as one, closing(ends.end(NEW)) as other:
            seeded(one, other, SEEDING)
        assert not counted.lists_uploads
        assert ends.read(NEW) == WANTED


@pytest.mark.parametrize(("one", "two"), [("s3", "s3"), ("s3", "file"), ("file", "s3")])
def test_between_two_stores_the_bytes_are_sent(s3_url: str, tmp_path: Path, one: str, two: str) -> None:
    source, target = Ends(one, s3_url, tmp_path / "one"), Ends(two, s3_url, tmp_path / "two", account="two")
    source.write(OLD, CHECKPOINT)
    said: list[Progress] = []
    with closing(source.end(OLD)) as first, closing(target.end(NEW)) as second:
        done = seeded(first, second, BY_PARTS, said)
        assert seeded(first, second, BY_PARTS) == Seeded("step-20")
    assert done.copied_bytes == said[-1].bytes_sent == sum(map(len, CHECKPOINT.values()))
    assert target.read(NEW) == CHECKPOINT


def test_a_store_that_does_not_copy_by_itself_is_sent_the_bytes(s3_url: str) -> None:
    ends = Ends("s3", s3_url, Path())
    ends.write(OLD, CHECKPOINT)
    with ExitStack() as stack:
        url = stack.enter_context(serving(_not_copying(moto_app())))
        one, other = (stack.enter_context(s3_end(url, ends.bucket, name)) for name in (OLD, NEW))
        assert seeded(one, other, BY_PARTS).checkpoint == "step-20"
    assert ends.read(NEW) == CHECKPOINT


def _not_copying(app: App) -> App:
    refusing = answering("501 Not Implemented", s3_error("NotImplemented"), methods=("PUT",))(app)
    return lambda environ, start: (refusing if "HTTP_X_AMZ_COPY_SOURCE" in environ else app)(environ, start)


def test_a_store_that_refuses_says_so_in_words_of_its_own(s3_url: str) -> None:
    ends = Ends("s3", s3_url, Path())
    ends.write(OLD, CHECKPOINT)
    denied = answering("403 Forbidden", s3_error("AccessDenied"), methods=("PUT", "POST"))(moto_app())
    with ExitStack() as stack:
        url = stack.enter_context(serving(denied))
        one, other = (stack.enter_context(s3_end(url, ends.bucket, name)) for name in (OLD, NEW))
        with pytest.raises(Refused, match="allow these credentials") as told:
            seeded(one, other, BY_PARTS)
    assert "dataset" not in str(told.value)


# ---- memory -------------------------------------------------------------------------------------------------------------


class Vast(MemoryBulk):
    """An end that has, or takes, one object that is large; counts the bytes that were read and are not written yet."""

    SIZE = 512 * 1024**2
    held = most = taken = 0
    lock = threading.Lock()

    @classmethod
    def moved(cls, size: int) -> None:
        with cls.lock:
            cls.held += size
            cls.most = max(cls.most, cls.held)

    def list(self) -> Iterator[Found]:
        yield from (replace(found, size=self.SIZE) if found.size == 1 else found for found in super().list())

    @contextmanager
    def open(self, found: Found, offset: int, size: int) -> Iterator[Stream]:  # noqa: ARG002 - zeros all over
        left = [size]

        def read(limit: int) -> bytes:
            block = bytes(min(limit, left[0]))
            left[0] -= len(block)
            self.moved(len(block))
            return block

        yield Stream(read)

    def put_part(self, upload: Upload, part: Part, body: bytes, pace: Pace) -> Part:
        done = super().put_part(upload, part, b"", pace)
        Vast.taken += len(body)
        self.moved(-len(body))
        return done

    def finish(self, upload: Upload, origin: Found, parts: Sequence[Part]) -> str:  # noqa: ARG002 - the protocol's
        del self.store.begun[upload.name]
        return self.store.hold(self._below + upload.key, b"?", mark_of(origin))


def test_bytes_in_flight_are_bounded_whatever_the_objects_size() -> None:
    store = MemoryEnds(copies=False)
    store.write(OLD, {"step-20/_COMPLETE": b"", "step-20/vast": b"?"})
    done = seeded(Vast(store, OLD), Vast(store, NEW), SEEDING)
    assert (done.copied_objects, done.copied_bytes) == (2, Vast.SIZE)
    assert (Vast.taken, Vast.held) == (Vast.SIZE, 0)
    assert SEEDING.part_bytes <= Vast.most <= SEEDING.in_flight_bytes


LIMITED = """
import resource
resource.setrlimit(resource.RLIMIT_DATA, (300_000_000, 300_000_000))
from reconciler.cli import main
main()
"""


@pytest.mark.slow
def test_a_checkpoint_that_is_larger_than_memory_is_brought(tmp_path: Path) -> None:
    """The step's own process may have 300 MB, and one object has 500."""
    folder = tmp_path / OLD / "step-20"
    folder.mkdir(parents=True)
    with (folder / "optimizer.bin").open("wb") as file:
        file.truncate(500_000_000)
        file.seek(400_000_000)
        file.write(b"somewhere in it")
    (folder / "_COMPLETE").touch()
    step = [sys.executable, "-c", LIMITED, "stage", "checkpoint", f"file://{tmp_path}/{OLD}/", f"file://{tmp_path}/{NEW}/"]
    ended = subprocess.run(step, check=False, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-1].startswith("step-20 is at ")
    assert filecmp.cmp(folder / "optimizer.bin", tmp_path / NEW / "step-20/optimizer.bin", shallow=False)
