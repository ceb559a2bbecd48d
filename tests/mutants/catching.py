"""Whether the simulator catches a mutant, and by which seed."""

import time

from reconciler.sim.histories import violation
from tests.mutants import of_agent, of_hub
from tests.mutants.mutating import MUTANTS

__all__ = ["KNOWN", "MUTANTS", "caught"]

KNOWN = (of_agent, of_hub)
"""Where they are; to import them is to know them."""


def caught(asked: tuple[str, int]) -> tuple[str, int | None, str, float]:
    """Name, the first seed that shows it (None: none of them), its story, and the seconds that this took."""
    name, seeds = asked
    began = time.monotonic()
    (found,) = (one for one in MUTANTS if one.name == name)
    with found.applied():
        for seed in range(seeds):
            story = violation(seed)
            if story is not None:
                if not story.kind:
                    raise RuntimeError(
                        f"{name} leaves something from one history to the next: seed {seed} fails only after others"
                    )
                return name, seed, str(story), time.monotonic() - began
    return name, None, "", time.monotonic() - began
