"""What the regions report, read from the store, and how old it is by the hub's own clock.

A region's age counts from when its report was last seen to change, never from the agent's time stamp (clocks differ:
milvus-io/talon#165), and starts anew when the hub does (armadaproject/armada#315). A report that is half, empty or of an unknown
schema is refused whole: the last good one stays in force and ages.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from pydantic import ValidationError

from reconciler.hub.listed import Listed, listed_in, listing_of
from reconciler.model.grants import report_key
from reconciler.model.report import Health, LinkProbe, RegionReport, RegionSummary, WorkloadReport
from reconciler.planning.copies import Listing
from reconciler.planning.measured import Measured, Way, measured_links
from reconciler.planning.shapes import ReportFacts, facts_of
from reconciler.ports import ObjectStore, Refused, Stored, Transient

AT_ONCE: Final = 16
"""Reports that are read side by side, where nobody says otherwise; each is one request to the store."""
MATTERS: Final = 0.25
"""Part by which a link's rate must change for decisions to be made anew."""


@dataclass(frozen=True, slots=True)
class RegionSeen:
    """A region's newest good report, in the form that the hub keeps."""

    incarnation: str
    sequence: int
    grants_version: int
    lease_epoch: int
    facts: ReportFacts
    workloads: Mapping[str, WorkloadReport]
    """By attempt."""
    summary: RegionSummary
    synced_commit: str | None
    sync_errors: Mapping[str, str]
    health: Mapping[str, str]
    """Code → words of what is not as it should be there; one of each code."""
    matter: int
    """Hash of all that a decision could depend on; heartbeats leave it alone."""
    probes: tuple[LinkProbe, ...] = ()
    """Of its links, as they were when the report was made."""
    felt: Mapping[Way, float] = field(default_factory=dict)
    """Their rates as far as they are in `matter`: small changes leave them alone, for measuring never ends."""


def seen_of(report: RegionReport, before: RegionSeen | None = None) -> RegionSeen:
    """What the hub keeps of a report. `before`: what it kept of the one before."""
    facts = facts_of(report)
    workloads = {workload.attempt: workload for workload in report.workloads}
    health = _by_code(report.health)
    felt = _felt(report.probes, {} if before is None else before.felt)
    matter = hash(
        (
            facts.nodes,
            facts.namespaces,
            report.workloads,
            report.grants_version,
            report.lease_epoch,
            tuple(sorted(report.sync_errors.items())),
            report.incarnation,
            tuple(sorted(health)),
            tuple(sorted(felt.items())),
            report.caches,
        )
    )
    return RegionSeen(
        report.incarnation,
        report.sequence,
        report.grants_version,
        report.lease_epoch,
        facts,
        workloads,
        report.summary,
        report.synced_commit,
        report.sync_errors,
        health,
        matter,
        report.probes,
        felt,
    )


def _felt(probes: Iterable[LinkProbe], before: Mapping[Way, float]) -> dict[Way, float]:
    """Rates by link; that of before where the new one is near it."""
    felt: dict[Way, float] = {}
    for probe in probes:
        rate, way = probe.bytes_per_second, (probe.source, probe.target)
        if rate is not None:
            old = before.get(way, 0.0)
            felt[way] = old if abs(rate - old) <= MATTERS * old else rate
    return felt


def _by_code(found: Iterable[Health]) -> dict[str, str]:
    by_code: dict[str, list[str]] = {}
    for one in found:
        by_code.setdefault(one.code, []).append(one.message)
    return {code: words[0] + (f", and {len(words) - 1} more" if len(words) > 1 else "") for code, words in by_code.items()}


