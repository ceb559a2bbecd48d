"""A look at Git that finds out whether the ledger lacks what it had, and mends that where it can."""

from reconciler.hub.ledger import Corrupt, LedgerCache
from reconciler.hub.mark import Mark, set_back
from reconciler.hub.observing import GitEyes, GitSeen
from reconciler.ports import Conflict, GitRepository


class GuardedEyes:
    """The eyes of a hub, with the mark of how far the ledger had come."""

    def __init__(self, git: GitRepository, eyes: GitEyes, mark: Mark) -> None:
        self._git = git
        self._eyes = eyes
        self._mark = mark
        self._news: tuple[str, ...] = ()

    def forget(self) -> None:
        """The mark is to be read anew."""
        self._mark.forget()

    def take_news(self) -> tuple[str, ...]:
        """What was mended since this was asked last."""
        news, self._news = self._news, ()
        return news

    @property
    def records(self) -> LedgerCache:
        """The records that are known by their blobs."""
        return self._eyes.records

    def as_declared_before(self, seen: GitSeen) -> GitSeen:
        """The same with the declarations that were in force before, for a main that is not to be believed."""
        return self._eyes.as_declared_before(seen)

    def look(self) -> GitSeen | None:
        """What stands in Git; None where another writer was quicker. Raises Corrupt where the ledger lacks what it had."""
        heads = self._git.fetch()
        branch = self._eyes.branches(heads).status
        head = heads.get(branch)
        lacks = self._mark.lacks(head)
        if lacks is None:
            seen = self._eyes.look(heads, self._mark.commit())
            try:
                if seen.goes_on:
                    self._mark.note(head)
            except Conflict:
                return None
            return seen
        self._mark.forget()  # the next look asks the store again
        if self._git.heads().get(branch) != head:
            return None
        if self._mark.restored(branch, head, lacks):
            was = "set back" if head is not None else "deleted"
            self._news = (f"the branch {branch} had been {was}; it is at {lacks} again",)
            return None
        raise Corrupt(set_back(branch, head, lacks))
