"""Pull requests on main: each gets a commit status, and one comment with its errors and its plan.

Decides which are looked at (when its head or main moved), in which order, and how many at a time. Nothing of a pull request is
run: its files are read as main's are, inside the same limits; what they say about where stores or forges are is never followed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from reconciler.forge_port import Forge, Pull, PullRepository, Verdict
from reconciler.hub.forge_board import View
from reconciler.hub.pull_check import Check, check, imagined
from reconciler.hub.pull_comment import MARKER, broken_comment, comment_of, verdict_of
from reconciler.hub.pull_merge import merged
from reconciler.hub.sources import Documents, ParseCache, read_sources
from reconciler.hub.whatif import WhatIf
from reconciler.ports import Refused, Transient

CONTEXT: Final = "reconciler/validate"
MOST_AT_ONCE: Final = 20
"""Pull requests of one look: people's answers about proposals are not to wait behind many of them."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What a look has done. `complete`: there are no more to look at."""

    complete: bool
    troubles: tuple[str, ...]


@dataclass(slots=True)
class Checks:
    """The pull requests on main. Everything here may vanish; then they are all looked at once more."""

    git: PullRepository
    documents: Documents
    _cache: ParseCache = field(default_factory=ParseCache)
    _done: dict[int, tuple[str, str]] = field(default_factory=dict)
    """By pull request: the head and the main that its comment is about."""
    _commented: set[int] = field(default_factory=set)
    _told: dict[int, tuple[str, Verdict, str]] = field(default_factory=dict)
    """By pull request: the status that was set last, and of which commit."""

    def act(self, forge: Forge, opened: Sequence[Pull], view: View, now: datetime) -> Checked:
        """Look at those that have moved. Raises Transient: then nothing is known of the rest."""
        main = view.git.heads.get(view.git.branches.main)
        pulls = {pull.number: pull for pull in opened if pull.base == view.git.branches.main}
        self._done = {number: done for number, done in self._done.items() if number in pulls}
        self._told = {number: told for number, told in self._told.items() if number in pulls}
        self._commented &= pulls.keys()
        if main is None or view.git.main.empty:
            return Checked(complete=True, troubles=())
        due = [pull for number, pull in sorted(pulls.items()) if self._done.get(number) != (pull.commit, main)]
        if due and not self.git.has(main):
            self.git.fetch()
        before = _once(lambda: imagined(view, view.git.sources, now))
        troubles: list[str] = []
        for pull in due[:MOST_AT_ONCE]:
            try:
                self._look_at(forge, pull, main, lambda head: self._check(view, main, head, before, now))
                self._done[pull.number] = (pull.commit, main)
            except Refused as error:  # it is tried again at the next look, and told until then
                troubles.append(str(error))
        if due:
            self._cache = ParseCache()  # ten thousand specs are not to be kept twice
        return Checked(complete=len(due) <= MOST_AT_ONCE, troubles=tuple(troubles))

    def _look_at(self, forge: Forge, pull: Pull, main: str, checked: Callable[[str], Check | str]) -> None:
        head = self.git.fetch_ref(forge.head_ref(pull.number))
        last = self._told.get(pull.number)
        if last is None or last[0] != head:
            self._tell(forge, pull.number, head, Verdict.PENDING, "reading the files")
        found = checked(head)
        if isinstance(found, str):
            forge.upsert_comment(pull.number, MARKER, broken_comment(found, head))
            self._commented.add(pull.number)
            self._tell(forge, pull.number, head, Verdict.FAILURE, found)
            return
        if found.concerns or pull.number in self._commented:  # what it said of an earlier head is not to stand
            forge.upsert_comment(pull.number, MARKER, comment_of(found, head, main))
            self._commented.add(pull.number)
        self._tell(forge, pull.number, head, *verdict_of(found))

    def _tell(self, forge: Forge, number: int, head: str, verdict: Verdict, words: str) -> None:
        status = (head, verdict, words)
        if self._told.get(number) != status:
            forge.set_status(head, CONTEXT, verdict, words)
            self._told[number] = status

    def _check(self, view: View, main: str, head: str, before: Callable[[], WhatIf], now: datetime) -> Check | str:
        """What it would do; words where that cannot be told."""
        try:
            merge = merged(self.git, main, head)
            if isinstance(merge, str):
                return merge
            in_force = view.world.ledger.in_force
            sources = read_sources(merge.entries, self.git.read, self.git.size, in_force, self._cache, self.documents)
            return check(view, merge, sources, before(), now)
        except Transient:
            raise
        except Refused as error:  # a tree that no git checks out
            return str(error)
        except Exception as error:  # noqa: BLE001 - a bug that one pull request meets must not stop the others
            return f"a bug in the reconciler, please report it: {type(error).__name__}"


def _once(make: Callable[[], WhatIf]) -> Callable[[], WhatIf]:
    made: list[WhatIf] = []

    def get() -> WhatIf:
        if not made:
            made.append(make())
        return made[0]

    return get
