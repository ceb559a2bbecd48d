"""What happened to jobs between two ledgers, in words: for the commit, and for the log."""

from collections.abc import Iterable, Mapping

from reconciler.model.names import JobKey
from reconciler.model.record import JobRecord, Phase
from reconciler.planning.copies import is_lost


def events_of(before: Mapping[JobKey, JobRecord], after: Mapping[JobKey, JobRecord]) -> tuple[str, ...]:
    """What happened to jobs, a line each."""
    return tuple(_events(before, after))


def _events(before: Mapping[JobKey, JobRecord], after: Mapping[JobKey, JobRecord]) -> Iterable[str]:
    for key in sorted(key for key, new in after.items() if before.get(key) is not new):
        old, new = before.get(key), after[key]
        if old is not None and old.phase is new.phase and old.last == new.last:
            if is_lost(new) and not is_lost(old) and new.why is not None:
                yield f"{key}: {new.why.text}"
            continue
        yield from _ended_before(key, old, new)
        where = f" in {new.last.region}" if new.last is not None and new.current is not None else ""
        why = f": {new.why.text}" if new.why is not None and new.phase not in (Phase.RUNNING, Phase.STARTING) else ""
        yield f"{key} {new.phase.value.lower()}{where}{why}"


def _ended_before(key: JobKey, old: JobRecord | None, new: JobRecord) -> Iterable[str]:
    """An attempt that ended in the very cycle in which another one began."""
    current = old.current if old is not None else None
    if current is None or new.last is None or new.last.number == current.number:
        return
    ended = next((attempt for attempt in new.attempts if attempt.number == current.number), None)
    if ended is not None and ended.reason is not None:
        yield f"{key} a{ended.number} {ended.state.value.lower()} in {ended.region}: {ended.reason.text}"
