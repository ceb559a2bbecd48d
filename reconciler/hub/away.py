"""One step of the watch, for the cycle: regions are given up or shown to be, and their jobs are told what is so."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from reconciler.hub.conditions import conditions_of, in_words
from reconciler.hub.fleet import Fleet
from reconciler.hub.ledger import Ledger, Trouble
from reconciler.hub.regions import Reports
from reconciler.hub.watch import Watch, Watched
from reconciler.model.region import LossTimes
from reconciler.model.region_state import RegionCondition, RegionState
from reconciler.planning.observed import Away
from reconciler.ports import Clock


@dataclass(frozen=True, slots=True)
class Absence:
    """What the cycle must know of the regions that are not heard of."""

    conditions: Mapping[str, RegionCondition]
    watched: Watched
    epochs: Mapping[str, int]
    """Region → the highest epoch that its lease was seen to have."""

    @property
    def away(self) -> dict[str, Away]:
        """As their jobs are told."""
        return {name: _away(condition) for name, condition in self.conditions.items()}

    @property
    def revoked(self) -> frozenset[str]:
        """Regions whose lease is revoked."""
        return frozenset(name for name, condition in self.conditions.items() if condition.state is RegionState.REVOKED)

    @property
    def troubles(self) -> list[Trouble]:
        """What could not be asked or written."""
        said = sorted(self.watched.troubles.items())
        return [Trouble(subject=name, code="LeaseUnreachable", what=f"the lease of {name}: {words}") for name, words in said]


def times_of(regions: Iterable[str], fleet: Fleet) -> dict[str, LossTimes]:
    """When each region counts as lost. One that is declared no more, and has attempts still, goes by the policy."""
    declared = fleet.regions
    own = {name: declared[name].loss for name in regions if name in declared}
    return {name: own.get(name) or fleet.policy.loss for name in regions}


def absence_of(watch: Watch, ledger: Ledger, reports: Reports, never_led: Collection[str], clock: Clock) -> Absence:
    """One step. `ledger`: as it was published; `never_led`: regions to which nothing was granted under any lease."""
    epochs = {name: region.lease_epoch for name, region in reports.seen.items()}
    watched = watch.step((), {name: epochs.get(name, 0) + 1 for name in never_led})
    conditions = conditions_of(watched, ledger.hub.regions, frozenset(reports.heard), clock.monotonic(), clock.now())
    for name, epoch in watch.epochs().items():
        epochs[name] = max(epoch, epochs.get(name, 0))
    return Absence(conditions, watched, epochs)


def _away(condition: RegionCondition) -> Away:
    given_up = condition.state is RegionState.REVOKED
    return Away(condition.reason, in_words(condition.since) if given_up else None)
