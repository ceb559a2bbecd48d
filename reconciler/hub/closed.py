"""Branches that the remote refuses: left out for a while, so that one bad branch never stops the others.

An atomic push fails whole. Where the remote names the culprits, they are left out; only without the ledger nothing can be
published at all. Many servers name every branch of the push: then all its region branches are suspects, and are tried again half
by half, until one that is refused alone is known as the culprit and waits longer. What is on trial does not go by the clock, for
the hub may push rarely: the next group is tried when the one before went through or had nothing to push.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

RETRY_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class _Closed:
    until: float
    words: str


class ClosedBranches:
    """What the remote refused lately, by our own clock."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._closed: dict[str, _Closed] = {}
        self._suspects: list[dict[str, str]] = []
        """Groups of branches with what was said of each; the first is on trial, the others are left out."""

    def note(self, refusals: Mapping[str, str], pushed: Sequence[str], ledger: str) -> float:
        """A push of these branches was refused. Returns the seconds after which trying again makes sense.

        `ledger`: the branch without which nothing is published.
        """
        named_some = len(refusals) < len(pushed)
        regions = sorted(branch for branch in pushed if branch.startswith("region/"))
        others = sorted(branch for branch in pushed if branch != ledger and branch not in regions)
        named = sorted(branch for branch in refusals if branch in (regions + others if named_some else regions))
        if named and (named_some or len(regions) == 1):
            return self._close({branch: refusals[branch] for branch in named})
        if named_some or not (regions or others):  # the ledger itself
            self._suspects.clear()
            return RETRY_SECONDS / 2
        every = "; ".join(sorted(set(refusals.values())))
        if not regions:
            return self._close({branch: refusals.get(branch) or every for branch in others})
        halves = [{name: refusals.get(name) or every for name in half} for half in self._halves(regions)]
        # At first none of them: what people are to know of it stands on the status branch.
        self._suspects = [*halves, *self._suspects[1:]] if self._suspects else [{}, *halves]
        return 0.0

    def _close(self, refused: Mapping[str, str]) -> float:
        until = self._monotonic() + RETRY_SECONDS
        self._closed |= {branch: _Closed(until, words) for branch, words in refused.items()}
        self._suspects = [{name: group[name] for name in group.keys() - refused.keys()} for group in self._suspects]
        return 0.0

    def _halves(self, regions: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
        """What was never refused alone, and what was; or two halves, where all of them are alike in that."""
        before = [branch for branch in regions if branch in self._closed]
        others = [branch for branch in regions if branch not in self._closed]
        middle = len(regions) // 2
        return (others, before) if before and others else (regions[:middle], regions[middle:])

    def passed(self, pushed: Sequence[str]) -> bool:
        """A cycle went well, with these branches pushed or with nothing to push; whether another group is on trial now."""
        for branch in pushed:
            self._closed.pop(branch, None)
        self._suspects = self._suspects[1:]
        return bool(self._suspects)

    def words(self, branch: str) -> str | None:
        """Why a branch is left out at present; None where it is not."""
        closed = self._closed.get(branch)
        if closed is not None and self._monotonic() < closed.until:
            return closed.words
        return next((group[branch] for group in self._suspects[1:] if branch in group), None)

    def state(self) -> frozenset[str]:
        """Branches that are left out at present."""
        if not self._closed and not self._suspects:
            return frozenset()
        known = self._closed.keys() | {branch for group in self._suspects for branch in group}
        return frozenset(branch for branch in known if self.words(branch) is not None)
