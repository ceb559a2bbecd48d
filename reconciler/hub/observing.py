"""What a cycle sees of Git: sources, ledger, placements, manifests, at the heads of one fetch. Caches are keyed by object id."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.hub.intents import MainSeen
from reconciler.hub.ledger import Ledger, LedgerCache, read_ledger
from reconciler.hub.outputs import MANIFESTS
from reconciler.hub.review import PlacementFile
from reconciler.hub.sources import Documents, ParseCache, Sources, read_sources
from reconciler.model.names import JobKey, placement_path, proposal_branch
from reconciler.model.placement import Placement
from reconciler.model.policy import Branches
from reconciler.model.problem import Invalid
from reconciler.model.record import Phase
from reconciler.ports import EntryKind, GitRepository

REGION = "region/"


@dataclass(frozen=True, slots=True)
class GitSeen:
    """The repository as one fetch left it."""

    heads: Mapping[str, str]
    branches: Branches
    sources: Sources
    ledger: Ledger
    main: MainSeen
    placements: Mapping[JobKey, PlacementFile | None]
    manifests: Mapping[str, frozenset[str]]
    """Region → paths below manifests/ on its branch."""
    unproposed: frozenset[JobKey]
    """Proposed jobs whose branch is not there."""


@dataclass(slots=True)
class GitEyes:
    """Reads the repository. `main`: the name of the branch that people write, until reconciler.yaml says otherwise."""

    git: GitRepository
    documents: Documents
    main: str
    parsed: ParseCache = field(default_factory=ParseCache)
    records: LedgerCache = field(default_factory=LedgerCache)
    _ledger: tuple[str | None, Ledger] | None = None
    _sources: tuple[tuple[str | None, Mapping[str, str]], Sources] | None = None
    _manifests: dict[str, tuple[str, frozenset[str]]] = field(default_factory=dict)

    def look(self, heads: Mapping[str, str]) -> GitSeen:
        """Read everything at these heads. Raises what the repository raises, and ledger.Corrupt."""
        branches = self._branches(heads)
        ledger = self._read_ledger(heads.get(branches.status))
        sources = self._read_sources(heads.get(branches.main), ledger)
        return GitSeen(
            heads=heads,
            branches=branches,
            sources=sources,
            ledger=ledger,
            main=self._main(heads.get(branches.main), ledger),
            placements=self._placements(heads.get(branches.placements), ledger),
            manifests=self._read_manifests(heads),
            unproposed=frozenset(
                key
                for key, record in ledger.records.items()
                if record.phase is Phase.PROPOSED and proposal_branch(key) not in heads
            ),
        )

    def _branches(self, heads: Mapping[str, str]) -> Branches:
        """Names of the branches, by reconciler.yaml on the main branch; the names last read stay while that cannot be read."""
        known = self._sources[1].fleet.settings.branches if self._sources is not None else Branches(main=self.main)
        commit = heads.get(self.main)
        if commit is None or self._sources is not None:
            return known
        # The ledger's branch must be known before the declarations in force are; this once they are read without it.
        found = read_sources(self.git.files(commit), self.git.read, self.git.size, {}, self.parsed, self.documents)
        return found.fleet.settings.branches.model_copy(update={"main": self.main})

    def _read_ledger(self, commit: str | None) -> Ledger:
        if self._ledger is None or self._ledger[0] != commit:
            entries = self.git.files(commit) if commit is not None else {}
            self._ledger = (commit, read_ledger(entries, self.git.read, self.records))
        return self._ledger[1]

    def _read_sources(self, commit: str | None, ledger: Ledger) -> Sources:
        tree = self.git.root_of(commit) if commit is not None else None
        made_from = (tree, ledger.in_force)
        if self._sources is None or self._sources[0] != made_from:
            entries = self.git.files(commit) if commit is not None else {}
            found = read_sources(entries, self.git.read, self.git.size, ledger.in_force, self.parsed, self.documents)
            self._sources = (made_from, found)
        return self._sources[1]

    def _main(self, commit: str | None, ledger: Ledger) -> MainSeen:
        before = ledger.hub.main
        moved = commit is not None and before is not None and commit != before
        return MainSeen(commit, moved and self.git.is_ancestor(commit or "", before or ""))

    def _placements(self, commit: str | None, ledger: Ledger) -> dict[JobKey, PlacementFile | None]:
        entries = self.git.files(commit) if commit is not None else {}
        changed: dict[JobKey, PlacementFile | None] = {}
        for key, record in ledger.records.items():
            path = placement_path(key)
            entry = entries.get(path)
            blob = entry.oid if entry is not None and entry.kind is EntryKind.FILE else None
            if blob != record.placement.blob:
                changed[key] = None if blob is None else PlacementFile(blob, self._placement(blob, path))
        return changed

    def _placement(self, blob: str, path: str) -> Placement | Invalid:
        try:
            return self.documents.read_config(Placement, self.git.read(blob), path)
        except Invalid as error:
            return error

    def _read_manifests(self, heads: Mapping[str, str]) -> dict[str, frozenset[str]]:
        for branch, commit in heads.items():
            if branch.startswith(REGION) and self._manifests.get(branch, ("",))[0] != commit:
                self._manifests[branch] = (commit, frozenset(self.git.files(commit, MANIFESTS.rstrip("/"))))
        return {branch.removeprefix(REGION): self._manifests[branch][1] for branch in heads if branch.startswith(REGION)}
