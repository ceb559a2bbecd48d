"""A hub at work, for tests: the real one, over a real bare repository and a real store, with clocks moved by hand.

Regions are told of in two ways. `tell` writes a report as an agent would, for tests in which only its content matters. `Live` is
a region with the real agent, over a local cluster whose containers run by passed-in time. After every cycle the rig holds what
stands in Git and in the store against the rules that no test may see broken (`_Rules`).
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pygit2

from reconciler.adapters.documents import reader
from reconciler.adapters.file_store import FileStore
from reconciler.adapters.git import BareClone
from reconciler.adapters.local import LocalCluster, LocalSync, NodeSpec, SimulatedRuntime
from reconciler.adapters.local import Settings as ClusterSettings
from reconciler.adapters.local.runtime import Launch, Waiting
from reconciler.agent.loop import Agent
from reconciler.agent.settings import Settings as AgentSettings
from reconciler.hub.cycle import Ended, Hub, HubOptions, Result
from reconciler.hub.ledger import HubFile, written
from reconciler.model.attempt import ENDED, MAY_RUN, Attempt
from reconciler.model.grants import Grants, HubLease, Lease, grants_key, lease_key, report_key
from reconciler.model.names import ANNOTATION_JOB_ID, LABEL_ATTEMPT, JobKey
from reconciler.model.record import JobRecord
from reconciler.model.report import NodeReport, PodReport, RegionReport, WorkloadReport
from reconciler.ports import Listed, ObjectStore, PushOutcome, RefUpdate, Stored
from tests.builders import NOW, TEAM, make_node, make_nodes, make_report
from tests.githttp import GitServer, run_git

IMAGE = "reg.example.com:5000/team/train:1.4"
A100 = "NVIDIA-A100-SXM4-80GB"
POOL = "node_pools: [{name: a, nodes: 2, gpus: 8, gpu_model: A100-80GB, cpu: '96', memory: 1000Gi}]\n"
SETTINGS = "intervals: {push_seconds: 0}\n"
REPO_URL = "https://git.example.com/jobs.git"
"""As it is published; where the rig's repository lies is another matter."""


def region_file(name: str, usd: float = 2.0, more: str = "") -> str:
    """regions/<name>.yaml: two nodes of 8 A100."""
    return f"name: {name}\nprices: {{A100-80GB: {usd}}}\n{POOL}{more}"


FILES = {
    "reconciler.yaml": SETTINGS,
    "regions/eu.yaml": region_file("eu", 1.0),
    "regions/us.yaml": region_file("us", 20.0),
}
"""Two regions alike, of which eu is cheaper and so the first choice."""


class ManualClock:
    """Both clocks, moved by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return 1000.0 + self.seconds


class WatchedGit:
    """A `GitRepository` that remembers its pushes. `before_push` is called once, before the next push is sent."""

    def __init__(self, inner: BareClone) -> None:
        self.inner = inner
        self.pushes: list[Sequence[RefUpdate]] = []
        self.before_push: list[Callable[[], object]] = []
        self.before_look: Callable[[], None] | None = None
        self.fails: Exception | None = None
        """Raised instead of asking the remote, while it is set."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def heads(self) -> Mapping[str, str]:
        if self.before_look is not None:
            self.before_look()
        if self.fails is not None:
            raise self.fails
        return self.inner.heads()

    def push(self, updates: Sequence[RefUpdate]) -> PushOutcome:
        if self.before_push:
            self.before_push.pop(0)()
        self.pushes.append(updates)
        return self.inner.push(updates)


class FaultyStore:
    """An `ObjectStore` whose requests for some keys fail. `lose_answers`: those writes are done, and their answers lost."""

    def __init__(self, inner: ObjectStore) -> None:
        self.inner = inner
        self.fails: dict[str, Exception] = {}
        """Key → what every request for it raises."""
        self.fails_put: dict[str, Exception] = {}
        self.lose_answers: dict[str, Exception] = {}
        self.asked: list[str] = []

    def _ask(self, what: str, key: str) -> None:
        self.asked.append(f"{what} {key}")
        if key in self.fails:
            raise self.fails[key]

    def get(self, key: str) -> Stored | None:
        self._ask("get", key)
        return self.inner.get(key)

    def etag(self, key: str) -> str | None:
        self._ask("etag", key)
        return self.inner.etag(key)

    def put(self, key: str, body: bytes, *, expect: str | None) -> str:
        self._ask("put", key)
        if key in self.fails_put:
            raise self.fails_put[key]
        etag = self.inner.put(key, body, expect=expect)
        if key in self.lose_answers:
            raise self.lose_answers[key]
        return etag

    def list(self, prefix: str) -> Iterable[Listed]:
        return self.inner.list(prefix)

    def copy(self, source: str, target: str) -> None:
        self.inner.copy(source, target)

    def delete(self, key: str) -> None:
        self.inner.delete(key)


