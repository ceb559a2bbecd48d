"""Which transfer may move how many bytes a second now: decided anew at every cycle, from facts alone.

The transfers of a link go one after another, for then each ends sooner than if all shared it: higher priority first, then the
earlier deadline, then what is soonest done. What has waited long for its size goes ahead of what came later. The first gets
nearly all that may be used, or the first few, where they are so small that deciding takes longer. Of those behind, the ones whose
turn is near get a trickle, so that their workers run and know what to copy when it comes.

Invariants: the rates of a link never add up to more than what may be used of it; where that shrinks, the last in order shrink
first; a change of less than a tenth of the link changes nothing, as long as the sum allows. A transfer over a link that nobody
knows the rate of, or that carries nothing, waits.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from reconciler.model.policy import Thresholds
from reconciler.planning.links import LinkKey

STEADY = 0.1
"""Smaller changes than this part of the link's rate are not made."""
AGING = 0.25
"""A second of waiting counts as so many seconds less to copy: after four times its own length a transfer goes before new ones."""
TRICKLES = 3
"""At most so many transfers of a link are under way beside those whose turn it is."""
TOGETHER_SECONDS = 10.0
"""Small ones that take no longer than this together go at once: one after another they would wait for each other's decisions."""
TOGETHER = 20
"""At most so many."""
TINY = 0.001
"""What is done in less counts as so many seconds, so that it gets something."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """Bytes that are to go over a link, or are on their way."""

    name: str
    source: str
    target: str
    bytes_left: int | None
    """None where nobody knows."""
    priority: int
    deadline: datetime | None
    """By when it should have ended; None where it does not matter."""
    since: datetime
    """When it was first wanted."""
    rate: int = 0
    """What it holds now, in bytes a second."""
    begun: bool = False
    """Whether its worker was granted already: at a rate of 0 that pauses."""

    @property
    def link(self) -> LinkKey:
        """The link that it goes over."""
        return self.source, self.target

    @property
    def runs(self) -> bool:
        """Whether its worker is under way, paused or not."""
        return self.begun or self.rate > 0


def reserve(
    transfers: Iterable[Transfer],
    rates: Mapping[LinkKey, int],
    now: datetime,
    thresholds: Thresholds,
    full: Collection[LinkKey] = (),
) -> dict[str, int]:
    """The rate of each transfer by its name, in bytes a second; 0: it waits.

    `rates`: what may be used of each link (links.usable_rates). On links that are `full` nothing new begins. Transfers within
    one region go over no link and are not to be given. The result does not depend on the order of `transfers`.
    """
    lines: dict[LinkKey, list[Transfer]] = {}
    for transfer in transfers:
        lines.setdefault(transfer.link, []).append(transfer)
    given: dict[str, int] = {}
    for link, wanted in lines.items():
        rate = rates.get(link, 0)
        line = in_turn(wanted, rate, now)
        may_run = [transfer for transfer in line if transfer.runs or link not in full]
        given |= dict.fromkeys((transfer.name for transfer in line), 0) | _on_link(may_run, rate, thresholds)
    return given


def in_turn(transfers: Iterable[Transfer], rate: int, now: datetime) -> list[Transfer]:
    """The transfers of one link of that rate, in the order in which they get it."""

    def turn(transfer: Transfer) -> tuple[int, bool, float, bool, float, datetime, str]:
        waited = (now - transfer.since).total_seconds() * AGING
        seconds = 0.0 if transfer.bytes_left is None else transfer.bytes_left / max(rate, 1)
        deadline = 0.0 if transfer.deadline is None else transfer.deadline.timestamp()
        unknown = transfer.bytes_left is None
        in_time = transfer.deadline is None
        return -transfer.priority, in_time, deadline, unknown, seconds - waited, transfer.since, transfer.name

    return sorted(transfers, key=turn)


def _on_link(line: Sequence[Transfer], rate: int, thresholds: Thresholds) -> dict[str, int]:
    """The rates on one link. What runs is first made to fit, then moved towards its share where that is worth a change."""
    held = _fitting([transfer.rate for transfer in line], rate)
    shares = _shares(line, rate, thresholds)
    wished = [
        now if transfer.runs and abs(share - now) < STEADY * rate else share
        for transfer, now, share in zip(line, held, shares, strict=True)
    ]
    for at in reversed(range(len(line))):
        over = sum(wished) - rate
        if over <= 0:
            break
        wished[at] = max(min(wished[at], shares[at]), wished[at] - over)
    return {transfer.name: wish for transfer, wish in zip(line, wished, strict=True)}


def _fitting(rates: Sequence[int], most: int) -> list[int]:
    """The rates, the last cut first, so that they add up to no more than `most`."""
    left, fitting = most, []
    for rate in rates:
        fitting.append(min(rate, left))
        left -= fitting[-1]
    return fitting


def _shares(line: Sequence[Transfer], rate: int, thresholds: Thresholds) -> list[int]:
    """What each should have: a trickle for those whose turn is near, the rest for those whose turn it is."""
    if not line:
        return []
    seconds = [_seconds(transfer, rate) for transfer in line]
    first = _first(line, seconds)
    trickle = int(rate * thresholds.link_trickle)
    near, ahead = 0, sum(seconds[:first])
    for after in seconds[first : first + TRICKLES]:
        if ahead > thresholds.link_lead_seconds:
            break
        near, ahead = near + 1, ahead + after
    parts = [
        math.sqrt(max(one, TINY)) for one in seconds[:first]
    ]  # of all splits, by this one the mean of their ends is earliest
    most = rate - near * trickle
    shares = [int(most * part / sum(parts)) for part in parts]
    shares[0] += most - sum(shares)
    return [*shares, *[trickle] * near, *[0] * (len(line) - first - near)]


def _seconds(transfer: Transfer, rate: int) -> float:
    """How long it takes alone. Nobody knows when one of unknown size will have ended: it may be at once."""
    return 0.0 if transfer.bytes_left is None else transfer.bytes_left / max(rate, 1)


def _first(line: Sequence[Transfer], seconds: Sequence[float]) -> int:
    """How many go at once: one, or as many small ones as end before rates are likely to be decided again."""
    count, total = 0, 0.0
    for transfer, more in zip(line[:TOGETHER], seconds, strict=False):
        total += more
        if total > TOGETHER_SECONDS or transfer.bytes_left is None:
            break
        count += 1
    return max(1, count)
