"""What a pull request on main would do: what is wrong in its files, where its jobs would go, and who would wait longer. Pure.

Decides by asking the hub's own decisions twice (whatif.py), for main as it is and for main with the pull request merged, at the
same time over the same reports; the difference is the pull request's.
"""

from bisect import bisect_right, insort
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from reconciler.hub.forge_board import View
from reconciler.hub.index import Index
from reconciler.hub.ledger import Suspicion
from reconciler.hub.pull_merge import Merged
from reconciler.hub.repo_files import Kind, place_of, printable
from reconciler.hub.sources import Sources
from reconciler.hub.whatif import Imagined, WhatIf, imagined_world, what_if
from reconciler.model.names import JobKey
from reconciler.model.problem import Problem
from reconciler.model.record import FINISHED
from reconciler.planning.ordering import Order

LATER: Final = timedelta(minutes=1)
"""A start that moves by less than this is the same start."""
MOST_NAMED: Final = 5
"""Jobs of the pull request that are named for one that comes behind them."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A job that the pull request touches, before and after."""

    key: JobKey
    what: str
    """new, changed, removed."""
    after: Imagined | None


@dataclass(frozen=True, slots=True)
class Behind:
    """Jobs of the pull request that come before another one in the queue, and did not: some of them, in the queue's order, and
    how many there are. The first ones, where they are new."""

    named: tuple[JobKey, ...] = ()
    count: int = 0


@dataclass(frozen=True, slots=True)
class Longer:
    """A job that it does not touch and that would be worse off."""

    key: JobKey
    before: Imagined
    after: Imagined
    behind: Behind


_NOBODY: Final = Behind()


@dataclass(frozen=True, slots=True)
class Check:
    """What a pull request would do."""

    errors: tuple[Problem, ...]
    remarks: tuple[Problem, ...]
    """What is only told."""
    conflicts: tuple[str, ...]
    changed: tuple[Changed, ...]
    longer: tuple[Longer, ...]
    declarations: tuple[str, ...]
    """Files other than jobs that it touches."""
    doubt: Suspicion | None
    """Why the hub would stop nothing of what it removes until a person confirms."""
    now: datetime

    @property
    def concerns(self) -> bool:
        """Whether there is anything to say of it."""
        return bool(self.errors or self.remarks or self.changed or self.declarations)


def imagined(view: View, sources: Sources, now: datetime) -> WhatIf:
    """The next decisions if main said that."""
    world = view.world
    return what_if(imagined_world(sources, world.ledger, world.regions, world.ages, view.git.placements, now), now)


def check(view: View, merge: Merged, sources: Sources, before: WhatIf, now: datetime) -> Check:
    """What the pull request would do. `sources`: of main with it merged; `before`: the next decisions without it."""
    old = view.git.sources
    known = set(old.problems)
    paths = {printable(path) for path in merge.changed}
    problems = [problem for problem in sources.problems if problem not in known or problem.path in paths]
    conflicting = frozenset(path for both in sources.conflicts.values() for path in both)
    refused = {problem for problem in problems if problem.path in conflicting or _refuses(problem, sources, merge)}
    after = imagined(view, sources, now)
    touched = tuple(_changed(old, sources, after))
    keys = {each.key for each in touched}
    behind = overtaken(_queue(old, before), _queue(sources, after), keys)
    return Check(
        errors=tuple(problem for problem in problems if problem in refused),
        remarks=tuple(problem for problem in problems if problem not in refused),
        conflicts=tuple(map(printable, merge.conflicts)),
        changed=touched,
        longer=tuple(_longer(before.jobs, after.jobs, behind, keys)),
        declarations=tuple(sorted(printable(path) for path in merge.changed if not path.startswith("jobs/"))),
        doubt=after.doubt,
        now=now,
    )


def _refuses(problem: Problem, sources: Sources, merge: Merged) -> bool:
    """Whether the file that has it is not taken as it is; others are only told of."""
    if problem.path in sources.broken:
        return True
    entry = merge.entries.get(problem.path)
    place = place_of(problem.path, entry) if entry is not None else None
    if entry is None or place is None or place.kind is Kind.JOB:
        return place is not None and place.problem is not None
    return place.problem is not None or sources.in_force.get(problem.path) != entry.oid


def _changed(old: Sources, new: Sources, after: WhatIf) -> Iterator[Changed]:
    for key in sorted(old.jobs.keys() | new.jobs.keys()):
        before, now = old.jobs.get(key), new.jobs.get(key)
        if before is not None and now is not None and before.spec == now.spec:
            continue
        if now is None and (key in new.conflicts or key in new.broken.values()):
            continue  # its file is refused, which is told; what runs stays
        what = "new" if before is None else "removed" if now is None else "changed"
        yield Changed(key, what, after.jobs.get(key))


def _longer(
    before: Mapping[JobKey, Imagined],
    after: Mapping[JobKey, Imagined],
    behind: Mapping[JobKey, Behind],
    touched: AbstractSet[JobKey],
) -> Iterator[Longer]:
    for key in sorted(before.keys() & after.keys() - touched):
        others = behind.get(key, _NOBODY)
        if others.count or _is_worse(before[key], after[key]):
            yield Longer(key, before[key], after[key], others)


def overtaken(first: Sequence[JobKey], then: Sequence[JobKey], touched: AbstractSet[JobKey]) -> dict[JobKey, Behind]:
    """Each job that is not touched → the touched ones that are before it in the queue `then`, and were not in `first`.

    Only jobs that somebody has passed are in the answer.
    """
    was = {key: place for place, key in enumerate(first)}
    nowhere = len(first)
    # Of the touched ones so far: the place in `first`, and the place in `then` with its sign changed. Sorted: those that a job
    # was not behind before are the end of the list, and of the new ones those that come first in `then` are its very end.
    passed: list[tuple[int, int]] = []
    found: dict[JobKey, Behind] = {}
    for place, key in enumerate(then):
        if key in touched:
            insort(passed, (was.get(key, nowhere), -place))
            continue
        begin = bisect_right(passed, (was[key], len(then))) if key in was else 0
        if begin < len(passed):
            nearest = sorted(-at for _, at in passed[max(begin, len(passed) - MOST_NAMED) :])
            found[key] = Behind(tuple(then[at] for at in nearest), len(passed) - begin)
    return found


def _queue(sources: Sources, said: WhatIf) -> list[JobKey]:
    """The jobs that wait, in the order of the queue."""
    index = Index()
    index.update({key: each.after for key, each in said.jobs.items()}, sources.fleet.policy)
    return [job.key for job in Order(index.pending.values(), index.used_gpus, sources.fleet.teams)]


def _is_worse(before: Imagined, after: Imagined) -> bool:
    if before.after.phase in FINISHED:
        return False
    if before.decided is not None:
        now = after.decided
        return now is None or now.decision.chosen.start_at - before.decided.decision.chosen.start_at >= LATER
    had, has = before.after.current, after.after.current
    return had is not None and (has is None or (has.name, has.state) != (had.name, had.state))
