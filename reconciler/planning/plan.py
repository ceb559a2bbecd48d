"""The pass: `plan(snapshot, now)` decides for every pending job where it runs, or why it does not. Pure; same in, same out.

Jobs are taken in order (ordering.py). For each: the regions that could ever run it (classes.py), those of them that have room
now (capacity.py), the best by preference and score, and where data would have to be copied, whether waiting for a region that
has it ends sooner; a job waits for such a region only where that is better than every region that is free. What is placed takes
its room at once, so nothing is spent twice in a pass.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from operator import itemgetter
from typing import NamedTuple

from reconciler.model.quantity import whole
from reconciler.model.reasons import Reason, Why, because
from reconciler.planning.capacity import Capacity
from reconciler.planning.classes import Choice, Classifier, JobClass, Option
from reconciler.planning.decisions import Candidate, Decision, Impossible, Place, Wait
from reconciler.planning.filters import lacking
from reconciler.planning.images import unasked
from reconciler.planning.ordering import Order
from reconciler.planning.outlook import Outlook
from reconciler.planning.rooms import Rooms
from reconciler.planning.snapshot import Holding, JobView, Snapshot

RUNNERS_UP = 4


def plan(snapshot: Snapshot, now: datetime, rooms: Rooms | None = None, most_placed: int | None = None) -> tuple[Decision, ...]:
    """One decision for every pending job, in the order in which they were taken.

    `rooms` makes the next pass cheaper. After `most_placed` placements the pass ends; the jobs behind wait for the next.
    """
    if not snapshot.pending:
        return ()
    scratch = _Pass(snapshot, now, rooms if rooms is not None else Rooms())
    order = Order(snapshot.pending, snapshot.used_gpus, snapshot.teams)
    decisions: list[Decision] = []
    placed = 0
    for job in order:
        if placed == most_placed:
            break
        decision = scratch.decide(job)
        if isinstance(decision, Place):
            order.placed(job)
            placed += 1
        decisions.append(decision)
    return tuple(decisions)


class _Pass:
    """Scratch of one pass: free room, and what is known of each class. Thrown away at its end."""

    def __init__(self, snapshot: Snapshot, now: datetime, rooms: Rooms) -> None:
        self._snapshot = snapshot
        self._now = now
        found = {name: rooms.of(view) for name, view in snapshot.regions.items()}
        self._free: dict[str, Capacity] = {name: free for name, (free, _) in found.items()}
        self._classifier = Classifier(snapshot, {name: nodes for name, (_, nodes) in found.items()}, now)
        self._outlook = Outlook(snapshot, now)
        self._taken_from: set[str] = set()
        self._classes: dict[Hashable, JobClass] = {}
        self._small = whole(snapshot.policy.thresholds.small_data)

    def decide(self, job: JobView) -> Decision:
        """Decide for one job, and set its room aside if it is placed."""
        found = self._class_of(job)
        if found.never is not None:
            return Impossible(job.key, found.never, found.reasons)
        looked_up = unasked(job, self._snapshot, self._now)
        if looked_up is not None:
            return Wait(job.key, looked_up, found.reasons)
        rated = self._rate(job, found)
        if rated:
            return self._weigh(job, found, rated)
        return self._wait(job, found, because(Why.NO_CAPACITY))

    def _wait(self, job: JobView, found: JobClass, reason: Reason) -> Wait:
        wait = Wait(job.key, reason, dict(found.reasons) | self._why_busy(job, found))
        if job.spec.dataset is None:
            return wait
        if found.expected is None:  # of equal jobs the first to wait is told where all of them are likely to start
            found.expected = (self._outlook.expected(job, self._busy(found)),)
        return replace(wait, expected=found.expected[0])

    def _class_of(self, job: JobView) -> JobClass:
        key = self._classifier.key(job)
        found = self._classes.get(key)
        if found is None:
            found = self._classes[key] = self._classifier.classify(job)
        return found

    def _rate(self, job: JobView, found: JobClass, most: int = RUNNERS_UP + 1) -> list["_Rated"]:
        """The best options with room now, best first: the choice and its runners-up."""
        entries = self._entries(job, found)
        entries.sort(key=_order)
        rated: list[_Rated] = []
        regions: set[str] = set()
        for entry in entries:
            if entry.region in regions:
                continue
            free, needs = self._free[entry.region], entry.option.needs
            if free.fits(needs, job.spec.nodes, entry.choice.kinds) < job.spec.nodes:
                found.exhausted.add((entry.region, entry.preference))
                continue
            rated.append(entry)
            regions.add(entry.region)
            if len(rated) == most:
                break
        return rated

    def _entries(self, job: JobView, found: JobClass) -> list["_Rated"]:
        """Every (region, model) that may have room, with its score at this moment."""
        idle_weight, exhausted = found.weights.idle_gpus, found.exhausted
        entries: list[_Rated] = []
        for option in found.options:
            if option.blocked is not None:
                continue
            region = self._free[option.region]
            idle = region.free_gpus / region.total_gpus if region.total_gpus and option.needs.gpus else 1.0
            avoided = option.region in job.avoid
            for choice in option.choices:
                if (option.region, choice.preference) not in exhausted:
                    score = choice.fixed_score + idle * idle_weight
                    entries.append(_Rated(avoided, choice.preference, -score, option.region, idle, option, choice))
        return entries

    def _busy(self, found: JobClass) -> list[Option]:
        """Options that cannot be reached, or that were found to have no room."""
        return [
            option
            for option in found.options
            if option.blocked is not None
            or all((option.region, choice.preference) in found.exhausted for choice in option.choices)
        ]

    def _weigh(self, job: JobView, found: JobClass, rated: list["_Rated"]) -> Place | Wait:
        """Take the best, unless it means copying what a busy region already has, and waiting there is better than all others."""
        if not self._copies(rated[0]):
            return self._place(job, found, rated, self._reason(job, found, rated[0]))
        rated = self._rate(job, found, len(found.options))  # all of them, so that it is known which are busy
        busy = self._busy(found)
        outwaited: dict[str, Reason] = {}
        for index, item in enumerate(rated):
            verdict = self._outlook.copy_or_wait(job, item.choice, item.region, busy) if self._copies(item) else None
            if not isinstance(verdict, Wait):
                reason = verdict or self._reason(job, found, item)
                return self._place(job, found, rated[index:], reason, outwaited)
            outwaited[item.region] = verdict.reason
        wait = self._wait(job, found, outwaited[rated[0].region])
        return replace(wait, refused={**wait.refused, **outwaited})

    def _copies(self, item: "_Rated") -> bool:
        moved = item.choice.facts.move.move_bytes
        return moved is not None and moved >= self._small

    def _place(
        self,
        job: JobView,
        found: JobClass,
        rated: Sequence["_Rated"],
        reason: Reason,
        outwaited: Mapping[str, Reason] | None = None,
    ) -> Place:
        """The first is taken: its room is set aside, for what follows in the pass and for looking ahead."""
        refused = dict(found.reasons) | self._why_busy(job, found) | dict(outwaited or {})
        best, *runners_up = (self._candidate(job, found, item) for item in rated[: RUNNERS_UP + 1])
        self._own(best.region).take(best.needs, job.spec.nodes, rated[0].choice.kinds)
        held = Holding(str(job.key), job.spec.nodes, best.needs, best.node_model, best.end_at)
        self._outlook.placed(rated[0].choice, best.region, held)
        return Place(job.key, best, reason, tuple(runners_up), refused, found.strategy)

    def _own(self, region: str) -> Capacity:
        """The region's room as this pass's own copy."""
        if region not in self._taken_from:
            self._taken_from.add(region)
            self._free[region] = self._free[region].copy()
        return self._free[region]

    def _candidate(self, job: JobView, found: JobClass, item: "_Rated") -> Candidate:
        option, choice, on_gpus = item.option, item.choice, item.option.needs.gpus > 0
        facts = self._outlook.facts(choice, item.region)
        start = self._outlook.start(facts, item.region).at
        models = {kind.gpu_model for kind in choice.kinds if kind.gpu_model is not None}
        products = {kind.gpu_product for kind in choice.kinds if kind.gpu_product is not None}
        idle_term = (("idle GPUs", item.idle, found.weights.idle_gpus),) if found.weights.idle_gpus else ()
        return Candidate(
            region=item.region,
            gpu_model=choice.model,
            gpu_products=tuple(sorted(products)) if on_gpus else (),
            node_model=next(iter(models)) if on_gpus and len(models) == 1 else None,
            needs=option.needs,
            terms=(*choice.terms, *idle_term),
            score=-item.minus_score,
            start_at=start,
            end_at=None if job.run_seconds is None else start + timedelta(seconds=job.run_seconds),
            move_bytes=facts.move.move_bytes,
            price_usd=facts.price_usd(job.run_seconds),
            dataset_uris=facts.move.uris,
            sources=self._outlook.sources(choice, item.region),
        )

    def _reason(self, job: JobView, found: JobClass, best: "_Rated") -> Reason:
        if job.pin is not None:
            return because(Why.PINNED, region=best.region)
        if len(found.options) == 1:
            return because(Why.ONLY_CHOICE, region=best.region)
        return because(Why.CHOSEN, region=best.region, score=round(-best.minus_score, 3))

    def _why_busy(self, job: JobView, found: JobClass) -> dict[str, Reason]:
        for option in self._busy(found):
            if option.region not in found.full:
                found.full[option.region] = self._why_not_now(job, option)
        return found.full

    def _why_not_now(self, job: JobView, option: Option) -> Reason:
        if option.blocked is not None:
            return option.blocked.reason
        room, needs, kinds = self._free[option.region], option.needs, option.kinds
        free = room.free_of(kinds)
        if needs.gpus and free >= needs.gpus > room.largest_block(kinds):
            largest = room.largest_block(kinds)
            return because(Why.FRAGMENTED, region=option.region, free=free, largest=largest, per_node=needs.gpus)
        free_nodes = room.fits(needs, job.spec.nodes, kinds)
        per_node, resource = lacking(needs, lambda alone: room.fits(alone, job.spec.nodes, kinds) < job.spec.nodes)
        return because(
            Why.NOT_ENOUGH_FREE,
            region=option.region,
            free_nodes=free_nodes,
            wanted=job.spec.nodes,
            per_node=per_node,
            resource=resource,
        )


class _Rated(NamedTuple):
    """An option with room now. The first four fields are the order in which options are preferred."""

    avoided: bool
    preference: int
    """Place of its model in the job's own list."""
    minus_score: float
    region: str
    idle: float
    option: Option
    choice: Choice


_order = itemgetter(0, 1, 2, 3)


def refused_view(refused: Mapping[str, Reason], most: int = 20) -> tuple[dict[str, Reason], dict[str, int]]:
    """The first `most` refusals in the regions' order, and counts by code of the others, so that records stay small."""
    names = sorted(refused)
    rest: dict[str, int] = {}
    for name in names[most:]:
        rest[refused[name].code] = rest.get(refused[name].code, 0) + 1
    return {name: refused[name] for name in names[:most]}, rest
