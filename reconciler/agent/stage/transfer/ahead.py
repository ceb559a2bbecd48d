"""How much the source may send ahead of what is read.

Whatever rate is kept in reading, the other side sends at the link's full speed until the buffers between are full. So they are
kept small: what the rate brings in a moment. Only where the rate does not come though it may, for the link is long and a small
window does not fill it, they are let grow, step by step.
"""

from typing import Final

from reconciler.agent.stage.transfer.pacing import BODY_SHARE, RateNow
from reconciler.agent.stage.transfer.work import Options, in_flight_limit
from reconciler.bulk_port import BulkSource
from reconciler.model.progress import Progress

_SECONDS: Final = (0.06, 0.5)
_BYTES: Final = (64 * 1024, 4 * 1024**2)
_LACKING: Final = 0.85
_NEAR: Final = (0.8, 1.25)


class Ahead:
    """The bound of one transfer; `look` now and then."""

    def __init__(self, source: BulkSource, options: Options, rate: RateNow) -> None:
        self._source, self._options, self._rate = source, options, rate
        self._seconds = _SECONDS[0]
        self._last_rate: float | None = None
        self._held: int | None = None

    def look(self, progress: Progress | None = None) -> None:
        """Bound it by the rate now, and by what has come at that rate."""
        rate = self._rate()
        is_steady = rate is not None and rate == self._last_rate
        if is_steady and progress is not None and 0 < progress.bytes_per_second < _LACKING * BODY_SHARE * (rate or 0.0):
            self._seconds = min(2 * self._seconds, _SECONDS[1])
        self._last_rate = rate
        wanted = self._wanted(rate)
        if wanted is None or self._held is None:
            is_other = wanted != self._held
        else:
            is_other = not _NEAR[0] <= wanted / self._held <= _NEAR[1]
        if is_other:
            self._source.hold_back(wanted)
            self._held = wanted

    def _wanted(self, rate: float | None) -> int | None:
        """Bytes for each connection; None where there is nothing to keep, or so much that no window is the bound."""
        if not rate or self._options.link != "source":
            return None
        in_flight = in_flight_limit(self._options, rate, copies=False)
        connections = min(self._options.threads, -(-in_flight // self._options.part_bytes))
        each = max(_BYTES[0], int(rate * self._seconds / connections))
        return each if each <= _BYTES[1] else None
