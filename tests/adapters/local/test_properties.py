"""Whatever users, agent, nodes and time do in whatever order: what must always hold in a region."""

from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from reconciler.adapters.local import NodeSpec, SimulatedRuntime
from reconciler.adapters.local.job_status import is_finished
from reconciler.adapters.local.kubelet import is_node_ready
from reconciler.adapters.local.moments import millis
from reconciler.adapters.local.nodes import cordon, lose_node, return_node
from reconciler.adapters.local.objects import TERMINAL, owner_of
from reconciler.adapters.local.scheduler import free_room
from reconciler.ports import Conflict, KubeObject
from tests.adapters.local.world import World, make_job, runs
from tests.examples import examples

JOBS, NODES = ("a", "b", "c"), ("n1", "n2")
SOME_JOB, SOME_NODE = st.sampled_from(JOBS), st.sampled_from(NODES)


class Region(RuleBasedStateMachine):
    """A region of two small nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.runtime = SimulatedRuntime()
        specs = [NodeSpec("n1", gpus=4, cpu="4"), NodeSpec("n2", gpus=2, cpu="8", pods=3)]
        self.world = World(specs, runtime=self.runtime)
        self.version = 0
        self.finished: dict[str, KubeObject] = {}

    def job(self, name: str) -> KubeObject | None:
        return next((job for job in self.world.cluster.read().workloads if job["metadata"]["name"] == name), None)

    @rule(
        name=SOME_JOB,
        sizes=st.tuples(st.integers(0, 3), st.integers(1, 4), st.integers(1, 4)),
        ends=st.tuples(st.sampled_from([None, 0, 3, 20]), st.sampled_from([0, 0, 0, 1]), st.sampled_from([0, 2, 30])),
        spec=st.fixed_dictionaries({}, optional={"activeDeadlineSeconds": st.integers(1, 30)}),
        gated=st.booleans(),
        settle=st.booleans(),
    )
    def create(
        self,
        name: str,
        *,
        sizes: tuple[int, int, int],
        ends: tuple[float | None, int, float],
        spec: dict[str, Any],
        gated: bool,
        settle: bool,
    ) -> None:
        gpus, size, at_once = sizes
        body = make_job(name, gpus=gpus, size=size, gated=gated, grace=10, annotations=runs(*ends), **spec)
        body["spec"]["parallelism"] = at_once
        try:
            with self.world.cluster.changes() as (objects, now):
                objects.create(body, now)
        except Conflict:
            assert self.job(name) is not None
        if settle:
            self.world.settle()

    @rule(name=SOME_JOB, suspend=st.booleans(), settle=st.booleans())
    def switch(self, name: str, suspend: bool, settle: bool) -> None:
        if self.job(name) is not None:
            self.world.suspend(suspend, name)
        if settle:
            self.world.settle()

    @rule(choose=st.randoms(use_true_random=False))
    @precondition(lambda self: self.world.cluster.read().pods)
    def lift_gate(self, choose: Any) -> None:
        pod = choose.choice(self.world.cluster.read().pods)
        if pod["spec"].get("schedulingGates"):
            self.world.patch(pod, {"spec": {"schedulingGates": None}})

    @rule(choose=st.randoms(use_true_random=False), grace=st.sampled_from([None, 0, 1, 5, 60]))
    @precondition(lambda self: self.world.cluster.read().pods)
    def delete_pod(self, choose: Any, grace: int | None) -> None:
        self.world.delete(choose.choice(self.world.cluster.read().pods), grace)

    @rule(name=SOME_JOB)
    def delete_job(self, name: str) -> None:
        job = self.job(name)
        if job is not None:
            self.world.delete(job)
            self.finished.pop(job["metadata"]["uid"], None)

    @rule(seconds=st.sampled_from([0, 0.3, 1, 4, 30, 400]))
    def time_passes(self, seconds: float) -> None:
        self.world.advance(seconds)

    @rule(node=SOME_NODE, lost=st.booleans())
    def node_changes(self, node: str, lost: bool) -> None:
        with self.world.cluster.changes() as (objects, now):
            (lose_node if lost else return_node)(objects, node, now)

    @rule(node=SOME_NODE, on=st.booleans())
    def node_is_cordoned(self, node: str, on: bool) -> None:
        with self.world.cluster.changes() as (objects, _):
            cordon(objects, node, on=on)

    @rule(paused=st.booleans())
    def controllers(self, paused: bool) -> None:
        self.world.cluster.pause_controllers(paused=paused)

    @invariant()
    def no_node_is_given_out_twice(self) -> None:
        with self.world.cluster.changes() as (objects, _):
            for node, room in free_room(objects).items():
                assert all(amount >= 0 for amount in room.values()), (node, room)
        held = Counter(
            (pod["spec"]["nodeName"], index)
            for pod in self.world.cluster.read().pods
            if pod["spec"].get("nodeName") and pod["status"]["phase"] not in TERMINAL
            for index in (pod["metadata"]["annotations"].get("local.reconciler/devices") or "").split(",")
            if index
        )
        assert all(times == 1 for times in held.values()), held

    @invariant()
    def never_two_live_pods_of_one_index_of_one_job(self) -> None:
        live: Counter[tuple[str, str | None]] = Counter()
        for pod in self.world.cluster.read().pods:
            owner = owner_of(pod)
            assert owner is not None
            if pod["status"]["phase"] not in TERMINAL:
                index = pod["metadata"]["annotations"].get("batch.kubernetes.io/job-completion-index")
                live[owner["uid"], index] += 1
        indexed = {key: times for key, times in live.items() if key[1] is not None}
        assert all(times == 1 for times in indexed.values()), live
        for job in self.world.cluster.read().workloads:
            of_job = sum(times for (uid, _), times in live.items() if uid == job["metadata"]["uid"])
            assert of_job <= job["spec"]["parallelism"], (job["metadata"]["name"], live)

    @invariant()
    def versions_rise(self) -> None:
        state = self.world.cluster.read()
        newest = max(int(item["metadata"]["resourceVersion"]) for item in (*state.nodes, *state.pods, *state.workloads))
        versions = Counter(item["metadata"]["resourceVersion"] for item in (*state.nodes, *state.pods, *state.workloads))
        assert max(versions.values()) == 1
        with self.world.cluster.changes() as (objects, _):
            assert objects.version >= max(newest, self.version)
            self.version = objects.version

    @invariant()
    def a_finished_job_stays_as_it_is_and_makes_no_pod(self) -> None:
        for job in self.world.cluster.read().workloads:
            if is_finished(job):
                before = self.finished.setdefault(job["metadata"]["uid"], job)
                assert job["status"] == before["status"]
                assert "active" not in job["status"]

    @invariant()
    def the_end_of_a_pod_is_the_end_of_what_it_ran(self) -> None:
        running = {uid for (uid, _), run in self.runtime._runs.items() if not run.seen_ended}
        for pod in self.world.cluster.read().pods:
            if pod["status"]["phase"] in TERMINAL:
                assert pod["metadata"]["uid"] not in running

    @invariant()
    def a_grace_that_is_over_is_over(self) -> None:
        self.world.settle()
        state = self.world.cluster.read()
        now = round(self.world.clock.now().timestamp() * 1000)
        ready = {node["metadata"]["name"] for node in state.nodes if is_node_ready(node)}
        for pod in state.pods:
            deleted = pod["metadata"].get("deletionTimestamp")
            if deleted and millis(deleted) <= now and pod["spec"].get("nodeName") in ready:
                assert pod["status"]["phase"] in TERMINAL

    @invariant()
    def rest_is_rest(self) -> None:
        self.world.settle()
        due = self.world.cluster.next_due()
        assert due is None or due > self.world.clock.monotonic()


Region.TestCase.settings = settings(max_examples=examples(80), stateful_step_count=40, deadline=None)
TestRegion = Region.TestCase
