"""What a pass expects of the regions: when one that is busy could start a job, and whether waiting for it is better than copying
to one that is free.

Scratch of a pass. It knows what the pass has placed: that holds room where it went, and what it brings is on its way.
"""

from collections.abc import Hashable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from reconciler.model.attempt import Needs
from reconciler.model.reasons import Reason
from reconciler.planning.ahead import earliest_start
from reconciler.planning.classes import Choice, Option
from reconciler.planning.copying import Start, copy_or_wait
from reconciler.planning.decisions import Expected, Wait
from reconciler.planning.haste import haste_of
from reconciler.planning.scoring import Facts
from reconciler.planning.snapshot import Holding, JobView, Snapshot
from reconciler.planning.underway import Underway
from reconciler.planning.ways import Source


class Outlook:
    """What is expected, as far as the pass has come."""

    def __init__(self, snapshot: Snapshot, now: datetime) -> None:
        self._snapshot = snapshot
        self._now = now
        self._underway = Underway()
        self._given: dict[str, list[Holding]] = {}
        self._earliest: dict[Hashable, datetime | None] = {}

    def placed(self, choice: Choice, region: str, holding: Holding) -> None:
        """Note a placement of this pass."""
        self._underway.begin(self.facts(choice, region).move, region)
        self._given.setdefault(region, []).append(holding)

    def facts(self, choice: Choice, region: str) -> Facts:
        """What is known of the choice, behind the transfers that this pass has begun."""
        move = self._underway.behind(choice.facts.move, region)
        return choice.facts if move is choice.facts.move else replace(choice.facts, move=move)

    def sources(self, choice: Choice, region: str) -> tuple[Source | None, ...]:
        """From where the choice's datasets are brought, each with when it is there."""
        return self._underway.in_their_turn(choice.facts.move.sources, region)

    def start(self, facts: Facts, region: str, free_at: datetime | None = None) -> Start:
        """When the job starts there, if the room is free now or at that moment."""
        ready = self._now + timedelta(seconds=facts.ready_seconds)
        return Start(ready if free_at is None else max(free_at, ready), region, facts.move.price_usd)

    def copy_or_wait(self, job: JobView, choice: Choice, region: str, busy: Iterable[Option]) -> Wait | Reason | None:
        """Whether to wait for the first of the busy regions that need less copying, instead of copying to this one."""
        facts = self.facts(choice, region)
        waits: list[Start] = []
        for option in busy:
            other = self.facts(option.choices[0], option.region)
            if option.blocked is None and other.move.seconds < facts.move.seconds:
                free_at = self._free_at(option, job.spec.nodes)
                waits += [] if free_at is None else [self.start(other, option.region, free_at)]
        if not waits:
            return None
        return copy_or_wait(job, min(waits), self.start(facts, region), facts.move, self._snapshot.policy.thresholds)

    def expected(self, job: JobView, busy: Iterable[Option]) -> Expected | None:
        """Where a job that waits will probably start; None where no known end brings it about.

        The busy region where waiting and copying together cost least, with an hour priced by the job's urgency.
        """
        haste = haste_of(job, self._now, self._snapshot.policy.thresholds)
        found: list[tuple[tuple[bool, bool, float, str], Expected]] = []
        for option in busy:
            free_at = None if option.blocked is not None else self._free_at(option, job.spec.nodes)
            if free_at is not None:
                facts = self.facts(option.choices[0], option.region)
                start = self.start(facts, option.region, free_at)
                seconds, usd = (start.at - self._now).total_seconds(), start.move_usd
                rank = (haste.late(seconds), usd is None, (usd or 0.0) + haste.worth(seconds), option.region)
                found.append((rank, Expected(option.region, start.at, facts.move.sources)))
        return min(found, key=lambda one: one[0])[1] if found else None

    def _free_at(self, option: Option, nodes: int) -> datetime | None:
        """When a busy region is expected to have room, with what was placed there in this pass."""
        given = self._given.get(option.region, ())
        key: tuple[str, int, Needs, int, Hashable] = (option.region, len(given), option.needs, nodes, option.kinds)
        if key not in self._earliest:
            view = self._snapshot.regions[option.region]
            view = replace(view, holdings=(*view.holdings, *given))
            self._earliest[key] = earliest_start(view, option.needs, nodes, option.kinds, self._now)
        return self._earliest[key]
