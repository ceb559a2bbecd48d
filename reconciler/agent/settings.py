"""The numbers that the agent acts by. Defaults are those of the protocol; all times in seconds."""

from dataclasses import dataclass, field, replace
from typing import Final

from reconciler.agent.nodes import NodeRules
from reconciler.model.region import REPORT_SECONDS

_MOST_RENEW_SECONDS: Final = 20.0
_MOST_REQUEST_SECONDS: Final = 10.0
_PARTS: Final = 6.0
"""Of a fence: one lies between two renewals, and a request to the store takes one at most, so that two lost ones stop nothing."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How often the agent looks, renews and reports, and when it stops everything."""

    report_seconds: float = REPORT_SECONDS
    """At least this often, and ..."""
    change_seconds: float = 1.0
    """... this long after the last report when something has changed."""
    renew_seconds: float = 20.0
    retry_seconds: float = 1.0
    """After a failed renewal or report."""
    self_fence_seconds: float = 240.0
    """Without a renewal for this long, everything of ours is stopped."""
    fence_kill_seconds: int = 30
    """The grace that pods get then, at most."""
    request_seconds: float = 10.0
    """The longest that a write to the store takes that is not answered. None is begun that the fence would have to wait for."""
    look_seconds: float = 1.0
    """Between looks at the cluster where nothing wakes the agent. A large region looks less often and is woken by watches."""
    rest_seconds: float = 0.2
    """Between looks at the least, however often it is woken."""
    poll_seconds: float = 1.0
    """Between looks at the grants' ETag."""
    nudge_seconds: float = 10.0
    """Until the sync engine is told again of a commit that it has not applied."""
    complaint_seconds: float = 5.0
    """How long a released workload may have no pods until the cluster is asked why, and until it is asked again."""
    deadman: bool = False
    """Whether Kubernetes itself is to end what runs when its agent is gone: see deadman.py."""
    trouble_seconds: float = 300.0
    """How long a failed request is shown in the report's health."""
    nodes: NodeRules = field(default_factory=NodeRules)
    boot: str = ""
    """Names the machine's boot, within which the monotonic clock counts on when the agent restarts; '' where it is not known."""

    @property
    def lasts_seconds(self) -> float:
        """From the sending of a renewal until everything is stopped if there is no other."""
        return self.self_fence_seconds + self.fence_kill_seconds

    def __post_init__(self) -> None:
        """Refuse times by which a single lost request would stop a region."""
        if not 0 < self.renew_seconds <= self.self_fence_seconds / 3:
            raise ValueError(f"renew_seconds ({self.renew_seconds}) must be at most a third of self_fence_seconds")
        if not 0 <= self.request_seconds <= self.self_fence_seconds / 4:
            raise ValueError(f"request_seconds ({self.request_seconds}) must be at most a quarter of self_fence_seconds")
        if self.fence_kill_seconds < 0 or self.report_seconds <= 0 or self.look_seconds <= 0:
            raise ValueError("fence_kill_seconds must not be negative; report_seconds and look_seconds must be above 0")


@dataclass(frozen=True, slots=True)
class Times:
    """What somebody says of an agent's times; None: nothing."""

    self_fence_seconds: int | None = None
    fence_kill_seconds: int | None = None
    deadman: bool | None = None
    report_seconds: float | None = None


def timed(settings: Settings, *said: Times) -> Settings:
    """The settings with the times that are said first; renewals and requests are so short that the fence can be kept.

    Raises ValueError for times that no agent can keep.
    """
    fences = [one.self_fence_seconds for one in said if one.self_fence_seconds is not None]
    kills = [one.fence_kill_seconds for one in said if one.fence_kill_seconds is not None]
    deadmen = [one.deadman for one in said if one.deadman is not None]
    reports = [one.report_seconds for one in said if one.report_seconds is not None]
    fence = next(iter(fences), settings.self_fence_seconds)
    return replace(
        settings,
        self_fence_seconds=fence,
        fence_kill_seconds=next(iter(kills), settings.fence_kill_seconds),
        deadman=next(iter(deadmen), settings.deadman),
        report_seconds=next(iter(reports), settings.report_seconds),
        renew_seconds=min(fence / _PARTS, _MOST_RENEW_SECONDS),
        request_seconds=min(fence / _PARTS, _MOST_REQUEST_SECONDS),
    )
