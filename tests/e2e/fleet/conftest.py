"""The fleet, brought up once for all tests here. Collected by `make e2e` only."""

import os
from collections.abc import Iterator

import pytest

from tests.e2e.fleet.up import Fleet, fleet_up

collect_ignore_glob = [] if os.environ.get("E2E") else ["test_*.py"]


@pytest.fixture(scope="session")
def running_fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Three regions, a forge, a store, hub and agents."""
    with fleet_up(tmp_path_factory.mktemp("fleet")) as up:
        yield up


@pytest.fixture
def fleet(running_fleet: Fleet) -> Iterator[Fleet]:
    """The same, judged after each test: nothing ended by itself, and nothing ran twice or beside itself."""
    running_fleet.check()
    yield running_fleet
    running_fleet.check()
