"""What must come to a region before a job can start there, from where, how long it takes and what it costs.

Unknown stays unknown: a bandwidth or size that nobody knows makes copying no option (it is not infinite, and nothing is divided
by zero); a price that nobody knows is not free. Data below the policy's `small_data` never pins a job.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from reconciler.model.fleet import Dataset, Link, declared_bytes
from reconciler.model.job import JobSpec
from reconciler.model.job_parts import DatasetUse
from reconciler.model.quantity import whole
from reconciler.model.reasons import Why, because
from reconciler.model.region import Region
from reconciler.planning.filters import Refusal
from reconciler.planning.kept import Addresses, as_kept, find_dataset
from reconciler.planning.snapshot import Snapshot

GB = 1e9


@dataclass(frozen=True, slots=True)
class Move:
    """Bringing a job's data to one region."""

    total_bytes: int
    """Of all its datasets whose size is known."""
    move_bytes: int | None
    """What is not there yet; None where a size is not known and the data is not there."""
    seconds: float
    price_usd: float | None
    """None where a link's price is not known."""
    uris: tuple[str, ...]
    """Where the job reads each dataset: the copy in its region, else the one it would be brought from."""
    rtt_ms: float | None
    """To where the data is; 0 when nothing is to be moved, None when not known."""
    gbit_per_second: float | None
    """Of the slowest link used; None when nothing is to be moved, or one is not known."""


@dataclass(frozen=True, slots=True)
class _Leg:
    size: int | None
    there: bool
    uri: str
    seconds: float = 0.0
    price_usd: float | None = 0.0
    rtt_ms: float | None = 0.0
    gbit_per_second: float | None = None


def moving(spec: JobSpec, region: Region, snapshot: Snapshot, known: Addresses, kept: Sequence[Dataset] = ()) -> Move | Refusal:
    """What bringing the job's data to `region` takes, or why it cannot come. `known`: the addresses of all its datasets.

    `kept`: datasets as the run's first attempt read them.
    """
    legs: list[_Leg] = []
    for use in spec.datasets:
        leg = _leg(use, as_kept(use, find_dataset(use, snapshot.datasets, known), kept), region, snapshot)
        if isinstance(leg, Refusal):
            return leg
        legs.append(leg)
    away = [leg for leg in legs if not leg.there]
    prices = [leg.price_usd for leg in away]
    rtts = [leg.rtt_ms for leg in away]
    rates = [leg.gbit_per_second for leg in away]
    return Move(
        total_bytes=sum(leg.size or 0 for leg in legs),
        move_bytes=_sum([leg.size for leg in away], 0),
        seconds=sum(leg.seconds for leg in away),
        price_usd=_sum(prices, 0.0),
        uris=tuple(leg.uri for leg in legs),
        rtt_ms=None if None in rtts else max((rtt for rtt in rtts if rtt is not None), default=0.0),
        gbit_per_second=None if None in rates else min((rate for rate in rates if rate is not None), default=None),
    )


N = TypeVar("N", int, float)


def _sum(amounts: Sequence[N | None], zero: N) -> N | None:
    total = zero
    for amount in amounts:
        if amount is None:
            return None
        total += amount
    return total


def _leg(use: DatasetUse, dataset: Dataset | None, region: Region, snapshot: Snapshot) -> _Leg | Refusal:
    size = declared_bytes(use.size, use.size_gb)
    if dataset is None:
        # Nobody registered it, so nobody knows where it is near: the program reads it by its URI from anywhere.
        return _Leg(size, there=True, uri=use.uri or "")
    size = dataset.size_bytes if size is None else size
    missing = sorted(set(dataset.residency) - set(region.compliance))
    if missing:
        reason = because(Why.DATA_MAY_NOT_LEAVE, dataset=dataset.name, tag=missing[0], region=region.name)
        return Refusal(reason, ever=True)
    here = next((replica for replica in dataset.replicas if replica.region == region.name), None)
    if here is not None:
        return _Leg(size, there=True, uri=here.uri or dataset.uri)
    if size == 0:
        return _Leg(0, there=True, uri=dataset.uri)
    return _copied(dataset, size, region.name, snapshot)


def _copied(dataset: Dataset, size: int | None, region: str, snapshot: Snapshot) -> _Leg | Refusal:
    """The quickest way from any replica; small data with no measured way is read where it is."""
    small = size is not None and size < whole(snapshot.policy.thresholds.small_data)
    ways = [
        _Leg(
            size,
            there=False,
            uri=replica.uri or dataset.uri,
            seconds=size * 8 / (link.gbit_per_second * 1e9),
            price_usd=None if link.usd_per_gb is None else size / GB * link.usd_per_gb,
            rtt_ms=link.rtt_ms,
            gbit_per_second=link.gbit_per_second,
        )
        for replica in dataset.replicas
        if size is not None
        and (link := snapshot.links.get((replica.region, region))) is not None
        and link.gbit_per_second  # None and 0 alike: no way to say how long it would take
    ]
    if ways:
        return min(ways, key=lambda way: (way.seconds, way.price_usd is None, way.price_usd or 0.0, way.uri))
    if small:
        source = dataset.replicas[0]
        return _Leg(size, there=False, uri=source.uri or dataset.uri, price_usd=None, rtt_ms=None)
    cause = "its size is not known" if size is None else _no_way(dataset, region, snapshot.links)
    return Refusal(because(Why.DATA_UNREACHABLE, dataset=dataset.name, region=region, cause=cause), ever=True)


def _no_way(dataset: Dataset, region: str, links: Mapping[tuple[str, str], Link]) -> str:
    sources = sorted(replica.region for replica in dataset.replicas)
    linked = [source for source in sources if (source, region) in links]
    if not linked:
        return f"there is no link from {' or '.join(sources)}"
    down = [source for source in linked if links[source, region].gbit_per_second == 0]
    if down:
        return f"the link from {down[0]} has no bandwidth"
    return f"the bandwidth of the link from {linked[0]} is not known"
