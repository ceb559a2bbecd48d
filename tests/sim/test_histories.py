"""Histories drawn by seed: pushes, faults, deaths and time in any order, and at the end everything is as it must be.

A failing seed is made smaller before it is shown; `python -m tests.sim SEED` plays it again.
"""

import pytest

from tests.sim.history import drawn, judged

FEW = range(2)
CHUNKS, CHUNK = 24, 10
FIRST = 1000
"""Seeds of the long run; `make check` has others."""


@pytest.mark.parametrize("seed", FEW)
def test_a_history(seed: int) -> None:
    found = judged(seed)
    assert found is None, found


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_many_histories(chunk: int) -> None:
    failed = [found for seed in range(FIRST + chunk * CHUNK, FIRST + (chunk + 1) * CHUNK) if (found := judged(seed)) is not None]
    assert not failed, "\n\n".join(failed)


def test_a_seed_names_the_same_history_for_good() -> None:
    steps = drawn(7)
    assert steps == drawn(7)
    assert steps != drawn(8)
