"""A server that answers as a forge does."""

from collections.abc import Iterator

import pytest

from tests.adapters.forges.server import ForgeServer, answering


@pytest.fixture
def server() -> Iterator[ForgeServer]:
    with answering() as up:
        yield up
