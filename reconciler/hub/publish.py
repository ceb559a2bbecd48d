"""From an outcome to one atomic push: objects for every branch that changes, each moved only from the head that was observed.

Nothing changed means no commit. The ledger, the placements, the proposals and the manifests go together or not at all: at no
moment does a manifest stand on a branch without its attempt in the ledger, or the reverse.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from reconciler.hub.estimates import lately
from reconciler.hub.ledger import (
    FLEET_FILE,
    HUB_FILE,
    IN_FORCE,
    README_FILE,
    REJECTED_FILE,
    FleetFile,
    FleetRegion,
    HubFile,
    Ledger,
    Rejected,
    RejectedFile,
    Trouble,
    written,
)
from reconciler.hub.outputs import changed_records, message
from reconciler.hub.regions import RegionSeen
from reconciler.hub.transfers import crowded_now
from reconciler.hub.world import Outcome, World
from reconciler.model.names import record_path
from reconciler.model.policy import Branches
from reconciler.model.record import JobRecord
from reconciler.ports import GitRepository, RefUpdate
from reconciler.rendering.records import status_page


@dataclass(frozen=True, slots=True)
class Cycle:
    """What a publication needs to know of its cycle."""

    number: str
    """Digest of the inputs, as the trailer `Reconciler-Cycle`."""
    main: str | None
    heads: Mapping[str, str]
    branches: Branches
    now: datetime
    repo_url: str
    """Without credentials; it is published."""


class Publication:
    """The updates of one push, built branch by branch."""

    def __init__(self, git: GitRepository, cycle: Cycle) -> None:
        self._git = git
        self.cycle = cycle
        self.updates: list[RefUpdate] = []

    def head(self, branch: str) -> str | None:
        """Where a branch stands, what is added here included; None where it does not exist."""
        made = next((update for update in self.updates if update.branch == branch), None)
        return self.cycle.heads.get(branch) if made is None else made.new

    def add(
        self,
        branch: str,
        blobs: Mapping[str, str | None],
        subject: str,
        lines: Sequence[str],
        *,
        region: str = "",
        base: str | None = None,
    ) -> None:
        """Add one branch's change: path → blob, or None to remove it. `base`: the commit to build on instead of its head."""
        head = self.head(branch)
        parent = base or head
        tree = self._git.write_tree(parent, blobs)
        if parent is not None and tree == self._git.root_of(parent):
            return
        trailers = {"Reconciler-Cycle": self.cycle.number, "Reconciler-Main": self.cycle.main or "", "Reconciler-Region": region}
        text = message(subject, lines, trailers)
        # Its old head stays a parent: many servers refuse a branch that is set back.
        parents = [each for each in dict.fromkeys((head, parent)) if each is not None]
        commit = self._git.commit(tree, parents, text, self.cycle.now)
        self.updates = [update for update in self.updates if update.branch != branch]
        self.updates.append(RefUpdate(branch, self.cycle.heads.get(branch), commit))

    def remove(self, name: str) -> None:
        """Delete a branch, if it is there."""
        old = self.cycle.heads.get(name)
        if old is not None:
            self.updates.append(RefUpdate(name, old, None))


def status_blobs(
    git: GitRepository, world: World, outcome: Outcome, hub: HubFile, notices: Sequence[str], now: datetime
) -> tuple[dict[str, str | None], dict[str, JobRecord]]:
    """Path → blob of everything on the status branch that may have changed, and the changed records by their new blobs."""
    ledger = world.ledger
    blobs: dict[str, str | None] = {}
    fresh: dict[str, JobRecord] = {}
    for record in changed_records(ledger.records, outcome.records):
        blob = blobs[record_path(record.key)] = git.write_blob(written(record))
        fresh[blob] = record
    rejected = rejected_file(world, now)
    if rejected != ledger.rejected:
        blobs[REJECTED_FILE] = git.write_blob(written(rejected))
    in_force = world.sources.in_force
    blobs |= {IN_FORCE + path: blob for path, blob in in_force.items() if ledger.in_force.get(path) != blob}
    blobs |= dict.fromkeys((IN_FORCE + path for path in ledger.in_force if path not in in_force), None)
    if placed(outcome):
        blobs[FLEET_FILE] = git.write_blob(fleet_file(world.regions))
    if blobs or _tells_more(hub, ledger):
        blobs[HUB_FILE] = git.write_blob(written(hub))
        shown = [f"{each.path}:{each.line}:{each.column}: {each.code}: {each.what}; {each.todo}" for each in rejected.problems]
        estimates = lately(outcome.records.values(), now)
        blobs[README_FILE] = git.write_blob(status_page(outcome.records, shown, notices, hub.regions, estimates))
    return blobs, fresh


def hub_file(world: World, outcome: Outcome, main: str | None, troubles: tuple[Trouble, ...], leader: tuple[int, str]) -> HubFile:
    """hub.json as it is to be. `main`: the commit that was read; `leader`: the hub's term and its name."""
    return HubFile(
        main=main if world.suspicion is None else world.ledger.hub.main,
        suspicion=world.suspicion,
        troubles=troubles,
        term=leader[0],
        holder=leader[1],
        store=world.store,
        regions=dict(world.conditions),
        loss=dict(world.loss),
        words=dict(world.words),
        crowded=crowded_now(outcome.crowded),
    )


def _tells_more(hub: HubFile, ledger: Ledger) -> bool:
    """Whether the hub's file is worth a commit of its own: not for which commit of main was read last, nor who begins the ledger.

    Who goes on with it is: from that commit on no hub before this one can publish, and none of its pushes can go unseen.
    """
    if hub == ledger.hub:
        return False
    begins = not ledger.blobs and ledger.hub == HubFile()
    same: dict[str, object] = {"main": ledger.hub.main}
    if begins:
        same |= {"term": ledger.hub.term, "holder": ledger.hub.holder, "store": ledger.hub.store}
    return hub.model_copy(update=same) != ledger.hub


def placed(outcome: Outcome) -> bool:
    """Whether the cycle decided where something runs."""
    return bool(outcome.placements or outcome.proposals)


def rejected_file(world: World, now: datetime) -> Rejected:
    """rejected.json: all problems, each since when."""
    since = {(old.path, old.line, old.column, old.code, old.what): old.since for old in world.ledger.rejected.problems}
    problems = tuple(
        RejectedFile(
            path=found.path,
            line=found.line,
            column=found.column,
            code=found.code,
            what=found.what,
            todo=found.todo,
            since=since.get((found.path, found.line, found.column, found.code, found.what), now),
        )
        for found in world.sources.problems
    )
    return Rejected(problems=problems)


def fleet_file(regions: Mapping[str, RegionSeen]) -> bytes:
    """fleet.json: the regional state that the last decisions used, in the summary form."""
    content = FleetFile(
        regions={
            name: FleetRegion(incarnation=seen.incarnation, sequence=seen.sequence, summary=seen.summary)
            for name, seen in sorted(regions.items())
        }
    )
    return written(content)