class Rig:
    """A jobs repository, a store, and the hub between them."""

    def __init__(self, folder: Path, server: GitServer | None = None, files: Mapping[str, str] | None = FILES) -> None:
        self.folder = folder
        self.clock = ManualClock()
        if server is None:
            self.bare = folder / "jobs.git"
            self.bare.mkdir(parents=True)
            run_git(self.bare, "init", "--quiet", "--bare", "--initial-branch=main", "--template=")
            self.url = str(self.bare)
        else:
            self.bare, self.url = server.create("jobs"), server.url("jobs")
        run_git(self.bare, "config", "core.fsync", "none")
        (folder / "store").mkdir(parents=True)
        self.store = FaultyStore(FileStore(folder / "store"))
        self.hubs = 0
        self.people: set[str] = set()
        self.live: dict[str, Live] = {}
        self._sequences: dict[str, int] = {}
        self._woken: object = None
        self._again_at = 0.0
        self._rules = _Rules(self)
        if files is not None:
            self.put(files)
        self.git, self.hub = self.another_hub()

    def another_hub(self, **options: Any) -> tuple[WatchedGit, Hub]:
        """A hub with a clone of its own, as on another machine."""
        self.hubs += 1
        git = WatchedGit(BareClone(self.url, self.folder / f"clone-{self.hubs}"))
        said = HubOptions(holder=f"hub-{self.hubs}", repo_url=REPO_URL, stage_image="reg.example.com/stage:1")
        return git, Hub(git, self.store, reader, self.clock, replace(said, **options))  # type: ignore[arg-type]

    def restart(self) -> None:
        """The hub is gone, with all that it knew; another one takes its place once the lease has run out."""
        self.git, self.hub = self.another_hub()
        self.cycle(Ended.STANDBY)
        self.clock.seconds += 16
        for name in sorted(self._sequences):
            self.tell_again(name)

    # ---- what people do

    def put(self, changes: Mapping[str, str | None], branch: str = "main") -> str:
        """A person's commit on a branch: each path gets that text, or is removed (None). Returns the commit."""
        tip = self.tip(branch)
        lines = [f"commit refs/heads/{branch}\ncommitter Someone <someone@example.com> 1790000000 +0000\ndata 6\nchange\n"]
        lines += [f"from {tip}\n"] if tip else []
        body = "".join(lines).encode()
        for path, text in changes.items():
            content = (text or "").encode()
            body += f"D {path}\n".encode() if text is None else f"M 100644 inline {path}\ndata {len(content)}\n".encode()
            body += b"" if text is None else content + b"\n"
        run_git(self.bare, "fast-import", "--force", "--quiet", body=body)
        made = self.tip(branch)
        assert made is not None
        self.people.add(made)
        return made

    def move(self, branch: str, commit: str | None) -> None:
        """A person forces a branch to a commit, or deletes it (None)."""
        run_git(
            self.bare, "update-ref", *(["-d"] if commit is None else []), f"refs/heads/{branch}", *([commit] if commit else [])
        )
        if commit is not None:
            self.people.add(commit)

    def job(self, job_id: str = "llm-a", team: str = TEAM, **fields: Any) -> str:
        """A person commits a job file: 8 A100 on one node unless `fields` say otherwise."""
        return self.put({f"jobs/{team}/{job_id}.yaml": job_file(job_id, **fields)})

    def jobs(self, *job_ids: str, **fields: Any) -> str:
        """Several alike in one commit."""
        return self.put({f"jobs/{TEAM}/{job_id}.yaml": job_file(job_id, **fields) for job_id in job_ids})

    def remove(self, *job_ids: str) -> str:
        """A person removes those files."""
        return self.put({f"jobs/{TEAM}/{job_id}.yaml": None for job_id in job_ids})

    def edit_placement(self, job_id: str = "llm-a", *, branch: str = "placements", **fields: Any) -> str:
        """A person changes a placement file; `fields` replace those that the hub wrote."""
        path = f"{TEAM}/{job_id}.yaml"
        said = self.placement(job_id, branch) | fields
        return self.put({path: json.dumps(said)}, branch)

    def merge_proposal(self, job_id: str = "llm-a", *, delete: bool = True, **fields: Any) -> None:
        """A person merges a proposal's branch, with `fields` changed on it before; forges delete it then."""
        branch = f"proposals/{TEAM}/{job_id}"
        if fields:
            self.edit_placement(job_id, branch=branch, **fields)
        text = self.text(branch, f"{TEAM}/{job_id}.yaml")
        assert text is not None
        self.put({f"{TEAM}/{job_id}.yaml": text}, "placements")
        if delete:
            self.move(branch, None)

    # ---- what regions say

    def tell(self, region: str, *workloads: WorkloadReport, nodes: Sequence[NodeReport] | None = None, **fields: Any) -> None:
        """A region reports: it has acted on the newest grants, its GPUs are free but for what `workloads` show, unless said."""
        self._lease(region)
        self._sequences[region] = self._sequences.get(region, 0) + 1
        said: dict[str, Any] = {"sequence": self._sequences[region], "grants_version": self.version(region)}
        report = make_report(region, make_nodes(2) if nodes is None else nodes, workloads, **(said | fields))
        self.write_report(region, report.model_dump_json().encode())

    def tell_again(self, region: str, **fields: Any) -> None:
        """The region reports once more, with nothing new but its sequence and `fields`."""
        found = self.store.inner.get(report_key(region))
        assert found is not None
        self._sequences[region] += 1
        said = {"sequence": self._sequences[region], **fields}
        self.write_report(region, RegionReport.model_validate_json(found.body).model_copy(update=said).model_dump_json().encode())

    def write_report(self, region: str, body: bytes) -> None:
        """Put these bytes where a region's report stands."""
        self.store.inner.put(report_key(region), body, expect=self.store.inner.etag(report_key(region)))

    def tell_running(self, region: str, **fields: Any) -> None:
        """A region reports that everything granted there runs, on its two nodes of 8 GPUs."""
        used, works = [0, 0], []
        attempts = {one.name: one for record in self.records().values() for one in record.attempts}
        for name in self.granted(region):
            gpus, pods = attempts[name].needs.gpus, []
            for index in range(attempts[name].nodes):
                node = next(number for number in (0, 1) if used[number] + gpus <= 8)
                used[node] += gpus
                pods.append(pod(name, name=f"{name}-{index}", node=f"n{node}"))
            works.append(work(name, "Released", *pods))
        nodes = [make_node(f"n{number}", used=used[number]) for number in (0, 1)]
        self.tell(region, *works, nodes=nodes, **fields)

    def _lease(self, region: str) -> None:
        if self.store.inner.get(lease_key(region)) is None:
            self.write_lease(region)

    def write_lease(self, region: str, epoch: int = 1, *, revoked: bool = False) -> None:
        """Put a region's lease, whatever stands there."""
        lease = Lease(region=region, epoch=epoch, incarnation="one", renewal=0, revoked=revoked)
        key = lease_key(region)
        self.store.inner.put(key, lease.model_dump_json().encode(), expect=self.store.inner.etag(key))

    # ---- what the hub does

    def cycle(self, *wanted: Ended) -> Result:
        """One cycle, held against the rules; of the kinds `wanted`, if any are named."""
        before, pushes = self.tips(), len(self.git.pushes)
        result = self.hub.cycle()
        self._rules.check(before)
        assert len(self.git.pushes) - pushes <= 1 or self.git.before_push == [], "more than one push a cycle"
        assert not wanted or result.ended in wanted, result
        return result

    def settle(self, most: int = 12) -> list[Result]:
        """Cycles until there is nothing to publish any more; their results."""
        results: list[Result] = []
        for _ in range(most):
            results.append(self.cycle())
            last = results[-1]
            if last.ended in (Ended.QUIET, Ended.IDLE, Ended.STANDBY) and last.again_in_seconds != 0 and not last.ungranted:
                return results
        raise AssertionError(f"the hub does not come to rest: {[one.ended for one in results]}")

    def placed(self, job_id: str = "llm-a", region: str = "eu", **fields: Any) -> Attempt:
        """A job that was committed and now runs in `region`, as its report says."""
        self.job(job_id, **fields)
        self.settle()
        attempt = self.attempt(job_id)
        assert attempt.region == region, attempt
        self.tell_running(region)
        self.settle()
        return self.attempt(job_id)

    # ---- what is so

    @property
    def repository(self) -> pygit2.Repository:
        """The bare repository, as it is on disk now."""
        return pygit2.Repository(str(self.bare))

    def tips(self) -> dict[str, str]:
        """Branch → commit."""
        repository = self.repository
        return {
            name.removeprefix("refs/heads/"): str(repository.references[name].target)
            for name in repository.references
            if name.startswith("refs/heads/")
        }

    def tip(self, branch: str) -> str | None:
        """A branch's commit; None where there is no such branch."""
        return self.tips().get(branch)

    def tree(self, branch: str) -> dict[str, str]:
        """Path → blob of everything on a branch; nothing where it does not exist."""
        tip = self.tip(branch)
        return {} if tip is None else tree_at(self.repository, tip)

    def text(self, branch: str, path: str) -> str | None:
        """What stands in a file of a branch; None where there is none."""
        oid = self.tree(branch).get(path)
        return None if oid is None else self.repository[oid].data.decode()

    def record(self, job_id: str = "llm-a", team: str = TEAM) -> JobRecord:
        """A job's record, from the status branch."""
        text = self.text("status", f"jobs/{team}/{job_id}.json")
        assert text is not None, f"no record of {team}/{job_id}"
        return JobRecord.model_validate_json(text)

    def records(self) -> dict[JobKey, JobRecord]:
        """All that can be read."""
        repository = self.repository
        bodies = [repository[oid].data for path, oid in self.tree("status").items() if path.startswith("jobs/")]
        found = []
        for body in bodies:
            try:
                found.append(JobRecord.model_validate_json(body))
            except ValueError:
                continue
        return {record.key: record for record in found}

    def attempt(self, job_id: str = "llm-a") -> Attempt:
        """A job's newest attempt."""
        last = self.record(job_id).last
        assert last is not None, f"{job_id} has no attempt: {self.record(job_id).why}"
        return last

    def condition(self, kind: str, job_id: str = "llm-a") -> tuple[str, str] | None:
        """A condition's reason code and message; None where there is none of that kind."""
        found = [one for one in self.record(job_id).conditions if one.type == kind]
        return None if not found else (found[0].reason.code if found[0].reason else "", found[0].message)

    def placement(self, job_id: str = "llm-a", branch: str = "placements") -> dict[str, Any]:
        """A job's placement file, as plain values."""
        text = self.text(branch, f"{TEAM}/{job_id}.yaml")
        assert text is not None, f"no placement of {job_id} on {branch}"
        from reconciler.model.placement import Placement

        return dict(reader.read_config(Placement, text.encode(), "x.yaml").model_dump(mode="json", exclude_none=True))

    def manifests(self, region: str) -> list[str]:
        """Attempts whose manifests stand on a region's branch."""
        paths = [path for path in self.tree(f"region/{region}") if path.startswith("manifests/")]
        return sorted(Path(path).stem for path in paths if not path.endswith("/_sentinel.yaml"))

    def hub_file(self) -> HubFile:
        """hub.json."""
        text = self.text("status", "hub.json")
        return HubFile() if text is None else HubFile.model_validate_json(text)

    def page(self) -> str:
        """README.md of the status branch."""
        return self.text("status", "README.md") or ""

    def rejected(self) -> list[dict[str, Any]]:
        """What rejected.json lists."""
        text = self.text("status", "rejected.json")
        return [] if text is None else json.loads(text).get("problems", [])

    def grants(self, region: str) -> Grants:
        """A region's grants."""
        found = self.store.inner.get(grants_key(region))
        assert found is not None, f"no grants of {region}"
        return Grants.model_validate_json(found.body)

    def granted(self, region: str) -> list[str]:
        """Attempts that may run in a region."""
        found = self.store.inner.get(grants_key(region))
        return [] if found is None else [grant.attempt for grant in Grants.model_validate_json(found.body).attempts]

    def version(self, region: str) -> int:
        """The newest version of a region's grants; 0 for none."""
        found = self.store.inner.get(grants_key(region))
        return 0 if found is None else Grants.model_validate_json(found.body).version

    def hub_lease(self) -> HubLease:
        """The lease of whichever hub leads."""
        found = self.store.inner.get("hub/lease.json")
        assert found is not None
        return HubLease.model_validate_json(found.body)

    def messages(self, branch: str) -> list[str]:
        """Messages of a branch's commits, the newest first."""
        tip = self.tip(branch)
        repository = self.repository
        return [] if tip is None else [commit.message for commit in repository.walk(pygit2.Oid(hex=tip))]

    # ---- regions that live

    def alive(self, *regions: str, nodes: int = 2, gpus: int = 8, **settings: Any) -> list["Live"]:
        """Regions with the real agent, in place of those that are told of."""
        for name in regions:
            self.live[name] = Live(self, name, nodes, gpus, settings)
        return [self.live[name] for name in regions]

    def turn(self, hub: bool = True) -> None:
        """Let everything happen that happens now; the hub last, if something has woken it or it wanted to come again."""
        for region in self.live.values():
            region.turn()
        self._rules.check_pods()
        woken = (self.tips(), {name: self.store.inner.etag(report_key(name)) for name in self.live})
        if hub and (woken != self._woken or self.clock.seconds >= self._again_at):
            again = self.cycle().again_in_seconds
            self._woken = woken
            self._again_at = float("inf") if again is None else self.clock.seconds + again

    def run(self, seconds: float, tick: float = 1.0, *, hub: bool = True) -> None:
        """Let time pass, tick by tick."""
        until = self.clock.seconds + seconds
        while self.clock.seconds < until:
            self.clock.seconds = min(self.clock.seconds + tick, until)
            self.turn(hub)

    def run_until(self, condition: Callable[[], object], within: float = 120.0, tick: float = 1.0) -> float:
        """Let time pass until something is so; the seconds that took."""
        begun = self.clock.seconds
        self.turn()
        while not condition():
            passed = self.clock.seconds - begun
            assert passed < within, f"not within {within} s: {[(str(key), one.phase) for key, one in self.records().items()]}"
            self.clock.seconds += tick
            self.turn()
        return self.clock.seconds - begun


