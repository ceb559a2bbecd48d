"""Three plain ways of deciding, to compare with: only where the data is; the cheapest region that fits; the first that fits.

They take jobs by priority and age, like the hub, and let later ones go ahead of those that find no room. Where data must come, the
job holds its cards while it does, as a pod does that fetches its data itself; all copies of a link share it equally and take all of
it. They are spared the worst: a copy stays for those who come later, and one is enough for all who want it at a time; rules of
residency hold.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from reconciler.model.fleet import Dataset
from reconciler.model.gpu import parse_model, satisfies
from reconciler.model.names import JobKey
from tests.bench.data.arrivals import Arrival
from tests.bench.data.course import Course, suits
from tests.bench.data.flows import Flow

Choose = Callable[[Course, Arrival, list[str], list[str]], list[str]]
"""From the regions that may ever run a job, and those of them that have its data, to those that it may take, the best first."""


@dataclass(slots=True)
class PlainWay:
    """One of them."""

    name: str
    choose: Choose
    _copies: dict[str, set[str]] = field(default_factory=dict)
    """Dataset → regions that it was copied to."""
    _coming: dict[str, list[JobKey]] = field(default_factory=dict)
    """Flow → who waits for it."""

    def decide(self, course: Course, now: float) -> None:
        """Start whose data has come, and place what fits."""
        for name in sorted(course.came):
            dataset, region = name.split(" to ")
            self._copies.setdefault(dataset, set()).add(region)
            for key in self._coming.pop(name):
                course.start(key, now)
        course.came.clear()
        for job in sorted(course.waiting.values(), key=lambda one: (-one.spec.priority_value, one.at, one.key)):
            self._place(course, job, now)

    def wakes_at(self, now: float) -> float | None:
        """Never."""

    def wake(self, course: Course, now: float) -> bool:  # noqa: ARG002
        """Nothing."""
        return False

    def _place(self, course: Course, job: Arrival, now: float) -> None:
        able = able_to_run(course, job)
        there = [region for region in able if self._is_there(course, job, region)]
        for region in self.choose(course, job, able, there):
            node = course.node_for(job, region)
            if node is None:
                continue
            course.hold(job, region, node, now)
            self._fetch(course, job, region, now)
            return

    def _is_there(self, course: Course, job: Arrival, region: str) -> bool:
        dataset = dataset_of(course, job)
        if dataset is None:
            return True
        return region in {copy.region for copy in dataset.replicas} | self._copies.get(dataset.name, set())

    def _fetch(self, course: Course, job: Arrival, region: str, now: float) -> None:
        """Begin at once, or when the data has come: from where it costs least."""
        dataset = dataset_of(course, job)
        if dataset is None or self._is_there(course, job, region):
            course.start(job.key, now)
            return
        name = f"{dataset.name} to {region}"
        if name not in course.lines.flows:
            links = course.place.fleet.links
            homes = {copy.region for copy in dataset.replicas} | self._copies.get(dataset.name, set())
            source = min(homes, key=lambda home: (links[home, region].usd_per_gb or 0.0, home))
            course.lines.flows[name] = Flow(name, (source, region), float(dataset.size_bytes or 0))
        self._coming.setdefault(name, []).append(job.key)


def dataset_of(course: Course, job: Arrival) -> Dataset | None:
    """What the job reads."""
    return next((course.place.fleet.datasets[use.name] for use in job.spec.datasets if use.name is not None), None)


def able_to_run(course: Course, job: Arrival) -> list[str]:
    """Regions with cards that will do, to which the data may go."""
    dataset, regions = dataset_of(course, job), course.place.fleet.regions
    tags = set(dataset.residency) if dataset is not None else set()
    return [
        name
        for name, cards in course.place.nodes.items()
        if tags <= set(regions[name].compliance) and any(suits(job, card) for card in cards)
    ]


def hourly_usd(course: Course, job: Arrival, region: str) -> float:
    """The cheapest that the job's cards can be there."""
    prices, cards = course.place.fleet.regions[region].prices, course.place.nodes[region]
    found: Iterable[float] = (
        usd for model, usd in prices.items() for card in cards if suits(job, card) and satisfies(str(parse_model(card)), model)
    )
    return min(found) * job.gpus


def data_first(course: Course, job: Arrival, able: list[str], there: list[str]) -> list[str]:
    """Only where the data is; where none of these could ever run it, wherever it can be."""
    return there or able


def cheapest_first(course: Course, job: Arrival, able: list[str], there: list[str]) -> list[str]:
    """By the price of the cards."""
    return sorted(able, key=lambda region: (hourly_usd(course, job, region), region))


def first_that_fits(course: Course, job: Arrival, able: list[str], there: list[str]) -> list[str]:
    """In the order in which the regions are declared."""
    return able


def plain_ways() -> list[PlainWay]:
    """New ones, that remember nothing."""
    return [
        PlainWay("data first", data_first),
        PlainWay("cheapest first", cheapest_first),
        PlainWay("first that fits", first_that_fits),
    ]
