"""What is wrong with a running agent, for its own log: where the store is away, no report tells.

Decides what is said and when: each trouble when it begins, and when it is over. Invariant: what goes on is not repeated.
"""

from collections.abc import Mapping
from typing import Any

from reconciler.agent.health import recent
from reconciler.agent.loop import Agent
from reconciler.agent.sending import of_lease

LATELY_SECONDS = 30.0
"""How long after it was last seen a trouble is taken to go on."""

Troubles = Mapping[tuple[str, str], str]
"""By code, and by what it is about."""


def troubles_of(agent: Agent, now: float) -> Troubles:
    """What went wrong lately, what is not released and why, and how its lease is. `now`: of the monotonic clock."""
    memory = agent.memory
    found = {which: trouble.message for which, trouble in recent(memory.troubles, now, LATELY_SECONDS).items()}
    found |= {(note.code, note.message.partition(" ")[0]): note.message for note in memory.notes}
    if agent.lister is not None and (unlisted := agent.lister.trouble):
        found["CopiesNotListed", "the region's store"] = unlisted
    return found | {(one.code, "the lease"): one.message for one in of_lease(memory, agent.settings, now)}


def tell(log: Any, found: Troubles, told: frozenset[tuple[str, str]]) -> frozenset[tuple[str, str]]:
    """Log what is new and what is over; returns what is told now."""
    for (code, about), words in found.items():
        if (code, about) not in told:
            log.warning("trouble", code=code, about=about, what=words)
    for code, about in told - found.keys():
        log.info("over", code=code, about=about)
    return frozenset(found)
