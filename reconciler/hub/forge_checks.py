"""Pull requests on main: each gets a commit status, and one comment with its errors and its plan.

Decides which are looked at (when its head or main moved), in which order, and how many at a time. Nothing of a pull request is
run: its files are read as main's are, inside the same limits; what they say about where stores or forges are is never followed.

Invariant: what goes wrong with one pull request is told and holds up no other. Only a forge that does not answer ends the look.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
from reconciler.ports import Clock, Refused, Transient

CONTEXT: Final = "reconciler/validate"
MOST_AT_ONCE: Final = 20
"""Pull requests of one look: people's answers about proposals are not to wait behind many of them."""
MOST_SECONDS: Final = 30.0
"""After which a look begins with no other one, for the same reason."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What a look has done. `complete`: all that have moved were looked at, well or not."""

    complete: bool
    troubles: tuple[str, ...]


@dataclass(slots=True)
class Checks:
    """The pull requests on main. Everything here may vanish; then they are all looked at once more."""

    git: PullRepository
    documents: Documents
    clock: Clock
    _cache: ParseCache = field(default_factory=ParseCache)
    _done: dict[int, tuple[str, str]] = field(default_factory=dict)
    """By pull request: the head and the main that its comment is about."""
    _failed: dict[int, tuple[str, str]] = field(default_factory=dict)
    """The same of those whose last look failed, the longest ago first."""
    _commented: set[int] = field(default_factory=set)
    _told: dict[int, tuple[str, Verdict, str]] = field(default_factory=dict)
    """By pull request: the status that was set last, and of which commit."""
    _owed: dict[int, tuple[str, Verdict, str]] = field(default_factory=dict)
    """Statuses that the forge has refused, the longest ago first: a person may give us the right to them."""

    def act(self, forge: Forge, opened: Sequence[Pull], view: View, now: datetime) -> Checked:
        """Look at those that have moved. Raises Transient for the forge: then nothing is known of the rest."""
        main = view.git.heads.get(view.git.branches.main)
        pulls = {pull.number: pull for pull in opened if pull.base == view.git.branches.main}
        self._forget(pulls.keys())
        if main is None or view.git.main.empty:
            return Checked(complete=True, troubles=())
        fresh, again = self._due(pulls, main)
        troubles = [trouble for number in list(self._owed)[:MOST_AT_ONCE] if (trouble := self._pay(forge, number)) is not None]
        try:
            if (fresh or again) and not self.git.has(main):
                self.git.fetch()
        except (Transient, Refused) as error:
            return Checked(complete=True, troubles=(*troubles, str(error)))
        before = _once(lambda: imagined(view, view.git.sources, now))
        began, looked = self.clock.monotonic(), 0
        for pull in (*fresh, *again)[:MOST_AT_ONCE]:
            if self.clock.monotonic() - began >= MOST_SECONDS:
                break
            looked += 1
            troubles += self._tried(forge, pull, main, lambda head: self._check(view, main, head, before, now))
        self._cache = ParseCache()  # ten thousand specs are not to be kept twice
        return Checked(complete=looked >= len(fresh), troubles=tuple(troubles))

    def _forget(self, there: Collection[int]) -> None:
        """Those that are over."""
        self._done = {number: done for number, done in self._done.items() if number in there}
        self._failed = {number: failed for number, failed in self._failed.items() if number in there}
        self._told = {number: told for number, told in self._told.items() if number in there}
        self._owed = {number: owed for number, owed in self._owed.items() if number in there}
        self._commented &= set(there)

    def _due(self, pulls: Mapping[int, Pull], main: str) -> tuple[list[Pull], list[Pull]]:
        """Those that have moved, and those whose look has failed since: these wait for all others."""
        due = {number: pull for number, pull in sorted(pulls.items()) if self._done.get(number) != (pull.commit, main)}
        failed = [number for number, state in self._failed.items() if number in due and state == (due[number].commit, main)]
        fresh = due.keys() - set(failed)
        return [pull for number, pull in due.items() if number in fresh], [due[number] for number in failed]

    def _tried(self, forge: Forge, pull: Pull, main: str, checked: Callable[[str], Check | str]) -> tuple[str, ...]:
        """Look at one; what was wrong with it."""
        self._failed.pop(pull.number, None)
        try:
            trouble = self._look_at(forge, pull, main, checked)
        except Refused as error:  # it is tried again at the next look, and told until then
            self._failed[pull.number] = (pull.commit, main)
            return (str(error),)
        self._done[pull.number] = (pull.commit, main)
        return () if trouble is None else (trouble,)

    def _look_at(self, forge: Forge, pull: Pull, main: str, checked: Callable[[str], Check | str]) -> str | None:
        with _reading(pull.number):
            head = self.git.fetch_ref(forge.head_ref(pull.number))
        last = self._told.get(pull.number)
        if last is None or last[0] != head:
            self._tell(forge, pull.number, (head, Verdict.PENDING, "reading the files"))
        with _reading(pull.number):
            found = checked(head)
        if isinstance(found, str):
            self._comment(forge, pull.number, broken_comment(found, head))
            return self._tell(forge, pull.number, (head, Verdict.FAILURE, found))
        if found.concerns or pull.number in self._commented:  # what it said of an earlier head is not to stand
            self._comment(forge, pull.number, comment_of(found, head, main))
        return self._tell(forge, pull.number, (head, *verdict_of(found)))

    def _comment(self, forge: Forge, number: int, body: str) -> None:
        forge.upsert_comment(number, MARKER, body)
        self._commented.add(number)

    def _tell(self, forge: Forge, number: int, status: tuple[str, Verdict, str]) -> str | None:
        """Set the status, unless it is so; why the forge does not take it, which the comment does not wait for."""
        if self._told.get(number) == status:
            return None
        self._owed.pop(number, None)
        self._owed[number] = status
        return self._pay(forge, number)

    def _pay(self, forge: Forge, number: int) -> str | None:
        commit, verdict, words = status = self._owed[number]
        refused = None
        try:
            forge.set_status(commit, CONTEXT, verdict, words)
        except Refused as error:
            refused = str(error)
        del self._owed[number]
        (self._told if refused is None else self._owed)[number] = status
        return refused

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
        except Refused as error:  # more than is looked at, or a tree that no git checks out
            return str(error)
        except Exception as error:  # noqa: BLE001 - a bug that one pull request meets must not stop the others
            return f"a bug in the reconciler, please report it: {type(error).__name__}"


@contextmanager
def _reading(number: int) -> Iterator[None]:
    """What Git does not give of one pull request is that one's trouble: nobody else is to wait for it."""
    try:
        yield
    except Transient as error:
        raise Refused(f"pull request {number} cannot be read, which is tried again: {error}") from error


def _once(make: Callable[[], WhatIf]) -> Callable[[], WhatIf]:
    made: list[WhatIf] = []

    def get() -> WhatIf:
        if not made:
            made.append(make())
        return made[0]

    return get
