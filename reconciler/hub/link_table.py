"""What the hub says of the links in the object store: to the agents which there are, to people what they were measured to do.

`hub/links.json` has the declared links, what transfers have reserved of them, and where each region's store answers: an agent
reads no Git. `hub/measured.json` has one line for each link that was measured of late, with when; it is for people (`reconciler
status`), and nothing is decided by it. Both are copies of what the hub knows, written when they say something else than before.

Invariant: where there is neither a link nor a store, nothing is read or written.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, Literal

from pydantic import Field, ValidationError

from reconciler.hub.fleet import Fleet
from reconciler.hub.ledger import Trouble
from reconciler.hub.regions import RegionSeen
from reconciler.model.base import Many, Model, Name
from reconciler.model.link_table import LINKS_KEY, LinkLine, LinkTable
from reconciler.planning.measured import Way, measured_links
from reconciler.ports import Clock, Conflict, ObjectStore, Refused, Transient

MEASURED_KEY: Final = "hub/measured.json"
_WRITE_SECONDS: Final = 60.0
"""At the longest until what is written says a newer moment; sooner where a rate is another."""
_NEWS: Final = 0.1


class MeasuredLine(Model):
    """One directed link, as it was measured last; or why it could not be."""

    source: Name
    target: Name
    bytes_per_second: float | None = None
    samples: int = Field(default=0, ge=0)
    rtt_ms: float | None = None
    at: datetime | None = None
    """When the newest transfer ended, by the hub's clock."""
    problem: str = ""
    """What an end of it says of its last try; '' where none says anything."""


class MeasuredTable(Model):
    """All links that somebody has tried to measure of late."""

    schema_version: Literal[1] = 1
    links: Many[MeasuredLine] = ()


def table_of(fleet: Fleet, held: Mapping[Way, int]) -> LinkTable:
    """The table for the agents. `held`: bytes a second that transfers under way have reserved."""
    stores = {name: region.object_store for name, region in sorted(fleet.regions.items()) if region.object_store is not None}
    lines = [
        LinkLine(
            source=source,
            target=target,
            gbit_per_second=link.gbit_per_second if (link := fleet.links.get((source, target))) is not None else None,
            held_bytes_per_second=max(held.get((source, target), 0), 0),
        )
        for source, target in sorted(fleet.links.keys() | held.keys())
    ]
    return LinkTable(stores=stores, links=tuple(lines))


def measured_table(regions: Mapping[str, RegionSeen], ages: Mapping[str, float | None], now: datetime) -> MeasuredTable:
    """What is known of the links, in the order of their names."""
    probes = {name: seen.probes for name, seen in regions.items() if seen.probes}
    found = measured_links(probes, ages)
    problems = {
        (probe.source, probe.target): probe.problem
        for name, told in sorted(probes.items())
        for probe in told
        if probe.problem and name in (probe.source, probe.target) and ages.get(name) is not None
    }
    lines = []
    for way in sorted(found.keys() | problems.keys()):
        one, (source, target), problem = found.get(way), way, problems.get(way, "")
        if one is None:
            lines.append(MeasuredLine(source=source, target=target, problem=problem))
            continue
        at = (now - timedelta(seconds=one.age_seconds)).replace(microsecond=0)
        rate = round(one.bytes_per_second, 1)
        said = {"bytes_per_second": rate, "samples": one.samples, "rtt_ms": one.rtt_ms, "at": at, "problem": problem}
        lines.append(MeasuredLine(source=source, target=target, **said))  # type: ignore[arg-type]
    return MeasuredTable(links=tuple(lines))


class LinkTables:
    """Writes both. What it remembers only saves requests; a new one finds out by itself what stands there."""

    def __init__(self, store: ObjectStore, clock: Clock) -> None:
        self._clock = clock
        self._table = _Written(store, LINKS_KEY, LinkTable())
        self._measured = _Written(store, MEASURED_KEY, MeasuredTable())
        self._measured_at = float("-inf")

    def forget(self) -> None:
        """For a hub that lost the lead: another one writes them."""
        self._table.forget()
        self._measured.forget()

    def follow(
        self, fleet: Fleet, held: Mapping[Way, int], regions: Mapping[str, RegionSeen], ages: Mapping[str, float | None]
    ) -> tuple[Trouble, ...]:
        """Write what is new, and say what could not be written; that is tried again at the next call."""
        troubles = self._try(self._table, table_of(fleet, held))
        now = self._clock.monotonic()
        found = measured_table(regions, ages, self._clock.now())
        said = self._measured.said
        if now - self._measured_at >= _WRITE_SECONDS or not isinstance(said, MeasuredTable) or _tells_more(found, said):
            troubles += self._try(self._measured, found)
            self._measured_at = now
        return troubles

    def _try(self, written: "_Written", wanted: Model) -> tuple[Trouble, ...]:
        try:
            written.say(wanted)
        except (Conflict, Transient, Refused) as error:
            written.forget()
            words = f"{written.key}, by which links are measured, was not written: {error}"
            return (Trouble(subject=written.key, code="LinksNotWritten", what=" ".join(words.split())),)
        return ()


def _tells_more(found: MeasuredTable, said: MeasuredTable) -> bool:
    """Whether a link is new, gone, in trouble or out of it, or its rate is another; the moment alone is no news."""
    before = {(line.source, line.target): line for line in said.links}
    if before.keys() != {(line.source, line.target) for line in found.links}:
        return True
    return any(_differ(line, before[line.source, line.target]) for line in found.links)


def _differ(one: MeasuredLine, other: MeasuredLine) -> bool:
    rates = sorted((one.bytes_per_second or 0.0, other.bytes_per_second or 0.0))
    return bool(one.problem) != bool(other.problem) or rates[1] - rates[0] > _NEWS * rates[1]


class _Written:
    """One object that only the hub writes. `said` is what stands there as far as known; None: nobody has looked."""

    def __init__(self, store: ObjectStore, key: str, nothing: Model) -> None:
        self.key = key
        self.said: Model | None = None
        self._store = store
        self._nothing = nothing
        self._etag: str | None = None

    def forget(self) -> None:
        """Look again before the next write."""
        self.said = self._etag = None

    def say(self, wanted: Model) -> None:
        """Have it there. Raises Conflict, Transient, Refused."""
        if wanted == (self._nothing if self.said is None else self.said):
            return
        if self.said is None:
            stored = self._store.get(self.key)
            self._etag = None if stored is None else stored.etag
            self.said = self._nothing if stored is None else _parsed(type(wanted), stored.body)
            if wanted == self.said:
                return
        self._etag = self._store.put(self.key, wanted.model_dump_json(exclude_defaults=True).encode(), expect=self._etag)
        self.said = wanted


def _parsed(model: type[Model], body: bytes) -> Model | None:
    """What stands there; None for what is none of ours, or of another version: it is written over, for it is only a copy."""
    try:
        return model.model_validate_json(body)
    except ValidationError:
        return None


def read_measured(store: ObjectStore) -> MeasuredTable:
    """What the links were measured to do, for who only looks; empty where nobody says so. Raises Transient and Refused."""
    stored = store.get(MEASURED_KEY)
    found = _parsed(MeasuredTable, stored.body) if stored is not None else None
    return found if isinstance(found, MeasuredTable) else MeasuredTable()
