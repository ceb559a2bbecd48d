"""The project's own way: each cycle is `hub.decide.decide`, on records, reports and measurements as the hub has them.

Here only the two ends are simulated: what the regions report of nodes, programs and workers, and what is done to what is granted.
So plan, reserve, ahead_of_need, the lives of jobs and staging tasks are the very code that runs. Left out: Git, leases, and the
seconds until a report, a push or a start is through. A job that has ended is taken out of the ledger, so that a cycle stays quick.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from reconciler.agent.probing.schedule import Rules
from reconciler.hub.decide import Memory, decide
from reconciler.hub.ledger import HubFile, Ledger, Rejected
from reconciler.hub.reading import JobFile
from reconciler.hub.regions import RegionSeen
from reconciler.hub.sources import Sources
from reconciler.hub.transfers import crowded_now, held_of
from reconciler.hub.world import Outcome, World
from reconciler.model.attempt import MAY_RUN, Attempt, State
from reconciler.model.gpu import parse_model
from reconciler.model.identity import run_hash
from reconciler.model.names import STAGING_TEAM, JobKey
from reconciler.model.progress import Progress
from reconciler.model.record import FINISHED, JobRecord, Phase
from reconciler.model.report import PodReport, RegionSummary, WorkloadReport
from reconciler.planning.shapes import Free, Kind, NodeFacts, ReportFacts
from tests.bench.data.arrivals import Arrival
from tests.bench.data.course import Course, Stay
from tests.bench.data.flows import Flow
from tests.bench.data.places import GPUS_A_NODE, START, TEAMS, Place
from tests.bench.data.probing import Probing

TICK_SECONDS = 300.0
"""While anything waits or moves the hub decides at least so often, as rates and estimates change."""
MOST_ROUNDS = 4
WHOLE = Free(GPUS_A_NODE, 192_000, 2 * 1024**4, 10**13, 110)
PROBE_RULES = Rules(rest_seconds=300.0)
Watch = Callable[[Course, dict[JobKey, JobRecord], dict[JobKey, JobRecord], float], None]
"""Called after each round with the records before and after."""


def moment_of(seconds: float) -> datetime:
    """The calendar's time."""
    return START + timedelta(seconds=seconds)


