"""What several of the cases stand on."""

from pathlib import Path

import pytest

from tests.hub.rig import Rig


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    """A hub over two regions alike, eu and us, that are told of; eu is the cheaper."""
    made = Rig(tmp_path)
    made.tell("eu")
    made.tell("us")
    return made
