"""Records that went back: a ledger that knows less of a job than it knew before.

Whoever deletes a record, or reverts a commit of the status branch, takes from the hub what it must not forget: that an attempt
has ended, that a name was given. A job whose record does not go on from the one before is left alone until a person restores it.
"""

from collections.abc import Iterator

from reconciler.hub.ledger import Ledger
from reconciler.model.names import record_path
from reconciler.model.record import JobRecord


def gone_back(before: Ledger, now: Ledger) -> dict[str, str]:
    """Path → words, of every record that does not go on from the one before."""
    return dict(_gone_back(before, now))


def _gone_back(before: Ledger, now: Ledger) -> Iterator[tuple[str, str]]:
    for key, blob in before.blobs.items():
        if now.blobs.get(key) == blob or key in now.unread:
            continue
        record = now.records.get(key)
        if record is None:
            yield record_path(key), "it is gone"
        elif not goes_on(before.records[key], record):
            yield record_path(key), "it was set back, and knows less of the job's attempts than it did"


def goes_on(before: JobRecord, now: JobRecord) -> bool:
    """Whether a record still knows every attempt of the one before, and of each that had ended that it has."""
    known = {attempt.number: attempt for attempt in now.attempts}
    return now.rerun >= before.rerun and all(
        attempt.number in known
        and known[attempt.number].name == attempt.name
        and (known[attempt.number].ended or not attempt.ended)
        for attempt in before.attempts
    )
