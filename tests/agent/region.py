"""A region for tests of the agent: a local cluster with simulated containers, a branch, a store, clocks moved by hand, and
agents that can be killed at any request."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from reconciler.adapters.local import LocalCluster, NodeSpec, SimulatedRuntime
from reconciler.adapters.local import Settings as LocalSettings
from reconciler.adapters.local.objects import ref_of
from reconciler.adapters.local.runtime import Launch, Waiting
from reconciler.agent.loop import Agent
from reconciler.agent.record import Record, decode
from reconciler.agent.settings import Settings
from reconciler.model.grants import Grant, Grants, Lease, grants_key, lease_key, report_key
from reconciler.model.names import GATE, LABEL_ATTEMPT, LABEL_MANAGED, MANAGED_BY
from reconciler.model.report import RegionReport, WorkloadReport
from reconciler.ports import Cluster, ClusterState, KubeObject, ObjectRef, ObjectStore, Stored, SyncState
from tests.agent.objects import TEAM, make_grant, make_grants
from tests.agent.stores import FailingStore

START = datetime(2026, 5, 1, 10, 0, 0, tzinfo=UTC)


class HandClock:
    """Both clocks, moved by hand; `wall_ahead` (seconds) is how wrong the wall clock is."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.wall_ahead = 0.0

    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds + self.wall_ahead)

    def monotonic(self) -> float:
        return 5000.0 + self.seconds


class CountingRuntime(SimulatedRuntime):
    """Simulated containers that all write `output`; `started` has the attempt of each that was ever started, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.started: list[str] = []
        self.output = ""

    def log_tail(self, uid: str, container: str, limit: int) -> str:
        return (super().log_tail(uid, container, limit) + self.output)[-limit:]

    def start(self, launch: Launch, now: int) -> Waiting | None:
        self.started.append(launch.pod["metadata"]["labels"][LABEL_ATTEMPT])
        return super().start(launch, now)


class Branch:
    """A sync engine on a branch held in memory: creates once, prunes, and touches nothing that exists."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.manifests: dict[tuple[str, str], KubeObject] = {}
        self.commit: str | None = None
        self.applied = SyncState(None, {}, frozenset())
        self.nudges: list[str] = []

    def state(self) -> SyncState:
        return self.applied

    def nudge(self, commit: str) -> None:
        self.nudges.append(commit)

    def sync(self) -> None:
        """Apply the branch as it is."""
        with self.cluster.changes() as (objects, now):
            for namespace, name in sorted(self.applied.objects - self.manifests.keys()):
                gone = objects.get("Job", namespace, name)
                if gone is not None:
                    objects.delete(gone, now)
            for (namespace, name), body in sorted(self.manifests.items()):
                if objects.get("Job", namespace, name) is None:
                    objects.create(body, now)
        self.applied = SyncState(self.commit, {}, frozenset(self.manifests))


class Killed(BaseException):
    """The agent was killed. No handler of its own may catch this."""