@dataclass
class _Script(SimulatedRuntime):
    """Simulated containers that run as `programs` says of their job; until they are stopped where it says nothing."""

    programs: dict[str, Mapping[str, str]] = field(default_factory=dict)
    started: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def start(self, launch: Launch, now: int) -> Waiting | None:
        metadata = launch.pod["metadata"]
        said = metadata.get("annotations") or {}
        if not launch.is_init and metadata["uid"] not in self.pods():
            self.started.append(metadata["labels"][LABEL_ATTEMPT])
        says = {**said, **self.programs.get(said.get(ANNOTATION_JOB_ID, ""), {})}
        return super().start(replace(launch, pod={**launch.pod, "metadata": {**metadata, "annotations": says}}), now)


def runs(seconds: float | None = None, code: int = 0, stop: float = 0) -> dict[str, str]:
    """How a simulated program runs: for how long, how it ends, how long it takes to stop."""
    says = {"local.reconciler/exit-code": str(code), "local.reconciler/stop-seconds": str(stop)}
    return says if seconds is None else says | {"local.reconciler/run-seconds": str(seconds)}


class Live:
    """A region with the real agent, cluster and sync engine, by the rig's clock."""

    def __init__(self, rig: Rig, name: str, nodes: int, gpus: int, settings: Mapping[str, Any]) -> None:
        self.rig, self.name = rig, name
        self.runtime = _Script()
        specs = [NodeSpec(f"{name}-{number}", gpus=gpus, product=A100, cpu="96", memory="1000Gi") for number in range(nodes)]
        images = settings.get("images", ("*",))
        self.cluster = LocalCluster(None, specs, self.runtime, rig.clock, ClusterSettings(name, (TEAM,), images))
        clone = BareClone(rig.url, rig.folder / f"clone-of-{name}")
        self.sync = LocalSync(self.cluster, clone, f"region/{name}", rig.clock, interval_seconds=10.0)
        self.agents = 0
        self.paused = False
        """While it is set, the agent does nothing; cluster and sync engine go on."""
        self.restart()

    def restart(self) -> None:
        """Another agent takes the place of the one before."""
        self.agents += 1
        self.agent = Agent(
            self.name, self.cluster, self.sync, self.rig.store, self.rig.clock, AgentSettings(), f"agent-{self.agents}"
        )

    def turn(self) -> None:
        """Whatever happens in the region now."""
        for _ in range(3):
            self.settle()
            self.sync.step()
            self.settle()
            if not self.paused:
                self.agent.step()
        self.settle()

    def settle(self) -> None:
        """Let controllers, scheduler and kubelet come to rest."""
        for _ in range(500):
            if not self.cluster.step():
                return
        raise AssertionError("the cluster does not come to rest")

    @property
    def programs(self) -> dict[str, Mapping[str, str]]:
        """Job → how its program runs."""
        return self.runtime.programs

    def running(self) -> list[str]:
        """Attempts with a pod that runs, once for each pod."""
        pods = self.cluster.read().pods
        return sorted(pod["metadata"]["labels"][LABEL_ATTEMPT] for pod in pods if pod["status"].get("phase") == "Running")

    def report(self) -> RegionReport:
        """The newest report."""
        found = self.rig.store.inner.get(report_key(self.name))
        assert found is not None
        return RegionReport.model_validate_json(found.body)


