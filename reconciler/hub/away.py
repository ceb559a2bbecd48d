"""One step of the watch, for the cycle: regions are given up or shown to be, and their jobs are told what is so.

Decides which regions are watched, and what people's words of them count for: a word holds for the last lease that anybody held
in the region, and only as long as it is not void (spoken.py). By force a lease is taken only where the region counts as lost.
Invariant: a region that is heard of is given up at nobody's word.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from reconciler.hub.conditions import Told, awaited_conditions, conditions_of, in_words, standing_conditions
from reconciler.hub.fleet import Word
from reconciler.hub.granting import Granting
from reconciler.hub.ledger import Ledger, Trouble, WordNoted
from reconciler.hub.observing import GitSeen
from reconciler.hub.regions import Reports
from reconciler.hub.spoken import holding, noted, path_of, told
from reconciler.hub.watch import Watch, Watched
from reconciler.model.attempt import State
from reconciler.model.region import LossTimes
from reconciler.model.region_state import NOT_HEARD, RegionCondition, RegionState
from reconciler.planning.observed import Away
from reconciler.ports import Clock

_SILENT = (RegionState.UNKNOWN, RegionState.LOST)


@dataclass(frozen=True, slots=True)
class Absence:
    """What the cycle must know of the regions that are not heard of."""

    conditions: Mapping[str, RegionCondition]
    """As they are published: of all regions that are not Ready."""
    watched: Watched
    epochs: Mapping[str, int]
    """Region → the highest epoch that its lease was seen to have."""
    forgotten: Mapping[str, Word]
    said: tuple[Trouble, ...] = ()
    """Beside what could not be asked or written."""
    words: Mapping[str, WordNoted] = field(default_factory=dict)
    """What people say of regions, as it is to be noted."""

    @property
    def away(self) -> dict[str, Away]:
        """As their jobs are told."""
        silent = {name: condition for name, condition in self.conditions.items() if condition.state in NOT_HEARD}
        return {name: _away(each, self.forgotten.get(name)) for name, each in silent.items()}

    @property
    def troubles(self) -> list[Trouble]:
        """What a person should look at."""
        words = sorted(self.watched.troubles.items())
        unseen = (Trouble(subject=name, code="LeaseUnreachable", what=f"the lease of {name}: {said}") for name, said in words)
        return [*unseen, *self.said]


def times_of(seen: GitSeen) -> dict[str, LossTimes]:
    """The regions that are watched, and when each counts as lost. One that is declared no more is watched while an attempt stands
    there, by the times that it had.
    """
    fleet = seen.sources.fleet
    return dict.fromkeys(fleet.regions.keys() | _standing(seen.ledger).keys(), fleet.policy.loss) | own_times(seen)


def own_times(seen: GitSeen) -> dict[str, LossTimes]:
    """Of the regions that have times of their own. A file that goes must not shorten the wait for what runs there."""
    declared, kept = seen.sources.fleet.regions, seen.ledger.hub.loss
    gone = (_standing(seen.ledger).keys() - declared.keys()) & kept.keys()
    own = {name: region.loss for name, region in declared.items() if region.loss is not None}
    return own | {name: kept[name] for name in sorted(gone)}


def absence_of(watch: Watch, seen: GitSeen, reports: Reports, granting: Granting, clock: Clock) -> Absence:
    """One step. `seen`: with the ledger as it was published."""
    ledger, before = seen.ledger, seen.ledger.hub.regions
    verdicts = watch.verdicts()
    silent = {name for name, verdict in verdicts.items() if verdict.state in _SILENT}
    revoked = {name for name, verdict in verdicts.items() if verdict.state is RegionState.REVOKED}
    held = {name: _held(name, watch, reports, granting, ledger) for name in silent | revoked}
    notes = noted(seen.sources.words, ledger.hub.words, reports.seen)
    words = [word for word in holding(seen.sources.words, notes) if held.get(word.region) == word.epoch]
    confirmed = {word.region for word in words}
    forgotten = {word.region: word for word in sorted(words, key=lambda word: word.force) if word.says == "forget"}
    forced = {name for name, word in forgotten.items() if word.force and verdicts[name].state is RegionState.LOST}
    awaited = _awaited(seen, watch, reports, granting)
    never_led = granting.without_epoch() - _epochs_standing(ledger).keys()
    watched = watch.step(confirmed | awaited, never_led - awaited, {name: epoch + 1 for name, epoch in held.items()}, forced)
    now = clock.now()
    conditions = conditions_of(watched, Told(before, frozenset(reports.heard), held, forgotten), clock.monotonic(), now)
    declared = standing_conditions(seen.sources.fleet.regions, _standing(ledger), before, now)
    waited_for = awaited_conditions(awaited, before, now)
    over = {path_of(word) for word in seen.sources.words if word.epoch < _held(word.region, watch, reports, granting, ledger)}
    said = (*_undeclared(declared), *told(seen.sources.words, notes, over))
    epochs = {name: region.lease_epoch for name, region in reports.seen.items()}
    for name, epoch in watch.epochs().items():
        epochs[name] = max(epoch, epochs.get(name, 0))
    return Absence(declared | conditions | waited_for, watched, epochs, forgotten, said, notes)


def _awaited(seen: GitSeen, watch: Watch, reports: Reports, granting: Granting) -> frozenset[str]:
    """The declared regions whose first agent has not come: no report, no lease, and nothing that stands there."""
    ledger, verdicts = seen.ledger, watch.verdicts()
    found = set()
    for name in seen.sources.fleet.regions.keys() - _standing(ledger).keys() - reports.seen.keys() - reports.troubles.keys():
        before, lease = ledger.hub.regions.get(name), watch.leases.seen.get(name)
        was = before is not None and before.state is RegionState.AWAITED
        is_silent = name in verdicts and verdicts[name].state in _SILENT
        none_came = (lease is None or lease.etag is None) and _held(name, watch, reports, granting, ledger) == 0
        if none_came and (was or is_silent):
            found.add(name)
    return frozenset(found)


def _held(name: str, watch: Watch, reports: Reports, granting: Granting, ledger: Ledger) -> int:
    """Of the last lease that was held in the region, as far as anybody can tell; 0 where none ever was."""
    lease = watch.leases.seen.get(name)
    if lease is not None and lease.lease is not None:
        return lease.lease.epoch - int(lease.lease.revoked)
    report, before = reports.seen.get(name), ledger.hub.regions.get(name)
    said = before.epoch if before is not None else None
    reported = report.lease_epoch if report is not None else 0
    return max(granting.epoch_of(name), reported, said or 0, _epochs_standing(ledger).get(name, 0))


def _epochs_standing(ledger: Ledger) -> dict[str, int]:
    """Region → the highest epoch that an attempt there is bound to which has not ended: somebody did lead there."""
    found: dict[str, int] = {}
    for record in ledger.records.values():
        attempt = record.current
        if attempt is not None and attempt.epoch:
            found[attempt.region] = max(found.get(attempt.region, 0), attempt.epoch)
    return found


def _standing(ledger: Ledger) -> Counter[str]:
    """How many attempts that have not ended stand in each region."""
    current = (record.current for record in ledger.records.values())
    return Counter(attempt.region for attempt in current if attempt is not None and attempt.state is not State.PROPOSED)


def _undeclared(conditions: Mapping[str, RegionCondition]) -> Iterator[Trouble]:
    for name, condition in conditions.items():
        if condition.state is RegionState.UNDECLARED:
            yield Trouble(subject=name, code=condition.reason.code, what=condition.reason.text)


def _away(condition: RegionCondition, word: Word | None) -> Away:
    given_up = in_words(condition.since) if condition.state is RegionState.REVOKED else None
    said = (None, False) if word is None or given_up is None else (word.by, word.force)
    return Away(condition.reason, given_up, *said)
