"""Which staged copies a region gives up when they are more than it may keep: least recently used first, never one in use. Pure.

A copy is in use while an attempt reads it or waits for it; one that is being made counts with its size, for it will be there.
Copies of unknown size count as nothing: a limit cannot be kept on what nobody has measured.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from reconciler.model.record import FINISHED, JobRecord, Phase
from reconciler.planning.copies import bytes_there, is_lost


@dataclass(frozen=True, slots=True)
class Use:
    """What jobs have to do with one copy."""

    now: bool = False
    """An attempt that has not ended reads it, or waits for it."""
    last: datetime | None = None
    """When an attempt that reads it was last let run."""


def uses_of(records: Iterable[JobRecord]) -> dict[str, Use]:
    """URI of a copy, or job id of its task → the use of it."""
    found: dict[str, Use] = {}
    for record in records:
        for attempt in record.attempts if record.stage is None else ():
            for what in (*attempt.dataset_uris, *attempt.stages):
                before = found.get(what, Use())
                moments = [moment for moment in (before.last, attempt.granted_at) if moment is not None]
                found[what] = Use(before.now or not attempt.ended, max(moments, default=None))
    return found


def to_evict(tasks: Iterable[JobRecord], uses: Mapping[str, Use], limits: Mapping[str, int]) -> frozenset[str]:
    """Job ids of the tasks whose copies must go. `limits`: region → bytes of all its copies together."""
    by_region: dict[str, list[JobRecord]] = {}
    for record in tasks:
        if record.stage is not None and record.stage.region in limits and _takes_room(record):
            by_region.setdefault(record.stage.region, []).append(record)
    return frozenset(name for region, there in by_region.items() for name in _least_used(there, uses, limits[region]))


def _takes_room(record: JobRecord) -> bool:
    """Whether a copy is there, or comes. One that is being removed is on its way out; of one that is lost there is nothing."""
    made = record.phase is Phase.SUCCEEDED or record.phase not in FINISHED
    gone = is_lost(record) and not bytes_there(record)
    return record.stage is not None and record.stage.kind == "dataset" and made and not gone


def _least_used(there: list[JobRecord], uses: Mapping[str, Use], limit: int) -> Iterable[str]:
    over = sum(bytes_there(record) for record in there) - limit
    idle = [record for record in there if record.phase is Phase.SUCCEEDED and not _use(record, uses).now]
    for record in sorted(idle, key=lambda one: (_last_used(one, uses), one.job_id)):
        if over <= 0:
            return
        over -= bytes_there(record)
        yield record.job_id


def _use(record: JobRecord, uses: Mapping[str, Use]) -> Use:
    """Of the copy by its address, and of the task by its name."""
    uri = record.stage.target_uri if record.stage is not None else ""
    both = [uses.get(uri, Use()), uses.get(record.job_id, Use())]
    moments = [use.last for use in both if use.last is not None]
    return Use(any(use.now for use in both), max(moments, default=None))


def _last_used(record: JobRecord, uses: Mapping[str, Use]) -> datetime:
    """When it was last read; of one that nobody has read yet, when it came."""
    last = record.last
    came = last.ended_at if last is not None and last.ended_at is not None else record.submitted_at
    return max(filter(None, (_use(record, uses).last, came)))
