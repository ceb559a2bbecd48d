"""Every state that the model can reach, breadth first: the first history that leads to a wrong state is one of the shortest.

Decides nothing of the protocol. What it adds is which states need not be told apart (`canonical`): each rule there says why.
"""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from tests.protocol.model import is_served, steps, wrong
from tests.protocol.state import (
    CLOSED,
    DONE,
    ENDED,
    FIRST,
    GONE,
    HELD,
    NO,
    NO_RENEWAL,
    NOTHING,
    RUN_IN_B,
    SECOND,
    START,
    STOP_IN_A,
    Hub,
    Rules,
    State,
)


@dataclass(frozen=True, slots=True)
class Found:
    """What a search has found: how much there is, and the shortest history to what must not be, if there is one."""

    states: int
    steps: int
    fault: str | None = None
    history: tuple[str, ...] = ()


def explore(rules: Rules) -> Found:
    """All states within the bounds of `rules`; or those up to the first wrong one."""
    search = _Search(rules)
    at = 0
    while at < len(search.states):
        for words, after in steps(search.states[at], rules):
            fault = search.add(at, words, after)
            if fault is not None:
                return Found(len(search.states), len(search.ends), fault, search.history(len(search.states) - 1))
        at += 1
    stuck = search.stuck()
    if stuck is not None:
        return Found(len(search.states), len(search.ends), "the job can never run or end any more", search.history(stuck))
    return Found(len(search.states), len(search.ends))


class _Search:
    """The states that were found, in their order, and the steps between them."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self.states = [canonical(START, rules)]
        self._numbers = {self.states[0]: 0}
        self._came_from = [(-1, "")]
        self.starts = array("l")
        self.ends = array("l")

    def add(self, at: int, words: str, after: State) -> str | None:
        """Note a step from state number `at`; returns what is wrong with where it leads."""
        after = canonical(after, self._rules)
        number = self._numbers.setdefault(after, len(self.states))
        self.starts.append(at)
        self.ends.append(number)
        if number < len(self.states):
            return None
        self.states.append(after)
        self._came_from.append((at, words))
        return wrong(after)

    def history(self, number: int) -> tuple[str, ...]:
        """The steps that led to a state."""
        told = []
        while number > 0:
            number, words = self._came_from[number]
            told.append(words)
        return tuple(reversed(told))

    def stuck(self) -> int | None:
        """The first state from which none that is served can be reached; None where there is none such."""
        before: list[list[int]] = [[] for _ in self.states]
        for start, end in zip(self.starts, self.ends, strict=True):
            before[end].append(start)
        todo = [number for number, state in enumerate(self.states) if is_served(state)]
        served = set(todo)
        while todo:
            new = set(before[todo.pop()]) - served
            served |= new
            todo += new
        return next((number for number in range(len(self.states)) if number not in served), None)


# ---- states that need not be told apart ---------------------------------------------------------------------------


def canonical(s: State, r: Rules) -> State:
    """One state for all those from which the same can happen, or where this one can do whatever the others can."""
    top = r.fence + r.tardy
    if s.pod in (GONE, DONE) and s.entry and s.object != HELD:
        # It has had its release and its pod: nothing in A can run any more, whatever the clocks say.
        s = s._replace(object=CLOSED, lift=False, age=top, renewal=NO_RENEWAL)
    if s.ledger in (RUN_IN_B, ENDED) and s.lease == FIRST and r.revokes and not s.revoking:
        # A revocation could only take rights away now. So A may have all the time there is.
        s = s._replace(watch=-1, ahead=0, age=0, renewal=NO_RENEWAL)
    if s.lease == SECOND and s.age:
        s = s._replace(age=0)  # nobody asks
    if s.watch >= r.wait and s.ahead:
        s = s._replace(ahead=0)  # the hub has counted to its end
    if s.renewal == (top, True) and r.counts_from_sending:
        s = s._replace(renewal=NO_RENEWAL)  # its answer adds nothing
    if s.term > 1 and r.leads_alone:
        hubs, grants_b = _without_the_past(s.hubs, s.term, s.grants_a[0] if r.checks_term else 0, s.grants_b)
        s = s._replace(hubs=hubs, grants_b=grants_b)
    return s


@cache
def _without_the_past(hubs: tuple[Hub, Hub], term: int, term_a: int, term_b: int) -> tuple[tuple[Hub, Hub], int]:
    """A hub that leads no more only writes grants by the ledger that it has seen, as long as its term is not outdated there.

    Where none of them can name attempt 2, it does not matter whether B's grants are of the new term already.
    """
    one, other = (hub if hub.term == term else _past(hub, term_a, term_b) for hub in hubs)
    quiet = all(hub.term == term or not (hub.resumes or RUN_IN_B in (hub.view, hub.push)) for hub in (one, other))
    return (one, other), 1 if quiet else term_b


def _past(hub: Hub, term_a: int, term_b: int) -> Hub:
    says_nothing_new = hub.view in (STOP_IN_A, ENDED) or (hub.term < term_a and not (hub.view == RUN_IN_B and hub.term >= term_b))
    return hub._replace(
        view=NOTHING if says_nothing_new and hub.view >= 0 else hub.view, withdrawal=hub.withdrawal if hub.resumes else NO
    )


# ---- without leaving anything out ---------------------------------------------------------------------------------


def replayed(history: Iterable[str], rules: Rules) -> Sequence[State]:
    """The states in which a history can end, step by step in the model itself; none where it cannot happen."""
    states = {START}
    for words in history:
        states = {after for state in states for said, after in steps(state, rules) if said == words}
    return list(states)
