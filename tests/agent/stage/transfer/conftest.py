"""Ends of every kind."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adapters.s3_server import moto_app, serving
from tests.agent.stage.transfer.ends import Ends


@pytest.fixture(scope="package")
def s3_url() -> Iterator[str]:
    with serving(moto_app()) as url:
        yield url


@pytest.fixture(params=["file", "s3"])
def source(request: pytest.FixtureRequest, s3_url: str, tmp_path: Path) -> Ends:
    return Ends(request.param, s3_url, tmp_path / "source")


@pytest.fixture(params=["file", "s3"])
def target(request: pytest.FixtureRequest, s3_url: str, tmp_path: Path) -> Ends:
    return Ends(request.param, s3_url, tmp_path / "target", account="two")
