"""Both kinds of ends of a copy, on a folder and on a real S3 server over HTTP; and a knife that cuts a worker off at any call."""

import threading
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from botocore.config import Config

from reconciler.adapters.clock import SystemClock
from reconciler.adapters.file_bulk import FileBulk
from reconciler.adapters.s3_answers import Keys
from reconciler.adapters.s3_bulk import S3Bulk
from reconciler.agent.stage.transfer.rounds import Staged, transfer
from reconciler.agent.stage.transfer.work import Options
from reconciler.bulk_port import BulkStore
from reconciler.model.progress import Progress
from reconciler.ports import Transient
from tests.adapters.s3_server import client_factory, make_bucket

PART = 5 * 1024**2
"""The least that S3 takes for any part but the last."""
QUICK = Options(part_bytes=PART, in_flight_bytes=4 * PART, threads=4, patience_seconds=1.0)


@contextmanager
def s3_end(url: str, bucket: str, folder: str) -> Iterator[S3Bulk]:
    with closing(S3Bulk(bucket, folder, client_factory=client_factory(url))) as end:
        yield end


class Ends:
    """Makes ends: `kind` is file or s3. Those of one name are one folder. A store copies by itself only between ends of one account."""

    def __init__(self, kind: str, url: str, folder: Path, account: str = "one") -> None:
        self.kind, self._url, self._folder, self._keys = kind, url, folder, Keys(account, account)
        self.bucket = f"b-{uuid.uuid4().hex}"
        if kind == "s3":
            make_bucket(url, self.bucket)

    def end(self, name: str) -> BulkStore:
        if self.kind == "file":
            return FileBulk(self._folder / name)
        return S3Bulk(self.bucket, name, client_factory=client_factory(self._url), keys=self._keys)

    def write(self, name: str, objects: dict[str, bytes]) -> None:
        """Objects as somebody else writes them, who leaves no marks."""
        if self.kind == "s3":
            with closing(client_factory(self._url)(Config())) as client:
                for key, body in objects.items():
                    client.put_object(Bucket=self.bucket, Key=f"{name}/{key}", Body=body)
            return
        for key, body in objects.items():
            path = self._folder / name / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir() if key.endswith("/") else path.write_bytes(body)

    def remove(self, name: str, key: str) -> None:
        with closing(self.end(name)) as end:
            end.delete(key)

    def read(self, name: str) -> dict[str, bytes]:
        with closing(self.end(name)) as end:
            return {found.key: body_of(end, found) for found in end.list()}


def body_of(end: BulkStore, found: Any) -> bytes:
    with end.open(found, 0, found.size) as stream:
        blocks = []
        while block := stream.read(1 << 20):
            blocks.append(block)
    return b"".join(blocks)


def staged(source: BulkStore, target: BulkStore, options: Options = QUICK, rate: Any = lambda: None) -> Staged:
    """One transfer, as fast as it goes."""
    said: list[Progress] = []
    done = transfer(source, target, options, rate, SystemClock(), said.append)
    last = said[-1]
    assert (last.objects_done, last.bytes_done) == (last.objects_total, last.bytes_total)
    return done


class Killed(BaseException):
    """The worker is dead. No `except Exception` sees it, as none would."""


class Knife:
    """A store as a worker sees it that is killed at its `at`-th call: before that is done, or just after."""

    def __init__(self, store: Any, at: int, *, after: bool) -> None:
        self._store, self._at, self._after = store, at, after
        self._calls = 0
        self._lock = threading.Lock()
        self.killed = False
        self.uri = store.uri
        self.marker = _Part(self, store.marker)
        self.note = _Part(self, store.note)

    def __getattr__(self, name: str) -> Any:
        return self.cut(getattr(self._store, name))

    def cut(self, call: Any) -> Any:
        def called(*arguments: Any) -> Any:
            with self._lock:
                self._calls += 1
                fatal = self._calls == self._at
                if self.killed or (fatal and not self._after):
                    self.killed = True
                    raise Killed
            answer = call(*arguments)
            if fatal or self.killed:
                self.killed = True
                raise Killed
            return answer

        return called


class _Part:
    def __init__(self, knife: Knife, store: Any) -> None:
        self._knife, self._store = knife, store

    def __getattr__(self, name: str) -> Any:
        return self._knife.cut(getattr(self._store, name))


class Flaky:
    """A store of which every `each`-th call is not answered."""

    def __init__(self, store: Any, each: int) -> None:
        self._store, self._each, self._calls = store, each, 0
        self._lock = threading.Lock()
        self.uri, self.marker, self.note = store.uri, store.marker, store.note

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._store, name)

        def called(*arguments: Any) -> Any:
            with self._lock:
                self._calls += 1
                fails = self._calls % self._each == 0
            if fails:
                raise Transient("no answer")
            return call(*arguments)

        return called
