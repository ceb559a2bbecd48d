"""The fleet of the simulated week: five regions, the links between them, and datasets at their homes. The same for the same seed.

What is declared of a link is what a platform team would know: the speed of the port and the price. What it truly gives is a curve
of its own, and one of them falls to a third for a day and a half while everything else of it stays as it is.
"""

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from reconciler.hub.fleet import Fleet
from reconciler.model.fleet import Dataset, Link, Team
from reconciler.model.policy import Policy, Settings
from reconciler.model.region import Region
from reconciler.planning.links import BYTES_PER_GBIT, LinkKey
from tests.bench.data.curves import DAY, Curve, times, weekly

START = datetime(2026, 5, 4, tzinfo=UTC)
"""A Monday."""
TEAMS = ("language", "speech", "vision")
GPUS_A_NODE = 8
A100, H100 = "NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3"
FALLS, FALLS_FROM, FALLS_UNTIL = ("eu-north", "us-east"), 2.3 * DAY, 3.8 * DAY
"""The link that falls to a third, and from when to when."""
DATASETS = 30


@dataclass(frozen=True, slots=True)
class Site:
    """One region: nodes by the model of their cards, US dollars a GPU-hour, tags, and how often datasets are at home there."""

    nodes: Mapping[str, int]
    prices: Mapping[str, float]
    tags: tuple[str, ...]
    homes: float


SITES: Mapping[str, Site] = {
    "ap-south": Site({A100: 2}, {"A100": 1.7}, (), 0.10),
    "eu-north": Site({A100: 3, H100: 1}, {"A100": 2.0, "H100": 3.4}, ("gdpr",), 0.35),
    "eu-west": Site({A100: 2}, {"A100": 2.4}, ("gdpr",), 0.20),
    "us-east": Site({A100: 3, H100: 2}, {"A100": 2.1, "H100": 3.2}, (), 0.25),
    "us-west": Site({A100: 2}, {"A100": 1.9}, (), 0.10),
}
NEAR = {frozenset({"eu-north", "eu-west"}), frozenset({"us-east", "us-west"})}


@dataclass(frozen=True, slots=True)
class Place:
    """The fleet as declared, and what its links truly give."""

    fleet: Fleet
    nodes: Mapping[str, tuple[str, ...]]
    """Region → the card of each of its nodes."""
    curves: Mapping[LinkKey, Curve]
    rtts: Mapping[LinkKey, float]


def region(name: str, prices: Mapping[str, float], tags: tuple[str, ...] = ()) -> Region:
    """A region with a store of its own, so that data can be brought to it."""
    said = {"name": name, "prices": dict(prices), "compliance": tags, "object_store": {"url": f"s3://store-{name}"}}
    return Region.model_validate(said)


def fleet_of(regions: list[Region], links: list[Link], datasets: list[Dataset], policy: Policy | None = None) -> Fleet:
    """What the platform's files would say."""
    return Fleet(
        {one.name: one for one in regions},
        {(one.source, one.target): one for one in links},
        {one.name: one for one in datasets},
        {name: Team(name=name) for name in TEAMS},
        policy or Policy(),
        Settings(),
    )


def place(seed: int, days: int) -> Place:
    """The whole of it. Curves go on for twice as many days, so that what is late has links as well."""
    chance = random.Random(f"place {seed}")
    links, curves, rtts = [], {}, {}
    for source in SITES:
        for target in SITES:
            if source == target:
                continue
            near = frozenset({source, target}) in NEAR
            gbit, usd, rtt = _declared(near=near, chance=chance)
            key = (source, target)
            links.append(Link(source=source, target=target, gbit_per_second=gbit, usd_per_gb=usd, rtt_ms=rtt))
            curves[key] = weekly(gbit * BYTES_PER_GBIT, chance.uniform(0.55, 0.95), 2 * days, chance)
            rtts[key] = rtt
    curves[FALLS] = times(curves[FALLS], 1 / 3, FALLS_FROM, FALLS_UNTIL)
    regions = [region(name, site.prices, site.tags) for name, site in SITES.items()]
    fleet = fleet_of(regions, links, [_dataset(number, chance) for number in range(DATASETS)])
    nodes = {name: tuple(card for card, count in site.nodes.items() for _ in range(count)) for name, site in SITES.items()}
    return Place(fleet, nodes, curves, rtts)


def _declared(*, near: bool, chance: random.Random) -> tuple[float, float, float]:
    """Gbit/s, US dollars a GB and milliseconds of a link."""
    if near:
        return chance.choice((5.0, 10.0, 20.0)), 0.01, chance.choice((12.0, 25.0, 60.0))
    return chance.choice((1.0, 2.0, 5.0, 10.0)), chance.choice((0.02, 0.05, 0.08)), chance.choice((90.0, 140.0, 210.0))


def _dataset(number: int, chance: random.Random) -> Dataset:
    """1 GB to 2 TB, by its logarithm; a fifth has a second copy, and an eighth must stay where the tag of its home holds."""
    name, names = f"set-{number:02}", list(SITES)
    home = chance.choices(names, [site.homes for site in SITES.values()])[0]
    size = round(math.exp(chance.uniform(math.log(1), math.log(2000))), 1)
    tags = SITES[home].tags if chance.random() < 0.25 else ()
    others = [other for other in names if other != home and set(tags) <= set(SITES[other].tags)]
    homes = [home, *([chance.choice(others)] if chance.random() < 0.2 else [])]
    said = {
        "name": name,
        "uri": f"s3://data-{home}/{name}/",
        "version": "1",
        "size_gb": size,
        "replicas": [{"region": one, "uri": f"s3://data-{one}/{name}/"} for one in homes],
        "residency": tags,
    }
    return Dataset.model_validate(said)
