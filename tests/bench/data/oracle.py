"""Copying against waiting in hindsight: what the hub chose, beside what would have been better for who knows the future.

A question is put whenever the hub first says of a job that it waits for a busy region that has its data, or places it where the data
must be copied to first while every region that has it is full. The oracle knows what the links truly give at every later moment,
and when every job that held cards at that moment truly ended. By it both answers are reckoned alike:

  wait: the first moment at which, of the jobs that hold cards there now, enough have ended; then the run.
  copy: what is still to come over the link before it, and then its own bytes, at 80 % of what the link truly gives; then the run.

For what was not chosen the best of its kind is taken: any region that is busy and has the data, any copy to read from. Both forget
those who come later or wait in front, so `as it came` sets what really became of the job against the same oracle: that holds the
queue against the choice, and the oracle never waits in one. Regret is the part by which the chosen is worse than the better of both:
in time from the question to the job's end, and in cost, as the policy means it: that time at the worth of the job's hour, and the
transfer.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import fmean
from typing import Literal

from reconciler.model.attempt import State
from reconciler.model.names import STAGING_TEAM, JobKey
from reconciler.model.quantity import whole
from reconciler.model.reasons import Why, code_of
from reconciler.model.record import FINISHED, JobRecord
from reconciler.planning.copies import copies_of
from reconciler.planning.links import LinkKey
from tests.bench.data.arrivals import Arrival
from tests.bench.data.course import Course, suits
from tests.bench.data.curves import HOUR, Curve
from tests.bench.data.places import GPUS_A_NODE, Place
from tests.bench.data.plain_ways import able_to_run, dataset_of

Records = Mapping[JobKey, JobRecord]
Answer = Literal["copy", "wait"]
_WAITS = {code_of(Why.WAIT_NOT_COPY), code_of(Why.DEADLINE_OUT_OF_REACH)}


@dataclass(frozen=True, slots=True)
class Room:
    """A busy region: who holds how many cards of each node that would do."""

    region: str
    nodes: tuple[tuple[tuple[JobKey, int], ...], ...]


@dataclass(frozen=True, slots=True)
class Copying:
    """One way to copy: bytes that go over the link before, and its own."""

    link: LinkKey
    ahead: float
    own: float


@dataclass(frozen=True, slots=True)
class Question:
    """One choice between copying and waiting, as it stood."""

    job: Arrival
    at: float
    answer: Answer
    region: str
    """The one that was chosen, or is waited for."""
    rooms: tuple[Room, ...]
    copies: tuple[Copying, ...]


@dataclass(frozen=True, slots=True)
class Reckoned:
    """End (seconds from the start) and US dollars of an answer."""

    end: float
    usd: float


@dataclass(slots=True)
class Asked:
    """Watches a hub and notes its questions."""

    place: Place
    jobs: Mapping[JobKey, Arrival]
    questions: list[Question] = field(default_factory=list)
    _said: dict[JobKey, Answer] = field(default_factory=dict)

    def watch(self, course: Course, before: Records, after: Records, now: float) -> None:
        """See hub_way.Watch."""
        for key, record in after.items():
            if record is before.get(key) or record.stage is not None:
                continue
            answer = _answer(before.get(key), record)
            if answer is not None and self._said.get(key) != answer:
                question = self._question(course, record, after, answer, now)
                if question is not None:
                    self._said[key] = answer
                    self.questions.append(question)

    def _question(self, course: Course, record: JobRecord, records: Records, answer: Answer, now: float) -> Question | None:
        job = self.jobs[record.key]
        dataset = dataset_of(course, job)
        if dataset is None or (dataset.size_bytes or 0) < whole(self.place.fleet.policy.thresholds.small_data):
            return None
        staged = {region for copies in _staged(records, dataset.name) for region in copies}
        having = {copy.region for copy in dataset.replicas} | staged
        rooms = [_room(course, job, region, records) for region in able_to_run(course, job) if region in having]
        if not rooms or any(_fits_now(room, job) for room in rooms):
            return None  # placed by its score: nothing had to be waited for
        if answer == "copy" and record.current is not None:
            tasks = [task for name in record.current.stages if (task := records[JobKey(STAGING_TEAM, name)].stage) is not None]
            links = [(task.source_region, task.region) for task in tasks]
            region = record.current.region
        else:
            numbers = record.why.numbers if record.why is not None else {}
            region, other = str(numbers["region"]), str(numbers["other"])
            links = [(source, other) for source in sorted(having) if (source, other) in self.place.curves]
        copies = tuple(_copying(link, dataset.name, float(dataset.size_bytes or 0), course, records) for link in links)
        return Question(job, now, answer, region, tuple(rooms), copies) if copies else None


def _answer(before: JobRecord | None, after: JobRecord) -> Answer | None:
    current = after.current
    if current is None:
        return "wait" if after.why is not None and after.why.code in _WAITS else None
    is_new = before is None or before.current is None
    return "copy" if is_new and current.state is State.STAGING else None


def _staged(records: Records, dataset: str) -> Iterable[Mapping[str, str]]:
    tasks = [record for record in records.values() if record.stage is not None]
    return [where for subject, where in copies_of(tasks).items() if subject.partition("@")[0] == dataset]


def _room(course: Course, job: Arrival, region: str, records: Records) -> Room:
    """Who holds what there: programs on their nodes, and those that wait for their data on the fullest that they fit on."""
    cards = course.place.nodes[region]
    nodes: list[list[tuple[JobKey, int]]] = [[] for _ in cards]
    for key, stay in course.stays.items():
        if stay.region == region:
            nodes[stay.node].append((key, stay.job.gpus))
    for key, record in records.items():
        attempt = record.current
        if record.stage is not None or attempt is None or attempt.region != region or key in course.stays or key == job.key:
            continue
        free = [(GPUS_A_NODE - sum(gpus for _, gpus in held), at) for at, held in enumerate(nodes)]
        able = [(left, at) for left, at in free if left >= attempt.total_gpus and cards[at] in (attempt.gpu_products or cards)]
        if able:
            nodes[min(able)[1]].append((key, attempt.total_gpus))
    return Room(region, tuple(tuple(held) for held, card in zip(nodes, cards, strict=True) if suits(job, card)))


def _fits_now(room: Room, job: Arrival) -> bool:
    return any(GPUS_A_NODE - sum(gpus for _, gpus in held) >= job.gpus for held in room.nodes)


def _copying(link: LinkKey, dataset: str, size: float, course: Course, records: Records) -> Copying:
    """With all that is on its way over the link, or waits to be: what comes for another job already has to come only once."""
    ahead, own = 0.0, size
    for record in records.values():
        task = record.stage
        if task is None or record.phase in FINISHED or (task.source_region, task.region) != link:
            continue
        flow = course.lines.flows.get(record.job_id)
        left = flow.left if flow is not None else float(task.size_bytes or 0)
        if task.subject.partition("@")[0] == dataset:
            own = left
        else:
            ahead += left
    return Copying(link, ahead, own)


# ---- in hindsight -------------------------------------------------------------------------------------------------


def free_at(room: Room, gpus: int, at: float, ends: Mapping[JobKey, float]) -> float:
    """When so many cards are free on one node, as those who hold them end."""
    found = []
    for held in room.nodes:
        free = GPUS_A_NODE - sum(count for _, count in held)
        moment = at
        for end, count in sorted((ends[key], count) for key, count in held):
            if free >= gpus:
                break
            free, moment = free + count, max(moment, end)
        found.append(moment)
    return min(found)


def waited(question: Question, room: Room, ends: Mapping[JobKey, float]) -> Reckoned:
    """What waiting for that region comes to."""
    return Reckoned(free_at(room, question.job.gpus, question.at, ends) + question.job.run_seconds, 0.0)


def copied(question: Question, way: Copying, place: Place) -> Reckoned:
    """What copying by that way comes to."""
    curve: Curve = place.curves[way.link]
    share = place.fleet.policy.thresholds.link_share
    there = curve.moved_at(way.ahead + way.own, question.at, share)
    usd = (place.fleet.links[way.link].usd_per_gb or 0.0) * way.own / 1e9
    return Reckoned(there + question.job.run_seconds, usd)


def cost(question: Question, found: Reckoned, place: Place) -> float:
    """US dollars as the policy means them: the time until its end at the worth of an hour, and the transfer."""
    usd = place.fleet.policy.thresholds.copy_urgency_usd_per_hour * question.job.spec.priority_value / 50
    return (found.end - question.at) / HOUR * usd + found.usd


@dataclass(frozen=True, slots=True)
class Regret:
    """Means over all questions; parts of the better answer's figure."""

    copies: int
    waits: int
    time: float
    cost: float
    as_it_came: float
    right: float
    """Part of the questions in which the chosen cost no more than the other."""
    wrong_hours: float
    """By how much later the job ended, where the other answer was sooner."""


