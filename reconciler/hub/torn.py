"""Pushes, and the one that was torn: a remote that died between two of its branches moved some, and gave no answer.

An atomic push moves all or none, and a server that is killed in the middle of one may still leave half of it. What it left would
read as a manifest whose record somebody took away. So the rest is pushed as soon as the half is seen, each branch only from where
it was; a hub that dies with it leaves it for a person.
"""

from collections.abc import Mapping, Sequence

from reconciler.ports import GitRepository, PushOutcome, RefUpdate, Transient


class Pushes:
    """This hub's way to publish."""

    def __init__(self, git: GitRepository) -> None:
        self._git = git
        self._unanswered: tuple[RefUpdate, ...] = ()

    def push(self, updates: Sequence[RefUpdate]) -> PushOutcome:
        """Move all branches or none. Raises Transient where the outcome is not known."""
        try:
            outcome = self._git.push(updates)
        except Transient:
            self._unanswered = tuple(updates)
            raise
        self._unanswered = ()
        return outcome

    def finish(self, heads: Mapping[str, str]) -> bool:
        """Push what is missing of a torn push; whether there was one. Raises Transient."""
        done = [update for update in self._unanswered if heads.get(update.branch) == update.new]
        left = [update for update in self._unanswered if update not in done and heads.get(update.branch) == update.old]
        if not done or len(done) + len(left) < len(self._unanswered) or not left:
            self._unanswered = ()
            return False
        self._git.push(left)
        self._unanswered = ()
        return True
