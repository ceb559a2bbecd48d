"""The machine's clocks. The only place where the time is read."""

import time
from datetime import UTC, datetime

_BOOT: int | None = getattr(time, "CLOCK_BOOTTIME", None)


class SystemClock:
    """Wall clock in UTC to the millisecond, and a clock that no administrator can set back.

    The latter counts while the machine sleeps, where the system has such a clock: a lease does not last longer for a virtual
    machine that was suspended.
    """

    def now(self) -> datetime:
        """The time of day, in UTC."""
        moment = datetime.now(UTC)
        return moment.replace(microsecond=moment.microsecond // 1000 * 1000)

    def monotonic(self) -> float:
        """Seconds since some moment in the past; never goes back."""
        return time.clock_gettime(_BOOT) if _BOOT is not None else time.monotonic()
