"""What goes onto the branches beside the ledger: manifests of the regions, placements, proposals."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from reconciler.hub.intents import doubt_in_words
from reconciler.hub.ledger import HubFile, Suspicion, Trouble
from reconciler.hub.observing import GitSeen
from reconciler.hub.outputs import SENTINEL, Changes, Rendered, manifests_summed_up, summed_up
from reconciler.hub.publish import Cycle, Publication
from reconciler.hub.world import Outcome
from reconciler.model.names import placement_path, proposal_branch, region_branch
from reconciler.model.record import Phase
from reconciler.model.region import Region
from reconciler.model.region_state import RegionCondition
from reconciler.ports import CommitWords, GitRepository, RefUpdate
from reconciler.receiver_port import Moved
from reconciler.rendering.branch import METADATA_PATH, README_PATH, hydrator_metadata, region_readme, sentinel
from reconciler.rendering.records import PLACEMENTS_README, placement_file


def add_regions(
    publication: Publication,
    git: GitRepository,
    seen: GitSeen,
    rendered: Rendered,
    closed: frozenset[str],
    events: tuple[str, ...],
) -> None:
    """Manifests that come and go, region by region; a region that is declared has a branch from the start."""
    cycle = publication.cycle
    main = git.words_of(cycle.main) if cycle.main is not None else None
    for name in sorted(seen.sources.fleet.regions.keys() - closed | rendered.changes.keys()):
        changes = region_changes(seen.manifests.get(name, frozenset()), name, rendered.changes.get(name, {}), cycle, main)
        if changes:
            blobs = {path: None if body is None else git.write_blob(body) for path, body in changes.items()}
            lines = [event for event in events if f" in {name}:" in event or event.endswith(f" in {name}")]
            publication.add(region_branch(name), blobs, manifests_summed_up(name, changes), lines, region=name)


def moved_regions(updates: Sequence[RefUpdate], regions: Mapping[str, Region]) -> tuple[Moved, ...]:
    """The regions whose branches a push moved."""
    found = ((region, update) for update in updates for region in regions.values() if update.branch == region_branch(region.name))
    return tuple(Moved(region, update.old, update.new) for region, update in found if update.new is not None)


def region_changes(
    present: frozenset[str], region: str, changes: Mapping[str, bytes | None], cycle: Cycle, main: CommitWords | None
) -> Changes:
    """A region branch's changes, completed by the files that every such branch has. `main`: what its commit says of itself."""
    complete: Changes = dict(changes)
    if SENTINEL not in present:
        complete[SENTINEL] = sentinel(region)
        complete[README_PATH] = region_readme(region)
    if complete and cycle.main is not None and main is not None:
        complete[METADATA_PATH] = hydrator_metadata(
            cycle.main, repo_url=cycle.repo_url, author=main.author, date=main.when, subject=main.subject
        )
    return complete


def add_placements(publication: Publication, git: GitRepository, outcome: Outcome, refused: Collection[str]) -> Outcome:
    """Placements in force and proposals. The records then note the blobs of those in force, to tell a person's edit from ours.

    `refused`: branches that the remote does not take at present.
    """
    branch = publication.cycle.branches.placements
    if publication.head(branch) is None and branch not in refused:
        readme = {README_PATH: git.write_blob(PLACEMENTS_README)}
        publication.add(branch, readme, "Begin the branch of placements", [])
    chosen = sorted(outcome.placements.items())
    blobs = {key: git.write_blob(placement_file(placement)) for key, placement in chosen}
    if blobs:
        lines = [f"place {key} in {placement.region}: {placement.decision.reason.text}" for key, placement in chosen]
        publication.add(branch, {placement_path(key): blob for key, blob in blobs.items()}, summed_up(lines), lines)
    for key, placement in sorted(outcome.proposals.items()):
        own = {placement_path(key): git.write_blob(placement_file(placement))}
        words = f"propose {key} in {placement.region}: {placement.decision.reason.text}"
        publication.add(proposal_branch(key), own, words, [words], base=publication.head(branch))
    for name in proposals_to_close(outcome, publication.cycle.heads):
        if name not in refused:
            publication.remove(name)
    records = dict(outcome.records)
    for key, blob in blobs.items():
        noted = records[key].placement.model_copy(update={"blob": blob})
        records[key] = records[key].model_copy(update={"placement": noted})
    return replace(outcome, records=records) if blobs else outcome


def proposals_to_close(outcome: Outcome, heads: Mapping[str, str]) -> list[str]:
    """Proposal branches whose job waits for no approval any more."""
    open_ones = {proposal_branch(key) for key, record in outcome.records.items() if record.phase is Phase.PROPOSED}
    return sorted(name for name in heads if name.startswith("proposals/") and name not in open_ones)


def told(trouble: Trouble) -> str:
    """A trouble as the page has it."""
    return trouble.what if trouble.since is None else f"{trouble.what} (since {trouble.since:%Y-%m-%d %H:%M} UTC)"


def beside(troubles: Iterable[Trouble], regions: Mapping[str, RegionCondition]) -> list[Trouble]:
    """The troubles that the conditions of the regions do not say as well."""
    said = {(name, condition.reason.code) for name, condition in regions.items()}
    return [trouble for trouble in troubles if (trouble.subject, trouble.code) not in said]


def notices_of(hub: HubFile) -> list[str]:
    """What the page says above its tables."""
    return [*suspicious(hub.suspicion), *map(told, beside(hub.troubles, hub.regions))]


def suspicious(suspicion: Suspicion | None) -> list[str]:
    """What a person is told of a suspicious main."""
    if suspicion is None:
        return []
    todo = f"If it was meant: `reconciler confirm {suspicion.main}`" if suspicion.main else "Restore the branch"
    return [f"{doubt_in_words(suspicion)}. {todo}"]
