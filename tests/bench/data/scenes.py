"""Three small checks, each told in a few lines: twenty jobs over one link, a link that falls to a third, and the edge numbers of
copying against waiting.

The first two are the simulated world with the hub's own cycle; the last asks `plan` alone.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from statistics import fmean
from typing import Any

from reconciler.agent.probing.schedule import Rules
from reconciler.model.fleet import Dataset
from reconciler.model.job import JobSpec
from reconciler.model.names import JobKey
from reconciler.model.policy import Policy
from reconciler.planning.decisions import Decision
from reconciler.planning.decisions import Place as Placed
from reconciler.planning.links import BYTES_PER_GBIT, LinkKey
from reconciler.planning.plan import plan
from tests.bench.data.arrivals import IMAGE, Arrival
from tests.bench.data.course import course_of, run
from tests.bench.data.curves import DAY, HOUR, Curve, falling, flat
from tests.bench.data.flows import Flow, Lines
from tests.bench.data.hub_way import HubWay, hub_way
from tests.bench.data.places import A100, TEAMS, Place, fleet_of, region
from tests.builders import (
    NOW,
    WHOLE_LINKS,
    make_dataset,
    make_holding,
    make_job,
    make_link,
    make_node,
    make_pod,
    make_region,
    make_snapshot,
    make_workload,
)

GBIT = 10.0
TRULY = 0.9
"""Of what is declared, what the links of these scenes truly give."""


def _dataset(name: str, size_gb: float, homes: Iterable[str]) -> Dataset:
    copies = [{"region": home, "uri": f"s3://data-{home}/{name}/"} for home in homes]
    said = {"name": name, "uri": copies[0]["uri"], "version": "1", "size_gb": size_gb, "replicas": copies}
    return Dataset.model_validate(said)


def _job(number: int, at: float, run_seconds: float = 600.0, **fields: object) -> Arrival:
    said = {"job_id": f"job-{number:03}", "image": IMAGE, "dataset": {"name": f"set-{number:03}"}, **fields}
    spec = JobSpec.model_validate({"gpu": {"count": 8, "model": "A100"}, "expected_runtime_seconds": int(run_seconds), **said})
    return Arrival(JobKey(TEAMS[0], spec.job_id), spec, at, run_seconds)


def _place(
    datasets: list[Dataset], nodes: Mapping[str, int], curves: Mapping[LinkKey, Curve], gbits: Mapping[LinkKey, float]
) -> Place:
    links = [make_link(*key, gbit, 0.02, rtt_ms=90.0) for key, gbit in gbits.items()]
    fleet = fleet_of([region(name, {"A100": 2.0}) for name in nodes], links, datasets)
    return Place(fleet, {name: (A100,) * count for name, count in nodes.items()}, curves, dict.fromkeys(gbits, 90.0))


# ---- twenty jobs over one link ------------------------------------------------------------------------------------

_LINK = ("eu", "us")
_SIZES = (120, 20, 75, 160, 40, 30, 95, 200, 60, 25, 110, 45, 140, 35, 80, 180, 55, 22, 70, 130)
"""GB, in the order in which they come, all within a minute."""


def twenty_over_one_link() -> list[str]:
    """How full the link gets, and when the data of each job is there, against two plain orders over the same 80 %."""
    rate = GBIT * BYTES_PER_GBIT * TRULY
    datasets = [_dataset(f"set-{number:03}", size, ["eu"]) for number, size in enumerate(_SIZES)]
    place = _place(datasets, {"eu": 0, "us": 20}, {_LINK: flat(rate)}, {_LINK: GBIT})
    jobs = [_job(number, HOUR + number * 3) for number in range(len(_SIZES))]
    sizes, share = [size * 1e9 for size in _SIZES], place.fleet.policy.thresholds.link_share
    lines = [f"twenty jobs over one link of {rate / BYTES_PER_GBIT:.1f} Gbit/s, {sum(_SIZES)} GB:"]
    for words, scatter in (("probes exact", 0.0), ("probes a tenth off", 0.1)):
        course = course_of(place, jobs)
        run(course, hub_way(place, 1, rules=Rules(), scatter=scatter), DAY)
        there = [stay.started_at - HOUR for stay in course.ended.values() if stay.started_at is not None]
        lines.append(
            f"  {words}: at most {course.lines.fullest[_LINK]:.1%} of the link at any moment, {len(there)} of {len(jobs)} done,"
            f" {fmean(there) / 60:.1f} min in the mean, {max(there) / 60:.1f} at the latest"
        )
    one_by_one = [sum(sizes[: at + 1]) / (rate * share) for at in range(len(sizes))]
    for words, ends in (
        ("one after another as they came, 80 %", one_by_one),
        ("all at once, 80 %", together(sizes, rate * share)),
        ("all at once, the whole link", together(sizes, rate)),
    ):
        lines.append(f"  {words}: {fmean(ends) / 60:.1f} min in the mean, {max(ends) / 60:.1f} at the latest")
    return lines


def together(sizes: Iterable[float], rate: float) -> list[float]:
    """When each has ended, in seconds, if all begin at once and share the rate equally."""
    lines, now, ends = Lines({_LINK: flat(rate)}), 0.0, []
    lines.flows = {str(at): Flow(str(at), _LINK, size) for at, size in enumerate(sizes)}
    while lines.flows:
        then = lines.next_change(now) or now
        lines.advance(now, then)
        now = then
        for name in [name for name, flow in lines.flows.items() if flow.is_done]:
            del lines.flows[name]
            ends.append(now)
    return ends


# ---- a link that falls to a third ---------------------------------------------------------------------------------

_FALLS_AT, _EVERY, _UNTIL = 2 * HOUR, 97.0, 3 * HOUR
_TO_TWO: Mapping[LinkKey, float] = {("eu", "ap"): 5.0, ("eu", "us"): GBIT}
_FROM_TWO: Mapping[LinkKey, float] = {("ap", "us"): 5.0, ("eu", "us"): GBIT}
_LIGHT, _HEAVY = 6.0, 20.0
"""GB a job: the link is idle for most of the time, or nearly full after its fall."""


@dataclass(frozen=True, slots=True)
class _Fall:
    """One variant. `at`: the end of the falling link that is chosen as long as it is quick."""

    words: str
    at: str
    size_gb: float
    gbits: Mapping[LinkKey, float]
    homes: tuple[str, ...]
    nodes: Mapping[str, int]
    strategy: str | None = None


_FALLS = tuple(
    fall
    for size, words in ((_LIGHT, "light traffic"), (_HEAVY, "heavy traffic"))
    for fall in (
        _Fall(f"{words}, soonest, to us or ap", "us", size, _TO_TWO, ("eu",), {"eu": 0, "us": 80, "ap": 80}, "soonest"),
        _Fall(f"{words}, default weights, read from eu or ap", "eu", size, _FROM_TWO, ("eu", "ap"), {"eu": 0, "us": 80, "ap": 0}),
    )
)


def falling_link() -> list[str]:
    """How many still go over the link once it was measured twice after its fall, of one job in 97 seconds.

    A probe beside a transfer of our own is scaled up to what the link was believed to give, and so tells of no fall.
    """
    return ["a link falls to a third, its round-trip time stays:", *(f"  {fall.words}: {_fallen(fall)}" for fall in _FALLS)]


def _fallen(fall: _Fall) -> str:
    """What is chosen before the fall and after it."""
    count = int((_UNTIL - HOUR) / _EVERY)
    curves = {key: flat(gbit * BYTES_PER_GBIT * TRULY) for key, gbit in fall.gbits.items()}
    curves[_LINK] = falling(GBIT * BYTES_PER_GBIT * TRULY, 1 / 3, _FALLS_AT)
    datasets = [_dataset(f"set-{number:03}", fall.size_gb, fall.homes) for number in range(count)]
    place = _place(datasets, fall.nodes, curves, fall.gbits)
    jobs = [
        _job(number, HOUR + number * _EVERY, 60.0, strategy=fall.strategy, gpu={"count": 1, "model": "A100"})
        for number in range(count)
    ]
    seen = _Seen()
    way = hub_way(place, 1, rules=Rules())
    way.watch = lambda _course, _before, _after, now: seen.note(way, now)
    run(course_of(place, jobs), way, DAY)
    return seen.told(fall.at)


class _Seen:
    """Source and target of every copy, with how many probes there were since the fall, and how many of the free link."""

    def __init__(self) -> None:
        self._copies: dict[JobKey, tuple[float, int, int, LinkKey]] = {}
        self._before = (0, 0)

    def note(self, way: HubWay, now: float) -> None:
        """After a cycle."""
        probes, clear = way.probing.probes.get(_LINK, 0), way.probing.clear.get(_LINK, 0)
        self._before = (probes, clear) if now < _FALLS_AT else self._before
        for key, record in way.records.items():
            if record.stage is not None and key not in self._copies:
                link = (record.stage.source_region, record.stage.region)
                self._copies[key] = now, probes - self._before[0], clear - self._before[1], link

    def told(self, at: str) -> str:
        """In words."""
        early = [at in link for now, _, _, link in self._copies.values() if now < _FALLS_AT]
        late = [(probes, clear, at in link) for now, probes, clear, link in self._copies.values() if now >= _FALLS_AT]
        two = [stays for probes, _, stays in late if probes >= 2]
        two_clear = [stays for _, clear, stays in late if clear >= 2]
        return (
            f"{sum(early)} of {len(early)} by {at} before; after two probes {sum(two)} of {len(two)},"
            f" after two that found the link free {sum(two_clear)} of {len(two_clear)}"
        )


# ---- edge numbers -------------------------------------------------------------------------------------------------


def edge_numbers() -> list[str]:
    """500 GB in eu, which is full for 40 minutes; us is free, over 1 Gbit/s at 0.02 USD/GB; the job runs for an hour."""
    quick: dict[str, Any] = {"gbit": 10, "usd": 0.001}
    cases: tuple[tuple[str, str, Decision], ...] = (
        ("500 GB over 1 Gbit/s", "waits", _edge()),
        ("size 0", "us", _edge(size_gb=0)),
        ("bandwidth unknown", "waits", _edge(gbit=None)),
        ("bandwidth 0", "waits", _edge(gbit=0)),
        ("10 Gbit/s at a tenth of a cent", "us", _edge(**quick)),
        ("the same, price of the link unknown", "waits", _edge(gbit=10, usd=None)),
        ("size unknown", "waits", _edge(size_gb=None)),
        ("deadline in 30 min", "waits", _edge(deadline="2026-05-01T12:30:00Z")),
        ("GPU price of us unknown", "us", _edge(**quick, usd_us=None)),
        ("both free, no data, GPU price of us unknown", "eu", _edge(dataset=None, eu_used=0, usd_us=None)),
    )
    right = sum(_answer(found) == expected for _, expected, found in cases)
    told = [
        f"  {words}: {_said(found)}{'' if _answer(found) == expected else f' (NOT {expected})'}"
        for words, expected, found in cases
    ]
    return [f"edge numbers of copy or wait (eu full for 40 min, us free), {right} of {len(cases)} as they should be:", *told]


def _edge(
    *,
    size_gb: float | None = 500,
    gbit: float | None = 1.0,
    usd: float | None = 0.02,
    usd_us: float | None = 2.0,
    eu_used: int = 8,
    **job: Any,
) -> Decision:
    held = make_workload("old-a1", make_pod(node="n0"))
    ends = [make_holding(ends_in=timedelta(minutes=40))] if eu_used else []
    eu = make_region("eu", make_node(used=eu_used), shows=[held] if eu_used else [], holdings=ends, prices={"A100-80GB": 2.0})
    us = make_region("us", make_node(), prices={} if usd_us is None else {"A100-80GB": usd_us})
    job = {"dataset": {"name": "corpus-a"}, "run_seconds": 3600, **job}
    snapshot = make_snapshot(
        eu,
        us,
        jobs=[make_job(**job)],
        links=[make_link("eu", "us", gbit, usd)],
        datasets=[make_dataset(size_gb=size_gb)],
        policy=Policy.model_validate({"thresholds": WHOLE_LINKS}),
    )
    (decision,) = plan(snapshot, NOW)
    return decision


def _answer(found: Decision) -> str:
    return found.chosen.region if isinstance(found, Placed) else "waits"


def _said(found: Decision) -> str:
    if isinstance(found, Placed):
        price = "unknown price" if found.chosen.price_usd is None else f"{found.chosen.price_usd:.2f} USD"
        return f"{found.chosen.region}, starts {found.chosen.start_at:%H:%M}, {price}"
    return f"{type(found).__name__}: {found.reason.text}"
