"""When a link is measured next, and by how many bytes; within a budget that leaves the link to those who use it.

Each end of a link measures it, so each may use half a percent of what the link carries. A probe is paid for before it is made, by
the time since the one before; what was not used is not saved. A link that is full, or that carries nothing, is left alone.

Invariant: up to any moment, and counting the last probe whole, a link has carried at most SHARE of its capacity for this end.
"""

from dataclasses import dataclass, replace
from random import Random
from typing import Final

from reconciler.agent.probing.estimate import Sample, beside, estimate, with_sample
from reconciler.model.link_table import LinkLine
from reconciler.model.report import LinkProbe
from reconciler.probe_port import Transferred

MIB: Final = 1024**2
FULL: Final = 0.8
"""Part of what is believed that transfers may reserve; when they do, there is no room to measure."""
_BITS: Final = 8
_LONGEST_PROBLEM: Final = 300


@dataclass(frozen=True, slots=True)
class Rules:
    """How links are measured."""

    sizes: tuple[int, ...] = (MIB, 8 * MIB, 64 * MIB)
    """Bytes of a probe: the smallest for a link that nobody knows, larger ones where that is over too soon to tell."""
    share: float = 0.005
    """Of the link's capacity, over time; the agent at the other end uses as much."""
    assumed_bytes_per_second: float = 1.25e6
    """Capacity of a link of which nothing was declared or measured; only the budget goes by it."""
    rest_seconds: float = 45.0
    """Between two probes of a link at least; up to half as much again at random, so that many agents never come at once."""
    most_seconds: float = 30.0
    """How long a probe may take."""
    quick_seconds: float = 0.25
    """A transfer that takes less, or less than so many ..."""
    quick_round_trips: int = 10
    """... round trips, says little: TCP is still finding its rate. The next one is larger."""
    slow_seconds: float = 8.0
    """One that takes more is larger than needed."""
    most_doubled: int = 3
    """The rest is doubled with each failure in a row, so many times at most."""

    def __post_init__(self) -> None:
        """Refuse what would break the budget or measure nothing."""
        if list(self.sizes) != sorted(set(self.sizes)) or not self.sizes or self.sizes[0] <= 0:
            raise ValueError("sizes must be above 0 and rise")
        if not 0 < self.share <= 0.005:
            raise ValueError("share must be above 0 and at most 0.005: two ends measure each link, and may use 1 % of it")


@dataclass(frozen=True, slots=True)
class Course:
    """How the measuring of one link goes. Times are of the monotonic clock."""

    paid_at: float
    """When the last probe began, or the link was first heard of: from then on the next one is saved up for."""
    draw: float
    """Random, 0 to 1: how much longer than needed the next rest is."""
    step: int = 0
    """Which size is next."""
    samples: tuple[Sample, ...] = ()
    newest: Transferred | None = None
    failures: int = 0
    """Probes that failed since the last that did not."""
    problem: str = ""

    @property
    def is_tried(self) -> bool:
        """Whether there is anything to tell."""
        return self.newest is not None or self.failures > 0


@dataclass(frozen=True, slots=True)
class Try:
    """One probe: of which link, from when to when."""

    line: LinkLine
    began: float
    ended: float


def begun(now: float, chance: Random) -> Course:
    """Of a link that was never measured."""
    return Course(paid_at=now, draw=chance.random())


def declared_bytes_per_second(line: LinkLine) -> float | None:
    """What the platform says that the link carries; None where it says nothing."""
    return None if line.gbit_per_second is None else line.gbit_per_second * 1e9 / _BITS


def believed(course: Course, line: LinkLine, now: float) -> float | None:
    """What the link carries as far as known: as measured, else as declared."""
    measured = estimate(course.samples, now)
    return declared_bytes_per_second(line) if measured is None else measured


def capacity(course: Course, line: LinkLine, now: float, rules: Rules) -> float:
    """What the budget goes by: the lowest of what is declared and measured."""
    known = [rate for rate in (declared_bytes_per_second(line), estimate(course.samples, now)) if rate is not None]
    return min(known, default=rules.assumed_bytes_per_second)


def is_full(course: Course, line: LinkLine, now: float) -> bool:
    """Whether transfers hold all that may be held of the link; also while any runs over a link of which nothing is known."""
    known = believed(course, line, now)
    return line.held_bytes_per_second > 0 and (known is None or line.held_bytes_per_second >= FULL * known)


def due_at(course: Course, line: LinkLine, now: float, rules: Rules) -> float | None:
    """When the link may be measured next; None: not while it is as it is (full, or declared to carry nothing)."""
    budget = rules.share * capacity(course, line, now, rules)
    if budget <= 0 or is_full(course, line, now):
        return None
    rest = rules.rest_seconds * (1 << min(course.failures, rules.most_doubled))
    return course.paid_at + max(rules.sizes[course.step] / budget, rest) * (1 + course.draw / 2)


def after(course: Course, found: Transferred, tried: Try, rules: Rules, chance: Random) -> Course:
    """After a transfer."""
    line = tried.line
    rate = beside(found.bytes_per_second, line.held_bytes_per_second, believed(course, line, tried.ended))
    return replace(
        course,
        paid_at=tried.began,
        draw=chance.random(),
        step=_next_step(course.step, found, rules),
        samples=with_sample(course.samples, Sample(rate, found.moved_bytes, tried.ended)),
        newest=found,
        failures=0,
        problem="",
    )


def _next_step(step: int, found: Transferred, rules: Rules) -> int:
    """The size of the next transfer, by how this one went. Far enough apart that no link goes to and fro between two sizes."""
    trips = rules.quick_round_trips * found.tcp.rtt_ms / 1000 if found.tcp is not None else 0.0
    if found.moved_bytes < rules.sizes[step] or found.seconds > max(rules.slow_seconds, 8 * trips):
        return max(step - 1, 0)
    if found.seconds < max(rules.quick_seconds, trips):
        return min(step + 1, len(rules.sizes) - 1)
    return step


def after_failure(course: Course, words: str, tried: Try, chance: Random) -> Course:
    """After a try that moved nothing: what is known of the link stays, and ages."""
    words = " ".join(words.split())[:_LONGEST_PROBLEM]
    return replace(course, paid_at=tried.began, draw=chance.random(), failures=course.failures + 1, problem=words)


def told(course: Course, line: LinkLine, now: float) -> LinkProbe:
    """What the report says of the link."""
    rate, newest = estimate(course.samples, now), course.newest
    tcp = newest.tcp if newest is not None else None
    return LinkProbe(
        source=line.source,
        target=line.target,
        bytes_per_second=rate,
        newest_bytes_per_second=newest.bytes_per_second if newest is not None else None,
        samples=len(course.samples),
        rtt_ms=tcp.rtt_ms if tcp is not None else None,
        rtt_var_ms=tcp.rtt_var_ms if tcp is not None else None,
        retransmitted=tcp.retransmitted if tcp is not None else None,
        age_seconds=max(now - course.samples[-1].at, 0.0) if course.samples else None,
        problem=course.problem,
    )
