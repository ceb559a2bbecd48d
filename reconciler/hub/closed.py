"""Region branches that the remote refuses: left out for a while, so that one bad branch never stops the others.

An atomic push fails whole, and many servers then name every branch of it. So all region branches of a refused push are closed,
and opened again one after the other: a branch that is refused alone is the culprit, and waits longer.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from reconciler.hub.ledger import Refusal

RETRY_SECONDS = 60.0
STEP_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class _Closed:
    until: float
    words: str


class ClosedBranches:
    """What the remote refused lately, by our own clock."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._closed: dict[str, _Closed] = {}

    def note(self, refusals: Mapping[str, str], pushed: Sequence[str]) -> float:
        """A push of these branches was refused. Returns the seconds after which trying again makes sense."""
        now = self._monotonic()
        regions = sorted(branch for branch in pushed if branch.startswith("region/"))
        named = sorted(branch for branch in refusals if branch in regions)
        culprits = named if len(named) < len(regions) or len(regions) == 1 else []
        if culprits:
            self._closed |= {branch: _Closed(now + RETRY_SECONDS, refusals[branch]) for branch in culprits}
            return 0.0
        if not regions:
            return RETRY_SECONDS / 2
        for place, branch in enumerate(regions):
            words = refusals.get(branch) or "; ".join(sorted(set(refusals.values())))
            self._closed[branch] = _Closed(now + STEP_SECONDS * (place + 1), words)
        return 0.0

    def words(self, branch: str) -> str | None:
        """Why a branch is left out at present; None where it is not."""
        closed = self._closed.get(branch)
        return closed.words if closed is not None and self._monotonic() < closed.until else None

    def state(self) -> frozenset[str]:
        """Branches that are left out at present."""
        return frozenset(branch for branch in self._closed if self.words(branch) is not None)

    def refusals(self, before: Sequence[Refusal], now: datetime) -> tuple[Refusal, ...]:
        """For hub.json: what is refused at present, and since when."""
        since = {old.branch: old.since for old in before}
        return tuple(
            Refusal(branch=branch, message=self.words(branch) or "", since=since.get(branch, now))
            for branch in sorted(self.state())
        )
