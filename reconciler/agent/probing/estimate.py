"""What a link does, from the transfers that were made over it: a median that forgets, and that follows a change at once.

Decides which samples count, and how much: a newer one more than an older, a large one more than a small, for TCP needs time to
find its rate; how long one took is no measure, or the slow ones would count most. When the newest two agree that the link is much
slower than all before them, the link has changed, and what was before is forgotten; a rise must be seen three times. One sample
alone moves the median little, whatever it says.

Invariant: an estimate is never 0 and never made up; without a sample there is none.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

HALF_LIFE_SECONDS: Final = 1800.0
"""After so long a sample counts half."""
OLDEST_SECONDS: Final = 12 * 3600.0
"""A sample this old counts no more."""
MOST_SAMPLES: Final = 32
FALLEN: Final = 0.7
"""Below this part of what was believed a link is much slower, above its inverse much quicker: a third of the rate is, and what is
left beside a transfer of the same rate. The usual scatter of one connection is not."""
_FALLS_WITHIN: Final = 2
_RISES_WITHIN: Final = 3


@dataclass(frozen=True, slots=True)
class Sample:
    """One transfer over a link. `at`: when it ended, by the monotonic clock."""

    bytes_per_second: float
    moved_bytes: int
    at: float


def estimate(samples: Sequence[Sample], now: float) -> float | None:
    """Bytes a second by all samples; None where there are none that count."""
    weighed = sorted((one.bytes_per_second, _weight(one, now)) for one in samples if now - one.at <= OLDEST_SECONDS)
    half: float = sum(weight for _, weight in weighed) / 2
    below = 0.0
    for index, (rate, weight) in enumerate(weighed):
        below += weight
        if below > half:
            return rate
        if below == half and index + 1 < len(weighed):
            return (rate + weighed[index + 1][0]) / 2
    return weighed[-1][0] if weighed else None


def _weight(sample: Sample, now: float) -> float:
    return sample.moved_bytes * math.pow(0.5, max(now - sample.at, 0.0) / HALF_LIFE_SECONDS)


def with_sample(samples: Sequence[Sample], newest: Sample) -> tuple[Sample, ...]:
    """The samples with one more, oldest first; without those of before the link changed, and without what is too old."""
    known = (*(one for one in samples if newest.at - one.at <= OLDEST_SECONDS), newest)[-MOST_SAMPLES:]
    for newer, has_changed in ((_FALLS_WITHIN, _is_slower), (_RISES_WITHIN, _is_quicker)):
        before = estimate(known[:-newer], newest.at)
        if before is not None and all(has_changed(one.bytes_per_second, before) for one in known[-newer:]):
            return known[-newer:]
    return known


def _is_slower(rate: float, before: float) -> bool:
    return rate < FALLEN * before


def _is_quicker(rate: float, before: float) -> bool:
    return rate * FALLEN > before


def beside(rate: float, held: float, believed: float | None) -> float:
    """What a link does by a transfer that had to share it: `rate` is what the transfer reached while others held `held` of it.

    What was left to it is scaled up to the whole link, but never above what was `believed`: a holder may have been idle.
    """
    if believed is None or not 0 < held < believed:
        return rate
    return max(rate, min(rate * believed / (believed - held), believed))
