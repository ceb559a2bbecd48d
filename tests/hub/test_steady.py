"""Leaving out looks at jobs for which nothing has changed never changes an outcome, whatever happens in between."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.hub.decide import Memory, decide
from reconciler.hub.ledger import HubFile, Ledger, Rejected, written
from reconciler.hub.regions import RegionSeen, seen_of
from reconciler.hub.review import PlacementFile
from reconciler.hub.steady import Steady
from reconciler.hub.world import Outcome, World
from reconciler.model.attempt import State
from reconciler.model.names import JobKey
from reconciler.model.placement import Placement
from reconciler.model.policy import Limits, Policy
from reconciler.model.reasons import Why, because
from reconciler.model.record import JobRecord, Phase
from reconciler.planning.observed import NOTHING_SEEN, Away
from tests.builders import NOW, TEAM, make_attempt, make_nodes, make_record, make_report, make_spec
from tests.examples import examples
from tests.hub.main_branch import Main
from tests.hub.words import failed, job_file, pod, region_file, running, stopped, succeeded, work

JOBS = ("llm-a", "llm-b", "llm-c")
REGIONS = ("eu", "us")
POLICIES = (
    "{}\n",
    "limits: {max_runtime_seconds: 500}\n",
    "approval: {always: true}\n",
    "limits: {start_timeout_seconds: 60}\n",
    "thresholds: {reschedules: 1}\n",
)
FIELDS: tuple[dict[str, Any] | None, ...] = (
    {},
    {"priority": 90},
    {"image": "reg.example.com/other:2"},
    {"suspend": True},
    {"max_runtime_seconds": 300},
    {"rerun": 1},
    {"retries": 2},
    {"start_timeout_seconds": 30},
    {"allowed_regions": ["us"]},
    None,
)


def waiting(attempt: str) -> Any:
    return work(attempt, "Released", pod(attempt, "Pending", waiting="ImagePullBackOff: no such image", started_at=None))


SAYS: tuple[Callable[[str], Any], ...] = (
    running,
    succeeded,
    failed,
    stopped,
    waiting,
    lambda attempt: work(attempt, "Absent", uid="u1", stopped=True),
    lambda attempt: work(attempt, "Absent", uid=None, stopped=True),
    lambda attempt: replace_said(running(attempt)),
)


def replace_said(work: Any) -> Any:
    return work.model_copy(update={"replaced": True})


@dataclass
class Life:
    """A ledger, a main and regions, to which things happen."""

    main: Main = field(default_factory=Main)
    now: datetime = NOW
    records: dict[JobKey, JobRecord] = field(default_factory=dict)
    regions: dict[str, RegionSeen] = field(default_factory=dict)
    ages: dict[str, float | None] = field(default_factory=dict)
    withdrawn_at: dict[str, int] = field(default_factory=dict)
    placements: dict[JobKey, PlacementFile | None] = field(default_factory=dict)
    written: dict[JobKey, Placement] = field(default_factory=dict)
    declined: frozenset[JobKey] = frozenset()
    closed: bool = False
    version: int = 0
    epochs: dict[str, int] = field(default_factory=dict)
    away: dict[str, Away] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.put("policy.yaml", POLICIES[0])
        for name in REGIONS:
            self.put(f"regions/{name}.yaml", region_file(name))
            self.report(name)
        for job_id in JOBS:
            self.put(f"jobs/{TEAM}/{job_id}.yaml", job_file(job_id))

    def put(self, path: str, text: str) -> None:
        self.main.put(path, text)

    def report(self, region: str, *works: Any, **fields: Any) -> None:
        self.ages[region] = 0.0
        said = {"grants_version": self.version, **fields}
        self.regions[region] = seen_of(make_report(region, make_nodes(2), works, **said))

    def current(self) -> list[Any]:
        return [record.current for record in self.records.values() if record.current is not None]

    def happen(self, what: int, which: int, how: int) -> None:
        """Something happens: `what` of those below, to the job or region `which`, in the manner `how`."""
        kinds = (self.time_passes, self.regions_tell, self.people_edit, self.grants_are_acted_upon, self.policy_changes)
        others = (self.placements_change, self.engines_refuse, self.regions_fall_silent, self.files_break, self.caches_vanish)
        (*kinds, *others, self.leases_change)[what](which, how)

    def time_passes(self, _: int, how: int) -> None:
        self.now += timedelta(seconds=(0, 1, 14, 15, 16, 30, 61, 299, 301, 500, 899, 900, 901, 4000)[how % 14])

    def regions_tell(self, which: int, how: int) -> None:
        for attempt in self.current():
            if attempt.region == REGIONS[which % 2]:
                self.report(attempt.region, SAYS[how % len(SAYS)](attempt.name))

    def people_edit(self, which: int, how: int) -> None:
        fields, path = FIELDS[how % len(FIELDS)], self.path(which)
        if fields is not None:
            self.put(path, job_file(JOBS[which % 3], **fields))
        elif path in self.main.entries:
            self.main.remove(path)

    def grants_are_acted_upon(self, _: int, how: int) -> None:
        self.version += 1
        self.withdrawn_at = {one.name: self.version for one in self.current() if one.state is State.STOPPING}
        for name in REGIONS:
            self.report(name, *(stopped(one.name) for one in self.current() if one.region == name and how % 2))

    def policy_changes(self, _: int, how: int) -> None:
        self.put("policy.yaml", POLICIES[how % len(POLICIES)])

    def engines_refuse(self, which: int, _: int) -> None:
        region = REGIONS[which % 2]
        errors = {f"manifests/{TEAM}/{one.name}.yaml": "bad" for one in self.current() if one.region == region}
        self.report(region, sync_errors=errors)

    def regions_fall_silent(self, which: int, how: int) -> None:
        self.ages[REGIONS[which % 2]] = (None, 100.0, 1.0)[how % 3]
        self.closed = how % 4 == 3

    def leases_change(self, which: int, how: int) -> None:
        """A region takes its next lease, is silent, is given up, or is heard of again."""
        name = REGIONS[which % 2]
        if how % 4 == 0:
            self.epochs[name] = self.epochs.get(name, 0) + 1
        self.away.pop(name, None)
        if how % 4 in (1, 2):
            self.away[name] = Away(because(Why.REGION_AWAY, region=name), "10:05:00 UTC" if how % 4 == 2 else None)

    def files_break(self, which: int, _: int) -> None:
        self.put(self.path(which), "job_id: [\n")

    def caches_vanish(self, _: int, __: int) -> None:
        """What is read again is equal, but not the same object."""
        self.records = {key: JobRecord.model_validate_json(written(record)) for key, record in self.records.items()}

    def path(self, which: int) -> str:
        return f"jobs/{TEAM}/{JOBS[which % 3]}.yaml"

    def placements_change(self, which: int, how: int) -> None:
        key = JobKey(TEAM, JOBS[which % 3])
        said = self.written.get(key)
        if said is None or key not in self.records:
            return
        changes: dict[str, Any] = (
            {"region": "us"},
            {"pin": "eu"},
            {"veto": ("eu",)},
            {"veto": ("all",)},
            {},
            {"region": "mars"},
        )[how % 6]
        if how % 7 == 6:
            self.placements[key] = None
        elif how % 7 == 5:
            self.declined = frozenset({key})
        else:
            self.placements[key] = PlacementFile(f"blob-{self.version}-{how}", said.model_copy(update=changes))

    def world(self) -> World:
        sources = self.main.sources()
        ledger = Ledger(self.records, {}, HubFile(), Rejected(), {}, {})
        refused = {"region/eu": because(Why.BRANCH_REFUSED, branch="region/eu", message="no")} if self.closed else {}
        said = (self.regions, self.ages, self.withdrawn_at, self.placements, self.declined, refused, "x")
        return World(sources, ledger, None, *said, away=dict(self.away), epochs=dict(self.epochs))

    def take(self, outcome: Outcome) -> None:
        """Publish: from now on the ledger and the placements are these."""
        self.records = dict(outcome.records)
        self.written |= {**outcome.placements, **outcome.proposals}
        for key in outcome.placements:
            seen = self.records[key].placement.model_copy(update={"blob": f"own-{self.version}-{self.now}"})
            self.records[key] = self.records[key].model_copy(update={"placement": seen})
        self.placements, self.declined = {}, frozenset()


happenings = st.lists(st.tuples(st.integers(0, 10), st.integers(0, 5), st.integers(0, 27)), min_size=4, max_size=30)


@settings(max_examples=examples(120), deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(happenings)
def test_a_memory_that_was_kept_decides_what_a_new_one_decides(history: list[tuple[int, int, int]]) -> None:
    life, kept = Life(), Memory()
    for happening in history:
        life.happen(*happening)
        for _ in range(2):  # and once more, when the first cycle has changed something
            world = life.world()
            outcome, fresh = decide(world, life.now, kept), decide(world, life.now)
            assert outcome.records == fresh.records
            assert (outcome.placements, outcome.proposals, outcome.events) == (fresh.placements, fresh.proposals, fresh.events)
            life.take(outcome)


def test_the_histories_reach_every_phase_and_every_state() -> None:
    """The property above is worth something only where things happen; a fixed walk shows that they do."""
    phases: set[Phase] = set()
    states: set[State] = set()
    dice = random.Random(7)
    for _ in range(60):
        life = Life()
        for _ in range(25):
            life.happen(dice.randrange(11), dice.randrange(6), dice.randrange(28))
            life.take(decide(life.world(), life.now))
            phases |= {record.phase for record in life.records.values()}
            states |= {attempt.state for record in life.records.values() for attempt in record.attempts}
    assert phases == set(Phase)
    assert states >= {State.PROPOSED, State.GRANTED, State.RUNNING, State.STOPPING, State.SUCCEEDED, State.FAILED, State.STOPPED}


# ---- what a look may be left out by -------------------------------------------------------------------------------


def noted(record: JobRecord, policy: Policy) -> tuple[Steady, Any]:
    """A steady that has seen the record with a file, and that file."""
    main = Main.of({f"jobs/{TEAM}/llm-a.yaml": job_file("llm-a")})
    file = main.sources().jobs[JobKey(TEAM, "llm-a")]
    steady = Steady()
    steady.under(policy)
    steady.note(record, file, NOTHING_SEEN, policy)
    return steady, file


def test_a_job_that_waits_needs_no_look_however_late_it_is() -> None:
    record = make_record()
    steady, file = noted(record, Policy())
    assert steady.holds(record.key, record, file, NOTHING_SEEN, NOW + timedelta(days=999))


def test_an_attempt_that_has_not_started_is_looked_at_again_at_its_time_out() -> None:
    policy = Policy(limits=Limits(start_timeout_seconds=60))
    record = make_record(make_attempt(state=State.GRANTED, granted_at=NOW))
    steady, file = noted(record, policy)
    assert steady.holds(record.key, record, file, NOTHING_SEEN, NOW + timedelta(seconds=59))
    assert not steady.holds(record.key, record, file, NOTHING_SEEN, NOW + timedelta(seconds=60))


def test_an_attempt_that_runs_is_looked_at_again_at_its_deadline() -> None:
    spec = make_spec(max_runtime_seconds=100)
    record = make_record(make_attempt(spec=spec, started_at=NOW), spec=spec)
    steady, file = noted(record, Policy())
    assert steady.holds(record.key, record, file, NOTHING_SEEN, NOW + timedelta(seconds=114))
    assert not steady.holds(record.key, record, file, NOTHING_SEEN, NOW + timedelta(seconds=115))


def test_any_other_record_file_report_or_policy_asks_for_a_look() -> None:
    record, policy = make_record(make_attempt()), Policy()
    steady, file = noted(record, policy)
    assert steady.holds(record.key, record, file, NOTHING_SEEN, NOW)
    assert not steady.holds(record.key, record.model_copy(), file, NOTHING_SEEN, NOW)
    assert not steady.holds(record.key, record, replace(file), NOTHING_SEEN, NOW)
    assert not steady.holds(record.key, record, file, replace(NOTHING_SEEN, without_it=True), NOW)
    assert not steady.holds(record.key, record, file, replace(NOTHING_SEEN, refused="bad"), NOW)
    assert not steady.holds(record.key, record, file, replace(NOTHING_SEEN, workload=running("x")), NOW)
    assert not steady.holds(record.key, record, file, replace(NOTHING_SEEN, epoch=1), NOW), "a lease that it can be bound to"
    away = Away(because(Why.REGION_AWAY, region="eu"))
    assert not steady.holds(record.key, record, file, replace(NOTHING_SEEN, away=away), NOW)
    steady.under(Policy())
    assert not steady.holds(record.key, record, file, NOTHING_SEEN, NOW)


def test_jobs_that_the_ledger_has_lost_are_forgotten() -> None:
    record = make_record()
    steady, file = noted(record, Policy())
    steady.keep_only({})
    assert not steady.holds(record.key, record, file, NOTHING_SEEN, NOW)
