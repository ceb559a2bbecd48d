"""Time inside a local region: whole milliseconds since 1970 (UTC), on one line that no change of a clock can bend.

Decides how the two clocks of `ports.Clock` become that line; everybody else here only compares numbers. The line
starts at the wall clock's time and then goes by the monotonic one: a corrected clock neither shortens a grace nor
lengthens a deadline. It is anchored anew at each start of the region.

Invariant: `at(monotonic_of(moment)) == moment`, so that a step at the time that `next_due` names finds it due.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

from reconciler.ports import Clock


@dataclass(frozen=True, slots=True)
class Timeline:
    """Where the line was anchored: `origin_ms` of the wall clock was `origin_seconds` of the monotonic one."""

    clock: Clock
    origin_ms: int
    origin_seconds: float

    def now(self) -> int:
        """The present moment."""
        return self.at(self.clock.monotonic())

    def at(self, monotonic_seconds: float) -> int:
        """The moment at which the monotonic clock shows that."""
        return self.origin_ms + round((monotonic_seconds - self.origin_seconds) * 1000)

    def monotonic_of(self, moment: int) -> float:
        """What the monotonic clock (seconds) shows at that moment."""
        return self.origin_seconds + (moment - self.origin_ms) / 1000


def timeline(clock: Clock) -> Timeline:
    """A line that starts now."""
    return Timeline(clock, round(clock.now().timestamp() * 1000), clock.monotonic())


@lru_cache(maxsize=4096)
def stamp(moment: int) -> str:
    """The moment as the Kubernetes API writes it: RFC 3339, fractions of a second cut off."""
    return datetime.fromtimestamp(moment // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@lru_cache(maxsize=4096)
def millis(written: str) -> int:
    """The moment that a written time names."""
    return round(datetime.fromisoformat(written).timestamp() * 1000)


def whole_second(moment: int) -> int:
    """The first whole second that is not before the moment; what is granted by it is never granted short."""
    return -(-moment // 1000) * 1000
