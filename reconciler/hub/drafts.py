"""Manifests before they are published, and what the renderer refuses: that goes back to the pass as a region's no for that job.

Whether a manifest can be made is the renderer's to say, with the region's profile and rules before it; the planner does not
repeat those rules. What was refused is remembered for as long as the job's spec and what is declared of the region and of
datasets stay the same. Of a region that was not chosen nobody knows yet where it has the datasets: only what it refuses wherever
they are counts.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime

from reconciler.hub.decide import Memory, decide
from reconciler.hub.staging import stores_of
from reconciler.hub.world import Outcome, Unrendered, World
from reconciler.model.attempt import Attempt
from reconciler.model.fleet import Dataset, volume_path
from reconciler.model.job import JobSpec
from reconciler.model.names import JobKey
from reconciler.model.record import JobRecord
from reconciler.model.region import Region, StoreAddress
from reconciler.planning.compliance import stores_at
from reconciler.planning.stage_names import written_uris
from reconciler.rendering.manifest import render_checked
from reconciler.rendering.rendering import Rendering, Unrenderable


class Drafts:
    """Renders attempts, each once."""

    def __init__(self, stage_image: str) -> None:
        self._stage_image = stage_image
        self._made: dict[tuple[JobKey, str], tuple[JobRecord, Region, bytes | str]] = {}
        self._refused: dict[tuple[JobKey, str], tuple[JobSpec, Region, str]] = {}
        self._datasets: Mapping[str, Dataset] = {}
        self._stores: Mapping[str, StoreAddress] = {}

    def begin(self, datasets: Mapping[str, Dataset], regions: Mapping[str, Region]) -> None:
        """A new cycle: forget the manifests of the one before, and refusals where datasets were declared anew."""
        self._made.clear()
        self._stores = stores_of(regions)
        if datasets != self._datasets:
            self._refused.clear()
            self._datasets = datasets

    def draft(self, record: JobRecord, attempt: Attempt, region: Region) -> bytes | str:
        """The attempt's manifest, or words where it cannot be made."""
        key = (record.key, attempt.name)
        known = self._made.get(key)
        if known is not None and known[0].spec is record.spec and known[1] is region:
            return known[2]
        made = self._render(record, attempt, region)
        self._made[key] = record, region, made
        return made

    def refusals(self, regions: Mapping[str, Region]) -> dict[JobKey, Unrendered]:
        """What was refused and would be again, with the regions as they are declared now."""
        self._refused = {at: said for at, said in self._refused.items() if regions.get(at[1]) == said[1]}
        found: dict[JobKey, Unrendered] = {}
        for (key, name), (spec, _, words) in self._refused.items():
            before = found.get(key)
            others = before.regions if before is not None and before.spec == spec else {}
            found[key] = Unrendered(spec, {**others, name: words})
        return found

    def try_all(self, outcome: Outcome, regions: Mapping[str, Region]) -> bool:
        """Make the manifests of all new attempts; whether any was refused that was not known to be, in which case it is known of
        every region then."""
        fresh = False
        for key in [*outcome.placements, *outcome.proposals, *outcome.tasks]:
            record = outcome.records[key]
            attempt = record.current
            region = regions.get(attempt.region) if attempt is not None else None
            if attempt is None or region is None or isinstance(self.draft(record, attempt, region), bytes):
                continue
            known = self._refused.get((key, region.name))
            fresh |= known is None or known[0] != record.spec
            self._refused |= dict(self._refusing(record, attempt, regions))
        return fresh

    def _refusing(
        self, record: JobRecord, attempt: Attempt, regions: Mapping[str, Region]
    ) -> Iterator[tuple[tuple[JobKey, str], tuple[JobSpec, Region, str]]]:
        for name, region in regions.items():
            there = attempt if name == attempt.region else _in_another(attempt, name)
            made = self._render(record, there, region)
            if isinstance(made, str):
                yield (record.key, name), (record.spec, region, made)

    def _render(self, record: JobRecord, attempt: Attempt, region: Region) -> bytes | str:
        return _rendered(rendering_of(record, attempt, region, self._stage_image, self._stores))


def decide_with(drafts: Drafts, world: World, now: datetime, memory: Memory) -> Outcome:
    """The decisions whose manifests can be made. Ends, as each round but the last finds another region that refuses a job."""
    regions = world.sources.fleet.regions
    drafts.begin(world.sources.fleet.datasets, regions)
    while True:
        refusals = drafts.refusals(regions)
        outcome = decide(world if refusals == world.unrendered else replace(world, unrendered=refusals), now, memory)
        if not drafts.try_all(outcome, regions):
            return outcome


def _in_another(attempt: Attempt, region: str) -> Attempt:
    """The attempt as it might be in a region that was not chosen: what is on the chosen one's shared file system is not there."""
    uris = tuple("" if volume_path(uri) is not None else uri for uri in attempt.dataset_uris)
    return attempt.model_copy(update={"region": region, "gpu_products": (), "dataset_uris": uris})


def _rendered(rendering: Rendering) -> bytes | str:
    try:
        return render_checked(rendering)
    except Unrenderable as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - a bug that one job meets must not stop the others
        return f"a bug in the reconciler, please report it: {error!r}"


def rendering_of(
    record: JobRecord, attempt: Attempt, region: Region, stage_image: str, stores: Mapping[str, StoreAddress]
) -> Rendering:
    """What the renderer needs of an attempt. `stores`: the regions' own."""
    uris = attempt.dataset_uris
    keeper = stores_at(stores).only(attempt.seeded_from) if attempt.seeded_from is not None else None
    return Rendering(
        team=record.team,
        spec=record.spec,
        region=region,
        attempt=attempt.name,
        number=attempt.number,
        run_hash=attempt.run_hash,
        gpu_products=attempt.gpu_products,
        checkpoint=attempt.checkpoint,
        seeded_from=attempt.seeded_from,
        checkpoint_store=stores[keeper] if keeper is not None else None,
        stage_image=stage_image,
        image=attempt.image,
        written_uris=written_uris(attempt),
        dataset_uris=uris or tuple(use.uri or "" for use in record.spec.datasets),
    )
