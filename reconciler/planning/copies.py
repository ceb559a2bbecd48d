"""Which staged copies are there: by the ledger's word, unless a listing of the region's store denies it. Pure.

A task that has succeeded has brought its copy whole. A cache may evict some of it later, or somebody may remove it. The region's
agent lists what stands in the store; a listing that was begun after the task's newest attempt ended, and shows less than all, is
noted in the task's record (`StageTask.found`). From then on the copy is a part: no place to read from, so much less to bring.

Decides what a listing says of a copy. Invariants: what is noted holds until the task has run again, or a later listing shows
all of it, whoever is heard of meanwhile; nothing is concluded from what is not known: a listing of another store, one from before
the end, or one that leaves copies out and does not name this one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from reconciler.model.names import LABEL_STAGE
from reconciler.model.reasons import Reason, Why, because
from reconciler.model.record import FINISHED, JobRecord, Phase
from reconciler.model.report import CacheReport
from reconciler.model.stage import CopyFound, StageTask
from reconciler.model.staged import NOTE_SUFFIX
from reconciler.planning.stage_names import uri_in

_NEWS: Final = 0.05
"""By so much the share of a copy must change to be noted anew: each note is a commit."""


class Standing(NamedTuple):
    """What was found of one copy. `size_bytes_total`: that its marker names; 0 without one."""

    is_whole: bool
    size_bytes: int = 0
    size_bytes_total: int = 0


NOTHING: Final = Standing(is_whole=False)


@dataclass(frozen=True, slots=True)
class Listing:
    """A listing of a region's store."""

    url: str
    copies: Mapping[str, Standing]
    """By the URIs of their folders."""
    names_all: bool
    """Whether what it does not name is not there."""
    begun_at: datetime
    """It was not begun before, by the hub's clock."""


def standing_of(cache: CacheReport) -> Standing:
    """The small form of what was found of a copy."""
    counts = (cache.objects, cache.size_bytes)
    whole = cache.objects > 0 and counts == (cache.objects_total, cache.size_bytes_total)
    return Standing(whole, cache.size_bytes, cache.size_bytes_total)


# ---- what a record says -------------------------------------------------------------------------------------------


def is_done(record: JobRecord) -> bool:
    """Whether the newest attempt has done what the task is for, and that still holds as far as anybody knows."""
    return _has_succeeded(record) and not is_lost(record)


def _has_succeeded(record: JobRecord) -> bool:
    task = record.stage
    return task is not None and record.phase is Phase.SUCCEEDED and record.spec.labels.get(LABEL_STAGE) == task.kind


def is_lost(record: JobRecord) -> bool:
    """Whether a copy that was brought was found to lack something since."""
    task = record.stage
    if task is None or task.found is None or not _has_succeeded(record):
        return False
    ended_at = record.last.ended_at if record.last is not None else None
    return ended_at is not None and ended_at < task.found.at


def why_lost(record: JobRecord) -> Reason | None:
    """Why a copy is not there though it was brought, or why it is brought again; None where neither is so."""
    task = record.stage
    if task is None or task.found is None or not (is_lost(record) or record.live):
        return None
    return because(Why.COPY_LOST, what=task.what, region=task.region, percent=round(10_000 * task.found.share) // 100)


def copies_of(tasks: Iterable[JobRecord]) -> dict[str, dict[str, str]]:
    """Subject → region → URI of every copy that is complete."""
    found: dict[str, dict[str, str]] = {}
    for record in tasks:
        if record.stage is not None and record.stage.kind == "dataset" and is_done(record):
            found.setdefault(record.stage.subject, {})[record.stage.region] = record.stage.target_uri
    return found


def parts_of(tasks: Iterable[JobRecord]) -> dict[str, dict[str, float]]:
    """Subject → region → share of the bytes that is there, of every copy that has lost something and is not being brought."""
    found: dict[str, dict[str, float]] = {}
    for record in tasks:
        task = record.stage
        if task is not None and task.found is not None and record.phase in FINISHED and not is_done(record):
            found.setdefault(task.subject, {})[task.region] = task.found.share
    return found


def bytes_there(record: JobRecord) -> int:
    """Bytes that a copy takes where it was brought; 0 of unknown size."""
    task = record.stage
    size = (task.size_bytes or 0) if task is not None else 0
    return round(size * task.found.share) if task is not None and task.found is not None and is_lost(record) else size


def bytes_to_bring(task: StageTask) -> int | None:
    """Bytes that a task has to move before it says how far it is; None where nobody knows."""
    if task.size_bytes is None or task.found is None:
        return task.size_bytes
    return task.size_bytes - round(task.size_bytes * task.found.share)


# ---- what a listing says ------------------------------------------------------------------------------------------


def as_listed(record: JobRecord, listing: Listing | None) -> JobRecord:
    """A task's record with what a listing shows of its copy; the very same where that is nothing new."""
    task = record.stage
    if task is None or task.kind != "dataset":
        return record
    if task.found is None and (listing is None or listing.copies.get(task.target_uri, NOTHING).is_whole):
        return record  # so it is of nearly all, in every cycle
    if not _has_succeeded(record):
        return record
    before = task.found if is_lost(record) else None
    found = _found(record, task, listing, before) if listing is not None else before
    return record if found == task.found else record.model_copy(update={"stage": task.model_copy(update={"found": found})})


def _found(record: JobRecord, task: StageTask, listing: Listing, before: CopyFound | None) -> CopyFound | None:
    """What is to be noted. `before`: what is, and holds."""
    ended_at = record.last.ended_at if record.last is not None else None
    standing = _standing(task, listing)
    if standing is None or ended_at is None or listing.begun_at <= ended_at:
        return before
    if standing.is_whole:
        return None if before is None or listing.begun_at > before.at else before
    share = _share(standing, task)
    if before is not None and abs(share - before.share) < _NEWS and (share > 0) == (before.share > 0):
        return before
    return CopyFound(share=share, at=listing.begun_at)


def _standing(task: StageTask, listing: Listing) -> Standing | None:
    """What a listing says of the task's copy; None where it says nothing of it: it is in another store, or named like a note."""
    if task.target_uri != uri_in(listing.url, task.subject) or task.subject.endswith(NOTE_SUFFIX):
        return None
    return listing.copies.get(task.target_uri, NOTHING if listing.names_all else None)


def _share(standing: Standing, task: StageTask) -> float:
    """Of the bytes, by the copy's marker; without one by what was declared."""
    total = standing.size_bytes_total or task.size_bytes or 0
    return round(min(standing.size_bytes / total, 1.0), 4) if total else 0.0
