"""Settings that would let a single lost request stop a region are refused."""

from typing import Any

import pytest

from reconciler.agent.settings import Settings


@pytest.mark.parametrize(
    "wrong",
    [
        {"renew_seconds": 100.0},
        {"renew_seconds": 0.0},
        {"self_fence_seconds": 30.0},
        {"fence_kill_seconds": -1},
        {"request_seconds": 61.0},
        {"report_seconds": 0.0},
        {"look_seconds": 0.0},
    ],
)
def test_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must"):
        Settings(**wrong)


def test_the_defaults_are_those_of_the_protocol() -> None:
    settings = Settings()
    assert (settings.self_fence_seconds, settings.fence_kill_seconds, settings.report_seconds) == (240.0, 30, 10.0)
