"""Whatever happens in whatever order: no attempt runs twice, and what was proved to have stopped never runs again.

A hub that keeps rules 3 and 5 of the protocol, a region with its agent, and everything that befalls them: partitions, lost
answers, an agent killed at any request, a controller that sleeps, people with kubectl. Time moves by hand.
"""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from reconciler.agent.reading import is_active
from reconciler.model.grants import Lease, lease_key, report_key
from reconciler.model.report import RegionReport
from tests.agent.objects import TEAM
from tests.agent.region import Killed, Region, job_of, runs
from tests.agent.stores import FailingStore
from tests.examples import examples

pytestmark = pytest.mark.slow

REVOKE_AFTER = 240 + 30 + 30
MOST_ATTEMPTS = 8
HOW_JOBS_RUN = {
    "for ever": runs(),
    "shortly": runs(20),
    "slow to stop": runs(stop=25),
    "failing": runs(40, code=1),
    "stubborn": runs(stop=500),
}
some = st.integers(0, MOST_ATTEMPTS - 1)
"""Which of those that there are."""
then = st.sampled_from([0.0, 0.5, 4.0, 4.0])
"""Seconds that pass after something was done."""


class Partition(FailingStore):
    """The agent's way to the store; the hub has its own."""

    def __init__(self, real: FailingStore) -> None:
        super().__init__()
        self.objects = real.objects