@dataclass(slots=True)
class HubWay:
    """The hub, and the agents as far as it sees them."""

    place: Place
    probing: Probing
    watch: Watch | None = None
    name: str = "this project"
    records: dict[JobKey, JobRecord] = field(default_factory=dict)
    rounds: int = 0
    _files: dict[JobKey, JobFile] = field(default_factory=dict)
    _memory: Memory = field(default_factory=Memory)
    _crowded: dict[str, datetime] = field(default_factory=dict)
    _moved: dict[str, float] = field(default_factory=dict)
    """Bytes that a task has brought, over all its workers: each goes on where the one before was."""
    _arrived: set[str] = field(default_factory=set)
    """Tasks of which all bytes are there."""
    _workloads: dict[str, WorkloadReport] = field(default_factory=dict)
    _facts: dict[str, tuple[object, ReportFacts]] = field(default_factory=dict)
    _tick_at: float | None = None

    # ---- the way -------------------------------------------------------------------------------------------------

    def wakes_at(self, now: float) -> float | None:
        """The next probe, or tick."""
        if not self.probing.courses:
            self.probing.begin(now)
        moments = [moment for moment in (self.probing.wakes_at(), self._tick_at) if moment is not None]
        return min(moments, default=None)

    def wake(self, course: Course, now: float) -> bool:
        """Measure; and decide where it is time to."""
        self.probing.wake(course.lines, held_of(self._tasks()), now)
        return self._tick_at is not None and self._tick_at <= now

    def decide(self, course: Course, now: float) -> None:
        """Cycles until no new task waits for its first look."""
        self._take_in(course)
        for _ in range(MOST_ROUNDS):
            before = self.records
            outcome = decide(self._world(course, now), moment_of(now), self._memory)
            self.rounds += 1
            self.records = dict(sorted(outcome.records.items()))
            self._crowded = crowded_now(outcome.crowded)
            self._act(course, now)
            if self.watch is not None:
                self.watch(course, before, self.records, now)
            if not self._is_unsettled(before, outcome):
                break
        self._forget_ended()
        self._tick_at = now + TICK_SECONDS if course.waiting or course.lines.flows else None

    def _tasks(self) -> Iterator[JobRecord]:
        return (record for record in self.records.values() if record.stage is not None)

    def _is_unsettled(self, before: dict[JobKey, JobRecord], outcome: Outcome) -> bool:
        return any(
            record.stage is not None and record.phase is Phase.PENDING and record is not before.get(key)
            for key, record in outcome.records.items()
        )

    def _take_in(self, course: Course) -> None:
        for name in course.came & {record.job_id for record in self._tasks()}:
            course.came.discard(name)
            self._arrived.add(name)
        for key, job in course.waiting.items():
            if key not in self._files:
                self._files[key] = _file(job)

    def _forget_ended(self) -> None:
        """Records of jobs that have ended go; a job that ended otherwise than well is a fault of the simulation."""
        for key, record in list(self.records.items()):
            if record.stage is None and record.phase in FINISHED | {Phase.HELD, Phase.IMPOSSIBLE}:
                if record.phase is not Phase.SUCCEEDED:
                    raise ValueError(f"{key} came to {record.phase}: {record.why.text if record.why else ''} {record.waits}")
                del self.records[key], self._files[key]
                for attempt in record.attempts:
                    self._workloads.pop(attempt.name, None)

    # ---- what the hub sees ---------------------------------------------------------------------------------------

    def _world(self, course: Course, now: float) -> World:
        fleet = self.place.fleet
        ledger = Ledger(self.records, {}, HubFile(crowded=self._crowded), Rejected(), {}, {})
        stopping = [one.current.name for one in self.records.values() if one.current and one.current.state is State.STOPPING]
        return World(
            sources=Sources(self._files, fleet, (), {}, {}, {}, frozenset(), frozenset()),
            ledger=ledger,
            suspicion=None,
            regions={name: self._seen(course, name) for name in fleet.regions},
            ages=dict.fromkeys(fleet.regions, 1.0),
            withdrawn_at=dict.fromkeys(stopping, 0),
            placements={},
            declined=frozenset(),
            refused={},
            inputs="",
            measured=self.probing.measured(now),
            stage_image="reg.example.com/stage:1",
        )

    def _seen(self, course: Course, region: str) -> RegionSeen:
        stays = [(record, stay) for record, stay in self._staying(course) if stay.region == region]
        key = tuple(stays and [record.current.name for record, stay in stays if record.current and stay.ended_at is None])
        known = self._facts.get(region)
        if known is None or known[0] != key:
            known = self._facts[region] = (key, _facts(self.place.nodes[region], stays))
        workloads = {one.attempt: one for one in self._reported(region, stays)}
        return RegionSeen("sim", 1, 1, 1, known[1], workloads, _summary(region), None, {}, {}, 0)

    def _staying(self, course: Course) -> Iterator[tuple[JobRecord, Stay]]:
        for key, record in self.records.items():
            stay = course.stays.get(key) or course.ended.get(key)
            if record.stage is None and stay is not None and record.current is not None:
                yield record, stay

    def _reported(self, region: str, stays: list[tuple[JobRecord, Stay]]) -> Iterator[WorkloadReport]:
        for record, stay in stays:
            if record.current is not None:
                yield self._workload(record.current, record.team, stay)
        for record in self._tasks():
            attempt = record.current
            if attempt is not None and attempt.region == region and attempt.state in MAY_RUN:
                yield self._worker(record, attempt)

    def _workload(self, attempt: Attempt, team: str, stay: Stay) -> WorkloadReport:
        """The same object as long as it says the same."""
        known, over = self._workloads.get(attempt.name), stay.ended_at is not None
        if known is None or known.succeeded != over:
            known = self._workloads[attempt.name] = _report(attempt, team, over=over)
        return known

    def _worker(self, record: JobRecord, attempt: Attempt) -> WorkloadReport:
        total = record.stage.size_bytes or 0 if record.stage is not None else 0
        over = record.job_id in self._arrived
        done = total if over else min(total, int(self._moved.get(record.job_id, 0.0)))
        progress = Progress(objects_done=0, objects_total=1, bytes_done=done, bytes_total=total)
        return _report(attempt, STAGING_TEAM, over=over).model_copy(update={"progress": progress})

    # ---- what is done to what is granted -------------------------------------------------------------------------

    def _act(self, course: Course, now: float) -> None:
        for key, record in self.records.items():  # in the order of the keys, so that no hash says which takes a node first
            if record.stage is not None:
                self._pace(course, record)
            elif record.current is not None and record.current.state in MAY_RUN and key in course.waiting:
                self._begin(course, course.waiting[key], record.current, now)

    def _begin(self, course: Course, job: Arrival, attempt: Attempt, now: float) -> None:
        """As a scheduler does: on the fullest node; where none has room at the moment it stays pending."""
        node = course.node_for(job, attempt.region, attempt.gpu_products)
        if node is not None:
            held_at = ((attempt.placed_at or moment_of(now)) - START).total_seconds()
            course.hold(job, attempt.region, node, min(now, max(held_at, job.at)))  # the calendar knows whole microseconds only
            course.start(job.key, now)

    def _pace(self, course: Course, record: JobRecord) -> None:
        """A worker moves bytes while it may run, and no faster than it was told."""
        name, attempt, task = record.job_id, record.current, record.stage
        flow = course.lines.flows.get(name)
        if flow is not None:
            self._moved[name] = flow.moved
        if task is None or attempt is None or attempt.state not in MAY_RUN:
            course.lines.flows.pop(name, None)
            return
        if name in self._arrived:
            return
        if flow is None:
            flow = Flow(name, (task.source_region, task.region), float(task.size_bytes or 0), self._moved.get(name, 0.0))
            course.lines.flows[name] = flow
        flow.pace = float(attempt.bytes_per_second or 0)


