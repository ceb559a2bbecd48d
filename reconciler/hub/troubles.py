"""What a person should look at, and since when: published on the status branch, so that it is found where everything else is.

What a region says of itself, and what is said of its silence, comes and goes while things start and end: it is told once it has
stood for a while. All else is told at once. A trouble is the same one for as long as its subject and its code are.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime

from reconciler.hub.ledger import Trouble
from reconciler.hub.world import World
from reconciler.model.names import region_branch
from reconciler.model.reasons import Reason, Why, because

RECORD_UNUSABLE = "RecordUnusable"
GRANTS_NOT_WRITTEN = "GrantsNotWritten"
_UNGRANTED = "the grants of {} were not written: "
PATIENCE_SECONDS = 10.0
"""How long what comes and goes must stand before it is told."""


class Standing:
    """Remembers since when each thing that comes and goes stands, by our own clock."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._since: dict[tuple[str, str], float] = {}

    def told(self, found: Iterable[Trouble], before: Iterable[Trouble]) -> list[Trouble]:
        """Those that have stood long enough, or were told before."""
        known, now = {(one.subject, one.code) for one in before}, self._monotonic()
        every = {(one.subject, one.code): one for one in found}
        self._since = {which: self._since.get(which, now) for which in every}
        return [one for which, one in every.items() if which in known or now - self._since[which] >= PATIENCE_SECONDS]

    @property
    def next_seconds(self) -> float | None:
        """Seconds after which something more is to be told, if it still stands; None where nothing waits."""
        now = self._monotonic()
        waiting = [left for since in self._since.values() if (left := since + PATIENCE_SECONDS - now) > 0]
        return min(waiting, default=None)


def passing(world: World, ungranted: Mapping[str, str]) -> Iterator[Trouble]:
    """What comes and goes: what each declared region says of itself, and who is silent.

    `ungranted`: region → why its grants were not written in the cycle before.
    """
    for name, words in sorted(ungranted.items()):
        yield _of(name, GRANTS_NOT_WRITTEN, f"{_UNGRANTED.format(name)}{words}")
    fresh = world.sources.fleet.policy.thresholds.report_fresh_seconds
    for name in sorted(world.sources.fleet.regions):
        seen, age, away = world.regions.get(name), world.ages.get(name), world.away.get(name)
        if away is not None:
            yield _because(name, away.reason)
        elif seen is None or age is None:
            yield _because(name, because(Why.NO_REPORT, region=name))
        elif age > fresh:
            yield _because(name, because(Why.REPORT_STALE, region=name, age_seconds=round(age), limit_seconds=fresh))
        else:
            for code, words in sorted(seen.health.items()):
                yield _of(name, code, f"{name}: {words}")
            for where, words in sorted(seen.sync_errors.items()):
                yield _of(f"{name}: {where}", "SyncEngineRefuses", f"the sync engine of {name} says of {where}: {words}")


def told_ungranted(troubles: Iterable[Trouble]) -> dict[str, str]:
    """Region → why its grants are not written, where that was told."""
    found = (one for one in troubles if one.code == GRANTS_NOT_WRITTEN)
    return {one.subject: one.what.removeprefix(_UNGRANTED.format(one.subject)) for one in found}


def lasting(world: World, reports: Mapping[str, str], strangers: Mapping[str, Iterable[str]]) -> Iterator[Trouble]:
    """The others. `reports`: region → why its report cannot be read; `strangers`: region → manifests that no record knows."""
    for name, words in sorted(reports.items()):
        yield _of(name, "ReportUnreadable", f"{name}: {words}")
    yield from world.unreachable
    for path, words in sorted(world.ledger.corrupt.items()):
        yield _of(path, RECORD_UNUSABLE, f"{path} on the status branch cannot be used: {words}")
    for name, paths in sorted(strangers.items()):
        for path in paths:
            yield _of(
                path,
                "NoRecord",
                f"{path} stands on {region_branch(name)} and no record knows it: what runs of it runs on; restore the record "
                "from the history of the status branch, or remove the file",
            )
    for branch, reason in world.refused.items():
        yield _because(branch, reason)


def since(found: Iterable[Trouble], before: Iterable[Trouble], now: datetime) -> tuple[Trouble, ...]:
    """Each with the moment at which it was first told. Where only numbers differ the words stay: what grows is no news."""
    known = {(one.subject, one.code): one for one in before}
    return tuple(_since(one, known.get((one.subject, one.code)), now) for one in found)


def _since(trouble: Trouble, before: Trouble | None, now: datetime) -> Trouble:
    if before is None:
        return trouble.model_copy(update={"since": now})
    same = re.sub(r"\d+", "", before.what) == re.sub(r"\d+", "", trouble.what)
    return before if same else trouble.model_copy(update={"since": before.since})


def _because(subject: str, reason: Reason) -> Trouble:
    return _of(subject, reason.code, reason.text)


def _of(subject: str, code: str, what: str) -> Trouble:
    return Trouble(subject=subject, code=code, what=" ".join(what.split()))


def full_links(full: Mapping[tuple[str, str], Reason]) -> list[Trouble]:
    """Links on which nothing new may begin."""
    return [Trouble(subject=f"{source} → {target}", code="LinkFull", what=why.text) for (source, target), why in full.items()]
