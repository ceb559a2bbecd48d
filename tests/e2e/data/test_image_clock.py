"""How long a node waits for a large image, with its region's mirror warmed before and without: while it waits, a GPU would be held.

No runtime of these tests pulls images, so a node is played here: it fetches what a container runtime fetches, as it does, and checks
each part; it does not unpack.
"""

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.adapters.throttle import throttled
from tests.e2e.data.rig import MB, told
from tests.e2e.programs import CHECKOUT
from tests.e2e.registry import MANIFEST, Pushed, RegistryServer, registry

RATE = 25 * MB
LAYERS = (100 * MB,) * 5
AT_LEAST_SOONER = 0.8
REPOSITORY = "team/train"
_AT_ONCE = 3
"""Parts that containerd fetches at once, unless it is told otherwise."""


@pytest.fixture
def upstream(tmp_path: Path) -> Iterator[RegistryServer]:
    with registry(tmp_path / "upstream") as up:
        yield up


def pull_seconds(mirror: RegistryServer, tag: str, image: Pushed) -> float:
    """What a node with nothing of an image waits for it."""

    def fetch(digest: str) -> None:
        found = hashlib.sha256()
        for some in mirror.request("GET", f"{REPOSITORY}/blobs/{digest}", stream=True).iter_content(2**20):
            found.update(some)
        assert f"sha256:{found.hexdigest()}" == digest

    began = time.monotonic()
    mirror.request("GET", f"{REPOSITORY}/manifests/{tag}", headers={"Accept": MANIFEST})
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for _ in pool.map(fetch, image.blobs):
            pass
    return time.monotonic() - began


def warmed(mirror: RegistryServer, image: str) -> float:
    """Have the mirror fetch an image, as a staging task does; how long that took."""
    command = [sys.executable, "-m", "reconciler.cli", "stage", "image", image, "--mirror", mirror.host]
    began = time.monotonic()
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(CHECKOUT)}, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert "which says that it keeps all of it" in done.stdout
    return time.monotonic() - began


def test_a_warmed_mirror_gives_a_large_image_at_once(upstream: RegistryServer, tmp_path: Path) -> None:
    cold, warm = (upstream.push(REPOSITORY, tag, LAYERS) for tag in ("cold", "warm"))
    with throttled(f"http://{upstream.host}") as link:
        link.bytes_per_second = RATE
        with registry(tmp_path / "mirror", proxy={"remoteurl": link.url}) as mirror:
            without = pull_seconds(mirror, "cold", cold)
            before = warmed(mirror, f"{upstream.host}/{REPOSITORY}:warm")
            after = pull_seconds(mirror, "warm", warm)
    what = f"a node waits for an image of {sum(LAYERS) / MB:g} MB over {RATE / MB:g} MB/s"
    told(f"{what}, without staging", f"{without:.2f} s")
    told(f"{what}, with staging", f"{after:.2f} s, {1 - after / without:.1%} less; before, with no GPU held, {before:.1f} s")
    # This mirror fetches each part a second time, to keep it. It is judged by what one that does not would take without staging.
    quickest = sum(LAYERS) / RATE
    assert without >= quickest
    assert after <= (1 - AT_LEAST_SOONER) * quickest
