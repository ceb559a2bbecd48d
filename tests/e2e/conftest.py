"""A real control plane, brought up once for all tests here. Collected by `make e2e` only."""

import os
from collections.abc import Iterator

import pytest

from tests.e2e.control_plane import ControlPlane, region
from tests.e2e.world import Team, service_account

collect_ignore_glob = [] if os.environ.get("E2E") else ["test_*.py"]


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A region with two nodes of 8 GPUs, and the agent's account with its rights."""
    with region(tmp_path_factory.mktemp("region")) as up:
        up.add_nodes(2)
        service_account(up)
        yield up


@pytest.fixture
def team(plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[Team]:
    """A namespace of the test's own; its workloads and pods are gone afterwards."""
    made = Team(plane, request.node.name)
    yield made
    made.clear()
