"""The fleet of the faults, brought up once for all tests here. Collected by `make e2e` only."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.faults.world import World, world_up

HERE = Path(__file__).parent
collect_ignore_glob = [] if os.environ.get("E2E") else ["test_*.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest comes first, so that two fleets side by side are done at about the same time."""
    items.sort(key=lambda item: item.path.parent != HERE or "a_hub_that_is_killed" not in item.name)


@pytest.fixture(scope="session")
def running_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Three regions, a forge, a store, hub and agents, and every way between them."""
    with world_up(tmp_path_factory.mktemp("faults")) as up:
        yield up


@pytest.fixture
def world(running_world: World, request: pytest.FixtureRequest) -> Iterator[World]:
    """The same, well at the beginning, and judged after each test."""
    request.node.user_properties = running_world.stories = []
    running_world.until_well()
    running_world.check()
    yield running_world
    running_world.wires.mend()
    running_world.check()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How long failovers took."""
    reports = [each for reports in terminalreporter.stats.values() for each in reports if isinstance(each, pytest.TestReport)]
    for report in reports:
        for name, words in report.user_properties if report.when == "teardown" else ():
            terminalreporter.write_line(f"{name}: {words}")
