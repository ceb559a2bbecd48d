"""How long everything takes here: the protocol's times, scaled so that a failover takes a minute; FAULTS_TIMES=real takes the real ones.

Only numbers differ between the two; the tests wait for what is said or done, never for a guessed time.
"""

import os
from dataclasses import dataclass
from typing import Any

from reconciler.model.region import LossTimes


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds."""

    loss: LossTimes
    report: float
    renew: float
    request: float

    @property
    def region(self) -> dict[str, Any]:
        """As a region's file says it."""
        return self.loss.model_dump()

    @property
    def agent(self) -> dict[str, Any]:
        """As its agent goes by them."""
        return {
            "report_seconds": self.report,
            "renew_seconds": self.renew,
            "request_seconds": self.request,
            "self_fence_seconds": float(self.loss.self_fence_seconds),
            "fence_kill_seconds": self.loss.fence_kill_seconds,
        }

    @property
    def failover(self) -> float:
        """At most this long from a region's last sign of life until its jobs run elsewhere, with all the time that a busy machine takes."""
        return 2.0 * self.loss.revoked_after_seconds + 90.0


SCALED = Times(
    LossTimes(unknown_seconds=5, grace_seconds=15, self_fence_seconds=30, fence_kill_seconds=5, margin_seconds=10),
    report=1.5,
    renew=4.0,
    request=7.5,
)
REAL = Times(LossTimes(), report=10.0, renew=20.0, request=10.0)
TIMES = REAL if os.environ.get("FAULTS_TIMES") == "real" else SCALED
HUB_LEASE = 15.0
"""How long a hub that was killed is taken to lead."""
