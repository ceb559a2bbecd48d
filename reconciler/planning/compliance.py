"""Where the bytes of a job may lie: what it writes inherits every rule that holds for what it reads and for whose it is.

A region of the job carries those tags already, by filters.py (team, job) and transfer.py (datasets); a source from which data is
copied, by ways.py. Here: checkpoints and outputs, whose addresses stand in the spec. One that lies in the store of a region that
lacks a tag is refused, wherever the job would run.

Limit: an address in no known region's store is nobody's to judge. A bucket's name that several regions use, each at its own
endpoint, means the job's own region where that is one of them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from reconciler.model.reasons import Why, because
from reconciler.model.region import StoreAddress
from reconciler.planning.filters import Refusal
from reconciler.planning.kept import Addresses, as_kept, find_dataset
from reconciler.planning.snapshot import JobView, RegionView, Snapshot

_BUCKETS = ("s3", "gs")
"""Schemes whose addresses begin with a bucket: all of a bucket is in one place."""


class Demand(NamedTuple):
    """A tag that must hold wherever the job's bytes are, and who asks for it."""

    tag: str
    whose: str


@dataclass(frozen=True, slots=True)
class Stores:
    """The regions' own stores, by where their addresses begin."""

    buckets: Mapping[str, tuple[str, ...]]
    folders: tuple[tuple[str, str], ...]
    """(beginning, region)"""

    def __bool__(self) -> bool:
        return bool(self.buckets or self.folders)

    def of(self, uri: str) -> tuple[str, ...]:
        """The regions in whose stores an address lies: none, one, or all whose buckets are called the same."""
        bucket = _bucket(uri)
        if bucket is not None:
            return self.buckets.get(bucket, ())
        return tuple(region for beginning, region in self.folders if f"{uri}/".startswith(beginning))

    def only(self, uri: str) -> str | None:
        """The one region in whose store an address lies; None where it is in nobody's, or nobody knows in which of several."""
        found = self.of(uri)
        return found[0] if len(found) == 1 else None


def stores_of(regions: Mapping[str, RegionView]) -> Stores:
    """Where each region's own store is."""
    return stores_at({name: store for name, view in regions.items() if (store := view.region.object_store) is not None})


def stores_at(addresses: Mapping[str, StoreAddress]) -> Stores:
    """The same. `addresses`: region → its own store."""
    buckets: dict[str, tuple[str, ...]] = {}
    folders: list[tuple[str, str]] = []
    for name, store in sorted(addresses.items()):
        bucket = _bucket(store.url)
        if bucket is None:
            folders.append((store.url.rstrip("/") + "/", name))
        else:
            buckets[bucket] = (*buckets.get(bucket, ()), name)
    return Stores(buckets, tuple(folders))


def _bucket(uri: str) -> str | None:
    scheme, _, rest = uri.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}" if scheme in _BUCKETS else None


def demands(job: JobView, snapshot: Snapshot, known: Addresses) -> tuple[Demand, ...]:
    """What must hold wherever bytes of the job are: of its team, of itself, and of each dataset that it reads."""
    team, found = snapshot.teams.get(job.key.team), []
    found += [Demand(tag, "team") for tag in (team.compliance if team is not None else ())]
    found += [Demand(tag, "job") for tag in job.spec.compliance]
    for use in job.spec.datasets:
        dataset = as_kept(use, find_dataset(use, snapshot.datasets, known), job.kept)
        if dataset is not None:
            found += [Demand(tag, f"dataset {dataset.name}") for tag in dataset.residency]
    return tuple(dict.fromkeys(found))


def lacking_tag(asked: Iterable[Demand], region: str, snapshot: Snapshot) -> Demand | None:
    """The first demand that a region does not meet; nobody knows what an undeclared one does."""
    view = snapshot.regions.get(region)
    carried = view.region.compliance if view is not None else ()
    return next((demand for demand in asked if demand.tag not in carried), None)


@dataclass(frozen=True, slots=True)
class Misplaced:
    """Something that the job writes and that may not lie where its spec says."""

    what: str
    uri: str
    stores: tuple[str, ...]
    """Regions in whose stores it lies."""
    store: str
    """The first of them that lacks a tag."""
    demand: Demand


def misplaced(job: JobView, snapshot: Snapshot, known: Addresses, stores: Stores) -> tuple[Misplaced, ...]:
    """The job's own addresses that break a rule; none, as nearly always. `stores`: see `stores_of`."""
    if not stores:
        return ()
    written = [(what, uri, found) for what, uri in _written(job) if (found := stores.of(uri))]
    asked = demands(job, snapshot, known) if written else ()
    broken: list[Misplaced] = []
    for what, uri, regions in written:
        lacking = ((store, lacking_tag(asked, store, snapshot)) for store in regions)
        first = next(((store, demand) for store, demand in lacking if demand is not None), None)
        if first is not None:
            broken.append(Misplaced(what, uri, regions, *first))
    return tuple(broken)


def _written(job: JobView) -> Iterator[tuple[str, str]]:
    if job.spec.checkpoint_path is not None:
        yield "checkpoint_path", job.spec.checkpoint_path
    for output in job.spec.outputs:
        yield "output", output.uri


def refused_for(broken: Iterable[Misplaced], region: str) -> Refusal | None:
    """The no of a region to a job that writes so; what lies in its own store is judged with the region itself."""
    found = next((one for one in broken if region not in one.stores), None)
    if found is None:
        return None
    numbers = {"what": found.what, "uri": found.uri, "store": found.store, "tag": found.demand.tag, "whose": found.demand.whose}
    return Refusal(because(Why.OUTPUT_NOT_COMPLIANT, **numbers), ever=True)
