"""What a link truly gives, hour by hour: a step function of time that nobody in the simulation is told.

Rates are bytes a second, times are seconds from the start. Invariant: a rate is above 0, and after the last step it stays.
"""

import random
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

HOUR = 3600.0
DAY = 24 * HOUR


@dataclass(frozen=True, slots=True)
class Curve:
    """`rates[i]` holds from `starts[i]` to the next start."""

    starts: tuple[float, ...]
    rates: tuple[float, ...]

    def at(self, time: float) -> float:
        """The rate at that moment."""
        return self.rates[max(0, bisect_right(self.starts, time) - 1)]

    def next_step(self, time: float) -> float | None:
        """When it changes next, after `time`; None where it never does."""
        at = bisect_right(self.starts, time)
        return self.starts[at] if at < len(self.starts) else None

    def moved_at(self, size: float, begin: float, share: float = 1.0) -> float:
        """When `size` bytes have gone over it, begun at `begin`, at `share` of its rate all the time."""
        left, time = size, begin
        while True:
            rate, step = self.at(time) * share, self.next_step(time)
            done = time + left / rate
            if step is None or done <= step:
                return done
            left, time = left - (step - time) * rate, step


def flat(rate: float) -> Curve:
    """A link that never changes."""
    return Curve((0.0,), (rate,))


def falling(rate: float, part: float, at: float, until: float | None = None) -> Curve:
    """`rate`, and only `part` of it from `at` on, or until `until`."""
    more = () if until is None else ((until, rate),)
    steps = ((0.0, rate), (at, rate * part), *more)
    return Curve(tuple(start for start, _ in steps), tuple(each for _, each in steps))


def weekly(declared: float, worth: float, days: int, chance: random.Random) -> Curve:
    """`worth` of what is declared at night; less in working hours and on working days, and no two hours alike."""
    starts, rates = [], []
    for hour in range(24 * days):
        by_day = 0.65 if 8 <= hour % 24 < 19 and hour // 24 % 7 < 5 else 1.0
        scatter = min(1.25, max(0.6, chance.gauss(1.0, 0.12)))
        starts.append(hour * HOUR)
        rates.append(declared * min(1.0, worth * by_day * scatter))
    return Curve(tuple(starts), tuple(rates))


def times(curve: Curve, part: float, begin: float, until: float) -> Curve:
    """The curve with `part` of its rate between two moments, which are made steps of it."""
    starts = sorted({*curve.starts, begin, until})
    return Curve(tuple(starts), tuple(curve.at(start) * (part if begin <= start < until else 1.0) for start in starts))


def mean(curve: Curve, begin: float, until: float) -> float:
    """The mean rate between two moments."""
    inside: Sequence[float] = [start for start in curve.starts if begin < start < until]
    edges = [begin, *inside, until]
    return sum(curve.at(one) * (other - one) for one, other in pairwise(edges)) / (until - begin)
