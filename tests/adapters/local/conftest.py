"""Worlds for the tests of the local region: one with real processes, one with a real Git server."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adapters.local.real import RealWorld, leave_nothing
from tests.adapters.local.synced import SyncedWorld
from tests.githttp import serving


@pytest.fixture
def real_world(tmp_path: Path) -> Iterator[RealWorld]:
    """A region with real processes; none of them is left behind."""
    made = RealWorld(tmp_path)
    yield made
    made.cluster.close()
    leave_nothing(tmp_path)


@pytest.fixture
def synced_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SyncedWorld]:
    """A region whose branch stands on a Git server over HTTP."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    with serving(tmp_path / "served") as server:
        yield SyncedWorld(server, tmp_path)