class Fleet(RuleBasedStateMachine):
    """One region, its hub, and fate."""

    def __init__(self) -> None:
        super().__init__()
        self.real = FailingStore()
        self.way = Partition(self.real)
        self.region = Region(self.real, look_seconds=4.0, rest_seconds=0.5)
        self.region.agent.store = self.way
        self.names: list[str] = []
        self.granted: set[str] = set()
        self.withdrawn: dict[str, int] = {}
        self.proved: set[str] = set()
        self.seen_etag: tuple[str | None, float] = (None, 0.0)
        self.tick()

    # ---- the agent and time

    def tick(self) -> float:
        """A step of the agent; if it is killed, another one takes its place at once."""
        try:
            pause = self.region.agent.step()
        except Killed:
            self.region.restart()
            self.region.agent.store = self.way
            pause = 0.5
        self.region.settle()
        return pause

    @rule(seconds=st.sampled_from([5.0, 15.0, 60.0, 250.0]))
    def time_passes(self, seconds: float) -> None:
        until = self.region.clock.seconds + seconds
        while self.region.clock.seconds < until:
            self.region.pass_time(min(max(self.tick(), 0.2), until - self.region.clock.seconds))
        self.tick()

    @rule(seconds=st.sampled_from([0.2, 4.0]), steps=st.integers(0, 3))
    def the_agent_is_quick_or_sleeps(self, seconds: float, steps: int) -> None:
        """Several steps before anything comes of them, or none for a while."""
        for _ in range(steps):
            try:
                self.region.agent.step()
            except Killed:
                self.region.restart()
                self.region.agent.store = self.way
        if not steps:
            self.region.pass_time(seconds)

    @rule(after_requests=st.integers(0, 12), done=st.booleans())
    def the_agent_will_be_killed(self, after_requests: int, done: bool) -> None:
        self.region.wire.kill_at = len(self.region.wire.requests) + after_requests
        self.region.wire.kill_after = done

    @rule()
    def the_agent_restarts(self) -> None:
        self.region.restart()
        self.region.agent.store = self.way

    # ---- the hub

    @precondition(lambda self: len(self.names) < MOST_ATTEMPTS)
    @rule(how=st.sampled_from(sorted(HOW_JOBS_RUN)), synced=st.sampled_from([True, True, False]), seconds=then)
    def the_hub_starts_another(self, how: str, synced: bool, seconds: float) -> None:
        name = f"train-a{len(self.names)}"
        self.names.append(name)
        self.region.branch.manifests[TEAM, name] = job_of(name, grace=600, says=HOW_JOBS_RUN[how])
        if synced:
            self.region.branch.sync()
        self.granted.add(name)
        self.write()
        self.time_passes(seconds)

    @precondition(lambda self: self.granted)
    @rule(number=some, seconds=then)
    def the_hub_withdraws(self, number: int, seconds: float) -> None:
        name = sorted(self.granted)[number % len(self.granted)]
        self.granted.discard(name)
        self.withdrawn[name] = self.region.version + 1
        self.write()
        self.time_passes(seconds)
        self.the_hub_looks()

    def write(self) -> None:
        stored = self.real.get(lease_key("eu"))
        lease = Lease.model_validate_json(stored.body) if stored else None
        self.region.grant(*sorted(self.granted), epoch=0 if lease is None or lease.revoked else lease.epoch)

    @rule()
    def the_hub_looks(self) -> None:
        """Rule 5: what a report says of an attempt that its grants do not list. Then rule 3: the lease's ETag."""
        stored = self.real.get(report_key("eu"))
        if stored is not None:
            report = RegionReport.model_validate_json(stored.body)
            said = {one.attempt: one for one in report.workloads}
            for name, version in list(self.withdrawn.items()):
                if report.grants_version >= version and (name not in said or said[name].stopped):
                    self.proved.add(name)
        self.watch()

    def watch(self) -> None:
        etag, now = self.real.etag(lease_key("eu")), self.region.clock.seconds
        if etag != self.seen_etag[0]:
            self.seen_etag = (etag, now)
            self.write()  # the epoch may be a new one
        elif etag is not None and now - self.seen_etag[1] >= REVOKE_AFTER and not self.region.lease().revoked:
            self.region.revoke()
            self.proved |= self.granted | self.withdrawn.keys()
            self.granted.clear()
            self.write()

    # ---- fate

    @rule(how=st.sampled_from(["well", "well", "down", "loses answers"]))
    def the_way_to_the_store(self, how: str) -> None:
        self.way.down, self.way.lose_answers = how == "down", how == "loses answers"

    @precondition(lambda self: len(self.granted) > 1)
    @rule()
    def a_long_partition(self) -> None:
        """The store is away until the hub gives the region up, and comes back."""
        self.way.down = True
        self.the_hub_looks()
        for _ in range(5):
            self.time_passes(61.0)
            self.what_has_stopped_stays_stopped()
        self.the_hub_looks()
        self.what_has_stopped_stays_stopped()
        self.way.down = False

    @rule(paused=st.booleans())
    def the_controllers(self, paused: bool) -> None:
        self.region.cluster.pause_controllers(paused=paused)

    @rule()
    def the_engine_syncs(self) -> None:
        self.region.branch.sync()

    def one_of(self, number: int) -> str:
        return self.names[number % len(self.names)]

    @precondition(lambda self: self.names)
    @rule(number=some, suspends=st.sampled_from([[True], [False], [True, False]]), seconds=then)
    def a_person_suspends_or_resumes(self, number: int, suspends: list[bool], seconds: float) -> None:
        for suspend in suspends:
            job = self.region.find("Job", self.one_of(number))
            if job is not None:
                self.region.patch(job, {"spec": {"suspend": suspend}})
        self.time_passes(seconds)

    @precondition(lambda self: self.names)
    @rule(number=some, made_again=st.booleans(), seconds=then)
    def a_person_deletes_a_job(self, number: int, made_again: bool, seconds: float) -> None:
        job = self.region.find("Job", self.one_of(number))
        if job is not None:
            self.region.delete(job)
        if made_again:
            self.region.branch.sync()
        self.time_passes(seconds)

    @precondition(lambda self: self.names)
    @rule(number=some)
    def a_person_deletes_a_pod(self, number: int) -> None:
        for pod in self.region.pods(self.one_of(number)):
            self.region.delete(pod)

    # ---- what must hold

    @invariant()
    def no_attempt_runs_twice(self) -> None:
        started = self.region.runtime.started
        assert len(set(started)) == len(started), started

    @invariant()
    def what_has_stopped_stays_stopped(self) -> None:
        for name in self.proved:
            assert not [pod["metadata"]["name"] for pod in self.region.pods(name) if is_active(pod)], name

    def teardown(self) -> None:
        """When all is well again, everything withdrawn is proved to have stopped, and no bug was met on the way."""
        self.way.down = self.way.lose_answers = False
        self.region.cluster.pause_controllers(paused=False)
        self.withdrawn |= dict.fromkeys(self.granted, self.region.version + 1)
        self.granted.clear()
        self.write()
        for _ in range(4):
            self.time_passes(200.0)
            self.the_hub_looks()
        assert self.withdrawn.keys() <= self.proved
        assert "Bug" not in self.region.health()
        self.no_attempt_runs_twice()
        self.what_has_stopped_stays_stopped()


TestFleet = Fleet.TestCase
TestFleet.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
