"""The central cycle: observe, decide, publish, grant. One at a time; a lost race means: observe again.

What is published is one atomic push (publish.py); only after it do the grants follow (granting.py). A hub that dies between any
two steps leaves nothing that its successor cannot finish: it reads the ledger and does what the ledger says.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from reconciler.hub.afterwards import Afterwards
from reconciler.hub.away import Absence, absence_of, own_times, times_of
from reconciler.hub.branches import add_placements, add_regions, moved_regions, notices_of
from reconciler.hub.budget import PushBudget
from reconciler.hub.closed import ClosedBranches
from reconciler.hub.decide import Memory
from reconciler.hub.drafts import Drafts, decide_with
from reconciler.hub.events import events_of
from reconciler.hub.forge_board import Board, View
from reconciler.hub.granting import Granting, due
from reconciler.hub.guarded import GuardedEyes
from reconciler.hub.home import Home
from reconciler.hub.intents import suspicion_of
from reconciler.hub.leader import Leadership
from reconciler.hub.ledger import HubFile, Suspicion, Trouble
from reconciler.hub.mark import Mark
from reconciler.hub.observing import GitEyes, GitSeen
from reconciler.hub.outputs import Rendered, manifest_changes, summed_up
from reconciler.hub.placing import unapproved
from reconciler.hub.publish import Cycle, Publication, hub_file, status_blobs
from reconciler.hub.regions import Reports
from reconciler.hub.results import RESTING_SECONDS, TRIES, Ended, HubOptions, Result
from reconciler.hub.sources import Documents
from reconciler.hub.standstill import Standstill
from reconciler.hub.torn import Pushes
from reconciler.hub.troubles import Standing, full_links, lasting, passing, since
from reconciler.hub.watch import Watch
from reconciler.hub.world import Outcome, World
from reconciler.model.names import JobKey, digest, region_branch
from reconciler.model.reasons import Why, because
from reconciler.model.record import JobRecord
from reconciler.model.region import LossTimes
from reconciler.ports import Clock, Conflict, GitRepository, ObjectStore, Refused, Transient


class Hub:
    """One hub over one repository and one store."""

    def __init__(self, git: GitRepository, store: ObjectStore, documents: Documents, clock: Clock, options: HubOptions) -> None:
        self._git = git
        self._pushes = Pushes(git)
        self._clock = clock
        self._options = options
        self._eyes = GuardedEyes(git, GitEyes(git, documents, options.main), Mark(store, git))
        self._reports = Reports(store, clock.monotonic, options.reports_at_once)
        self._watch = Watch(store, clock.monotonic)
        self._leadership = Leadership(store, options.holder, options.lease_seconds, clock.monotonic)
        self._granting = Granting(store)
        self._afterwards = Afterwards(store, clock)
        self._standstill = Standstill(store, options.holder)
        self._home, self._store_id = Home(store, options.holder), ""
        self._term = self._above = 0
        self._budget = PushBudget(clock.monotonic)
        self._closed = ClosedBranches(clock.monotonic)
        self._regions: frozenset[str] = frozenset()
        self._unproposed: frozenset[JobKey] = frozenset()
        self._memory = Memory()
        self._drafts = Drafts(options.stage_image)
        self._standing = Standing(clock.monotonic)
        self.board = Board()
        self._ungranted: Mapping[str, str] = {}
        self._unpointed: tuple[Trouble, ...] = ()
        self._fresh_seconds = 0.0
        self._quiet: tuple[object, float] | None = None

    @property
    def leads(self) -> bool:
        """Whether this hub is the leader at the moment."""
        return self._leadership.term is not None

    def say(self, what: str) -> None:
        """Tell people, outside Git, why nothing goes on; '' that it does. Raises Conflict, Transient, Refused."""
        if self.leads:
            self._standstill.say(what, self._clock.now())

    def resign(self) -> None:
        """Give up the lead at a clean end."""
        self._leadership.resign()

    def cycle(self) -> Result:
        """One cycle. Raises Transient and Refused where the repository or the store cannot be used at all, Corrupt where the
        ledger cannot be believed."""
        term = self._leadership.step(above=max(self._granting.highest_term, self._above))
        if term is None:
            self._quiet = None
            self.board.leave()
            self._granting.reset()
            self._afterwards.forget()
            self._watch.reset()
            self._eyes.forget()
            self._ungranted = {}
            return Result(Ended.STANDBY, again_in_seconds=self._options.lease_seconds / 3)
        self._term = term
        for _ in range(TRIES):
            result = self._once()
            if result is not None:
                news = self._eyes.take_news()
                return replace(result, troubles=(*result.troubles, *news)) if news else result
        return Result(Ended.RACED, again_in_seconds=1.0)

    def _once(self) -> Result | None:
        """One try; None where another writer was quicker."""
        self.board.take()
        resting = self._quiet is not None and self._clock.monotonic() < self._quiet[1]
        heads = self._git.heads() if resting else {}
        self._look_at(self._regions)
        if resting and self._quiet is not None and self._quiet[0] == self._state(heads):
            return Result(Ended.IDLE, again_in_seconds=self._quiet[1] - self._clock.monotonic())
        seen = self._eyes.look()
        if seen is None or self._pushes.finish(seen.heads):
            return None
        self._yield_to(seen.ledger.hub)
        self._store_id = self._home.step(seen.ledger.hub.store, self._term, self._clock.now())
        times = times_of(seen)
        if (regions := frozenset(times) | frozenset(seen.manifests)) != self._regions:
            self._regions = regions
            self._watch.declare(times)
            self._look_at(regions)
        result = self._decide_and_publish(seen, times)
        if result is not None and result.ended is Ended.QUIET and result.again_in_seconds is None:
            live = any(record.live for record in seen.ledger.records.values())
            waits = (self._standing.next_seconds, self._watch.next_seconds(), self._options.resync_seconds if live else None)
            wait = min(filter(None, waits), default=RESTING_SECONDS)
            self._quiet = (self._state(seen.heads), self._clock.monotonic() + wait)
            return replace(result, again_in_seconds=wait)
        self._quiet = None
        return result

    def _yield_to(self, ledger: HubFile) -> None:
        """Raises Transient where a later hub, or another of this very term, has written the ledger: this one leads no more."""
        if ledger.term > self._term or (ledger.term == self._term and ledger.holder not in ("", self._options.holder)):
            self._above = ledger.term + 1
            raise Transient(f"the ledger is written by {ledger.holder}, of term {ledger.term}; this hub is of term {self._term}")

    def _look_at(self, regions: Iterable[str]) -> None:
        self._reports.look(regions)
        self._watch.look(self._reports)

    def _state(self, heads: Mapping[str, str]) -> object:
        """Everything that a decision hangs on but for the time."""
        silent = frozenset(name for name in self._regions if (self._reports.age_seconds(name) or 0.0) > self._fresh_seconds)
        states = tuple((name, verdict.state) for name, verdict in self._watch.verdicts().items())
        return sorted(heads.items()), self._reports.matter(), silent, states, self._closed.state(), self._term, self.board.matter

    def _decide_and_publish(self, seen: GitSeen, times: Mapping[str, LossTimes]) -> Result | None:
        now = self._clock.now()
        suspicion = suspicion_of(seen.ledger, seen.sources, seen.main, now)
        if suspicion is not None and suspicion.kind != "gone":
            seen = self._eyes.as_declared_before(seen)
            times = times_of(seen)
        self._fresh_seconds = seen.sources.fleet.policy.thresholds.report_fresh_seconds
        self._watch.declare(times)
        absence = absence_of(self._watch, seen, self._reports, self._granting, self._clock)
        world = self._world(seen, suspicion, absence)
        self.board.view = View(seen, world)
        outcome, rendered = self._settled(world, seen, now)
        outcome = self.board.named(outcome)
        self.board.images.want(self._memory.index.pending.values(), seen.sources.fleet, now)
        publication, outcome, troubles = self._publication(world, seen, outcome, rendered, now)
        if not publication.updates:
            before = self._ungranted
            ungranted = self._grant(outcome.records, seen, seen.heads)
            mended = before.keys() - self._ungranted.keys()  # which is news
            soon = 0.0 if self._closed.passed(()) or mended else 1.0 if ungranted else None
            return Result(Ended.QUIET, troubles=troubles, ungranted=ungranted, again_in_seconds=soon)
        wait = self._budget.wait_seconds(seen.sources.fleet.settings.intervals)
        if wait > 0:
            ungranted = self._grant_as_published(seen)
            return Result(Ended.DEFERRED, troubles=troubles, ungranted=ungranted, again_in_seconds=wait)
        pushed = self._pushes.push(publication.updates)
        if pushed.raced:
            return None
        self._budget.spend()
        if not pushed.done:
            return self._refused(pushed.refusals, publication, troubles, self._grant_as_published(seen))
        heads = dict(seen.heads)
        for update in publication.updates:
            heads.pop(update.branch, None)
            if update.new is not None:
                heads[update.branch] = update.new
        self._closed.passed([update.branch for update in publication.updates])
        ungranted = self._grant(outcome.records, seen, heads)
        moved = moved_regions(publication.updates, seen.sources.fleet.regions)
        return Result(Ended.PUBLISHED, outcome.events, troubles, ungranted, moved, again_in_seconds=0.0)

    def _refused(
        self, refusals: Mapping[str, str], publication: Publication, troubles: tuple[str, ...], ungranted: tuple[str, ...]
    ) -> Result:
        wait = self._closed.note(refusals, [update.branch for update in publication.updates], publication.cycle.branches.status)
        said = tuple(f"the remote refuses {branch}: {words}" for branch, words in sorted(refusals.items()))
        return Result(Ended.REFUSED, troubles=troubles + said, ungranted=ungranted, again_in_seconds=wait)

    def _world(self, seen: GitSeen, suspicion: Suspicion | None, absence: Absence) -> World:
        declined = seen.unproposed & self._unproposed  # seen twice: a fetch is not one instant on every server
        self._unproposed = seen.unproposed
        marks = {name: [region.incarnation, region.sequence] for name, region in self._reports.seen.items()}
        named = {name: commit for name, commit in seen.heads.items() if not name.startswith(("region/", "proposals/"))}
        return World(
            stage_image=self._options.stage_image,
            sources=seen.sources,
            ledger=seen.ledger,
            suspicion=suspicion,
            regions=self._reports.seen,
            ages={name: self._reports.age_seconds(name) for name in self._regions},
            withdrawn_at=self._granting.withdrawn_at,
            placements=seen.placements,
            declined=declined | self.board.declined(seen.ledger.records),
            refused={
                branch: because(Why.BRANCH_REFUSED, branch=branch, message=self._closed.words(branch) or "")
                for branch in sorted(self._closed.state())
            },
            away=absence.away,
            epochs=absence.epochs,
            conditions=absence.conditions,
            images=self.board.images.known(seen.sources.fleet.settings.images),
            unreachable=absence.troubles,
            loss=own_times(seen),
            words=absence.words,
            store=self._store_id,
            inputs=digest([named, marks])[:16],
            measured=self._reports.measured(),
            listings=self._reports.listings(self._clock.now(), absence.away),
        )

    def _settled(self, world: World, seen: GitSeen, now: datetime) -> tuple[Outcome, Rendered]:
        """The decisions, without the approvals whose manifests cannot be made any more."""
        outcome = decide_with(self._drafts, world, now, self._memory)
        rendered = self._rendered(outcome.records, world, seen)
        if not rendered.refused:
            return outcome, rendered
        undone = unapproved(outcome.records, rendered.refused, world.ledger.records, seen.sources.fleet.policy, now)
        records = {**outcome.records, **undone}
        outcome = replace(outcome, records=records, events=events_of(world.ledger.records, records))
        return outcome, self._rendered(records, world, seen)

    def _rendered(self, records: Mapping[JobKey, JobRecord], world: World, seen: GitSeen) -> Rendered:
        regions = {name: region for name, region in seen.sources.fleet.regions.items() if world.is_open(name)}
        present = {name: paths for name, paths in seen.manifests.items() if world.is_open(name)}
        self._memory.index.update(records, seen.sources.fleet.policy)
        return manifest_changes(records, self._memory.index, regions, present, self._drafts)

    def _publication(
        self, world: World, seen: GitSeen, outcome: Outcome, rendered: Rendered, now: datetime
    ) -> tuple[Publication, Outcome, tuple[str, ...]]:
        cycle = Cycle(world.inputs, seen.main.commit, seen.heads, seen.branches, now, self._options.repo_url)
        publication = Publication(self._git, cycle)
        shut = frozenset(name for name in self._regions if not world.is_open(name))
        add_regions(publication, self._git, seen, rendered, shut, outcome.events)
        outcome = add_placements(publication, self._git, outcome, world.refused.keys())
        troubles = self._troubles(world, seen, outcome, now)
        hub = hub_file(world, outcome, seen.main.commit, troubles, (self._term, self._options.holder))
        blobs, fresh = status_blobs(self._git, world, outcome, hub, notices_of(hub), now)
        self._eyes.records.records |= fresh  # the next look need not read what was just written
        if blobs:
            publication.add(seen.branches.status, blobs, summed_up(outcome.events), outcome.events)
        return publication, outcome, tuple(trouble.what for trouble in troubles)

    def _grant(self, records: Mapping[JobKey, JobRecord], seen: GitSeen, heads: Mapping[str, str]) -> tuple[str, ...]:
        """Write what the published ledger lets run; one region's trouble never stops the others."""
        troubles: dict[str, str] = {}
        self._memory.index.update(records, seen.sources.fleet.policy)
        wanted = due(self._memory.index, self._regions, self._reports.seen, seen.manifests, self._watch.revoked())
        for name, what in wanted.items():
            try:
                self._granting.write(name, what, heads.get(region_branch(name)), self._term, self._reports.seen.get(name))
            except (Conflict, Transient, Refused) as error:
                troubles[name] = str(error)
        self._granting.forget_ended(frozenset().union(*(what.stopping for what in wanted.values())))
        self._ungranted = troubles
        self._unpointed = self._afterwards.follow(records, seen.sources.fleet, self._reports)
        return tuple(f"the grants of {name} were not written: {words}" for name, words in troubles.items())

    def _grant_as_published(self, seen: GitSeen) -> tuple[str, ...]:
        """Where nothing could be published. Before its term stands in the ledger a hub grants nothing: another may write yet."""
        may = seen.ledger.hub.term == self._term or not seen.ledger.blobs
        return self._grant(seen.ledger.records, seen, seen.heads) if may else ()

    def _troubles(self, world: World, seen: GitSeen, outcome: Outcome, now: datetime) -> tuple[Trouble, ...]:
        before, index = seen.ledger.hub.troubles, self._memory.index
        strangers = {name: index.strangers(name, present) for name, present in seen.manifests.items()}
        found = lasting(world, self._reports.troubles, strangers)
        comes_and_goes = [*passing(world, self._ungranted), *self._unpointed, *self.board.troubles]
        return since([*found, *full_links(outcome.full), *self._standing.told(comes_and_goes, before)], before, now)
