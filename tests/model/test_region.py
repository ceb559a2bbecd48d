"""A region's times: what an agent must keep follows from what its hub goes by."""

import pytest

from reconciler.model.region import REPORT_SECONDS, LossTimes


@pytest.mark.parametrize("unknown", [5, 6, 7, 10, 29, 30, 31, 86_400])
def test_three_reports_fit_into_the_time_until_it_is_unknown_and_hardly_more(unknown: int) -> None:
    most = LossTimes(unknown_seconds=unknown, grace_seconds=86_400, self_fence_seconds=86_400).report_seconds
    assert 3 * most <= unknown < 3 * (most + 0.1)


def test_the_defaults_agree() -> None:
    assert LossTimes().report_seconds == REPORT_SECONDS
