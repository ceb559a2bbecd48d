"""Two regions and the link between them. Collected by `make e2e SUITE=data` only, as root."""

import os
from collections.abc import Iterator

import pytest

from tests.e2e.data.rig import MB, TABLE, Rig, rig_up

collect_ignore_glob = [] if os.environ.get("E2E") else ["test_*.py"]

SMALL, SMALL_BYTES = 10_000, 50_000
LARGE_BYTES = 2 * 1024**3
MIDDLE_BYTES = 300 * MB
ODD = ("with space/and+plus", "per%20cent", "ünï/côdé ☃", "empty/none")


@pytest.fixture(scope="session")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """Both regions up, and the source's datasets written."""
    seeds = {f"many/{number // 100:03}/part {number:05}": SMALL_BYTES for number in range(SMALL - len(ODD))}
    seeds |= {f"many/{key}": 0 if key.startswith("empty") else SMALL_BYTES for key in ODD}
    seeds |= {"large/one.bin": LARGE_BYTES, "middle/one.bin": MIDDLE_BYTES, "many-21k/other": 1000}
    with rig_up(tmp_path_factory.mktemp("data"), seeds) as up:
        yield up


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was measured."""
    width = max((len(what) for what, _ in TABLE), default=0)
    for what, figures in TABLE:
        terminalreporter.write_line(f"{what.ljust(width)}  {figures}")
