"""Datasets that are staged before a GPU is free for them: when several waiting jobs will want one in a region that lacks it.

Where a job will probably start is the pass's word (`Wait.expected`): the busy region where waiting and copying together cost
least, so a region that has the data already goes before one to which it would have to be brought for longer than the wait. A wish
is for one dataset and one region, however many jobs are behind it.

Invariants: within the policy's budget of bytes under way and of US dollars a day; nothing of unknown price; nothing that is
there, on its way, or brought by a placement of the same pass; nothing to a region without a store of its own. The rules of where
data may go hold, for a job is expected only where they do.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reconciler.model.names import JobKey
from reconciler.model.quantity import whole
from reconciler.planning.decisions import Decision, Place, Wait
from reconciler.planning.snapshot import Snapshot
from reconciler.planning.ways import Source


@dataclass(frozen=True, slots=True)
class Wish:
    """One staging ahead of need."""

    source: Source
    """What is brought, from where, and what it takes."""
    target: str
    """The region to which."""
    jobs: tuple[JobKey, ...]
    """For whom, in order."""
    priority: int
    """The highest of theirs."""

    @property
    def subject(self) -> str:
        """`<dataset>@<version>`."""
        return self.source.subject


def ahead_of_need(
    decisions: Iterable[Decision], snapshot: Snapshot, bytes_under_way: int = 0, usd_spent: float = 0.0
) -> tuple[Wish, ...]:
    """What to stage now, the most wanted first.

    `decisions`: of one pass over `snapshot`. `bytes_under_way`: left to copy of earlier wishes; `usd_spent`: on them, in the last
    day and by those under way.
    """
    rules = snapshot.policy.ahead_of_need
    bytes_left, usd_left = whole(rules.size) - bytes_under_way, rules.usd_per_day - usd_spent
    granted: list[Wish] = []
    for wish in _wishes(tuple(decisions), snapshot):
        price = wish.source.price_usd
        if len(wish.jobs) < rules.jobs or price is None or price > usd_left or wish.source.bytes > bytes_left:
            continue
        granted.append(wish)
        bytes_left, usd_left = bytes_left - wish.source.bytes, usd_left - price
    return tuple(granted)


def _wishes(decisions: Sequence[Decision], snapshot: Snapshot) -> list[Wish]:
    """Every dataset that is missing where a waiting job is expected, by who wants it most."""
    coming = {
        (source.subject, decision.chosen.region)
        for decision in decisions
        if isinstance(decision, Place)
        for source in decision.chosen.sources
        if source is not None
    }
    wanted: dict[tuple[str, str], list[JobKey]] = {}
    sources: dict[tuple[str, str], Source] = {}
    for decision in decisions:
        if not isinstance(decision, Wait) or decision.expected is None:
            continue
        target = decision.expected.region
        for source in decision.expected.sources:
            if source is None or (source.subject, target) in coming or not _may_come(source, target, snapshot):
                continue
            names = wanted.setdefault((source.subject, target), [])
            if decision.key not in names:
                names.append(decision.key)
            # Jobs of different urgency may take different ways: the one that comes first is enough for all.
            best = sources.setdefault((source.subject, target), source)
            if (source.seconds, source.uri) < (best.seconds, best.uri):
                sources[source.subject, target] = source
    priorities = {job.key: job.spec.priority_value for job in snapshot.pending}
    wishes = [
        Wish(sources[key], key[1], tuple(sorted(jobs)), max(priorities.get(job, 0) for job in jobs))
        for key, jobs in wanted.items()
    ]
    return sorted(wishes, key=lambda wish: (-wish.priority, -len(wish.jobs), wish.subject, wish.target))


def _may_come(source: Source, target: str, snapshot: Snapshot) -> bool:
    """Whether it can be staged there, and is not on its way."""
    view = snapshot.regions.get(target)
    stored = view is not None and view.region.object_store is not None
    return stored and target not in snapshot.arriving.get(source.subject, {})
