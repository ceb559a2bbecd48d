"""The simulator's judge bites: what `make mutants` shows for all, shown for a few by seeds that are known to."""

import pytest

from reconciler.sim.histories import drawn, play
from tests.mutants.catching import MUTANTS
from tests.mutants.harmless import HARMLESS

KNOWN = {
    "what was being stopped when its region was lost is done again": (55, "NotWaited"),
    "no self-fence": (6, "GivenUpAndRuns"),
    "the epoch of the grants is not looked at": (12, "StartedUngranted"),
}
"""Mutant → a seed that shows it, and what that breaks."""


@pytest.mark.parametrize("name", KNOWN)
def test_a_mutant_is_caught_and_the_program_itself_is_not(name: str) -> None:
    seed, kind = KNOWN[name]
    (mutant,) = (one for one in MUTANTS if one.name == name)
    with mutant.applied():
        found = play(seed, drawn(seed))[1]
    assert found is not None
    assert found.kind == kind
    assert play(seed, drawn(seed))[1] is None


def test_there_are_enough_and_each_harmless_one_is_replaced() -> None:
    names = [one.name for one in MUTANTS]
    assert len(names) == len(set(names)) >= 12
    assert {one.replaced_by for one in HARMLESS} <= set(names)
    assert not {one.name for one in HARMLESS} & set(names)
