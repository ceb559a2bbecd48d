"""How urgent a job is: what an hour sooner is worth, and by when it must start. What is done about it is for others to say."""

from datetime import datetime
from typing import NamedTuple

from reconciler.model.policy import Thresholds
from reconciler.planning.snapshot import JobView

HOUR = 3600.0


class Haste(NamedTuple):
    """How urgent a job is."""

    usd_per_hour: float
    """What an hour sooner is worth."""
    seconds_left: float | None = None
    """Until it must start to meet its deadline; below 0 where it is too late; None without a deadline."""

    def late(self, seconds: float) -> bool:
        """Whether a start in so many seconds misses the deadline."""
        return self.seconds_left is not None and seconds > self.seconds_left

    def worth(self, seconds: float) -> float:
        """US dollars that starting sooner by so many seconds is worth."""
        return seconds / HOUR * self.usd_per_hour


NO_HASTE = Haste(0.0)


def haste_of(job: JobView, now: datetime, thresholds: Thresholds) -> Haste:
    """How urgent the job is: what the policy says of priority 50, in proportion to its own. An unknown run time counts as 0."""
    usd_per_hour = thresholds.copy_urgency_usd_per_hour * job.spec.priority_value / 50
    if job.spec.deadline is None:
        return Haste(usd_per_hour)
    left = (datetime.fromisoformat(job.spec.deadline) - now).total_seconds()
    return Haste(usd_per_hour, left - (job.run_seconds or 0))
