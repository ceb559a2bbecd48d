"""Which pull requests of proposals to open, change and close, and what people have said by ending them. Pure.

Decides from what is wanted and what the forge has; so it may be asked again at any time, by any hub. Invariant: an attempt that
has had a pull request never gets another one: one that a person closed unmerged is a no for that attempt.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from reconciler.forge_port import Pull, Pulls, PullState
from reconciler.hub.pull_text import Wanted, mark_of
from reconciler.model.attempt import Attempt, Outcome
from reconciler.model.names import proposal_branch
from reconciler.model.record import JobRecord

PROPOSALS: Final = "proposals/"
CLOCKS_DIFFER: Final = timedelta(hours=1)
"""By how much a forge's clock may be behind ours."""
REMEMBERED: Final = timedelta(days=7)
"""How long after its decision it is asked who approved an attempt."""
ACCIDENT_MORE_THAN: Final = 3
ACCIDENT_SHARE: Final = 0.2
"""More than that many, and more than that share of those that were open, are not closed in one look by people who mean no: a
forge does that to all when somebody deletes the branch that they go into."""


@dataclass(frozen=True, slots=True)
class Steps:
    """What to do. Each step may fail by itself, and is found again by the next look then."""

    new: tuple[Wanted, ...]
    changed: tuple[tuple[Pull, Wanted], ...]
    idle: tuple[Pull, ...]
    """Open ones that nobody waits for any more."""
    declined: Mapping[str, int]
    """Proposed attempt → the pull request that a person closed unmerged."""
    unsure: tuple[Wanted, ...]
    """Those that may have had one: the listing of those that are over does not reach back to them."""


@dataclass(frozen=True, slots=True)
class Unnamed:
    """An attempt of which nobody knows who approved it."""

    branch: str
    """Of its proposal."""
    decided_at: datetime


def steps(wanted: Iterable[Wanted], opened: Sequence[Pull], listed: Pulls, into: str) -> Steps:
    """What is to be done. `listed`: those that are over, at least of the attempts that are wanted and have no open one."""
    by_branch = {pull.head: pull for pull in reversed(opened) if is_ours(pull, into)}
    ended = [pull for pull in listed.those if is_ours(pull, into)]
    new: list[Wanted] = []
    unsure: list[Wanted] = []
    changed: list[tuple[Pull, Wanted]] = []
    declined: dict[str, int] = {}
    named = set()
    for each in wanted:
        named.add(each.branch)
        pull = by_branch.get(each.branch)
        if pull is not None:
            if mark_of(pull.body) != mark_of(each.body):
                changed.append((pull, each))
            continue
        last = next((one for one in ended if one.head == each.branch and _is_for(one, each)), None)
        if last is None:
            (new if _reaches(listed, each.decided_at) else unsure).append(each)
        elif last.state is PullState.CLOSED:  # one that was merged waits for room
            declined[each.attempt] = last.number
    idle = tuple(pull for branch, pull in sorted(by_branch.items(), key=lambda item: item[1].number) if branch not in named)
    return Steps(tuple(new), tuple(changed), idle, declined, tuple(unsure))


def _reaches(listed: Pulls, moment: datetime) -> bool:
    """Whether the listing, newest first, has all that ended after that moment."""
    return listed.complete or (bool(listed.those) and listed.those[-1].updated_at <= moment - CLOCKS_DIFFER)


def is_accident(closed: int, still_open: int) -> bool:
    """Whether so many at once are taken for an accident, as so many jobs gone from main are."""
    return closed > ACCIDENT_MORE_THAN and closed > ACCIDENT_SHARE * (closed + still_open)


def _is_for(ended: Pull, wanted: Wanted) -> bool:
    mark = mark_of(ended.body)
    # Where a person took the mark away, or opened it by hand, its last change tells.
    return mark[0] == wanted.attempt if mark is not None else ended.updated_at >= wanted.decided_at


def is_ours(pull: Pull, into: str) -> bool:
    """Whether it is a proposal's. A fork may call its branch what it likes: it has no head here."""
    return pull.base == into and pull.head is not None and pull.head.startswith(PROPOSALS)


def approved_pulls(ended: Iterable[Pull], missing: Mapping[str, Unnamed], into: str) -> dict[str, int]:
    """Attempt → the pull request in which it was merged. Its mark alone says nothing, for people may edit that: it must have
    come from the branch of that attempt's proposal."""
    merged = (pull for pull in ended if pull.state is PullState.MERGED and is_ours(pull, into))
    said = {(mark[0], pull.head): pull.number for pull in merged if (mark := mark_of(pull.body)) is not None}
    found = {attempt: said.get((attempt, each.branch)) for attempt, each in missing.items()}
    return {attempt: number for attempt, number in found.items() if number is not None}


def unnamed(records: Iterable[JobRecord], now: datetime) -> dict[str, Unnamed]:
    """Attempts that a person must have approved lately, though it is not written down who did."""
    after = now - REMEMBERED
    found = ((record.key, attempt) for record in records for attempt in _unnamed(record) if attempt.decided_at > after)
    return {attempt.name: Unnamed(proposal_branch(key), attempt.decided_at) for key, attempt in found}


def _unnamed(record: JobRecord) -> Iterator[Attempt]:
    for attempt in record.attempts[-2:]:
        target = approved_attempt(record, attempt) if _was_proposed(attempt) else None
        if target is not None and not target.approved_by:
            yield attempt


def _was_proposed(attempt: Attempt) -> bool:
    """Placements without approval are placed in the moment they are decided."""
    return attempt.placed_at is None or attempt.placed_at > attempt.decided_at


def approved_attempt(record: JobRecord, proposed: Attempt) -> Attempt | None:
    """The attempt that the merge of a proposal made, for another region a new one; None where it made none (yet)."""
    if proposed.placed_at is not None:
        return proposed
    after = next((attempt for attempt in record.attempts if attempt.number == proposed.number + 1), None)
    moved = proposed.outcome is Outcome.MOVED and after is not None and after.run_hash == proposed.run_hash
    return after if moved else None
