"""The status branch as anybody can read it, followed commit by commit: what it may say after what it said before."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from reconciler.hub.ledger import HubFile
from reconciler.model.attempt import TABLE, Attempt, State
from reconciler.model.names import JobKey
from reconciler.model.record import JobRecord
from reconciler.ports import TreeEntry
from reconciler.sim.git import Remote
from reconciler.sim.judge import Violation

STATUS = "status"
_FOLLOWS: dict[State, set[State]] = {state: {state} for state in State}
for (_before, _event), _after in TABLE.items():
    _FOLLOWS[_before].add(_after)
for _state in State:  # one commit may record several events
    for _before in State:
        _FOLLOWS[_before] |= {after for between in list(_FOLLOWS[_before]) for after in _FOLLOWS[between]}


@dataclass(slots=True)
class PublicLedger:
    """Records by job, as the remote has them now. `changed` is told of each attempt that is new, or another than before."""

    remote: Remote
    changed: Callable[[JobKey, Attempt], None]
    taken: Callable[[JobRecord | None, JobRecord], None] = lambda *_: None
    """Is told of each record that is new, and of the one before it."""
    records: dict[JobKey, JobRecord] = field(default_factory=dict)
    attempts: dict[tuple[JobKey, int], Attempt] = field(default_factory=dict)
    _named: dict[str, Attempt] = field(default_factory=dict)
    _entries: Mapping[str, TreeEntry] = field(default_factory=dict)

    def attempt(self, _key: JobKey, name: str) -> Attempt | None:
        """An attempt as it is published at this moment."""
        return self._named.get(name)

    def hub(self) -> HubFile:
        """What the hub says of itself."""
        entry = self._entries.get("hub.json")
        return HubFile.model_validate_json(self.remote.objects.blobs[entry.oid]) if entry is not None else HubFile()

    def look(self) -> None:
        """Read what is new. Raises Violation where it does not follow from what was there."""
        head = self.remote.branches.get(STATUS)
        if head is None:
            return
        objects = self.remote.objects
        entries = objects.below(objects.commits[head].tree, "")
        before, self._entries = self._entries, entries
        for path, entry in entries.items():
            old = before.get(path)
            if path.startswith("jobs/") and (old is None or old.oid != entry.oid):
                self._take(path, JobRecord.model_validate_json(objects.blobs[entry.oid]))

    def _take(self, path: str, record: JobRecord) -> None:
        if path != f"jobs/{record.team}/{record.job_id}.json":
            raise Violation("LedgerWrong", f"{path} is the record of {record.key}")
        alive = [attempt.name for attempt in record.attempts if not attempt.ended]
        if len(alive) > 1:
            raise Violation("LedgerWrong", f"{record.key} has two attempts that have not ended: {' and '.join(alive)}")
        before = self.records.get(record.key)
        old = [attempt.number for attempt in before.attempts] if before is not None else []
        numbers = [attempt.number for attempt in record.attempts]
        if numbers[: len(old)] != old or numbers != sorted(set(numbers)):
            raise Violation("LedgerWrong", f"{record.key} has the attempts {numbers} after {old}")
        self.records[record.key] = record
        for attempt in record.attempts:
            self._follow(record.key, attempt)
        self.taken(before, record)

    def _follow(self, key: JobKey, attempt: Attempt) -> None:
        old = self.attempts.get((key, attempt.number))
        if old == attempt:
            return
        self.attempts[key, attempt.number] = attempt
        self._named[attempt.name] = attempt
        if old is not None:
            fixed = [(one.name, one.region, one.run_hash, one.nodes, one.checkpoint) for one in (old, attempt)]
            if fixed[0] != fixed[1]:
                raise Violation("LedgerWrong", f"attempt {attempt.number} of {key} became another: {fixed[0]} is now {fixed[1]}")
            if old.ended or attempt.state not in _FOLLOWS[old.state]:
                raise Violation("LedgerWrong", f"{attempt.name} went from {old.state} to {attempt.state} ({attempt.outcome})")
        if old is None or old.state is not attempt.state:
            self.changed(key, attempt)
