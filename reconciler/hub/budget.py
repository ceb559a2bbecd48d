"""How often the hub may push: a token bucket, because forges ask for at most a few pushes a minute."""

from collections.abc import Callable

from reconciler.model.policy import Intervals


class PushBudget:
    """Starts full. A push takes a token; one comes back every `push_seconds`, up to `push_burst`."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._tokens: float | None = None
        self._at = monotonic()

    def wait_seconds(self, intervals: Intervals) -> float:
        """Seconds until a push is allowed; 0 where it is now."""
        now = self._monotonic()
        if self._tokens is None or intervals.push_seconds == 0:
            self._tokens = float(intervals.push_burst)
        else:
            self._tokens = min(float(intervals.push_burst), self._tokens + (now - self._at) / intervals.push_seconds)
        self._at = now
        return 0.0 if self._tokens >= 1 else (1 - self._tokens) * intervals.push_seconds

    def spend(self) -> None:
        """A push was made."""
        self._tokens = (self._tokens or 1.0) - 1.0
