"""What is said of a region that is not heard of: since when, what that means, what comes next and when. Pure.

A condition stays as it was told while nothing of it changes but a moment of a few seconds: each word of it is a commit.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from reconciler.hub.fleet import Word
from reconciler.hub.losing import Verdict
from reconciler.hub.watch import Watched
from reconciler.model.reasons import Reason, Why, because
from reconciler.model.region import Region
from reconciler.model.region_state import NOT_HEARD, RegionCondition, RegionState

_SAME_SECONDS = 10.0
"""Moments that differ by less are one."""
_BLIND = "this hub cannot read its report at present, and meanwhile counts nothing"
_NOT_BY_TIME = "whether anything runs there cannot be told by waiting: `reconciler forget` says what a person can do"


@dataclass(frozen=True, slots=True)
class Told:
    """What the words of a condition are made from, beside the watch."""

    before: Mapping[str, RegionCondition]
    """As they were told last."""
    heard: frozenset[str]
    """Regions that this hub has heard of itself: of another, what was told before holds until then."""
    epochs: Mapping[str, int]
    """Of the last lease that was held in each region."""
    forgotten: Mapping[str, Word]
    """What people said of regions that never come back."""


def conditions_of(watched: Watched, told: Told, monotonic: float, now: datetime) -> dict[str, RegionCondition]:
    """The conditions of all regions that are not heard of, or were given up."""
    found = {}
    for name, verdict in sorted(watched.verdicts.items()):
        old = told.before.get(name)
        old = old if old is not None and old.state in NOT_HEARD else None
        kept = _kept(verdict, old) if name not in told.heard else None
        if verdict.state is RegionState.READY and kept is None:
            continue
        new = _condition(name, verdict, watched, old, monotonic, now) if kept is None else kept
        word = told.forgotten.get(name)
        if word is not None and new.state is RegionState.REVOKED:
            new = new.model_copy(update={"reason": _forgotten(word)})
        new = new.model_copy(update={"epoch": told.epochs.get(name, new.epoch)})
        found[name] = old if old is not None and _same(old, new) else new
    return found


def standing_conditions(
    regions: Mapping[str, Region], standing: Mapping[str, int], before: Mapping[str, RegionCondition], now: datetime
) -> dict[str, RegionCondition]:
    """What people said of regions, whether they are heard of or not. `standing`: how many attempts stand in each region."""
    found = {}
    for name in sorted(standing.keys() - regions.keys()):
        reason = because(Why.REGION_UNDECLARED, region=name, attempts=standing[name])
        found[name] = RegionCondition(state=RegionState.UNDECLARED, since=now, reason=reason)
    for name, region in regions.items():
        if region.drained_at is not None:
            is_over = now >= region.drained_at
            attempts, by = standing.get(name, 0), region.drain_by
            reason = because(Why.REGION_DRAINED if is_over else Why.REGION_DRAINS, region=name, attempts=attempts, by=by)
            next_at = None if is_over else region.drained_at
            found[name] = RegionCondition(state=RegionState.DRAINING, since=now, reason=reason, next_at=next_at)
        elif region.cordoned:
            found[name] = RegionCondition(state=RegionState.CORDONED, since=now, reason=because(Why.CORDONED, region=name))
    for name, new in found.items():
        old = before.get(name)
        if old is not None and old.state is new.state:
            found[name] = new.model_copy(update={"since": old.since})
    return found


def awaited_conditions(
    regions: Collection[str], before: Mapping[str, RegionCondition], now: datetime
) -> dict[str, RegionCondition]:
    """What is said of regions whose first agent has not come yet."""
    found = {}
    for name in sorted(regions):
        old = before.get(name)
        since = old.since if old is not None and old.state is RegionState.AWAITED else now
        found[name] = RegionCondition(state=RegionState.AWAITED, since=since, reason=because(Why.REGION_AWAITED, region=name))
    return found


def _forgotten(word: Word) -> Reason:
    return because(Why.FORGOTTEN_BY_FORCE if word.force else Why.REGION_FORGOTTEN, region=word.region, by=word.by)


def _kept(verdict: Verdict, old: RegionCondition | None) -> RegionCondition | None:
    """What an earlier hub has told of a region that this one has not heard of yet, where that is more than this one knows."""
    if old is None or old.state is RegionState.REVOKED:
        return None
    order = list(RegionState)
    return old if order.index(verdict.state) < order.index(old.state) else None


def _condition(
    name: str, verdict: Verdict, watched: Watched, old: RegionCondition | None, monotonic: float, now: datetime
) -> RegionCondition:
    heard = now - timedelta(seconds=monotonic - verdict.since)
    next_at = None if verdict.next_in is None else now + timedelta(seconds=verdict.next_in)
    since = old.since if old is not None and old.state is verdict.state else now
    if verdict.state is RegionState.REVOKED:
        return RegionCondition(state=verdict.state, since=since, reason=_revoked(name, since))
    if verdict.state is RegionState.UNKNOWN:
        words = _BLIND if name in watched.blind else f"from {in_words(next_at)} on it counts as lost"
        return RegionCondition(
            state=verdict.state,
            since=since,
            reason=because(Why.REGION_UNKNOWN, region=name, since=in_words(heard), next=words),
            next_at=next_at,
        )
    reason = because(Why.REGION_AWAY, region=name, since=in_words(heard), next=_then(name, watched, next_at))
    return RegionCondition(state=verdict.state, since=since, reason=reason, next_at=None if name in watched.doubts else next_at)


def _then(name: str, watched: Watched, next_at: datetime | None) -> str:
    if name in watched.blind:
        return _BLIND
    if name in watched.doubts:
        silent, known = watched.doubts[name]
        return because(Why.HUB_DOUBTS_ITSELF, silent=silent, known=known).text
    if name in watched.troubles:
        return f"its lease cannot be looked at, or taken away: {watched.troubles[name]}"
    if next_at is None:
        return _NOT_BY_TIME
    return f"its agent stops what runs there; at {in_words(next_at)} its lease is revoked, and its jobs start elsewhere"


def _revoked(name: str, since: datetime) -> Reason:
    words = "its jobs go on elsewhere, or wait for it, as each of them says"
    return because(Why.REGION_REVOKED, region=name, since=in_words(since), next=words)


def in_words(moment: datetime | None) -> str:
    """A moment in words."""
    return "some moment" if moment is None else f"{moment:%H:%M:%S} UTC"


def _same(old: RegionCondition, new: RegionCondition) -> bool:
    if old == new:
        return True
    if (old.state, old.reason.code, old.epoch) != (new.state, new.reason.code, new.epoch):
        return False
    if (old.next_at is None) != (new.next_at is None):
        return False
    if old.next_at is None or new.next_at is None:
        return old.reason.numbers.get("next") == new.reason.numbers.get("next")
    return abs((old.next_at - new.next_at).total_seconds()) <= _SAME_SECONDS
