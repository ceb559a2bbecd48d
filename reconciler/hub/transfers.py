"""Bandwidth in the cycle: what each staging task may use of its link now, and what the pass must know of the links.

Worked out anew at every cycle, from the ledger's tasks and from what is believed of the links; who gets how much is for
planning/reservations.py. A task whose turn has not come is not placed. Invariant: what tasks hold of a link together is never
more than may be used of it, with what those that are being stopped still hold.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from reconciler.hub.world import World
from reconciler.model.attempt import MAY_RUN, State
from reconciler.model.names import STAGING_TEAM, JobKey
from reconciler.model.reasons import Reason, Why, because
from reconciler.model.record import FINISHED, JobRecord
from reconciler.model.stage import StageTask
from reconciler.planning.copies import bytes_to_bring, copies_of, parts_of
from reconciler.planning.links import LinkKey, crowded_since, full_links, usable_rates
from reconciler.planning.records import replace_current
from reconciler.planning.reservations import Transfer, in_turn, reserve
from reconciler.planning.snapshot import Arriving
from reconciler.planning.staging import Waiting, unbrought


@dataclass(frozen=True, slots=True)
class Lines:
    """All links with what goes over them."""

    rates: Mapping[str, int] = field(default_factory=dict)
    """Job id of a task → bytes a second that it may use now; 0: its turn has not come."""
    held: Mapping[LinkKey, int] = field(default_factory=dict)
    queued: Mapping[LinkKey, int] = field(default_factory=dict)
    closed: frozenset[LinkKey] = frozenset()
    """Links that something waits for and over which nothing can go: not declared any more, or known to give nothing."""
    full: Mapping[LinkKey, Reason] = field(default_factory=dict)
    crowded: Mapping[LinkKey, datetime] = field(default_factory=dict)
    """Links of which more is held than may be, and since when."""
    copies: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    parts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    arriving: Mapping[str, Mapping[str, Arriving]] = field(default_factory=dict)
    unbrought: Mapping[tuple[str, str], Reason] = field(default_factory=dict)


NO_LINES = Lines()
_OVER_LINKS = frozenset({"dataset", "results"})
"""Kinds of task that move something from region to region."""


def lines_of(tasks: Mapping[JobKey, JobRecord], waiting: Mapping[str, Waiting], world: World, now: datetime) -> Lines:
    """What is so of the links. `waiting`: who waits for which task."""
    fleet, thresholds = world.sources.fleet, world.sources.fleet.policy.thresholds
    copies, parts, failed = copies_of(tasks.values()), parts_of(tasks.values()), unbrought(tasks.values(), now)
    moving = list(_moving(tasks.values()))
    if not moving:
        return Lines(copies=copies, parts=parts, unbrought=failed)
    usable = usable_rates(fleet.links, world.measured, thresholds)
    held = held_of(tasks.values())
    crowded = crowded_since(held, usable, _crowded_before(world.ledger.hub.crowded), now)
    full = full_links(crowded, held, usable, now, thresholds)
    ending = _summed((one.link, one.holds) for one in moving if one.is_stopping)
    left = {link: max(0, rate - ending.get(link, 0)) for link, rate in usable.items()}
    transfers = [_transfer(one, waiting.get(one.record.job_id)) for one in moving if not one.is_stopping]
    rates = reserve(transfers, left, now, thresholds, full)
    given = [(transfer.link, rates[transfer.name]) for transfer in transfers]
    return Lines(
        rates=rates,
        held=_summed([*given, *ending.items()]),
        queued=_queued(transfers),
        closed=frozenset(one.link for one in moving if not usable.get(one.link)),
        full=full,
        crowded=crowded,
        copies=copies,
        parts=parts,
        unbrought=failed,
        arriving=_arriving(transfers, {one.record.job_id: one.task for one in moving}, left, now),
    )


def held_of(tasks: Iterable[JobRecord]) -> dict[LinkKey, int]:
    """What those of these tasks hold that have not ended, in bytes a second of each link."""
    return _summed((one.link, one.holds) for one in _moving(tasks))


class _Moving(NamedTuple):
    """A task that moves something, or waits for its turn to."""

    record: JobRecord
    task: StageTask

    @property
    def link(self) -> LinkKey:
        return self.task.source_region, self.task.region

    @property
    def holds(self) -> int:
        attempt = self.record.current
        return (attempt.bytes_per_second or 0) if attempt is not None else 0

    @property
    def is_stopping(self) -> bool:
        return self.record.current is not None and self.record.current.state is State.STOPPING


def _moving(records: Iterable[JobRecord]) -> Iterator[_Moving]:
    for record in records:
        if record.stage is not None and record.stage.kind in _OVER_LINKS and record.phase not in FINISHED:
            yield _Moving(record, record.stage)


def _transfer(moving: _Moving, waiting: Waiting | None) -> Transfer:
    record, attempt = moving.record, moving.record.current
    progress = next((one.progress for one in reversed(record.this_run) if one.progress is not None), None)
    known = progress is not None and progress.bytes_total > 0
    return Transfer(
        name=record.job_id,
        source=moving.task.source_region,
        target=moving.task.region,
        bytes_left=progress.bytes_total - progress.bytes_done if progress is not None and known else bytes_to_bring(moving.task),
        priority=record.spec.priority_value,
        deadline=waiting.deadline if waiting is not None else None,
        since=record.submitted_at,
        rate=moving.holds,
        begun=attempt is not None and attempt.state in MAY_RUN,
    )


def _summed(amounts: Iterable[tuple[LinkKey, int]]) -> dict[LinkKey, int]:
    found: dict[LinkKey, int] = {}
    for link, amount in amounts:
        if amount:
            found[link] = found.get(link, 0) + amount
    return found


def _queued(transfers: Iterable[Transfer]) -> dict[LinkKey, int]:
    """Bytes still to come over each link; links of which that is not known for all are left out."""
    found: dict[LinkKey, int] = {}
    unknown = set()
    for transfer in transfers:
        if transfer.bytes_left is None:
            unknown.add(transfer.link)
        else:
            found[transfer.link] = found.get(transfer.link, 0) + transfer.bytes_left
    return {link: size for link, size in found.items() if link not in unknown}


def _arriving(
    transfers: Iterable[Transfer], tasks: Mapping[str, StageTask], usable: Mapping[LinkKey, int], now: datetime
) -> dict[str, dict[str, Arriving]]:
    """What is on its way, with when it should be there: one after another, in their turn."""
    lines: dict[LinkKey, list[Transfer]] = {}
    for transfer in transfers:
        lines.setdefault(transfer.link, []).append(transfer)
    found: dict[str, dict[str, Arriving]] = {}
    for link, line in lines.items():
        seconds, rate = 0.0, usable.get(link, 0)
        for transfer in in_turn(line, rate, now) if rate else ():
            task = tasks[transfer.name]
            if transfer.bytes_left is None:
                break  # nobody knows when what comes behind it has its turn
            seconds += transfer.bytes_left / rate
            arriving = Arriving(task.source_region, task.source_uri, transfer.bytes_left, seconds)
            found.setdefault(task.subject, {})[task.region] = arriving
    return found


# ---- the tasks' records -------------------------------------------------------------------------------------------


def paced(tasks: Mapping[JobKey, JobRecord], lines: Lines) -> dict[JobKey, JobRecord]:
    """The records of tasks that may go at another pace now, or that wait for their turn."""
    changed = {}
    for key, record in tasks.items():
        rate = lines.rates.get(record.job_id)
        attempt = record.current
        if rate is None or (attempt is not None and attempt.state is State.STOPPING):
            continue
        if attempt is not None and attempt.bytes_per_second != rate:
            changed[key] = replace_current(record, attempt.model_copy(update={"bytes_per_second": rate}))
        elif attempt is None and not rate and record.stage is not None:
            why = _why_it_waits(record.stage, lines)
            if record.why is None or record.why.code != why.code:
                changed[key] = record.model_copy(update={"why": why})
    return changed


def _why_it_waits(task: StageTask, lines: Lines) -> Reason:
    link = task.source_region, task.region
    if link in lines.full:
        return lines.full[link]
    return because(Why.LINK_CLOSED if link in lines.closed else Why.LINK_BUSY, source=task.source_region, target=task.region)


def has_its_turn(key: JobKey, lines: Lines) -> bool:
    """Whether a job may be placed, as far as links go: only tasks wait for them."""
    return lines.rates.get(key.job_id, 1) > 0 if key.team == STAGING_TEAM else True


def at_its_pace(record: JobRecord, lines: Lines) -> JobRecord:
    """A task's record with the pace noted at which its new attempt begins."""
    attempt = record.current
    if attempt is None:
        return record
    return replace_current(record, attempt.model_copy(update={"bytes_per_second": lines.rates.get(record.job_id)}))


def _crowded_before(said: Mapping[str, datetime]) -> dict[LinkKey, datetime]:
    """`crowded` as hub.json has it."""
    found = {}
    for link, since in said.items():
        source, _, target = link.partition(" → ")
        found[source, target] = since
    return found


def crowded_now(crowded: Mapping[LinkKey, datetime]) -> dict[str, datetime]:
    """`crowded` for hub.json."""
    return {f"{source} → {target}": since for (source, target), since in sorted(crowded.items())}
