"""The machine's clocks. The only place where the time is read."""

import time
from datetime import UTC, datetime


class SystemClock:
    """Wall clock in UTC to the millisecond, and the monotonic clock, which no administrator can set back."""

    def now(self) -> datetime:
        """The time of day, in UTC."""
        moment = datetime.now(UTC)
        return moment.replace(microsecond=moment.microsecond // 1000 * 1000)

    def monotonic(self) -> float:
        """Seconds since some moment in the past; never goes back."""
        return time.monotonic()
