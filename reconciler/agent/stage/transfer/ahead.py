"""How much the source may send ahead of what is read.

Whatever rate is kept in reading, the other side sends at the link's full speed until the buffers between are full. So they are
kept small: what the rate brings in a moment, or in the time in which the link answers, if that is longer; with less the rate
would not come.
"""

from collections.abc import Callable
from typing import Final

from reconciler.agent.stage.transfer.pacing import RateNow
from reconciler.agent.stage.transfer.work import Options, in_flight_limit
from reconciler.bulk_port import BulkSource

_LEAST_SECONDS: Final = 0.06
_ROUND_TRIPS: Final = 1.5
_BYTES: Final = (64 * 1024, 4 * 1024**2)
_NEAR: Final = (0.8, 1.25)


class Ahead:
    """The bound of one transfer; `look` now and then, for the rate may have changed."""

    def __init__(self, source: BulkSource, options: Options, rate: RateNow, monotonic: Callable[[], float]) -> None:
        self._source, self._options, self._rate, self._monotonic = source, options, rate, monotonic
        self._held: int | None = None

    def look(self) -> None:
        """Bound it by the rate now."""
        rate = self._rate()
        if rate and self._options.link == "source":
            wanted = self._wanted(rate)
            if wanted is None or self._held is None:
                is_other = wanted != self._held
            else:
                is_other = not _NEAR[0] <= wanted / self._held <= _NEAR[1]
            if is_other:
                self._source.hold_back(wanted)
                self._held = wanted

    def _wanted(self, rate: float) -> int | None:
        """Bytes for each connection; None where it is so much that no window is the bound."""
        seconds = max(_LEAST_SECONDS, _ROUND_TRIPS * self._source.round_trip_seconds(self._monotonic))
        in_flight = in_flight_limit(self._options, rate, copies=False)
        connections = min(self._options.threads, -(-in_flight // self._options.part_bytes))
        each = max(_BYTES[0], int(rate * seconds / connections))
        return each if each <= _BYTES[1] else None
