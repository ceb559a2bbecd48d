"""Random histories of everything that can go wrong at once; the world's own record is what they are judged by.

A failing seed prints the smallest history that shows it; `python -m tests.sim SEED` plays it again.
"""

import pytest

from tests.sim.history import judged

FEW = range(8)
MANY = range(1000, 1200)
CHUNK = 10


@pytest.mark.parametrize("seed", FEW)
def test_no_job_is_lost_and_none_runs_twice(seed: int) -> None:
    found = judged(seed)
    assert found is None, found


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", MANY[::CHUNK])
def test_no_job_is_lost_and_none_runs_twice_in_many_histories(first: int) -> None:
    for seed in range(first, first + CHUNK):
        found = judged(seed)
        assert found is None, found