class _Rules:
    """What must hold after every cycle, whatever happened in it."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._manifests: dict[tuple[str, str], str] = {}
        self._left: set[tuple[str, str]] = set()
        self._seen: Mapping[str, str] = {}
        self._attempts: dict[str, tuple[str, int, str]] = {}

    def check(self, before: Mapping[str, str]) -> None:
        rig, repository = self._rig, self._rig.repository
        tips = rig.tips()
        self._grants()
        if tips == self._seen:
            return
        self._seen = tips
        assert tips.get("main") == before.get("main") or tips["main"] in rig.people, "the hub wrote to main"
        for branch, tip in tips.items():
            if tip != before.get(branch):
                self._commits(repository, branch, tip, before.get(branch))
        self._ledger()
        self._branches(tips)

    def _commits(self, repository: pygit2.Repository, branch: str, tip: str, old: str | None) -> None:
        """No commit without a change, and every one of the hub's says from what it follows."""
        for commit in repository.walk(pygit2.Oid(hex=tip)):
            if str(commit.id) == old or commit.author.email != "reconciler@localhost":
                return
            if commit.parents:
                assert commit.tree_id != commit.parents[0].tree_id, f"an empty commit on {branch}"
            trailers = dict(line.split(": ", 1) for line in commit.message.strip().split("\n\n")[-1].splitlines())
            assert set(trailers) <= {"Reconciler-Cycle", "Reconciler-Main", "Reconciler-Region"}, commit.message
            assert len(trailers["Reconciler-Cycle"]) == 16
            assert ("Reconciler-Region" in trailers) == branch.startswith("region/")
            assert all(len(line) <= 200 for line in commit.message.splitlines()[:1]), commit.message

    def _ledger(self) -> None:
        """Numbers are never given twice, at most the last attempt is open, and what was written reads as it was meant."""
        repository, kept = self._rig.repository, self._rig.hub._eyes.records.records
        for path, oid in self._rig.tree("status").items():
            body = repository[oid].data
            try:
                record = JobRecord.model_validate_json(body) if path.startswith("jobs/") else None
            except ValueError:
                continue
            if record is None:
                continue
            assert written(record) == body, path
            if oid in kept:
                assert kept[oid] == record, f"{path}: the hub remembers something else than it wrote"
            for attempt in record.attempts[:-1]:
                assert attempt.state in ENDED, f"{path}: two attempts at once"
            for attempt in record.attempts:
                meant = (str(record.key), attempt.number, attempt.region)
                assert self._attempts.setdefault(attempt.name, meant) == meant, f"{attempt.name} was given twice"

    def _branches(self, tips: Mapping[str, str]) -> None:
        """A manifest is never edited and never comes back, and leaves only after its attempt has ended in the ledger."""
        ended = {attempt.name for record in self._rig.records().values() for attempt in record.attempts if attempt.ended}
        for branch in [name for name in tips if name.startswith("region/")]:
            there = {path: oid for path, oid in self._rig.tree(branch).items() if path.startswith("manifests/")}
            for path, oid in there.items():
                assert self._manifests.setdefault((branch, path), oid) == oid, f"{path} on {branch} was edited"
                assert (branch, path) not in self._left, f"{path} came back to {branch}"
            gone = {path for known, path in self._manifests if known == branch} - there.keys()
            if tips[branch] in self._rig.people:
                continue
            for path in gone - {path for known, path in self._left if known == branch}:
                assert Path(path).stem in ended, f"{path} left {branch} before its attempt had ended"
                self._left.add((branch, path))

    def _grants(self) -> None:
        """Nothing may run but what the published ledger lets run, and no job twice."""
        records = self._rig.records()
        granted: dict[JobKey, str] = {}
        for listed in self._rig.store.list("regions/"):
            if not listed.key.endswith("/grants.json"):
                continue
            for grant in self._rig.grants(listed.key.split("/")[1]).attempts:
                key = JobKey(grant.team, grant.job_id)
                assert granted.setdefault(key, grant.attempt) == grant.attempt, f"{key} is granted twice"
                if key in records:
                    known = {attempt.name for attempt in records[key].attempts if attempt.state in MAY_RUN or attempt.ended}
                    stopping = {attempt.name for attempt in records[key].attempts}
                    assert grant.attempt in known | stopping, f"{grant.attempt} is granted and not in the ledger"

    def check_pods(self) -> None:
        """At no moment do two attempts of one job have running pods; an attempt is never started twice."""
        seen: dict[str, set[str]] = {}
        for region in self._rig.live.values():
            for attempt in region.running():
                seen.setdefault(attempt.rsplit("-", 2)[0], set()).add(f"{region.name}/{attempt}")
        for job, where in seen.items():
            assert len(where) <= 1, f"{job} runs twice: {where}"


