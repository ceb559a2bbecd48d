"""The result pointers: for each job that has succeeded, which attempt's outputs are its result.

They stand in the hub's store, not in the regions': one place for all of a job's attempts wherever they ran, whose conditional
writes are known to work, and which no agent has to write. Every attempt writes below its own prefix, so a late or broken one can
overwrite nobody's outputs; what it cannot do either is to call its own the result.

Decides when a pointer moves: only when the published ledger says that the attempt succeeded and that its outputs are where they
were asked for, so after the commit; only by compare-and-swap; and never from a higher number to a lower one. Numbers are never
used twice, so two hubs that have read the ledger write the same, and a paused one that comes late changes nothing. A pointer is a
copy of what the ledger says: a hub that dies before the write is healed by the next, which lists once what is there.
"""

from collections.abc import Mapping

from pydantic import ValidationError

from reconciler.hub.ledger import Trouble
from reconciler.model.attempt import Attempt, State
from reconciler.model.names import JobKey
from reconciler.model.record import JobRecord
from reconciler.model.result import RESULTS, ResultPointer, result_key
from reconciler.ports import Conflict, ObjectStore, Refused, Transient

MOST_WRITTEN = 50
"""Pointers looked at in one cycle: after a hand-over there may be many, and none of them is in a hurry."""


class ResultPointers:
    """Moves the pointers. What it remembers only saves reading; a new one finds out by itself."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._looked: dict[JobKey, JobRecord] = {}
        self._owed: dict[JobKey, Attempt] = {}
        self._begun = False

    def forget(self) -> None:
        """For a hub that lost the lead: another one moves them."""
        self._looked.clear()
        self._owed.clear()
        self._begun = False

    def follow(self, published: Mapping[JobKey, JobRecord]) -> tuple[Trouble, ...]:
        """Move what the published ledger lets move, and say what could not be moved; that is tried again at the next call."""
        try:
            there = frozenset() if self._begun else frozenset(item.key for item in self._store.list(RESULTS))
        except (Transient, Refused) as error:
            return (_trouble(RESULTS, f"the results in the store cannot be listed: {error}"),)
        self._note(published, there)
        self._begun = True
        troubles: list[Trouble] = []
        for key in list(self._owed)[:MOST_WRITTEN]:
            attempt = self._owed.pop(key)
            try:
                move(self._store, key, attempt)
            except (Conflict, Transient, Refused) as error:
                self._owed[key] = attempt  # behind the others: one that nobody mends must not stand in their way
                troubles.append(_trouble(result_key(key), f"where the result of {key} is was not written: {error}"))
        return tuple(troubles)

    def _note(self, published: Mapping[JobKey, JobRecord], there: frozenset[str]) -> None:
        for key, record in published.items():
            if self._looked.get(key) is record:
                continue
            self._looked[key] = record
            attempt = succeeded(record)
            # A run has one success; where there was one run only, the object that is there is of it.
            if attempt is not None and not (record.first_attempt == 1 and result_key(key) in there):
                self._owed[key] = attempt
        for key in self._looked.keys() - published.keys() if len(self._looked) > len(published) else ():
            del self._looked[key]


def succeeded(record: JobRecord) -> Attempt | None:
    """The newest attempt of a job that succeeded, in whichever run, and whose outputs are where they were asked for; None where
    there is none."""
    won = (attempt for attempt in reversed(record.attempts) if attempt.state is State.SUCCEEDED)
    return next((attempt for attempt in won if not attempt.is_unreturned), None)


def pointer_to(key: JobKey, attempt: Attempt) -> ResultPointer:
    """What the pointer says when it points to this attempt, which has succeeded."""
    return ResultPointer(
        team=key.team,
        job_id=key.job_id,
        attempt=attempt.name,
        number=attempt.number,
        region=attempt.region,
        outputs=attempt.outputs,
        checkpoint=attempt.checkpoint,
        succeeded_at=attempt.ended_at or attempt.decided_at,
    )


def move(store: ObjectStore, key: JobKey, attempt: Attempt) -> bool:
    """Point to an attempt that succeeded; False where the pointer was there already, or at a later attempt.

    Raises Conflict where somebody else wrote meanwhile, Transient, and Refused where the pointer that stands there is of another
    attempt with this number, or is none.
    """
    stored = store.get(result_key(key))
    if stored is not None:
        there = _parsed(key, stored.body)
        if there.number == attempt.number and there.attempt != attempt.name:
            raise Refused(
                f"{result_key(key)} names {there.attempt}, which has the number of {attempt.name}; look at it, then delete it"
            )
        if there.number >= attempt.number:
            return False
    body = pointer_to(key, attempt).model_dump_json().encode()
    store.put(result_key(key), body, expect=stored.etag if stored is not None else None)
    return True


def read_result(store: ObjectStore, key: JobKey) -> ResultPointer | None:
    """Where a job's result is; None where it has none. Raises Transient and Refused."""
    stored = store.get(result_key(key))
    return _parsed(key, stored.body) if stored is not None else None


def _trouble(subject: str, what: str) -> Trouble:
    return Trouble(subject=subject, code="ResultNotWritten", what=" ".join(what.split()))


def _parsed(key: JobKey, body: bytes) -> ResultPointer:
    try:
        return ResultPointer.model_validate_json(body)
    except ValidationError as error:
        raise Refused(f"{result_key(key)} in the store is no result pointer; look at it, then delete it") from error
