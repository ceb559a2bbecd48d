"""What must come to a region before a job can start there, from where, how long it takes and what it costs.

Unknown stays unknown: a bandwidth or size that nobody knows makes copying no option (it is not infinite, and nothing is divided
by zero); a price that nobody knows is not free. Data below the policy's `small_data` never pins a job. Which way is taken is for
ways.py to say.

Not counted: checkpoints, whose size nobody knows before they are staged.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from reconciler.model.fleet import Dataset, declared_bytes
from reconciler.model.job_parts import DatasetUse
from reconciler.model.quantity import whole
from reconciler.model.reasons import Why, because
from reconciler.model.region import Region
from reconciler.planning.filters import Refusal
from reconciler.planning.haste import NO_HASTE, Haste
from reconciler.planning.kept import Addresses, as_kept, find_dataset, subject_of
from reconciler.planning.links import BYTES_PER_GBIT
from reconciler.planning.snapshot import JobView, Snapshot
from reconciler.planning.ways import Source, best_way, copies_of, is_on_volume, missing_tag, ways_to, why_no_way


@dataclass(frozen=True, slots=True)
class Move:
    """Bringing a job's data to one region."""

    total_bytes: int
    """Of all its datasets whose size is known."""
    move_bytes: int | None
    """What is not there yet; None where a size is not known and the data is not there."""
    seconds: float
    """Until all of it is there: over one link one after the other, over several at once."""
    price_usd: float | None
    """None where a link's price is not known."""
    uris: tuple[str, ...]
    """Where the job reads each dataset: the copy in its region, else the one it would be brought from."""
    rtt_ms: float | None
    """To where the data is; 0 when nothing is to be moved, None when not known."""
    gbit_per_second: float | None
    """Of the slowest way used; None when nothing is to be moved, or one is not known."""
    sources: tuple[Source | None, ...] = ()
    """From where each dataset is brought; None for one that is there, or is read where it is."""


@dataclass(frozen=True, slots=True)
class _Leg:
    size: int | None
    there: bool
    uri: str
    source: Source | None = None
    """None also of what is away and read from there."""


def moving(job: JobView, region: Region, snapshot: Snapshot, known: Addresses, haste: Haste = NO_HASTE) -> Move | Refusal:
    """What bringing the job's data to `region` takes, or why it cannot come. `known`: the addresses of all datasets."""
    legs: list[_Leg] = []
    for use in job.spec.datasets:
        leg = _leg(use, as_kept(use, find_dataset(use, snapshot.datasets, known), job.kept), region, snapshot, haste)
        if isinstance(leg, Refusal):
            return leg
        legs.append(leg)
    return _together(legs)


def _together(legs: Sequence[_Leg]) -> Move:
    away = [leg for leg in legs if not leg.there]
    ways = [leg.source for leg in away]
    prices = [None if way is None else way.price_usd for way in ways]
    rtts = [None if way is None else way.rtt_ms for way in ways]
    rates = [None if way is None else way.bytes_per_second / BYTES_PER_GBIT for way in ways]
    return Move(
        total_bytes=sum(leg.size or 0 for leg in legs),
        move_bytes=_sum([leg.size if leg.source is None else leg.source.bytes for leg in away], 0),
        seconds=seconds_of(ways),
        price_usd=_sum(prices, 0.0),
        uris=tuple(leg.uri for leg in legs),
        rtt_ms=None if None in rtts else max((rtt for rtt in rtts if rtt is not None), default=0.0),
        gbit_per_second=None if None in rates else min((rate for rate in rates if rate is not None), default=None),
        sources=tuple(leg.source for leg in legs),
    )


def seconds_of(sources: Sequence[Source | None], waits: Mapping[str, float] | None = None) -> float:
    """Until everything is there: over one link one after the other, over several at once. `waits`: by source region, seconds
    for which its link is taken before."""
    lines: dict[str, float] = {}
    for source in sources:
        if source is not None:
            first = (waits or {}).get(source.region, 0.0)
            lines[source.region] = lines.get(source.region, first) + source.seconds
    return max(lines.values(), default=0.0)


N = TypeVar("N", int, float)


def _sum(amounts: Sequence[N | None], zero: N) -> N | None:
    total = zero
    for amount in amounts:
        if amount is None:
            return None
        total += amount
    return total


def _leg(use: DatasetUse, dataset: Dataset | None, region: Region, snapshot: Snapshot, haste: Haste) -> _Leg | Refusal:
    size = declared_bytes(use.size, use.size_gb)
    if dataset is None:
        # Nobody registered it, so nobody knows where it is near: the program reads it by its URI from anywhere.
        return _Leg(size, there=True, uri=use.uri or "")
    size = dataset.size_bytes if size is None else size
    tag = min(set(dataset.residency) - set(region.compliance), default=None)
    if tag is not None:
        return Refusal(because(Why.DATA_MAY_NOT_LEAVE, dataset=dataset.name, tag=tag, region=region.name), ever=True)
    subject = subject_of(use, dataset)
    here = copies_of(dataset, subject, snapshot).get(region.name)
    if here is not None:
        return _Leg(size, there=True, uri=here)
    if size == 0:
        return _Leg(0, there=True, uri=dataset.uri)
    failed = snapshot.unbrought.get((subject, region.name))
    if failed is not None:
        return Refusal(failed, ever=False)
    coming = _arriving(dataset.name, subject, region.name, snapshot)
    return coming if coming is not None else _copied(dataset, subject, size, region.name, snapshot, haste)


def _arriving(dataset: str, subject: str, region: str, snapshot: Snapshot) -> _Leg | None:
    """What is on its way for another job already is waited for, and paid by that one."""
    coming = snapshot.arriving.get(subject, {}).get(region)
    if coming is None:
        return None
    rate = int(coming.bytes_left / coming.seconds) if coming.seconds else 0
    source = Source(subject, dataset, coming.source, coming.uri, coming.bytes_left, rate, rate, coming.seconds, 0.0, None)
    return _Leg(coming.bytes_left, there=False, uri=coming.uri, source=source)


def _copied(dataset: Dataset, subject: str, size: int | None, region: str, snapshot: Snapshot, haste: Haste) -> _Leg | Refusal:
    """The way that suits the job; small data without one is read where it is."""
    way = None if size is None else best_way(ways_to(region, dataset, subject, size, snapshot), haste)
    if way is not None:
        return _Leg(size, there=False, uri=way.uri, source=way)
    if size is not None and size < whole(snapshot.policy.thresholds.small_data):
        afar = _readable(dataset, snapshot)
        if afar is not None:
            return _Leg(size, there=False, uri=afar)
    cause, ever = ("its size is not known", True) if size is None else why_no_way(dataset, subject, region, snapshot)
    return Refusal(because(Why.DATA_UNREACHABLE, dataset=dataset.name, region=region, cause=cause), ever=ever)


def _readable(dataset: Dataset, snapshot: Snapshot) -> str | None:
    """Where small data can be read from afar; None where it may not leave any region that has it."""
    stored = (copy for copy in dataset.replicas if not is_on_volume(copy))
    copies = (copy for copy in stored if missing_tag(dataset, copy.region, snapshot) is None)
    return next((copy.uri or dataset.uri for copy in copies), None)