class Wire:
    """`ports.Cluster`, on the way to which an agent can be killed: before or after the request number `kill_at` is done."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.requests: list[str] = []
        self.kill_at: int | None = None
        self.kill_after = False
        self.fails: Exception | None = None
        """Raised by every request while it is set."""

    def _pass(self, what: str, *, after: bool) -> None:
        if not after:
            self.requests.append(what)
            if self.fails is not None:
                raise self.fails
        if len(self.requests) - 1 == self.kill_at and after is self.kill_after:
            self.kill_at = None
            raise Killed(what)

    def read(self) -> ClusterState:
        self._pass("read", after=False)
        found = self.cluster.read()
        self._pass("read", after=True)
        return found

    def patch(self, target: ObjectRef, body: Mapping[str, Any]) -> ObjectRef:
        self._pass(f"patch {target.kind}", after=False)
        found = self.cluster.patch(target, body)
        self._pass(f"patch {target.kind}", after=True)
        return found

    def delete(self, target: ObjectRef, grace_seconds: int | None) -> None:
        self._pass(f"delete {target.kind} {grace_seconds}", after=False)
        self.cluster.delete(target, grace_seconds)
        self._pass(f"delete {target.kind} {grace_seconds}", after=True)

    def log_tail(self, namespace: str, pod: str, limit: int) -> str:
        self._pass("log_tail", after=False)
        return self.cluster.log_tail(namespace, pod, limit)

    def complaints(self, target: ObjectRef, limit: int) -> Sequence[str]:
        self._pass("complaints", after=False)
        return self.cluster.complaints(target, limit)

    def read_record(self) -> Stored | None:
        self._pass("read_record", after=False)
        found = self.cluster.read_record()
        self._pass("read_record", after=True)
        return found

    def write_record(self, body: bytes, *, expect: str | None) -> str:
        self._pass("write_record", after=False)
        found = self.cluster.write_record(body, expect=expect)
        self._pass("write_record", after=True)
        return found


def job_of(
    name: str, *, size: int = 1, grace: int = 30, gated: bool = True, says: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """A Job as it is rendered: suspended, its pods born gated. `says` are annotations for the simulated containers."""
    labels = {LABEL_MANAGED: MANAGED_BY, LABEL_ATTEMPT: name}
    resources = {"limits": {"nvidia.com/gpu": "1"}, "requests": {"cpu": "1", "memory": "1Gi"}}
    main = {"name": "main", "image": "reg.example.com/train:1", "resources": resources}
    pod: dict[str, Any] = {"restartPolicy": "Never", "terminationGracePeriodSeconds": grace, "containers": [main]}
    if gated:
        pod["schedulingGates"] = [{"name": GATE}]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": TEAM, "labels": labels},
        "spec": {
            "suspend": True,
            "backoffLimit": 0,
            "podReplacementPolicy": "Failed",
            "completions": size,
            "parallelism": size,
            "completionMode": "Indexed" if size > 1 else "NonIndexed",
            "template": {"metadata": {"labels": labels, "annotations": dict(says or {})}, "spec": pod},
        },
    }


def runs(seconds: float | None = None, code: int = 0, stop: float = 0) -> dict[str, str]:
    """How a simulated program runs: for how long, how it ends, how long it takes to stop."""
    says = {"local.reconciler/exit-code": str(code), "local.reconciler/stop-seconds": str(stop)}
    return says if seconds is None else says | {"local.reconciler/run-seconds": str(seconds)}


class Region:
    """The region `eu`, with one agent at work."""

    def __init__(self, store: ObjectStore | None = None, **settings: Any) -> None:
        self.clock = HandClock()
        self.runtime = CountingRuntime()
        nodes = (NodeSpec("n1", gpus=8, product="NVIDIA-A100-SXM4-80GB"),)
        self.cluster = LocalCluster(None, nodes, self.runtime, self.clock, LocalSettings(namespaces=(TEAM,)))
        self.branch = Branch(self.cluster)
        self.store = store if store is not None else FailingStore()
        self.settings = Settings(**settings)
        self.wire = Wire(self.cluster)
        self.version = 0
        self.agents = 0
        self.restart()

    def restart(self) -> None:
        """Another agent takes the place of the one before, which does nothing any more."""
        self.agents += 1
        self.wire = Wire(self.cluster)
        self.agent = Agent(
            region="eu",
            cluster=self.wire,
            engine=self.branch,
            store=self.store,
            clock=self.clock,
            settings=self.settings,
            incarnation=f"incarnation-{self.agents}",
        )

    # ---- what the hub does

    def grant(self, *attempts: str | Grant, epoch: int | None = None, **more: Any) -> Grants:
        """Write a new version of the grants, for the lease's epoch."""
        self.version += 1
        if epoch is None:
            epoch = self.lease().epoch
        grants = make_grants(*attempts, version=self.version, epoch=epoch, **more)
        self.store.put(grants_key("eu"), grants.model_dump_json().encode(), expect=self.store.etag(grants_key("eu")))
        return grants

    def render(self, *jobs: KubeObject) -> None:
        """Put these on the branch and apply it."""
        self.branch.manifests |= {(TEAM, job["metadata"]["name"]): job for job in jobs}
        self.branch.sync()
        self.settle()

    def revoke(self) -> None:
        lease = self.lease()
        revoked = lease.model_copy(update={"revoked": True, "epoch": lease.epoch + 1})
        self.store.put(lease_key("eu"), revoked.model_dump_json().encode(), expect=self.store.etag(lease_key("eu")))

    # ---- time

    def settle(self) -> None:
        """Let everything happen in the cluster that happens now."""
        for _ in range(200):
            if not self.cluster.step():
                return
        raise AssertionError("the region does not come to rest")

    def turn(self, times: int = 1) -> None:
        """A step of the agent, and what the cluster makes of it; without any time passing."""
        for _ in range(times):
            self.agent.step()
            self.settle()

    def advance(self, seconds: float) -> None:
        """Let time pass, with the agent stepping when it is due, and the cluster too."""
        until = self.clock.seconds + seconds
        while self.clock.seconds < until:
            pause = self.agent.step()
            self.settle()
            self.pass_time(min(max(pause, 0.05), until - self.clock.seconds))
        self.agent.step()
        self.settle()

    def pass_time(self, seconds: float) -> None:
        """Let time pass in the cluster only, from one due moment to the next."""
        until = self.clock.seconds + seconds
        self.settle()
        while (due := self.cluster.next_due()) is not None and due - 5000.0 < until:
            self.clock.seconds = max(due - 5000.0, self.clock.seconds)
            self.settle()
        self.clock.seconds = until
        self.settle()

    # ---- what is so

    def lease(self) -> Lease:
        found = self.store.get(lease_key("eu"))
        assert found is not None
        return Lease.model_validate_json(found.body)

    def report(self) -> RegionReport:
        found = self.store.get(report_key("eu"))
        assert found is not None, "no report was sent"
        return RegionReport.model_validate_json(found.body)

    def said(self, attempt: str) -> WorkloadReport:
        """What the last report says of an attempt."""
        return next(one for one in self.report().workloads if one.attempt == attempt)

    def record(self) -> Record:
        found = self.cluster.read_record()
        assert found is not None
        return decode(found.body)

    def job(self, name: str) -> KubeObject:
        found = self.find("Job", name)
        assert found is not None, f"there is no Job {name}"
        return found

    def find(self, kind: str, name: str) -> KubeObject | None:
        with self.cluster.changes() as (objects, _):
            return objects.get(kind, TEAM, name)

    def pods(self, attempt: str) -> list[KubeObject]:
        return [pod for pod in self.cluster.read().pods if pod["metadata"]["labels"].get(LABEL_ATTEMPT) == attempt]

    def phases(self, attempt: str) -> list[str]:
        return [pod["status"]["phase"] for pod in self.pods(attempt)]

    def patch(self, item: KubeObject, body: Mapping[str, Any]) -> None:
        """A person's own patch, at the present version."""
        found = self.find(item["kind"], item["metadata"]["name"])
        assert found is not None
        self.cluster.patch(ref_of(found), body)
        self.settle()

    def delete(self, item: KubeObject, grace: int | None = None) -> None:
        self.cluster.delete(ref_of(item), grace)
        self.settle()

    def health(self) -> list[str]:
        """Codes of the last report's health."""
        return [one.code for one in self.report().health]


def started(name: str = "train-a1", *, grant: Grant | None = None, region: Region | None = None, **job: Any) -> Region:
    """A region in which that attempt has been rendered, granted and released, and runs."""
    region = region or Region()
    region.turn()
    region.render(job_of(name, **job))
    region.grant(grant or make_grant(name, nodes=job.get("size", 1)))
    region.advance(3)
    return region
