"""The simulated world by the time of its events: jobs arrive and end, bytes flow, and a way of deciding is asked when any of it
has happened.

Nothing is decided here. Times are seconds from the start. A way is asked at most every GAP_SECONDS, as a hub is that pushes no
more often. Invariants: the cards of a node are never given twice; a job runs once, and for its true run time.
"""

import heapq
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from reconciler.model.gpu import parse_model, satisfies
from reconciler.model.names import JobKey
from tests.bench.data.arrivals import Arrival
from tests.bench.data.flows import Lines
from tests.bench.data.places import GPUS_A_NODE, Place

GAP_SECONDS = 20.0


@dataclass(slots=True)
class Stay:
    """A job that has its cards. `held_at`: since when they were kept for it, whoever kept them."""

    job: Arrival
    region: str
    node: int
    held_at: float
    started_at: float | None = None
    ended_at: float | None = None


class Way(Protocol):
    """A way of deciding."""

    @property
    def name(self) -> str:
        """For the table."""

    def decide(self, course: "Course", now: float) -> None:
        """Look at the course, and act on it."""

    def wakes_at(self, now: float) -> float | None:
        """When something of its own is due next."""

    def wake(self, course: "Course", now: float) -> bool:
        """Do what is due; whether it wants to decide then."""


@dataclass(slots=True)
class Course:
    """Where the world has come to."""

    place: Place
    lines: Lines
    arrivals: list[Arrival]
    """Those still to come, the next one last."""
    waiting: dict[JobKey, Arrival] = field(default_factory=dict)
    """Jobs that have come and hold nothing."""
    stays: dict[JobKey, Stay] = field(default_factory=dict)
    ended: dict[JobKey, Stay] = field(default_factory=dict)
    came: set[str] = field(default_factory=set)
    """Flows that have ended, by name."""
    _ends: list[tuple[float, JobKey]] = field(default_factory=list)

    def free(self, region: str) -> list[int]:
        """Free cards of each node."""
        left = [GPUS_A_NODE] * len(self.place.nodes[region])
        for stay in self.stays.values():
            if stay.region == region:
                left[stay.node] -= stay.job.gpus
        return left

    def node_for(self, job: Arrival, region: str, products: Collection[str] = ()) -> int | None:
        """The fullest node there that the job fits on; `products`: cards that will do, where others than the job's words say."""
        cards = self.place.nodes[region]
        fitting = [
            (free, node)
            for node, free in enumerate(self.free(region))
            if free >= job.gpus and (cards[node] in products if products else suits(job, cards[node]))
        ]
        return min(fitting)[1] if fitting else None

    def hold(self, job: Arrival, region: str, node: int, held_at: float) -> Stay:
        """Give it its cards. Raises ValueError where they are not free, or it has some."""
        if job.key in self.stays or job.key in self.ended or self.free(region)[node] < job.gpus:
            raise ValueError(f"{job.key} cannot have {job.gpus} cards of node {node} of {region}")
        self.waiting.pop(job.key, None)
        self.stays[job.key] = stay = Stay(job, region, node, held_at)
        return stay

    def start(self, key: JobKey, now: float) -> None:
        """Its program begins."""
        stay = self.stays[key]
        if stay.started_at is not None:
            raise ValueError(f"{key} runs already")
        stay.started_at = now
        heapq.heappush(self._ends, (now + stay.job.run_seconds, key))

    def next_event(self, now: float) -> float | None:
        """When something happens next by itself; None where nothing will."""
        moments = [self.arrivals[-1].at] if self.arrivals else []
        moments += [self._ends[0][0]] if self._ends else []
        change = self.lines.next_change(now)
        return min([*moments, *([] if change is None else [change])], default=None)

    def pass_to(self, now: float, then: float) -> bool:
        """Let time pass to the next event; whether anything happened that could be decided upon."""
        self.lines.advance(now, then)
        happened = False
        while self.arrivals and self.arrivals[-1].at <= then:
            job = self.arrivals.pop()
            self.waiting[job.key], happened = job, True
        while self._ends and self._ends[0][0] <= then:
            ended_at, key = heapq.heappop(self._ends)
            self.ended[key] = stay = self.stays.pop(key)
            stay.ended_at, happened = ended_at, True
        for name in [name for name, flow in self.lines.flows.items() if flow.is_done]:
            del self.lines.flows[name]
            self.came.add(name)
            happened = True
        return happened

    @property
    def is_over(self) -> bool:
        """Whether every job has come and ended."""
        return not self.arrivals and not self.waiting and not self.stays


def suits(job: Arrival, card: str) -> bool:
    """Whether a card is one of the models that the job wants."""
    return any(satisfies(str(parse_model(card)), wanted) for wanted in job.spec.gpu.models)


def course_of(place: Place, arrivals: Sequence[Arrival]) -> Course:
    """The world before its first event."""
    return Course(place, Lines(place.curves), sorted(arrivals, key=lambda one: (one.at, one.key), reverse=True))


def run(course: Course, way: Way, until: float) -> float:
    """Go on until all is over, or to that moment; returns when that was."""
    now, asked_at, ask_at = 0.0, -GAP_SECONDS, None
    while not course.is_over:
        event, own = course.next_event(now), way.wakes_at(now)
        moments = [moment for moment in (event, own, ask_at) if moment is not None]
        if not moments or min(moments) > until:
            break
        then = max(now, min(moments))
        wants = course.pass_to(now, then)
        now = then
        if own is not None and own <= now:
            wants = way.wake(course, now) or wants
        if wants and ask_at is None:
            ask_at = max(now, asked_at + GAP_SECONDS)
        if ask_at is not None and ask_at <= now:
            way.decide(course, now)
            asked_at, ask_at = now, None
    return now
