"""The status branch as anybody can read it, followed commit by commit: what it may say after what it said before."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pygit2

from reconciler.hub.ledger import HubFile, written
from reconciler.model.attempt import TABLE, Attempt, State
from reconciler.model.names import JobKey
from reconciler.model.record import JobRecord
from tests.sim.witness import Violation

_FOLLOWS: dict[State, set[State]] = {state: {state} for state in State}
for (_before, _event), _after in TABLE.items():
    _FOLLOWS[_before].add(_after)
for _state in State:  # one commit may record several events
    for _before in State:
        _FOLLOWS[_before] |= {after for between in list(_FOLLOWS[_before]) for after in _FOLLOWS[between]}


class PublicLedger:
    """Records by job, as the remote has them now. `ended` is called with each attempt that is newly said to have ended."""

    def __init__(self, remote: Path, ended: Callable[[JobKey, Attempt], None]) -> None:
        self._repository = pygit2.Repository(str(remote))
        self._ended = ended
        self._head: str | None = None
        self._blobs: dict[str, str] = {}
        self._spoilt: set[str] = set()
        self._attempts: dict[tuple[JobKey, int], Attempt] = {}
        self.records: dict[JobKey, JobRecord] = {}
        self.moved = 0
        """How many commits the branch has had, as far as was seen."""

    def attempt(self, key: JobKey, name: str) -> Attempt | None:
        """An attempt as it is published at this moment."""
        self.look()
        record = self.records.get(key)
        return next((one for one in record.attempts if one.name == name), None) if record is not None else None

    def attempts(self) -> list[tuple[JobKey, Attempt]]:
        """Every attempt that was ever published, as it was last said."""
        return [(key, attempt) for (key, _), attempt in self._attempts.items()]

    def hub(self) -> HubFile:
        """What the hub says of itself."""
        self.look()
        tree = self._repository[self._head].peel(pygit2.Tree) if self._head is not None else {}
        return HubFile.model_validate_json(tree["hub.json"].data) if "hub.json" in tree else HubFile()

    def look(self) -> None:
        """Read what is new. Raises Violation where it does not follow from what was there."""
        found = self._repository.references.get("refs/heads/status")
        head = str(found.target) if found is not None else None
        if head == self._head or head is None or self._was(head):
            return
        self._head = head
        self.moved += 1
        tree = self._repository[head].peel(pygit2.Tree)
        for team in tree["jobs"] if "jobs" in tree else ():  # noqa: SIM401 - a tree has no `get`
            for entry in team:
                path = f"jobs/{team.name}/{entry.name}"
                if path not in self._spoilt and self._blobs.get(path) != str(entry.id):
                    self._blobs[path] = str(entry.id)
                    self._take(path, entry.data)

    @contextmanager
    def disbelieving(self, path: str) -> Iterator[None]:
        """Meanwhile what stands at that path is somebody's mischief, and not what the hub says."""
        self._spoilt.add(path)
        yield
        self._spoilt.discard(path)

    def _was(self, head: str) -> bool:
        """Whether somebody set the branch back: what it says then, it has said before."""
        return self._head is not None and self._repository.descendant_of(self._head, head)

    def _take(self, path: str, body: bytes) -> None:
        record = JobRecord.model_validate_json(body)
        if written(record) != body:
            raise Violation(f"{path} reads otherwise than it was written")
        if path != f"jobs/{record.team}/{record.job_id}.json":
            raise Violation(f"{path} is the record of {record.key}")
        alive = [attempt.name for attempt in record.attempts if not attempt.ended]
        if len(alive) > 1:
            raise Violation(f"{record.key} has two attempts that have not ended: {alive}")
        newest = max((number for key, number in self._attempts if key == record.key), default=0)
        numbers = [attempt.number for attempt in record.attempts]
        if numbers != sorted(set(numbers)) or (newest and (not numbers or numbers[-1] < newest)):
            raise Violation(f"{record.key} has attempts {numbers} after {newest}")
        self.records[record.key] = record
        for attempt in record.attempts:
            self._follow(record.key, attempt)

    def _follow(self, key: JobKey, attempt: Attempt) -> None:
        old = self._attempts.get((key, attempt.number))
        self._attempts[key, attempt.number] = attempt
        if old == attempt:
            return
        if old is not None:
            fixed = [(one.name, one.region, one.run_hash, one.nodes, one.checkpoint, one.seeded_from) for one in (old, attempt)]
            if fixed[0] != fixed[1]:
                raise Violation(f"attempt {attempt.number} of {key} became another: {fixed[0]} is now {fixed[1]}")
            if old.ended or attempt.state not in _FOLLOWS[old.state]:
                raise Violation(f"{attempt.name} went from {old.state} ({old.outcome}) to {attempt.state} ({attempt.outcome})")
        if attempt.ended:
            self._ended(key, attempt)
