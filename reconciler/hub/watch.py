"""The watch over the regions: which are silent, which are lost; and the one step that gives a region up.

Decides what is said of each region and when its lease is revoked (at most one a minute, none while the hub doubts itself); when a
region counts as what is losing.py's. What is remembered here may vanish: then all clocks begin anew, which only delays.

Invariants: nothing is revoked but a lease that did not change for as long as it says itself, and the margin, while this hub
looked; a stretch in which the hub did not see counts for nothing.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from reconciler.hub.leases import Leases
from reconciler.hub.losing import ONE_A_MINUTE, Sight, Verdict, doubts_itself, in_turn, is_due, judged, silent_together
from reconciler.hub.regions import Reports
from reconciler.model.region import LossTimes
from reconciler.model.region_state import RegionState
from reconciler.ports import ObjectStore, Refused, Transient


@dataclass(frozen=True, slots=True)
class Watched:
    """What a step has found. Seconds of the hub's monotonic clock."""

    verdicts: Mapping[str, Verdict]
    doubts: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Lost region that is not given up because the hub doubts itself → how many are silent, of how many."""
    troubles: Mapping[str, str] = field(default_factory=dict)
    """Region → why its lease could not be looked at, or revoked."""
    blind: frozenset[str] = frozenset()
    """Regions whose report this hub cannot read: meanwhile nothing is counted."""


class Watch:
    """What this hub knows of its regions' silence."""

    def __init__(self, store: ObjectStore, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self.leases = Leases(store, monotonic)
        self._looked_at: dict[str, float] = {}
        self._seen_since: dict[str, float] = {}
        self._times: Mapping[str, LossTimes] = {}
        self._heard_at: dict[str, float] = {}
        self._doubted: frozenset[str] = frozenset()
        self._gave_up_at = float("-inf")
        self._tried_at: dict[str, float] = {}
        self._failed: dict[str, str] = {}
        self._blind: frozenset[str] = frozenset()

    def declare(self, times: Mapping[str, LossTimes]) -> None:
        """Every region that is to be watched, and its times; the others are forgotten."""
        self._times = times
        for known in (self._looked_at, self._seen_since, self._heard_at, self._tried_at):
            for name in known.keys() - times.keys():
                del known[name]

    def reset(self) -> None:
        """Forget everything; for a hub that lost the lead."""
        self._looked_at.clear()
        self._seen_since.clear()
        self._heard_at.clear()
        self._tried_at.clear()
        self._failed.clear()
        self.leases.seen = {}

    def look(self, reports: Reports) -> None:
        """After a look at the reports: note who was heard of, and look at the leases of those who were not."""
        self._blind = frozenset(reports.silent)
        for name, times in self._times.items():
            now = self._monotonic()
            if name in self._blind:
                continue  # the hub does not see, which says nothing of the region
            before = self._looked_at.get(name)
            if before is None or now - before > times.unknown_seconds:
                self._seen_since[name] = now
            self._looked_at[name] = now
            self._heard_at[name] = max(reports.heard_at(name) or self._seen_since[name], self._seen_since[name])
        shortest = min((times.unknown_seconds for times in self._times.values()), default=0)
        self.leases.look(self._watched(), shortest)

    def _watched(self) -> Collection[str]:
        """Regions of which one report at least is missing, and those whose lease is revoked, until they take another."""
        now = self._monotonic()
        late = {name for name, at in self._heard_at.items() if now - at > self._times[name].unknown_seconds / 2}
        return late | {name for name, seen in self.leases.seen.items() if seen.revoked and name in self._times}

    def verdicts(self) -> dict[str, Verdict]:
        """The state of each region that was seen at all."""
        now = self._monotonic()
        return {name: self._verdict(name, now) for name in self._heard_at}

    def _verdict(self, region: str, now: float) -> Verdict:
        if region in self._blind:
            return judged(self._sight(region), self._looked_at[region])._replace(next_in=None)
        return judged(self._sight(region), now)

    def revoked(self) -> frozenset[str]:
        """Regions whose lease is revoked, as it was seen last."""
        return frozenset(name for name, seen in self.leases.seen.items() if seen.revoked)

    def next_seconds(self) -> float | None:
        """When the state of some region changes next, if nothing does; None where nothing is silent."""
        nexts = [verdict.next_in for verdict in self.verdicts().values() if verdict.next_in is not None]
        return min(nexts, default=None)

    def _sight(self, region: str, *, never_led: bool = False) -> Sight:
        lease = self.leases.seen.get(region)
        return Sight(self._times[region], self._heard_at[region], lease, never_led=never_led)

    def step(
        self,
        confirmed: Collection[str],
        never_led: Collection[str],
        next_epochs: Mapping[str, int],
        forced: Collection[str] = (),
    ) -> Watched:
        """Give up what is due. `never_led`: regions that were never granted anything under a lease; `next_epochs`: an epoch that
        nobody can have had there, for silent ones; `forced`: silent regions that a person takes the risk for.
        """
        before = self.verdicts()
        doubts = self._doubts(before, confirmed, never_led)
        due = self._due(before.keys() - doubts.keys() - self._blind - self.leases.unseen.keys(), never_led)
        self._failed = {name: words for name, words in self._failed.items() if name in due}
        if due and self._turn_in() == 0.0:
            self._give_up(due[0], next_epochs)
        for name in sorted(forced):
            self._give_up(name, next_epochs, forced=True)
        return Watched(self._with_turns(due, doubts), doubts, self._failed | self.leases.unseen, self._blind)

    def _due(self, regions: Collection[str], never_led: Collection[str]) -> list[str]:
        """Which of these may be given up, in their order: one that cannot be, or runs nothing, stands in no other's way."""
        now = self._monotonic()
        due = [name for name in regions if is_due(self._sight(name, never_led=name in never_led), now)]
        return sorted(due, key=lambda name: (self._tried_at.get(name, float("-inf")), name in never_led, name))

    def _turn_in(self) -> float:
        """Seconds until the next region may be given up."""
        return max(self._gave_up_at + ONE_A_MINUTE - self._monotonic(), 0.0)

    def _with_turns(self, due: Sequence[str], doubts: Collection[str]) -> dict[str, Verdict]:
        """The states; what is lost is given up in its turn, and at no moment where it cannot be."""
        verdicts = self.verdicts()
        lost = {name: one.next_in for name, one in verdicts.items() if one.state is RegionState.LOST and name not in doubts}
        able = (name for name in lost if name not in self._failed and (lost[name] != 0.0 or name in due))
        turns = in_turn({name: wait for name in able if (wait := lost[name]) is not None}, self._turn_in(), due)
        return verdicts | {name: verdicts[name]._replace(next_in=turns.get(name)) for name in lost}

    def epochs(self) -> dict[str, int]:
        """Region → the epoch of its lease as it was seen last."""
        return {name: seen.lease.epoch for name, seen in self.leases.seen.items() if seen.lease is not None}

    def _doubts(
        self, verdicts: Mapping[str, Verdict], confirmed: Collection[str], never_led: Collection[str]
    ) -> dict[str, tuple[int, int]]:
        """The silent regions for which the hub doubts itself. When it does no more, their clocks begin anew.

        One that a person has confirmed to be lost is no sign of the hub's own blindness, nor is one whose agent never came.
        """
        aside = {*confirmed, *never_led}
        silent = [name for name, verdict in verdicts.items() if verdict.state in (RegionState.UNKNOWN, RegionState.LOST)]
        found = {name: silent_together(verdicts, name, aside) for name in silent if name not in confirmed}
        doubts = {name: counts for name, counts in found.items() if doubts_itself(*counts)}
        now = self._monotonic()
        for name in self._doubted - doubts.keys():
            if name in silent and name not in confirmed:
                self._seen_since[name] = self._heard_at[name] = now
                self.leases.seen.pop(name, None)
        self._doubted = frozenset(doubts)
        return doubts

    def _give_up(self, region: str, next_epochs: Mapping[str, int], *, forced: bool = False) -> None:
        """Revoke the lease, or make a revoked one. `forced`: also in the place of one that cannot be read."""
        seen = self.leases.seen.get(region)
        if seen is None or seen.revoked:
            return
        self._failed.pop(region, None)
        self._gave_up_at = self._tried_at[region] = self._monotonic()  # whatever the answer: a write without one may be done
        try:
            if seen.etag is None or (seen.lease is None and forced):
                self.leases.reserve(region, next_epochs.get(region, 1))
            else:
                self.leases.revoke(region)
        except (Transient, Refused) as error:
            self._failed[region] = str(error)
