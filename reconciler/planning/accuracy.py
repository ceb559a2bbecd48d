"""How far what was estimated at decisions was from what happened. Pure; from the ledger's records alone.

An estimate is held against what it was made of, and nothing else. An attempt that was stopped, disrupted or never started says
nothing of when it would have ended: it is counted apart, as are estimates that nobody could make, and what has not happened yet
(a late start is missing until it comes; how many are still to come says how much that may be). What happened is as the hub saw
it, some seconds after the fact. Invariant: every attempt that was let go is in exactly one of the counts of its kind.

Signed errors are what happened less what was estimated, in seconds: above 0 is later or longer. Of a rate it is the share of what
was believed: 0.1 is a tenth quicker.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from statistics import median

from reconciler.model.attempt import Attempt, State
from reconciler.model.record import JobRecord

LinkKey = tuple[str, str]
"""(source, target), the names of two regions."""


class Kind(StrEnum):
    """What was estimated."""

    START = "start"
    """When a job starts."""
    END = "end"
    """When it ends."""
    TRANSFER = "transfer"
    """How long bringing a dataset takes, with its time in the queue."""
    RATE = "rate"
    """What a transfer gets of its link. One that shared the link with others got less than all, and is not held against that."""


class Fate(StrEnum):
    """What became of an estimate."""

    RATED = "rated"
    UNKNOWN = "unknown"
    """There was none."""
    OTHERWISE = "otherwise"
    """It was stopped, failed, was disrupted or never started; or it went on from what was there already."""
    SHARED = "shared"
    """Others used the link as well."""
    OPEN = "open"
    """It has not happened yet."""


@dataclass(frozen=True, slots=True)
class Rated:
    """One estimate and what became of it."""

    kind: Kind
    fate: Fate
    region: str
    link: LinkKey | None
    """Of transfers over a link that is known."""
    at: datetime | None
    """When it was decided how it came out; None where it is open."""
    error: float | None = None
    """Of one that is rated: see the head of this file."""


@dataclass(frozen=True, slots=True)
class Errors:
    """How far a number of estimates were off."""

    count: int
    median: float
    """With its sign."""
    median_absolute: float
    """Half of them were off by no more than this."""
    p90_absolute: float
    """Nine of ten were."""


@dataclass(frozen=True, slots=True)
class Line:
    """What there is to say of the estimates of one kind, in all, of one region or of one link."""

    kind: Kind
    region: str | None = None
    link: LinkKey | None = None
    errors: Errors | None = None
    """None where none is rated."""
    unrated: Mapping[Fate, int] | None = None
    """How many there are of each other fate; those of which there is none are left out."""


def accuracy(records: Iterable[JobRecord], since: datetime | None = None) -> tuple[Line, ...]:
    """All there is to say, kind by kind: in all, then by link, then by region. `since`: only of what came out from then on; what
    is open belongs to every span."""
    found = [one for one in rated(records) if since is None or one.at is None or one.at >= since]
    lines: list[Line] = []
    for kind in Kind:
        own = [one for one in found if one.kind is kind]
        links = {one.link for one in own if one.link is not None}
        regions = {one.region for one in own}
        if own:
            lines.append(_line(own, kind))
        lines += [_line([one for one in own if one.link == link], kind, link=link) for link in sorted(links)]
        lines += [_line([one for one in own if one.region == region], kind, region=region) for region in sorted(regions)]
    return tuple(lines)


def recent_starts(records: Iterable[JobRecord], since: datetime) -> Errors | None:
    """The errors of the starts from `since` on; None where there is none. Cheap: it is asked for at every publication."""
    recent = (
        _start(attempt)
        for record in records
        if record.stage is None
        for attempt in record.attempts
        if attempt.started_at is not None and attempt.started_at >= since and attempt.placed_at is not None
    )
    return errors_of([one.error for one in recent if one.error is not None])


def recent_transfers(records: Iterable[JobRecord], since: datetime) -> Errors | None:
    """The errors of how long transfers took that ended from `since` on; None where there is none."""
    own = (one for one in _transfers(record for record in records if record.stage is not None) if one.kind is Kind.TRANSFER)
    return errors_of([one.error for one in own if one.error is not None and one.at is not None and one.at >= since])


def _line(own: Sequence[Rated], kind: Kind, region: str | None = None, link: LinkKey | None = None) -> Line:
    counts = {fate: sum(one.fate is fate for one in own) for fate in Fate if fate is not Fate.RATED}
    errors = errors_of([one.error for one in own if one.error is not None])
    return Line(kind, region, link, errors, {fate: count for fate, count in counts.items() if count})


def errors_of(errors: Sequence[float]) -> Errors | None:
    """Their figures; None of none. The ninth of ten is the nearest rank: an error that was made, not one between two."""
    if not errors:
        return None
    sizes = sorted(abs(error) for error in errors)
    return Errors(len(errors), median(errors), median(sizes), sizes[math.ceil(0.9 * len(sizes)) - 1])


def rated(records: Iterable[JobRecord]) -> Iterator[Rated]:
    """Every estimate of the records with what became of it."""
    tasks: list[JobRecord] = []
    for record in records:
        if record.stage is not None:
            tasks.append(record)
            continue
        for attempt in record.attempts:
            if attempt.placed_at is not None:  # else nobody let it go: a proposal, or one that was declined
                yield _start(attempt)
                yield _end(attempt)
    yield from _transfers(tasks)


# ---- jobs ---------------------------------------------------------------------------------------------------------


def _start(attempt: Attempt) -> Rated:
    happened = attempt.started_at
    fate = Fate.OPEN if not attempt.ended else Fate.OTHERWISE
    return _held_against(Kind.START, attempt, attempt.estimated_start_at, happened, fate)


def _end(attempt: Attempt) -> Rated:
    happened = attempt.ended_at if attempt.state is State.SUCCEEDED else None
    fate = Fate.OPEN if not attempt.ended else Fate.OTHERWISE
    return _held_against(Kind.END, attempt, attempt.estimated_end_at, happened, fate)


def _held_against(kind: Kind, attempt: Attempt, estimated: datetime | None, happened: datetime | None, otherwise: Fate) -> Rated:
    """`otherwise`: what to say where it did not happen."""
    at = happened or attempt.ended_at
    if estimated is None:
        return Rated(kind, Fate.UNKNOWN, attempt.region, None, at)
    if happened is None:
        return Rated(kind, otherwise, attempt.region, None, at)
    return Rated(kind, Fate.RATED, attempt.region, None, at, (happened - estimated).total_seconds())


# ---- transfers ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Run:
    """An attempt of a staging task."""

    attempt: Attempt
    link: LinkKey
    fresh: bool
    """Whether nothing of what it brings was there when it began."""
    begins: bool
    """Whether it is the one that the estimate was made for: retries go on with the same transfer."""


def _transfers(tasks: Iterable[JobRecord]) -> Iterator[Rated]:
    runs = [run for task in tasks for run in _runs(task)]
    lines: dict[LinkKey, list[_Run]] = {}
    for run in runs:
        if run.attempt.granted_at is not None:
            lines.setdefault(run.link, []).append(run)
    shared = {run.attempt.name for line in lines.values() for run in _overlapping(line)}
    for run in runs:
        if run.begins:
            yield _seconds(run)
            yield _rate(run, shared=run.attempt.name in shared)


def _runs(task: JobRecord) -> Iterator[_Run]:
    """The attempts that brought something: those of its present kind, and earlier ones of which an estimate is kept."""
    stage, before = task.stage, None
    if stage is None:
        return
    for attempt in task.attempts:
        said = attempt.estimated_transfer
        if said is not None or (stage.kind == "dataset" and attempt.run_hash == task.run_hash):
            source = said.source_region if said is not None else stage.source_region
            fresh = before is None or before.state is State.SUCCEEDED  # what succeeded before it has removed the copy
            yield _Run(attempt, (source, attempt.region), fresh, said is not None or fresh)
        before = attempt


def _overlapping(line: Iterable[_Run]) -> Iterator[_Run]:
    """Those of a link's transfers that were not alone on it from their grant to their end."""
    last: _Run | None = None
    for run in sorted(line, key=_granted):
        if last is not None and (last.attempt.ended_at is None or _granted(run) < last.attempt.ended_at):
            yield last
            yield run
        if last is None or _ends_later(run, last):
            last = run


