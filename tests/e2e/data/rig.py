"""Two regions' stores, real S3 servers, on two hosts with a link between them; and the staging worker on the target's host."""

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from reconciler.model.progress import Progress, last_progress
from tests.e2e.data.network import SOURCE, TARGET, Link, Meter, link
from tests.e2e.programs import CHECKOUT, peak_rss_mib
from tests.e2e.s3 import ACCESS, LOCATION, SECRET, S3Server, s3_server
from tests.waiting import until

MB = 1_000_000
TABLE: list[tuple[str, str]] = []
"""What was measured, in the order in which it was."""


def told(what: str, figures: str) -> None:
    """A line of the table."""
    TABLE.append((what, figures))
    print(f"{what}: {figures}", flush=True)


class Rig:
    """The two regions."""

    def __init__(self, folder: Path, joined: Link) -> None:
        self.folder, self.link = folder, joined
        self.source = S3Server(folder / "source", SOURCE, joined.within(SOURCE))
        self.target = S3Server(folder / "target", TARGET, joined.within(TARGET))
        self._runs = 0

    def start(self) -> None:
        """Serve both stores."""
        self.source.start()
        self.target.start()

    def stop(self) -> None:
        """End both."""
        self.source.stop()
        self.target.stop()

    def meter(self) -> Meter:
        """What comes to the target's host."""
        return Meter(self.target.pid)

    @property
    def environment(self) -> dict[str, str]:
        """What opens both ends."""
        ends = {"SOURCE_": self.source, "TARGET_": self.target}
        return {
            f"{prefix}{name}": value
            for prefix, server in ends.items()
            for name, value in {
                "AWS_ACCESS_KEY_ID": ACCESS,
                "AWS_SECRET_ACCESS_KEY": SECRET,
                "AWS_REGION": LOCATION,
                "AWS_ENDPOINT_URL_S3": server.endpoint,
            }.items()
        }

    def worker(self, source: str, target: str, *options: str) -> "Worker":
        """Start the worker on the target's host."""
        self._runs += 1
        command = [sys.executable, "-m", "reconciler.cli", "stage", "dataset", source, target, *options]
        log = self.folder / f"worker-{self._runs}.log"
        return Worker([*self.link.within(TARGET), *command], self.environment, log)

    def rclone(self, source: str, target: str) -> float:
        """A plain copy by rclone; returns when it is done."""
        keys = {"ACCESS_KEY_ID": ACCESS, "SECRET_ACCESS_KEY": SECRET, "REGION": LOCATION, "TYPE": "s3", "PROVIDER": "Other"}
        ends = {"A": self.source, "B": self.target}
        environment = {f"RCLONE_CONFIG_{end}_{name}": value for end in ends for name, value in keys.items()}
        environment |= {f"RCLONE_CONFIG_{end}_ENDPOINT": server.endpoint for end, server in ends.items()}
        command = [*self.link.within(TARGET), "rclone", "copy", f"A:{source}", f"B:{target}"]
        with self.meter() as meter:
            ended = subprocess.run(
                command, env=_environment(environment, self.folder), check=False, capture_output=True, text=True
            )
        assert ended.returncode == 0, ended.stderr
        return meter.rate()


class Worker:
    """The worker's process."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self.log = log
        self.peak_mib = 0.0
        """The most memory that it was seen to hold."""
        with log.open("wb") as out:
            self._running = subprocess.Popen(
                command, env=_environment(environment, log.parent), stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )

    def wait(self, within_seconds: float = 900.0) -> Progress:
        """Wait for a good end; returns its last progress."""
        try:
            until(lambda: not self._still(), within_seconds, 0.2)
        finally:
            self.kill()
        code, said = self._running.returncode, self.log.read_text("utf-8")
        assert code == 0, said
        progress = last_progress(said)
        assert progress is not None
        return progress

    def kill(self) -> None:
        """SIGKILL: nothing of it can say a word."""
        if self._running.poll() is None:
            self._running.send_signal(signal.SIGKILL)
        self._running.wait()

    def _still(self) -> bool:
        with suppress(FileNotFoundError, AssertionError):  # it has just ended
            self.peak_mib = max(self.peak_mib, peak_rss_mib(self._running.pid))
        return self.runs()

    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._running.poll() is None


def killed_at(rig: Rig, meter: Meter, arguments: Sequence[str], marks: Sequence[float]) -> int:
    """Kill the worker each time when so many bytes have come in all, and start it anew; returns how many bytes came to the end."""
    for mark in marks:
        worker = rig.worker(*arguments)
        until(lambda mark=mark, worker=worker: meter.total >= mark or not worker.runs(), 900.0, 0.01)
        assert worker.runs(), "it ended before it was killed"
        worker.kill()
    rig.worker(*arguments).wait()
    return meter.total


def _environment(more: Mapping[str, str], home: Path) -> dict[str, str]:
    paths = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    own = {"PATH": paths, "HOME": str(home), "LANG": "C.UTF-8", "PYTHONPATH": str(CHECKOUT), "AWS_EC2_METADATA_DISABLED": "true"}
    return {**own, **more}


def seed(folder: Path, bucket: str, objects: Mapping[str, int]) -> None:
    """Write objects of these sizes into a server's folder, by the server itself, before it serves the rig."""
    with s3_server(folder) as server:
        server.make_bucket(bucket)
        with closing(server.client(max_pool_connections=16)) as client, ThreadPoolExecutor(8) as pool:
            for _ in pool.map(lambda one: _put(client, bucket, *one), objects.items()):
                pass


def _put(client: object, bucket: str, key: str, size: int) -> None:
    if size <= 8 * 1024**2:
        client.put_object(Bucket=bucket, Key=key, Body=os.urandom(size))  # type: ignore[attr-defined]
    else:
        client.upload_fileobj(_Random(size), bucket, key)  # type: ignore[attr-defined]


class _Random:
    """A file of random bytes that is nowhere."""

    def __init__(self, size: int) -> None:
        self._left = size

    def read(self, limit: int = -1) -> bytes:
        taken = self._left if limit < 0 else min(limit, self._left)
        self._left -= taken
        return os.urandom(taken)


def same_bytes(one: Path, other: Path) -> bool:
    """Whether two folders hold the same files."""
    return _digests(one) == _digests(other)


def _digests(folder: Path) -> dict[str, str]:
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and ".sgwtmp" not in path.parts:
            with path.open("rb") as file:
                found[path.relative_to(folder).as_posix()] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


@contextmanager
def rig_up(folder: Path, seeds: Mapping[str, int]) -> Iterator[Rig]:
    """Both regions, the source's bucket `data` with objects of these sizes, the target's `region` empty."""
    with link() as joined:
        rig = Rig(folder, joined)
        seed(folder / "source", "data", seeds)
        seed(folder / "target", "region", {})
        try:
            rig.start()
            yield rig
        finally:
            rig.stop()
