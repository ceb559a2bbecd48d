"""Ends of every kind."""

from pathlib import Path

import pytest

from tests.agent.stage.transfer.ends import Ends


@pytest.fixture(params=["file", "s3"])
def source(request: pytest.FixtureRequest, s3_url: str, tmp_path: Path) -> Ends:
    return Ends(request.param, s3_url, tmp_path / "source")


@pytest.fixture(params=["file", "s3"])
def target(request: pytest.FixtureRequest, s3_url: str, tmp_path: Path) -> Ends:
    return Ends(request.param, s3_url, tmp_path / "target", account="two")