def _summary(region: str) -> RegionSummary:
    """For dashboards: nothing is decided by it."""
    return RegionSummary(
        cluster_id=region,
        gpu_nodes=0,
        gpu_busy=0,
        gpu_free=0,
        gpu_models=(),
        queued_jobs=0,
        avg_cpu_usage=None,
        avg_gpu_usage=None,
        last_heartbeat=START,
    )


def _file(job: Arrival) -> JobFile:
    hashed = run_hash(job.key.team, job.spec)
    return JobFile(job.key, job.spec, f"jobs/{job.key.team}/{job.key.job_id}.yaml", hashed, hashed)


def _report(attempt: Attempt, team: str, *, over: bool) -> WorkloadReport:
    pod = PodReport(name="p0", phase="Succeeded" if over else "Running", exit_code=0 if over else None)
    state = "Ended" if over else "Released"
    said = {"uid": "u", "state": state, "stopped": over, "succeeded": over, "pods": (pod,)}
    return WorkloadReport.model_validate({"attempt": attempt.name, "namespace": team, **said})


def _facts(cards: tuple[str, ...], stays: list[tuple[JobRecord, Stay]]) -> ReportFacts:
    """What the region's report says of its nodes, with the pods that are bound to them."""
    free = [WHOLE] * len(cards)
    on: dict[str, tuple[str, ...]] = {}
    for record, stay in stays:
        if record.current is not None and stay.ended_at is None:
            free[stay.node] = free[stay.node].less(record.current.needs)
            on[record.current.name] = (f"n{stay.node}",)
    nodes = tuple(
        NodeFacts(f"n{at}", Kind(str(parse_model(card)), card, 80 * 1024**3, "550.90.07", False, ()), WHOLE, free[at], True)
        for at, card in enumerate(cards)
    )
    seen = {record.current.name: 1 for record, _ in stays if record.current is not None}
    return ReportFacts(nodes, frozenset({*TEAMS, STAGING_TEAM}), seen, on)


def hub_way(place: Place, seed: int, watch: Watch | None = None, rules: Rules = PROBE_RULES, scatter: float = 0.1) -> HubWay:
    """A new hub that has heard of all regions; probes tell the truth but for `scatter`."""
    return HubWay(place, Probing(place, rules, random.Random(f"probes {seed}"), scatter), watch)
