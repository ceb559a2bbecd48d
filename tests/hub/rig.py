"""A hub at work, for tests: the real one, over a real bare repository and a real store, with clocks moved by hand.

Regions are told of in two ways. `tell` writes a report as an agent would, for tests in which only its content matters. `alive`
starts a region with the real agent, over a local cluster whose programs run by passed-in time (live.py). After every cycle what
stands in Git and in the store is held against the rules that no test may see broken (rules.py).
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from reconciler.adapters.documents import reader
from reconciler.adapters.file_store import FileStore
from reconciler.adapters.git import BareClone
from reconciler.hub.cycle import Hub
from reconciler.hub.ledger import HubFile, Trouble
from reconciler.hub.results import Ended, HubOptions, Result
from reconciler.model.attempt import Attempt
from reconciler.model.grants import Grants, HubLease, Lease, grants_key, lease_key, report_key
from reconciler.model.names import JobKey
from reconciler.model.placement import Placement
from reconciler.model.record import JobRecord
from reconciler.model.report import NodeReport, RegionReport, WorkloadReport
from tests.builders import TEAM, make_node, make_nodes, make_report
from tests.githttp import GitServer
from tests.hub.doors import FaultyStore, ManualClock, WatchedGit
from tests.hub.live import Live, Place
from tests.hub.remote import Remote
from tests.hub.rules import Rules, check_pods
from tests.hub.words import FILES, job_file, pod, work

REPO_URL = "https://git.example.com/jobs.git"
"""As it is published; where the rig's repository lies is another matter."""


class Rig(Remote):
    """A jobs repository, a store, and the hub between them."""

    def __init__(self, folder: Path, server: GitServer | None = None, files: Mapping[str, str] | None = FILES) -> None:
        super().__init__(folder, server)
        self.folder = folder
        self.clock = ManualClock()
        (folder / "store").mkdir(parents=True)
        self.store = FaultyStore(FileStore(folder / "store"))
        self.hubs = 0
        self.live: dict[str, Live] = {}
        self._sequences: dict[str, int] = {}
        self._woken: object = None
        self._again_at = 0.0
        self._rules = Rules(self, self.store.inner)
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
        self._rules.check(result, before, self.hub._eyes.records.records)
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
        return dict(reader.read_config(Placement, text.encode(), "x.yaml").model_dump(mode="json", exclude_none=True))

    def manifests(self, region: str) -> list[str]:
        """Attempts whose manifests stand on a region's branch."""
        paths = [path for path in self.tree(f"region/{region}") if path.startswith("manifests/")]
        return sorted(Path(path).stem for path in paths if not path.endswith("/_sentinel.yaml"))

    def hub_file(self) -> HubFile:
        """hub.json."""
        text = self.text("status", "hub.json")
        return HubFile() if text is None else HubFile.model_validate_json(text)

    def unusable(self) -> tuple[str, ...]:
        """Paths of the records that the hub says it cannot use."""
        return tuple(one.subject for one in self.hub_file().troubles if one.code == "RecordUnusable")

    def refused(self) -> list[Trouble]:
        """What the hub says of branches that the remote refuses."""
        return [one for one in self.hub_file().troubles if one.code == "BranchRefused"]

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

    # ---- regions that live

    def alive(self, *regions: str, nodes: int = 2, gpus: int = 8, **settings: Any) -> list["Live"]:
        """Regions with the real agent, in place of those that are told of."""
        place = Place(self.url, self.store, self.clock, self.folder)  # type: ignore[arg-type]
        for name in regions:
            self.live[name] = Live(place, name, nodes, gpus, settings)
        return [self.live[name] for name in regions]

    def turn(self, hub: bool = True) -> None:
        """Let everything happen that happens now; the hub last, if something has woken it or it wanted to come again."""
        for region in self.live.values():
            region.turn()
        check_pods({name: region.running() for name, region in self.live.items()})
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


def two_regions(folder: Path, files: Mapping[str, str] = FILES) -> Rig:
    """A rig at rest whose regions eu and us have reported."""
    made = Rig(folder, files=files)
    made.tell("eu")
    made.tell("us")
    made.settle()
    return made
