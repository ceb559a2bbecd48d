"""What a cycle sees of Git: sources, ledger, placements, manifests, at the heads of one fetch. Caches are keyed by object id."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from reconciler.hub.backwards import gone_back
from reconciler.hub.intents import MainSeen
from reconciler.hub.ledger import Corrupt, Ledger, LedgerCache, read_ledger, without
from reconciler.hub.outputs import MANIFESTS
from reconciler.hub.repo_files import place_of
from reconciler.hub.review import PlacementFile
from reconciler.hub.sources import Documents, ParseCache, Sources, read_sources
from reconciler.model.base import matches_name
from reconciler.model.names import (
    JobKey,
    attempt_stems,
    placement_path,
    proposal_branch,
    record_path,
    region_branch,
    stem_of,
)
from reconciler.model.placement import Placement
from reconciler.model.policy import SETTINGS_FILE, Branches, Settings
from reconciler.model.problem import Invalid
from reconciler.model.record import JobRecord, Phase
from reconciler.ports import EntryKind, GitRepository, TreeEntry

REGION = "region/"


@dataclass(frozen=True, slots=True)
class GitSeen:
    """The repository as one fetch left it."""

    heads: Mapping[str, str]
    branches: Branches
    sources: Sources
    ledger: Ledger
    goes_on: bool
    """Every record knows at least what it knew before."""
    main: MainSeen
    placements: Mapping[JobKey, PlacementFile | None]
    manifests: Mapping[str, frozenset[str]]
    """Region → paths below manifests/ on its branch."""
    unproposed: frozenset[JobKey]
    """Proposed jobs whose branch is not there."""


@dataclass(frozen=True, slots=True)
class _Manifests:
    """What stands below manifests/ at one commit of a region's branch."""

    commit: str
    paths: frozenset[str]
    stems: Mapping[str, str]
    """Namespace and beginning of an attempt's name, as a path → where such a manifest stands."""


