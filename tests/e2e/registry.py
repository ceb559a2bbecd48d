"""Real image registries for tests: Debian's `docker-registry` over a folder, as processes on loopback; and images made for them.

One may ask for a name and password (htpasswd), or be a pull-through mirror of another (proxy).
"""

import hashlib
import json
import os
import random
import re
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
import yaml

from tests.e2e.control_plane import free_ports
from tests.e2e.token_server import TokenServer
from tests.waiting import until

USER, WORD = "puller", "puller-word"
_LINE = "puller:$2y$04$FC7x.41sZJAkprxqv68DyOdMWNhVs6uN0zpX254ZKuVNKURD.Nz5K"  # of that name and word; for tests alone
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
CONFIG = "application/vnd.oci.image.config.v1+json"


class RegistryServer:
    """`login`: it wants USER and WORD. `tokens`: it sends there. `upstream`: it is a mirror of that one. `start` brings it up, `stop` ends it; what it has
    stays in its folder."""

    def __init__(
        self,
        folder: Path,
        *,
        login: bool = False,
        upstream: "RegistryServer | None" = None,
        tokens: TokenServer | None = None,
        **more: Any,
    ) -> None:
        (self.port,) = free_ports(1)
        self.host = f"127.0.0.1:{self.port}"
        self.folder, self._login = folder, login
        self.storage = folder / "storage"
        self.storage.mkdir(parents=True)
        settings: dict[str, Any] = {
            "version": 0.1,
            "log": {"level": "info"},
            "storage": {"filesystem": {"rootdirectory": str(self.storage)}},
            "http": {"addr": self.host},
            **more,
        }
        if login:
            (folder / "htpasswd").write_text(f"{_LINE}\n")
            settings["auth"] = {"htpasswd": {"realm": "tests", "path": str(folder / "htpasswd")}}
        self._tokens = tokens
        if tokens is not None:
            settings |= tokens.settings
        if upstream is not None:
            settings["proxy"] = {"remoteurl": f"http://{upstream.host}"}
            if upstream._tokens is not None:  # in proxy mode it meets no other challenge
                settings["proxy"] |= {"username": USER, "password": WORD}
        (folder / "config.yml").write_text(yaml.safe_dump(settings))
        self._running: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Serve; returns as soon as it listens. A mirror needs its upstream for that."""
        command = ["docker-registry", "serve", str(self.folder / "config.yml")]
        with (self.folder / "log").open("ab") as log:
            self._running = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": os.environ["PATH"], "HOME": str(self.folder)},
            )
        until(self._listens, 30.0, 0.05)

    def stop(self) -> None:
        """End it; nothing where it does not run."""
        running, self._running = self._running, None
        if running is not None:
            running.terminate()
            running.wait(10)

    def _listens(self) -> bool:
        assert self._running is not None
        if self._running.poll() is not None:
            raise RuntimeError(f"docker-registry ended: {(self.folder / 'log').read_text()[-2000:]}")
        with socket.socket() as door:
            return door.connect_ex(("127.0.0.1", self.port)) == 0

    @property
    def log(self) -> str:
        """What it has written."""
        return (self.folder / "log").read_text(encoding="utf-8")

    def asked(self, method: str, digest: str) -> int:
        """How often it was asked so for a blob, up to now."""
        return sum(f'"{method} ' in line and f"/blobs/{digest} " in line and "HTTP/1.1" in line for line in self.log.splitlines())

    def has(self, digest: str) -> bool:
        """Whether a blob stands whole in its storage."""
        kind, _, name = digest.partition(":")
        return (self.storage / "docker/registry/v2/blobs" / kind / name[:2] / name / "data").is_file()

    def request(self, method: str, path: str, **more: Any) -> requests.Response:
        """As who may do anything."""
        headers = dict(more.pop("headers", {}))
        if self._tokens is not None:
            repository = re.split(r"/(?:blobs|manifests)/", path)[0]
            headers["Authorization"] = f"Bearer {self._tokens.token([f'repository:{repository}:pull,push'], USER)}"
        auth = (USER, WORD) if self._login else None
        answer = requests.request(method, f"http://{self.host}/v2/{path}", auth=auth, headers=headers, timeout=20, **more)
        answer.raise_for_status()
        return answer

    def push_blob(self, repository: str, body: bytes) -> str:
        """Bring a blob; its digest."""
        digest = digest_of(body)
        where = self.request("POST", f"{repository}/blobs/uploads/").headers["Location"]
        upload, _, query = where.partition("/v2/")[2].partition("?")
        self.request(
            "PUT", upload, params=f"{query}&digest={digest}", data=body, headers={"Content-Type": "application/octet-stream"}
        )
        return digest

    def push_manifest(self, repository: str, name: str, manifest: dict[str, Any]) -> str:
        """Bring a manifest or index, under a tag or its digest; its digest."""
        body = json.dumps(manifest).encode()
        self.request("PUT", f"{repository}/manifests/{name}", data=body, headers={"Content-Type": manifest["mediaType"]})
        return digest_of(body)

    def push(self, repository: str, tag: str, sizes: Sequence[int], seed: int = 0, architecture: str = "amd64") -> "Pushed":
        """Make an image with layers of so many bytes and push it."""
        chance = random.Random(f"{repository}:{tag}:{seed}:{architecture}")
        config = json.dumps({"architecture": architecture, "os": "linux", "seed": seed}).encode()
        bodies = [chance.randbytes(size) for size in sizes]
        digests = [self.push_blob(repository, body) for body in (config, *bodies)]
        described = [
            {"mediaType": LAYER, "digest": digest, "size": len(body)} for digest, body in zip(digests[1:], bodies, strict=True)
        ]
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"mediaType": CONFIG, "digest": digests[0], "size": len(config)},
            "layers": described,
        }
        name = tag or digest_of(json.dumps(manifest).encode())
        digest = self.push_manifest(repository, name, manifest)
        return Pushed(digest, tuple(digests), len(config) + sum(sizes), len(json.dumps(manifest)))


@dataclass(frozen=True, slots=True)
class Pushed:
    """An image as it stands in a registry. Its first blob is the configuration."""

    digest: str
    blobs: tuple[str, ...]
    size: int
    manifest_size: int


def digest_of(body: bytes) -> str:
    """By sha256."""
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


@contextmanager
def registry(folder: Path, **more: Any) -> Iterator[RegistryServer]:
    """One for the time of a `with` block."""
    server = RegistryServer(folder, **more)
    try:
        server.start()
        yield server
    finally:
        server.stop()