def regret(questions: Iterable[Question], ends: Mapping[JobKey, float], place: Place) -> Regret:
    """See the module. `ends`: when each job truly ended."""
    times, costs, came, right, hours = [], [], [], [], []
    asked = list(questions)
    for question in asked:
        waits = {room.region: waited(question, room, ends) for room in question.rooms}
        copies = [copied(question, way, place) for way in question.copies]
        ways = [*waits.values(), *copies]
        chosen = (
            copies[0] if question.answer == "copy" else waits.get(question.region, min(waits.values(), key=lambda one: one.end))
        )
        soonest = min(one.end for one in ways)
        cheapest = min(cost(question, one, place) for one in ways)
        times.append((chosen.end - question.at) / (soonest - question.at) - 1)
        costs.append(cost(question, chosen, place) / cheapest - 1 if cheapest else 0.0)
        came.append((ends[question.job.key] - question.at) / (soonest - question.at) - 1)
        right.append(costs[-1] <= 1e-9)
        hours += [(chosen.end - soonest) / HOUR] if chosen.end > soonest else []
    copying = sum(question.answer == "copy" for question in asked)
    if not asked:
        return Regret(0, 0, 0.0, 0.0, 0.0, 1.0, 0.0)
    later = fmean(hours) if hours else 0.0
    return Regret(copying, len(asked) - copying, fmean(times), fmean(costs), fmean(came), fmean(right), later)