@dataclass(slots=True)
class GitEyes:
    """Reads the repository. `main`: the name of the branch that people write, until reconciler.yaml says otherwise."""

    git: GitRepository
    documents: Documents
    main: str
    parsed: ParseCache = field(default_factory=ParseCache)
    records: LedgerCache = field(default_factory=LedgerCache)
    _names: Branches | None = None
    _settings: tuple[str, Branches | None] | None = None
    _emptiness: tuple[str, bool] | None = None
    _placed: tuple[str | None, Mapping[JobKey, JobRecord], dict[JobKey, PlacementFile | None]] | None = None
    _ledger: tuple[str | None, Ledger] | None = None
    _noted: tuple[str, Ledger] | None = None
    _sources: tuple[tuple[str | None, Mapping[str, str]], Sources] | None = None
    _before: tuple[Mapping[str, str], Sources] | None = None
    _manifests: dict[str, _Manifests] = field(default_factory=dict)
    _seen: tuple[tuple[Mapping[str, str], str | None], GitSeen] | None = None

    def look(self, heads: Mapping[str, str], noted: str | None = None) -> GitSeen:
        """Everything at these heads. For the same ones it is the same answer, as what stands at a commit never changes.

        `noted`: the commit of the ledger that was believed before, which it contains.

        Raises what the repository raises, and ledger.Corrupt.
        """
        asked = (dict(heads), noted)
        if self._seen is None or self._seen[0] != asked:
            self._seen = asked, self._read(heads, noted)
        return self._seen[1]

    def _read(self, heads: Mapping[str, str], noted: str | None) -> GitSeen:
        branches = self.branches(heads)
        ledger, goes_on = self._since(noted, heads.get(branches.status))
        manifests = self._read_manifests(heads)
        if branches.status not in heads and any(self._manifests[region_branch(name)].stems for name in manifests):
            raise Corrupt(f"the branch {branches.status} is gone, and with it what runs where; restore it from its last commit")
        sources = self._read_sources(heads.get(branches.main), ledger)
        ledger = self._with_missing(ledger, sources, manifests)
        return GitSeen(
            heads=heads,
            branches=branches,
            sources=sources,
            ledger=ledger,
            goes_on=goes_on,
            main=self._main(heads.get(branches.main), ledger),
            placements=self._placements(heads.get(branches.placements), ledger),
            manifests=manifests,
            unproposed=frozenset(
                key
                for key, record in ledger.records.items()
                if record.phase is Phase.PROPOSED and proposal_branch(key) not in heads
            ),
        )

    def branches(self, heads: Mapping[str, str]) -> Branches:
        """Names of the branches, by reconciler.yaml on the main branch; the names last read stay while that cannot be read.

        They must be known before the ledger is read, and with it what was in force before.
        """
        commit = heads.get(self.main)
        entries = self.git.files(commit) if commit is not None else {}
        if entries:
            self._names = self._named(entries.get(SETTINGS_FILE)) or self._names
        return self._names or Branches(main=self.main)

    def _named(self, entry: TreeEntry | None) -> Branches | None:
        if entry is None or entry.kind is not EntryKind.FILE:
            return Branches(main=self.main) if entry is None else None
        if self._settings is None or self._settings[0] != entry.oid:
            self._settings = entry.oid, self._read_names(entry.oid)
        return self._settings[1]

    def _read_names(self, blob: str) -> Branches | None:
        try:
            settings = self.documents.read_config(Settings, self.git.read(blob), SETTINGS_FILE)
        except Invalid:
            return None
        return settings.branches.model_copy(update={"main": self.main})

    def _read_ledger(self, commit: str | None) -> Ledger:
        if self._ledger is None or self._ledger[0] != commit:
            entries = self.git.files(commit) if commit is not None else {}
            self._ledger = (commit, read_ledger(entries, self.git.read, self.records))
        return self._ledger[1]

    def _since(self, noted: str | None, commit: str | None) -> tuple[Ledger, bool]:
        """The ledger, without the records that know less than they did; whether there are none."""
        last, ledger = self._ledger, self._read_ledger(commit)
        if noted is None or noted == commit:
            return ledger, True
        if self._noted is None or self._noted[0] != noted:
            known = last is not None and last[0] == noted
            before = last[1] if last is not None and known else read_ledger(self.git.files(noted), self.git.read, self.records)
            self._noted = (noted, before)
        words = gone_back(self._noted[1], ledger)
        todo = {path: f"{what}; restore it: `git checkout {noted} -- {path}` on the branch" for path, what in words.items()}
        return (without(ledger, todo), False) if todo else (ledger, True)

    def _with_missing(self, ledger: Ledger, sources: Sources, manifests: Mapping[str, frozenset[str]]) -> Ledger:
        """The ledger, with the records noted that somebody took away while the job has a manifest: such a job may be running."""
        missing: dict[str, str] = {}
        stems = {region: found for region in sorted(manifests) if (found := self._manifests[region_branch(region)].stems)}
        for key in sources.jobs.keys() - ledger.records.keys() - ledger.unread if stems else ():
            mine = [f"{key.team}/{stem}" for stem in attempt_stems(key.job_id)]
            stands = [
                f"{found[stem]} on {region_branch(name)}" for name, found in stems.items() for stem in mine if stem in found
            ]
            if stands:
                missing[record_path(key)] = f"it is gone, though {stands[0]} stands; restore it from the branch's history"
        return replace(ledger, corrupt={**ledger.corrupt, **missing}) if missing else ledger

    def _read_sources(self, commit: str | None, ledger: Ledger) -> Sources:
        tree = self.git.root_of(commit) if commit is not None else None
        made_from = (tree, ledger.in_force)
        if self._sources is None or self._sources[0] != made_from:
            entries = self.git.files(commit) if commit is not None else {}
            if not entries:  # a main that says nothing takes nothing out of force
                entries = {path: TreeEntry(blob, EntryKind.FILE) for path, blob in ledger.in_force.items()}
            found = read_sources(entries, self.git.read, self.git.size, ledger.in_force, self.parsed, self.documents)
            self._sources = (made_from, found)
        return self._sources[1]

    def as_declared_before(self, seen: GitSeen) -> GitSeen:
        """The same with the declarations that were in force before, for a main that is not to be believed."""
        in_force = seen.ledger.in_force
        if self._before is None or self._before[0] != in_force:
            entries = {path: TreeEntry(blob, EntryKind.FILE) for path, blob in in_force.items()}
            found = read_sources(entries, self.git.read, self.git.size, in_force, ParseCache(), self.documents)
            self._before = (in_force, found)
        before = self._before[1]
        sources = replace(seen.sources, fleet=before.fleet, in_force=before.in_force, unread=before.unread, words=before.words)
        return replace(seen, sources=sources)

    def _main(self, commit: str | None, ledger: Ledger) -> MainSeen:
        before, doubt = ledger.hub.main, ledger.hub.suspicion
        if commit is None or before is None or commit == before:
            return MainSeen(commit, rewound=False, empty=self._empty(commit))
        if self.git.is_ancestor(before, commit):
            return MainSeen(commit, rewound=False, empty=self._empty(commit))
        # Commits on top of a rewound main do not make it a good one, until what was lost is back.
        still = doubt is not None and doubt.kind == "rewound"
        return MainSeen(commit, still or self.git.is_ancestor(commit, before), self._empty(commit))

    def _empty(self, commit: str | None) -> bool:
        if commit is None:
            return True
        if self._emptiness is None or self._emptiness[0] != commit:
            entries = self.git.files(commit)
            self._emptiness = commit, not any(place_of(path, entry) is not None for path, entry in entries.items())
        return self._emptiness[1]

    def _placements(self, commit: str | None, ledger: Ledger) -> dict[JobKey, PlacementFile | None]:
        if self._placed is None or self._placed[0] != commit or self._placed[1] is not ledger.records:
            self._placed = commit, ledger.records, self._read_placements(commit, ledger)
        return self._placed[2]

    def _read_placements(self, commit: str | None, ledger: Ledger) -> dict[JobKey, PlacementFile | None]:
        entries = self.git.files(commit) if commit is not None else {}
        changed: dict[JobKey, PlacementFile | None] = {}
        file = EntryKind.FILE
        blobs = {path: entry.oid for path, entry in entries.items() if entry.kind is file}
        for key, record in ledger.records.items():
            path = placement_path(key)
            blob = blobs.get(path)
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
            known = self._manifests.get(branch)
            if _is_region(branch) and (known is None or known.commit != commit):
                paths = frozenset(self.git.files(commit, MANIFESTS.rstrip("/")))
                self._manifests[branch] = _Manifests(commit, paths, _stems(paths))
        return {branch.removeprefix(REGION): self._manifests[branch].paths for branch in heads if _is_region(branch)}


def _stems(paths: Iterable[str]) -> dict[str, str]:
    named = ((stem_of(path.removeprefix(MANIFESTS).removesuffix(".yaml")), path) for path in sorted(paths))
    return {stem: path for stem, path in named if stem is not None}


@lru_cache(maxsize=4096)
def _is_region(branch: str) -> bool:
    """Whether it may be a region's branch: others below region/ are somebody else's."""
    return branch.startswith(REGION) and matches_name(branch.removeprefix(REGION))
