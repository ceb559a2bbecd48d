"""One step of the watch, for the cycle: regions are given up or shown to be, and their jobs are told what is so.

Decides which regions are watched, and what people's words of them count for: a word holds for the last lease that anybody held
in the region, and until the region is heard of again, so that it says nothing of a later silence. That it was heard of stands in
the ledger, as a trouble. Invariant: a region that is heard of is given up at nobody's word.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from reconciler.hub.conditions import Told, conditions_of, in_words, standing_conditions
from reconciler.hub.fleet import Word
from reconciler.hub.granting import Granting
from reconciler.hub.ledger import Ledger, Trouble
from reconciler.hub.losing import Verdict
from reconciler.hub.observing import GitSeen
from reconciler.hub.regions import Reports
from reconciler.hub.watch import Watch, Watched
from reconciler.model.attempt import State
from reconciler.model.reasons import Why, because, code_of
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
    there, by the policy's times.
    """
    fleet = seen.sources.fleet
    own = {name: region.loss or fleet.policy.loss for name, region in fleet.regions.items()}
    return own | dict.fromkeys(_standing(seen.ledger).keys() - own.keys(), fleet.policy.loss)


def absence_of(watch: Watch, seen: GitSeen, reports: Reports, granting: Granting, clock: Clock) -> Absence:
    """One step. `seen`: with the ledger as it was published."""
    ledger, before = seen.ledger, seen.ledger.hub.regions
    verdicts = watch.verdicts()
    silent = {name for name, verdict in verdicts.items() if verdict.state in _SILENT}
    revoked = {name for name, verdict in verdicts.items() if verdict.state is RegionState.REVOKED}
    held = {name: _held(name, watch, reports, granting, before.get(name)) for name in silent | revoked}
    idle = tuple(_without_effect(watch, seen, reports, granting))
    spent = {one.subject for one in idle}
    words = [word for word in seen.sources.words if held.get(word.region) == word.epoch and _path(word) not in spent]
    confirmed = {word.region for word in words}
    forgotten = {word.region: word for word in sorted(words, key=lambda word: word.force) if word.says == "forget"}
    forced = {name for name, word in forgotten.items() if word.force and name in silent}
    watched = watch.step(confirmed, granting.without_epoch(), {name: epoch + 1 for name, epoch in held.items()}, forced)
    now = clock.now()
    conditions = conditions_of(watched, Told(before, frozenset(reports.heard), held, forgotten), clock.monotonic(), now)
    declared = standing_conditions(seen.sources.fleet.regions, _standing(ledger), before, now)
    said = (*_undeclared(declared), *idle)
    epochs = {name: region.lease_epoch for name, region in reports.seen.items()}
    for name, epoch in watch.epochs().items():
        epochs[name] = max(epoch, epochs.get(name, 0))
    return Absence(declared | conditions, watched, epochs, forgotten, said)


def _held(name: str, watch: Watch, reports: Reports, granting: Granting, before: RegionCondition | None) -> int:
    """Of the last lease that was held in the region, as far as anybody can tell; 0 where none ever was."""
    lease = watch.leases.seen.get(name)
    if lease is not None and lease.lease is not None:
        return lease.lease.epoch - int(lease.lease.revoked)
    report = reports.seen.get(name)
    said = before.epoch if before is not None else None
    return max(granting.epoch_of(name), report.lease_epoch if report is not None else 0, said or 0)


def _standing(ledger: Ledger) -> Counter[str]:
    """How many attempts that have not ended stand in each region."""
    current = (record.current for record in ledger.records.values())
    return Counter(attempt.region for attempt in current if attempt is not None and attempt.state is not State.PROPOSED)


def _undeclared(conditions: Mapping[str, RegionCondition]) -> Iterator[Trouble]:
    for name, condition in conditions.items():
        if condition.state is RegionState.UNDECLARED:
            yield Trouble(subject=name, code=condition.reason.code, what=condition.reason.text)


def _path(word: Word) -> str:
    return f"confirmations/{word.file}"


def _without_effect(watch: Watch, seen: GitSeen, reports: Reports, granting: Granting) -> Iterator[Trouble]:
    """Words of the present lease of a region that is heard of, or was since they were said: else they would hold of a silence
    that nobody has looked into.
    """
    words, hub = seen.sources.words, seen.ledger.hub
    verdicts = watch.verdicts() if words else {}
    known = {one.subject for one in hub.troubles if one.code == code_of(Why.REGION_SPOKEN_OF)}
    for word in words:
        held = _held(word.region, watch, reports, granting, hub.regions.get(word.region))
        is_heard = _is_heard_of(word.region, verdicts, reports)
        if held == word.epoch and (is_heard or _path(word) in known):
            reason = because(Why.REGION_SPOKEN_OF, region=word.region, file=word.file)
            yield Trouble(subject=_path(word), code=reason.code, what=reason.text)


def _is_heard_of(region: str, verdicts: Mapping[str, Verdict], reports: Reports) -> bool:
    """Whether it was heard of lately; where the hub's own clocks began anew, nobody was."""
    verdict = verdicts.get(region)
    if verdict is None or verdict.state is not RegionState.READY:
        return False
    return region in reports.heard and reports.heard_at(region) == verdict.since


def _away(condition: RegionCondition, word: Word | None) -> Away:
    given_up = in_words(condition.since) if condition.state is RegionState.REVOKED else None
    said = (None, False) if word is None or given_up is None else (word.by, word.force)
    return Away(condition.reason, given_up, *said)
