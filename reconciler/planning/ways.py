"""The ways by which one dataset can come to a region, and which of them a job takes.

A way is a copy somewhere else and the link from there. How long it takes follows from what the link is believed to give and
what others hold of it (links.py). Of several ways that one is taken whose time and price together are least, with an hour
priced by the job's urgency; where some only meet the deadline, one of them. An unknown price is never the lesser one.

Rules of residency hold for the source as well: what must stay under a tag is not read from a region without it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from reconciler.model.fleet import Dataset, Replica, volume_path
from reconciler.planning.haste import Haste
from reconciler.planning.links import LinkKey, believed, usable
from reconciler.planning.snapshot import Snapshot

GB = 1e9


@dataclass(frozen=True, slots=True)
class Source:
    """A copy from where a dataset would be brought, over one link."""

    subject: str
    """What is brought: `<dataset>@<version>`."""
    dataset: str
    region: str
    uri: str
    bytes: int
    """To be moved."""
    believed: float
    """What the link is believed to give, in bytes a second, whoever uses it."""
    usable: int
    """What all our transfers together may hold of it."""
    seconds: float
    """Until all of it is there, with what others hold of the link, or have queued for it."""
    price_usd: float | None
    """None where the link's price is not known; 0 where it is on its way for another job already."""
    rtt_ms: float | None
    there: int = 0
    """Bytes of it that stand in the target: of a copy that has lost the others."""

    @property
    def bytes_per_second(self) -> float:
        """What it comes to over the whole time."""
        return self.bytes / self.seconds if self.seconds else float(self.usable)


def copies_of(dataset: Dataset, subject: str, snapshot: Snapshot) -> dict[str, str]:
    """Region → URI of every copy: those that are declared, and those that were staged."""
    staged = snapshot.copies.get(subject, {})
    return {**staged, **{replica.region: replica.uri or dataset.uri for replica in reversed(dataset.replicas)}}


def _sources_of(dataset: Dataset, subject: str, snapshot: Snapshot) -> dict[str, str]:
    """Those of them that can be copied: what is on a region's shared file system no worker of another region reads."""
    stored = [replica for replica in dataset.replicas if not is_on_volume(replica)]
    staged = snapshot.copies.get(subject, {})
    return {**staged, **{replica.region: replica.uri or dataset.uri for replica in reversed(stored)}}


def is_on_volume(replica: Replica) -> bool:
    """Whether a copy is on its region's shared file system."""
    return replica.uri is not None and volume_path(replica.uri) is not None


def missing_tag(dataset: Dataset, region: str, snapshot: Snapshot) -> str | None:
    """The first tag that the dataset must stay under and the region does not carry; nobody knows the tags of an unknown one."""
    view = snapshot.regions.get(region)
    carried = view.region.compliance if view is not None else ()
    return min(set(dataset.residency) - set(carried), default=None)


def ways_to(region: str, dataset: Dataset, subject: str, size: int, snapshot: Snapshot) -> list[Source]:
    """Every way to bring it to `region` now. `size`: its bytes, of which some may stand there."""
    there = round(size * snapshot.parts.get(subject, {}).get(region, 0.0))
    return [
        replace(way, there=there) if there else way
        for source, uri in sorted(_sources_of(dataset, subject, snapshot).items())
        if missing_tag(dataset, source, snapshot) is None
        and (way := _way((source, region), uri, dataset.name, subject, size - there, snapshot)) is not None
    ]


def _way(key: LinkKey, uri: str, dataset: str, subject: str, size: int, snapshot: Snapshot) -> Source | None:
    link, thresholds = snapshot.links.get(key), snapshot.policy.thresholds
    if link is None or key in snapshot.full:
        return None
    measured = snapshot.measured.get(key)
    whole, rate = usable(link, measured, thresholds), believed(link, measured, thresholds)
    if not whole or rate is None:  # None and 0 alike: no way to say how long it would take
        return None
    seconds = _seconds(size, whole, snapshot.held.get(key, 0), snapshot.queued.get(key))
    if seconds is None:
        return None
    price = None if link.usd_per_gb is None else size / GB * link.usd_per_gb
    rtt = measured.rtt_ms if measured is not None and measured.rtt_ms is not None else link.rtt_ms
    return Source(subject, dataset, key[0], uri, size, rate, whole, seconds, price, rtt)


def _seconds(size: int, whole: int, held: int, queued: int | None) -> float | None:
    """How long at most: beside those that hold some of the link, for ever, or after all that is queued for it.

    None where all of it is held and nobody knows for how long.
    """
    beside = size / (whole - held) if whole > held else None
    behind = None if queued is None else (queued + size) / whole
    return min((seconds for seconds in (beside, behind) if seconds is not None), default=None)


def best_way(ways: Iterable[Source], haste: Haste) -> Source | None:
    """The way that a job of that urgency takes; None where there is none."""

    def rank(way: Source) -> tuple[bool, float, bool, float, float, str]:
        late = haste.late(way.seconds)
        price = way.price_usd or 0.0
        soonest = way.seconds if late else 0.0
        return late, soonest, way.price_usd is None, price + haste.worth(way.seconds), way.seconds, way.uri

    return min(ways, key=rank, default=None)


def why_no_way(dataset: Dataset, subject: str, region: str, snapshot: Snapshot) -> tuple[str, bool]:
    """Why there is no way, in words, and whether that holds as long as everything stays as it is declared."""
    sources = sorted(_sources_of(dataset, subject, snapshot))
    if not sources:
        where = sorted(replica.region for replica in dataset.replicas)
        return f"it is on the shared file system of {' and '.join(where)} only, from which nothing is copied", True
    allowed = [source for source in sources if missing_tag(dataset, source, snapshot) is None]
    if not allowed:
        tag = missing_tag(dataset, sources[0], snapshot)
        return f"{sources[0]}, which has it, does not carry the tag {tag} that it must stay under", True
    linked = [source for source in allowed if (source, region) in snapshot.links]
    if not linked:
        return f"there is no link from {' or '.join(allowed)}", True
    return _why_not_over(linked, region, snapshot)


def _why_not_over(linked: Sequence[str], region: str, snapshot: Snapshot) -> tuple[str, bool]:
    """The same, of links that are declared. What is only so at present goes first: it may be otherwise soon."""
    thresholds = snapshot.policy.thresholds
    down: list[str] = []
    for source in linked:
        key = (source, region)
        link = snapshot.links[key]
        rate = usable(link, snapshot.measured.get(key), thresholds)
        if key in snapshot.full:
            return f"the link from {source} is full at present", False
        if rate:
            return f"other transfers hold all of the link from {source} at present", False
        if rate == 0 and link.gbit_per_second != 0 and thresholds.link_share:
            return f"the link from {source} carries nothing at present", False
        if rate == 0:
            down.append(source)
    if down:
        return f"the link from {down[0]} has no bandwidth", True
    return f"the bandwidth of the link from {linked[0]} is not known", True
