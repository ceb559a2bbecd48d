"""How far the ledger has come, noted in the object store: a status branch that was set back or deleted is known by it.

Git is the only memory of what ran, and a push by force can take memory away. A hub that believed the rest would run what has
ended, and give names of attempts twice. So the commit that was seen last is noted beside the grants; what does not contain it is
not believed. A branch that only lost commits is put back where the clone still has them; any other is for a person. The note
follows the branch, one look behind; nobody but the leader writes it.
"""

from pydantic import ValidationError

from reconciler.model.grants import LEDGER_MARK_KEY, LedgerMark
from reconciler.ports import GitRepository, ObjectStore, RefUpdate, Refused


class Mark:
    """The note, as this hub knows it."""

    def __init__(self, store: ObjectStore, git: GitRepository) -> None:
        self._store = store
        self._git = git
        self._known: tuple[str | None, str | None] | None = None
        """(commit, ETag); both None where there is no note yet."""

    def forget(self) -> None:
        """For a hub that does not lead: another one writes the note."""
        self._known = None

    def commit(self) -> str | None:
        """The commit that is noted; None where none is. Raises Transient, Refused."""
        if self._known is None:
            self._known = self._read()
        return self._known[0]

    def lacks(self, head: str | None) -> str | None:
        """The commit that was seen before and is not in `head`; None where `head` goes on from it. Raises Transient, Refused."""
        commit = self.commit()
        if commit is None or commit == head or (head is not None and self._git.is_ancestor(commit, head)):
            return None
        return commit

    def note(self, head: str | None) -> None:
        """Move the note to `head`, which lacks nothing. Raises Conflict where another hub moved it meanwhile, and Transient."""
        commit, etag = self._known if self._known is not None else self._read()
        if head is None or head == commit:
            return
        self._known = None  # until the answer is here
        body = LedgerMark(commit=head).model_dump_json().encode()
        self._known = head, self._store.put(LEDGER_MARK_KEY, body, expect=etag)

    def restored(self, branch: str, head: str | None, lacks: str) -> bool:
        """Put a ledger back that was only set back, or deleted: nobody but a hub has anything to say there."""
        if not self._git.has(lacks) or (head is not None and not self._git.is_ancestor(head, lacks)):
            return False
        return self._git.push([RefUpdate(branch, head, lacks)]).done

    def _read(self) -> tuple[str | None, str | None]:
        stored = self._store.get(LEDGER_MARK_KEY)
        if stored is None:
            return None, None
        try:
            return LedgerMark.model_validate_json(stored.body).commit, stored.etag
        except ValidationError as error:
            raise Refused(f"{LEDGER_MARK_KEY} in the store cannot be read; look at it, then delete it") from error


def set_back(branch: str, head: str | None, lacks: str) -> str:
    """What a person is told of a ledger that lacks what it had, and what to do."""
    what = f"was set back or rewritten: it is at {head}, which does not contain {lacks}" if head is not None else "is gone"
    return (
        f"the branch {branch} {what}; nothing is decided until its memory is back: in the hub's clone, or any other, "
        f"`git push --force <remote> {lacks}:refs/heads/{branch}`. To go on with what is left, and run again what that "
        f"does not know of, delete {LEDGER_MARK_KEY} in the object store"
    )
