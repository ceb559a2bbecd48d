"""Bytes on their way over links: who gets how much of what a link truly gives, and what has come of it.

TCP in its simplest form: nobody gets more than its pace, and what the link gives beyond that is shared equally (max-min). Who may
go at which pace is for whoever drives it. Invariants: what flows over a link never exceeds its true rate, and every byte that a
flow has moved is counted once for its link.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.planning.links import LinkKey
from tests.bench.data.curves import Curve

ALMOST = 1.0
"""Bytes that may be missing at the end: times are floating-point numbers."""


@dataclass(slots=True)
class Flow:
    """One copy."""

    name: str
    link: LinkKey
    size: float
    moved: float = 0.0
    pace: float = math.inf
    """The most it takes, in bytes a second; 0: it pauses."""

    @property
    def left(self) -> float:
        """Bytes still to come."""
        return max(0.0, self.size - self.moved)

    @property
    def is_done(self) -> bool:
        """Whether all has come."""
        return self.left <= ALMOST


def shares(paces: Mapping[str, float], rate: float) -> dict[str, float]:
    """What each gets of `rate`: its pace, or an equal part of what the others leave."""
    given: dict[str, float] = {}
    left = rate
    for index, (name, pace) in enumerate(sorted(paces.items(), key=lambda one: (one[1], one[0]))):
        given[name] = min(pace, left / (len(paces) - index))
        left -= given[name]
    return given


@dataclass(slots=True)
class Lines:
    """All links, and what goes over them at one moment."""

    curves: Mapping[LinkKey, Curve]
    flows: dict[str, Flow] = field(default_factory=dict)
    carried: dict[LinkKey, float] = field(default_factory=dict)
    """Bytes that have gone over each link."""
    fullest: dict[LinkKey, float] = field(default_factory=dict)
    """The largest part of its true rate that flowed over each link at any moment."""

    def rates(self, time: float) -> dict[str, float]:
        """What each flow gets, in bytes a second, at that moment."""
        lines: dict[LinkKey, dict[str, float]] = {}
        for flow in self.flows.values():
            lines.setdefault(flow.link, {})[flow.name] = flow.pace
        found: dict[str, float] = {}
        for link, paces in lines.items():
            found |= shares(paces, self.curves[link].at(time))
        return found

    def on(self, link: LinkKey, time: float) -> float:
        """What flows over one link, in bytes a second."""
        paces = {flow.name: flow.pace for flow in self.flows.values() if flow.link == link}
        return sum(shares(paces, self.curves[link].at(time)).values())

    def next_change(self, time: float) -> float | None:
        """When a flow will have ended or a link in use changes, whichever is first; None where nothing flows."""
        rates = self.rates(time)
        ends = [time + flow.left / rates[flow.name] for flow in self.flows.values() if rates[flow.name] > 0]
        steps = [self.curves[link].next_step(time) for link in {flow.link for flow in self.flows.values()}]
        return min([*ends, *(step for step in steps if step is not None)], default=None)

    def advance(self, begin: float, until: float) -> None:
        """Let time pass. Nothing may change in between: see `next_change`."""
        rates = self.rates(begin)
        together: dict[LinkKey, float] = {}
        for flow in self.flows.values():
            rate = rates[flow.name]
            more = min(rate * (until - begin), flow.left)
            flow.moved += more
            self.carried[flow.link] = self.carried.get(flow.link, 0.0) + more
            together[flow.link] = together.get(flow.link, 0.0) + rate
        for link, rate in together.items() if until > begin else ():
            self.fullest[link] = max(self.fullest.get(link, 0.0), rate / self.curves[link].at(begin))