def _granted(run: _Run) -> datetime:
    return run.attempt.granted_at or run.attempt.decided_at


def _ends_later(run: _Run, other: _Run) -> bool:
    own, others = run.attempt.ended_at, other.attempt.ended_at
    return others is not None and (own is None or own > others)


def _fate(run: _Run) -> Fate:
    attempt = run.attempt
    if attempt.estimated_transfer is None:
        return Fate.UNKNOWN
    if not attempt.ended:
        return Fate.OPEN
    return Fate.RATED if run.fresh and attempt.state is State.SUCCEEDED else Fate.OTHERWISE


def _seconds(run: _Run) -> Rated:
    said, ended, fate = run.attempt.estimated_transfer, run.attempt.ended_at, _fate(run)
    if fate is not Fate.RATED or said is None or ended is None:
        return Rated(Kind.TRANSFER, fate, run.link[1], run.link, ended)
    return Rated(Kind.TRANSFER, fate, run.link[1], run.link, ended, (ended - said.at).total_seconds() - said.seconds)


SHORTEST = timedelta(seconds=5)
"""Of what took less the rate says more of when it was looked at than of the link."""


def _rate(run: _Run, *, shared: bool) -> Rated:
    ended, fate = run.attempt.ended_at, _fate(run)
    if fate is Fate.RATED and shared:
        fate = Fate.SHARED
    error = _rate_error(run.attempt) if fate is Fate.RATED else None
    if fate is Fate.RATED and error is None:
        fate = Fate.OTHERWISE
    return Rated(Kind.RATE, fate, run.link[1], run.link, ended, error)


def _rate_error(attempt: Attempt) -> float | None:
    """The share by which it was quicker than believed; None where that cannot be said."""
    said, progress = attempt.estimated_transfer, attempt.progress
    if said is None or attempt.granted_at is None or attempt.ended_at is None or not said.bytes_per_second:
        return None
    size = progress.bytes_total if progress is not None and progress.bytes_total else said.size_bytes
    took = attempt.ended_at - attempt.granted_at
    if not size or took < SHORTEST:
        return None
    return size / took.total_seconds() / said.bytes_per_second - 1.0
