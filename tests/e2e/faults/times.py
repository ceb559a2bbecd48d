"""How long everything takes here: the protocol's times, scaled so that a failover takes a minute; FAULTS_TIMES=real takes the real ones.

Only numbers differ between the two; the tests wait for what is said or done, never for a guessed time.
"""

import os
from dataclasses import dataclass
from typing import Any

from reconciler.agent.settings import Settings, timed
from reconciler.agent.settings import Times as AgentTimes
from reconciler.model.region import REPORT_SECONDS, LossTimes


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds."""

    loss: LossTimes
    moment: float
    """A cut of so long is noticed by nobody."""
    told: float
    """A cut of so long is told of, and is over before the region counts as lost."""
    long: float
    """A cut of so long outlasts a whole failover."""

    @property
    def region(self) -> dict[str, Any]:
        """As a region's file says it."""
        return self.loss.model_dump()

    @property
    def report(self) -> float:
        """Between two reports of an agent."""
        return min(REPORT_SECONDS, self.loss.report_seconds)

    @property
    def renew(self) -> float:
        """Between two renewals of its lease."""
        return timed(Settings(), AgentTimes(self.loss.self_fence_seconds)).renew_seconds

    def agent(self, *, deadman: bool) -> list[str]:
        """Its agent's options."""
        times = {"self-fence": self.loss.self_fence_seconds, "fence-kill": self.loss.fence_kill_seconds, "report": self.report}
        return [*(word for name, value in times.items() for word in (f"--{name}", f"{value:g}")), *["--deadman"] * deadman]

    @property
    def failover(self) -> float:
        """At most this long from a region's last sign of life until its jobs run elsewhere, with all the time that a busy machine takes."""
        return 2.0 * self.loss.revoked_after_seconds + 90.0


_SHORT = LossTimes(unknown_seconds=5, grace_seconds=15, self_fence_seconds=30, fence_kill_seconds=5, margin_seconds=10)
SCALED = Times(_SHORT, moment=3.0, told=10.0, long=60.0)
REAL = Times(LossTimes(), moment=20.0, told=90.0, long=600.0)
TIMES = REAL if os.environ.get("FAULTS_TIMES") == "real" else SCALED
HUB_LEASE = 15.0
"""How long a hub that was killed is taken to lead."""
