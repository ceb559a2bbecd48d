"""A real S3 server for tests: versitygw over a folder, as a process on loopback."""

import os
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from tests.e2e.control_plane import built, free_ports
from tests.waiting import until

ACCESS, SECRET, LOCATION = "e2e-access", "e2e-secret", "us-east-1"


class S3Server:
    """Its `folder` has the buckets as subfolders. `start` brings it up, `stop` ends it; it may be started again on what it has kept."""

    def __init__(self, folder: Path, address: str = "127.0.0.1", within: Sequence[str] = ()) -> None:
        """`within`: what its command begins with, to run in a network namespace of its own, where it has this address."""
        self.folder = folder / "buckets"
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.port,) = free_ports(1)
        self.endpoint = f"http://{address}:{self.port}"
        self._address, self._within = address, within
        self._home = folder
        self._running: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Serve; returns as soon as it listens."""
        program = [*self._within, str(built("s3") / "versitygw"), "--port", f"{self._address}:{self.port}", "--region", LOCATION]
        command = [*program, "--keep-alive", "--quiet", "posix"] if self._within else [*program, "--quiet", "posix"]
        environment = {"PATH": os.defpath, "HOME": str(self._home), "ROOT_ACCESS_KEY": ACCESS, "ROOT_SECRET_KEY": SECRET}
        with (self._home / "log").open("ab") as log:
            self._running = subprocess.Popen(
                [*command, str(self.folder)], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
            )
        until(self._listens, 30.0, 0.1)

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._running is not None
        return self._running.pid

    def stop(self) -> None:
        """End it; nothing where it does not run."""
        running, self._running = self._running, None
        if running is not None:
            running.terminate()
            running.wait(10)

    def _listens(self) -> bool:
        assert self._running is not None
        if self._running.poll() is not None:
            raise RuntimeError(f"versitygw ended with {self._running.returncode}")
        if self._within:  # it cannot be reached from here
            return (
                f":{self.port} "
                in subprocess.run([*self._within, "ss", "-Hltn"], check=True, capture_output=True, text=True).stdout
            )
        with socket.socket() as door:
            return door.connect_ex(("127.0.0.1", self.port)) == 0

    def environment_by(self, port: int) -> dict[str, str]:
        """What a program needs to be let in that reaches it by a port of its own."""
        return {
            "AWS_ACCESS_KEY_ID": ACCESS,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": LOCATION,
            "AWS_DEFAULT_REGION": LOCATION,
            "AWS_EC2_METADATA_DISABLED": "true",
            "RECONCILER_STORE_ENDPOINT": f"http://127.0.0.1:{port}",
        }

    @property
    def environment(self) -> dict[str, str]:
        """What a program needs to be let in."""
        return self.environment_by(self.port)

    def client(self, **config: Any) -> Any:
        """What boto3 asks it with. `config`: more of a client's."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=ACCESS,
            aws_secret_access_key=SECRET,
            region_name=LOCATION,
            config=Config(signature_version="s3v4", s3={"addressing_style": "path"}, **config),
        )

    def make_bucket(self, name: str) -> None:
        """A new bucket."""
        with closing(self.client()) as client:
            client.create_bucket(Bucket=name)


@contextmanager
def s3_server(folder: Path) -> Iterator[S3Server]:
    """A server for the time of a `with` block."""
    server = S3Server(folder)
    try:
        server.start()
        yield server
    finally:
        server.stop()
