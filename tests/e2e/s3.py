"""A real S3 server for tests: versitygw over a folder, as a process on loopback."""

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import boto3
from botocore.config import Config

from tests.e2e.control_plane import built, free_ports
from tests.waiting import until

ACCESS, SECRET, LOCATION = "e2e-access", "e2e-secret", "us-east-1"


@dataclass(frozen=True, slots=True)
class S3Server:
    """Where it listens, and the folder whose subfolders are its buckets."""

    endpoint: str
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """What a program needs to be let in."""
        return {
            "AWS_ACCESS_KEY_ID": ACCESS,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": LOCATION,
            "AWS_DEFAULT_REGION": LOCATION,
            "AWS_EC2_METADATA_DISABLED": "true",
            "RECONCILER_STORE_ENDPOINT": self.endpoint,
        }

    def make_bucket(self, name: str) -> None:
        """A new bucket."""
        client = boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=ACCESS,
            aws_secret_access_key=SECRET,
            region_name=LOCATION,
            config=Config(signature_version="s3v4", s3={"addressing_style": "path"}),
        )
        client.create_bucket(Bucket=name)


@contextmanager
def s3_server(folder: Path) -> Iterator[S3Server]:
    """A server for the time of a `with` block."""
    (folder / "buckets").mkdir(parents=True)
    (port,) = free_ports(1)
    command = [str(built("s3") / "versitygw"), "--port", f"127.0.0.1:{port}", "--region", LOCATION, "--quiet", "posix"]
    environment = {"PATH": os.defpath, "HOME": str(folder), "ROOT_ACCESS_KEY": ACCESS, "ROOT_SECRET_KEY": SECRET}
    with (folder / "log").open("wb") as log:
        running = subprocess.Popen(
            [*command, str(folder / "buckets")], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
        )
    try:
        server = S3Server(f"http://127.0.0.1:{port}", folder / "buckets")
        until(lambda: _listens(running, port), 30.0, 0.1)
        yield server
    finally:
        running.terminate()
        running.wait(10)


def _listens(running: subprocess.Popen[bytes], port: int) -> bool:
    if running.poll() is not None:
        raise RuntimeError(f"versitygw ended with {running.returncode}")
    with socket.socket() as door:
        return door.connect_ex(("127.0.0.1", port)) == 0