def tree_at(repository: pygit2.Repository, commit: str) -> dict[str, str]:
    """Path → blob of a commit."""
    found: dict[str, str] = {}

    def walk(tree: pygit2.Tree, above: str) -> None:
        for entry in tree:
            if isinstance(entry, pygit2.Tree):
                walk(entry, f"{above}{entry.name}/")
            else:
                found[f"{above}{entry.name}"] = str(entry.id)

    walk(repository[commit].peel(pygit2.Tree), "")
    return found


def job_file(job_id: str = "llm-a", *, gpus: int = 8, **fields: Any) -> str:
    """A job's file. `fields` are those of the spec; None leaves one out."""
    gpu = {"count": gpus, **({"model": "A100-80GB"} if gpus else {})}
    said = {"job_id": job_id, "gpu": gpu, "image": IMAGE, **fields}
    return json.dumps({name: value for name, value in said.items() if value is not None}, indent=1)


def work(attempt: str, state: str = "Held", *pods: PodReport, **fields: Any) -> WorkloadReport:
    """What a region says of an attempt; not stopped where it is released."""
    said = {"namespace": TEAM, "uid": "u1", "state": state, "stopped": state != "Released", "pods": pods}
    return WorkloadReport.model_validate({"attempt": attempt, **said, **fields})


def pod(attempt: str, phase: str = "Running", **fields: Any) -> PodReport:
    """One pod of an attempt, on the first node."""
    return PodReport.model_validate({"name": f"{attempt}-x", "phase": phase, "node": "n0", "started_at": NOW, **fields})


def running(attempt: str, **fields: Any) -> WorkloadReport:
    """What a region says of an attempt that runs."""
    return work(attempt, "Released", pod(attempt), **fields)


def stopped(attempt: str, **fields: Any) -> WorkloadReport:
    """What a region says of an attempt that was stopped: nothing of it runs."""
    return work(attempt, "Held", **fields)


def succeeded(attempt: str, **fields: Any) -> WorkloadReport:
    """What a region says of an attempt whose program ended with exit code 0."""
    return work(attempt, "Ended", pod(attempt, "Succeeded", exit_code=0, ended_at=NOW), succeeded=True, **fields)


def failed(attempt: str, code: int = 1, **fields: Any) -> WorkloadReport:
    """What a region says of an attempt whose program failed."""
    return work(attempt, "Ended", pod(attempt, "Failed", exit_code=code, ended_at=NOW), failed="BackoffLimitExceeded", **fields)