class Reports:
    """All regions' reports. `look` asks the store; what it found stays until the next look."""

    def __init__(self, store: ObjectStore, monotonic: Callable[[], float], at_once: int = AT_ONCE) -> None:
        """`at_once`: how many are read side by side; with 1 all is done by the caller's own thread."""
        self._store = store
        self._at_once = at_once
        self._monotonic = monotonic
        self._etags: dict[str, str] = {}
        self._risen: dict[str, tuple[tuple[str, int], float]] = {}
        self.heard: set[str] = set()
        """Regions whose report was seen to change; one that stood there before this hub was is no sign of life."""
        self._silent: dict[str, str] = {}
        self._broken: dict[str, str] = {}
        self._pool: ThreadPoolExecutor | None = None
        self.seen: dict[str, RegionSeen] = {}
        self._asked_at: dict[str, float] = {}
        """Region → when the store was last asked for its report and answered: what differs at the next look was written since."""
        self._listed: dict[str, Listed] = {}
        self._matter: int | None = None

    @property
    def troubles(self) -> Mapping[str, str]:
        """Region → why its newest report could not be read; the one before stays in force."""
        return self._broken | self._silent

    @property
    def silent(self) -> Mapping[str, str]:
        """Region → why the store did not answer when its report was looked at last."""
        return self._silent

    def look(self, regions: Iterable[str]) -> None:
        """Ask for every region's report. A region whose report cannot be read keeps the last one, which ages."""
        names = sorted(regions)
        for first in range(0, len(names), self._at_once):  # their bytes are many, so never those of all at a time
            some, asked_at = names[first : first + self._at_once], self._monotonic()
            for name, answer in zip(some, self._asked(some), strict=True):
                self._take(name, answer)
                if not isinstance(answer, str):
                    self._asked_at[name] = asked_at
        for troubles in (self._silent, self._broken):
            for gone in troubles.keys() - set(names):
                del troubles[gone]

    def _asked(self, names: Sequence[str]) -> list[Stored | str | None]:
        if len(names) == 1:
            return [self._newest(names[0])]
        self._pool = self._pool or ThreadPoolExecutor(self._at_once, thread_name_prefix="reports")
        return list(self._pool.map(self._newest, names))

    def _newest(self, region: str) -> Stored | str | None:
        """The report if it is another than before, None if it is the same or absent, or what went wrong."""
        try:
            etag = self._store.etag(report_key(region))
            if etag is None or etag == self._etags.get(region):
                return None
            return self._store.get(report_key(region))
        except (Transient, Refused) as trouble:
            return str(trouble)

    def _take(self, region: str, answer: Stored | str | None) -> None:
        if isinstance(answer, str):
            self._silent[region] = answer
            return
        self._silent.pop(region, None)
        if answer is None:
            return
        self._etags[region] = answer.etag
        try:
            report = RegionReport.model_validate_json(answer.body)
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            self._broken[region] = (
                f"its report is broken at {'.'.join(map(str, first['loc'])) or 'its beginning'}: {first['msg']}"
            )
            return
        if report.region != region:
            self._broken[region] = f"its report names the region {report.region}"
            return
        self._broken.pop(region, None)
        self._rise(region, report)

    def _rise(self, region: str, report: RegionReport) -> None:
        mark = (report.incarnation, report.sequence)
        old = self._risen.get(region)
        if old is not None and old[0][0] == mark[0] and mark[1] <= old[0][1]:
            return  # an old read: a store may answer with the state before
        if old is not None:
            self.heard.add(region)
        self._risen[region] = (mark, self._monotonic())
        self.seen[region] = seen_of(report, self.seen.get(region))
        self._listed[region] = listed_in(report, self._asked_at.get(region))
        self._matter = None

    def heard_at(self, region: str) -> float | None:
        """When the report last changed, by the monotonic clock; None before the first."""
        risen = self._risen.get(region)
        return None if risen is None else risen[1]

    def age_seconds(self, region: str) -> float | None:
        """Seconds since the report last changed; None before the first."""
        risen = self._risen.get(region)
        return None if risen is None else self._monotonic() - risen[1]

    def ages(self) -> dict[str, float | None]:
        """The same of every region that was ever heard of."""
        return {name: self.age_seconds(name) for name in self.seen}

    def measured(self) -> dict[Way, Measured]:
        """What all of them have measured of their links."""
        return measured_links({name: seen.probes for name, seen in self.seen.items()}, self.ages())

    def listings(self, now: datetime, silent: Collection[str]) -> dict[str, Listing]:
        """What stands in the regions' stores, where it was listed of late. `silent`: regions that are not heard of."""
        at = self._monotonic()
        heard = ((name, listed) for name, listed in self._listed.items() if name not in silent)
        found = ((name, listing_of(listed, at, now)) for name, listed in heard)
        return {name: listing for name, listing in found if listing is not None}

    def matter(self) -> int:
        """Changes when anything that a decision could depend on does, in any region."""
        if self._matter is None:
            told = ((name, seen.matter, self._listed[name].began is not None) for name, seen in self.seen.items())
            self._matter = hash(tuple(sorted(told)))
        return self._matter
