"""Proposals on the forge: what their pull requests should say, and the few calls that make it so.

Decides what is read from Git and in which order the forge is asked; what to do is pull_steps.py's. Invariant: nothing is kept
here that cannot be found again in Git or on the forge. A step that fails is told, hinders no other, and is found again by the
next look.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from reconciler.forge_port import Forge, PullRepository, Pulls
from reconciler.hub.forge_board import Approval, View
from reconciler.hub.pull_steps import CLOCKS_DIFFER, Steps, Unnamed, approved_pulls, is_accident, is_ours, steps, unnamed
from reconciler.hub.pull_text import Wanted, wanted_pull
from reconciler.hub.sources import Documents
from reconciler.model.attempt import State
from reconciler.model.names import JobKey, placement_path, proposal_branch
from reconciler.model.placement import Placement
from reconciler.model.problem import Invalid
from reconciler.model.record import JobRecord
from reconciler.ports import Conflict, EntryKind, Refused


@dataclass(frozen=True, slots=True)
class Facts:
    """What a look is for: a look is due when it changes."""

    wanted: tuple[Wanted, ...]
    unnamed: Mapping[str, Unnamed]


@dataclass(frozen=True, slots=True)
class Answered:
    """What a look has found."""

    declined: frozenset[str]
    approved: Mapping[str, Approval]
    troubles: tuple[str, ...]
    doubt: str = ""
    """Why those that were closed are not read as a no."""


@dataclass(slots=True)
class Proposals:
    """The proposals of one repository. The caches may vanish at any time."""

    git: PullRepository
    documents: Documents
    _read: dict[str, tuple[str, Placement | None]] = field(default_factory=dict)
    _declined: frozenset[str] = frozenset()
    """Attempts that were found closed before, and believed to be."""
    _names: dict[int, Approval] = field(default_factory=dict)
    """By pull request: what is merged stays so."""

    def facts(self, view: View, now: datetime) -> Facts:
        """What is wanted of the forge. Raises Transient and Refused where the repository cannot be read."""
        records, heads = view.world.ledger.records, view.git.heads
        waiting = {proposal_branch(key): record for key, record in records.items() if _waits(record)}
        there = {branch: record for branch, record in sorted(waiting.items()) if branch in heads}
        fresh = {branch: heads[branch] for branch in there if self._read.get(branch, ("",))[0] != heads[branch]}
        if fresh and not all(self.git.has(commit) for commit in fresh.values()):
            self.git.fetch()
        for branch, commit in fresh.items():
            self._read[branch] = (commit, self._placement(commit, there[branch].key))
        self._read = {branch: read for branch, read in self._read.items() if branch in there}
        into = view.git.branches.placements
        found = ((record, self._read[branch][1]) for branch, record in there.items())
        wanted = tuple(wanted_pull(record, said, into) for record, said in found if said is not None)
        return Facts(wanted, unnamed(records.values(), now))

    def _placement(self, commit: str, key: JobKey) -> Placement | None:
        """The placement on a proposal's branch; None where a person has spoilt it, or the branch has just moved."""
        if not self.git.has(commit):
            return None
        path = placement_path(key)
        entry = self.git.files(commit, key.team).get(path)
        if entry is None or entry.kind is not EntryKind.FILE:
            return None
        try:
            said = self.documents.read_config(Placement, self.git.read(entry.oid), path)
        except Invalid:
            return None
        return said if (said.team, said.job_id) == key else None

    def act(self, forge: Forge, facts: Facts, opened: Pulls, view: View) -> Answered:
        """Bring the forge to what is wanted. Raises Transient: then nothing is known of the rest."""
        into = view.git.branches.placements
        open_ones = {pull.head for pull in opened.those if is_ours(pull, into)}
        asked = [each.decided_at for each in facts.wanted if each.branch not in open_ones]
        asked += [each.decided_at for each in facts.unnamed.values()]
        ended = forge.ended_pulls(into, min(asked) - CLOCKS_DIFFER) if asked else Pulls(())
        todo = steps(facts.wanted, opened.those, ended, into)
        doubt = self._believe(todo, sum(each.branch in open_ones for each in facts.wanted), into)
        troubles = [trouble for act in _acts(forge, todo, into) if (trouble := _tried(act)) is not None]
        approved, unasked = self._approvals(forge, approved_pulls(ended.those, facts.unnamed, into))
        return Answered(self._declined, approved, (*_too_many(opened, todo), *troubles, *unasked), doubt)

    def _believe(self, todo: Steps, still_open: int, into: str) -> str:
        """Take those that were closed for a no; if they are too many at once, why they are not."""
        news = todo.declined.keys() - self._declined
        if not is_accident(len(news), still_open):
            self._declined = frozenset(todo.declined)
            return ""
        self._declined = self._declined & todo.declined.keys()
        return (
            f"{len(news)} of {len(news) + still_open} pull requests of proposals were closed at once, which is taken for an "
            f"accident and not for a no (a forge closes them all when `{into}` is deleted); restore `{into}` if it is gone, and "
            "open them again; where a no is meant, delete their branches, or close a few of them at a time"
        )

    def _approvals(self, forge: Forge, merged: Mapping[str, int]) -> tuple[dict[str, Approval], tuple[str, ...]]:
        found: dict[str, Approval] = {}
        troubles: list[str] = []
        for attempt, number in sorted(merged.items()):
            try:
                found[attempt] = self._names.get(number) or self._names.setdefault(number, _approval(forge, number))
            except Refused as error:
                troubles.append(str(error))
        return found, tuple(troubles)


def _waits(record: JobRecord) -> bool:
    return record.current is not None and record.current.state is State.PROPOSED


def _approval(forge: Forge, number: int) -> Approval:
    said = forge.consent(number)
    names = dict.fromkeys((*said.approved_by, *([said.merged_by] if said.merged_by is not None else [])))
    return Approval(tuple(name[:100] for name in names if name.isprintable()), number)


def _too_many(opened: Pulls, todo: Steps) -> Iterable[str]:
    if not opened.complete:
        yield f"more than {len(opened.those)} pull requests are open, and the newest are not looked at; close some"
    if todo.unsure:
        yield (
            f"{len(todo.unsure)} proposals get no pull request: too many have ended since they were decided to tell whether they "
            "had one; merge or delete their branches"
        )


def _acts(forge: Forge, todo: Steps, into: str) -> Iterable[Callable[[], object]]:
    for pull in todo.idle:
        yield partial(forge.close, pull.number)
    for pull, each in todo.changed:
        yield partial(forge.update, pull.number, each.title, each.body)
    for each in todo.new:
        yield partial(forge.open, each.branch, into, each.title, each.body)


def _tried(act: Callable[[], object]) -> str | None:
    """Do it; why that was refused, if it was."""
    try:
        act()
    except Conflict:
        return None  # somebody else has just opened it; the next look finds it
    except Refused as error:
        return str(error)
    return None
