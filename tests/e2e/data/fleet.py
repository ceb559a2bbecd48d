"""A whole fleet on this machine, as its users start it: a hub and local regions as programs, two S3 servers, and a link between them.

`near` has the data and no GPUs. `far` and `bare` have GPUs and reach near's store over the link alone. What `far` needs is brought to
its own store first; `bare` has none, so that a job's pod brings its data itself.
"""

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reconciler.app_region import end_programs
from reconciler.commands.demo_runs import Run, runs_in
from reconciler.commands.repository import look, opened
from reconciler.model.attempt import Attempt, State
from reconciler.model.grants import report_key
from reconciler.model.names import STAGING_TEAM, JobKey
from reconciler.model.pods import MAIN
from reconciler.ports import Transient
from tests.adapters.throttle import throttled
from tests.e2e.data.rig import seed
from tests.e2e.programs import Program
from tests.e2e.s3 import ACCESS, LOCATION, SECRET, s3_server
from tests.githttp import commit_files, run_git
from tests.waiting import until

NEAR, FAR, BARE = "near", "far", "bare"
TEAM = "vision"
LINK_SHARE = 0.8
BELIEVED = 0.5
"""Of a link that was declared and not measured."""
IN_MEMORY = "/dev/shm"
"""Where the regions' nodes are: each stands for a machine with a disk of its own, and what else is written to this machine's disk
must not decide how quickly a pod's volume is on its disk. The stores, the hub and the repository are on the real one."""
_SECONDS = 120.0
_KEYS = {"AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET}


@dataclass(frozen=True, slots=True)
class Ran:
    """An attempt that has succeeded, and its containers' programs in the order in which they began."""

    attempt: Attempt
    runs: tuple[Run, ...]

    @property
    def granted(self) -> float:
        """When it might run: its GPUs are held for it from then on. In seconds since the epoch, like all moments here."""
        assert self.attempt.granted_at is not None
        return self.attempt.granted_at.timestamp()

    @property
    def first_line(self) -> float:
        """When its program wrote its first line, by that line itself."""
        (run,) = [run for run in self.runs if run.container == MAIN]
        return float(run.lines[0].removeprefix("first line at "))

    @property
    def gpu_seconds(self) -> float:
        """Held before that line."""
        return self.attempt.total_gpus * (self.first_line - self.granted)

    @property
    def fetching_seconds(self) -> float:
        """Of the steps before the program, which bring its data into the pod."""
        return sum(run.ended - run.began for run in self.runs if run.container != MAIN and run.ended is not None)

    def parts(self) -> str:
        """What the time from the grant to the first line went to, in words."""
        at, said = self.granted, []
        for run in self.runs:
            said.append(f"{run.began - at:.2f} s until {run.container} began")
            at = run.began
            if run.container != MAIN:
                assert run.ended is not None
                said.append(f"{run.ended - at:.2f} s of it")
                at = run.ended
        return ", ".join([*said, f"{self.first_line - at:.2f} s until its first line"])


class Fleet:
    """Programs, and the repository by which they are told what to do."""

    def __init__(self, folder: Path, files: Mapping[str, Any], link: str) -> None:
        self.folder = folder
        self.link = link
        """Where near's store answers to whoever comes over the link."""
        self._nodes = Path(tempfile.mkdtemp(prefix="gpu-clock-", dir=IN_MEMORY))
        self._git = folder / "jobs.git"
        self._files = {path: json.dumps(content).encode() for path, content in files.items()}
        run_git(self._git, "init", "--quiet", "--initial-branch=main")
        self._push()
        self._programs = [
            *(self._agent(region) for region in (NEAR, FAR, BARE)),
            Program("hub", ["hub", "--repo", str(self._git), "--folder", str(folder / "hub-clone")], folder / "logs", {}),
        ]

    def _agent(self, region: str) -> Program:
        place = self.region(region)
        for space, names in {TEAM: ("store",), STAGING_TEAM: ("store-near", "store-far")}.items():
            for name in names:
                secret = place / "secrets" / space / name
                secret.mkdir(parents=True)
                for key, value in _KEYS.items():
                    (secret / key).write_text(value)
        # Nothing is measured: what comes over the link is the jobs' data and no more.
        options = ["--repo", str(self._git), "--folder", str(place), "--look", "0.3", "--no-probe"]
        return Program(region, ["agent", region, *options], self.folder / "logs", {})

    def region(self, name: str) -> Path:
        """A region's own folder, with its pods' volumes."""
        return self._nodes / name

    def start(self) -> None:
        """Start the regions, and the hub once it can see all of them."""
        *agents, hub = self._programs
        for agent in agents:
            agent.start()
        store = self.folder / "hub"
        self._until(lambda: all((store / report_key(region)).exists() for region in (NEAR, FAR, BARE)), _SECONDS)
        hub.start()

    def stop(self) -> None:
        """End all of it, and what it has started."""
        for program in reversed(self._programs):
            program.stop()
        for name in (NEAR, FAR, BARE):
            end_programs(self.region(name))
        shutil.rmtree(self._nodes)

    def ran(self, job_id: str, fields: Mapping[str, Any], within_seconds: float) -> Ran:
        """Push a job, wait until it has succeeded, and see how that went."""
        self._files[f"jobs/{TEAM}/{job_id}.yaml"] = json.dumps({"job_id": job_id, **fields}).encode()
        self._push()
        attempt = self._until(lambda: self._succeeded(job_id), within_seconds)
        runs = (run for run in runs_in(attempt.region, self.region(attempt.region)) if run.pod.startswith(f"{attempt.name}-"))
        return Ran(attempt, tuple(runs))

    def _succeeded(self, job_id: str) -> Attempt | None:
        try:
            with opened(str(self._git)) as found:
                record = look(found).ledger.records.get(JobKey(TEAM, job_id))
        except Transient:  # the hub pushes while we look
            return None
        last = record.last if record is not None else None
        assert last is None or last.state is not State.FAILED, last
        return last if last is not None and last.state is State.SUCCEEDED else None

    def _until(self, condition: Any, within_seconds: float) -> Any:
        def seen() -> Any:
            for program in self._programs:
                program.check()
            return condition()

        return until(seen, within_seconds, 0.5)

    def _push(self) -> None:
        commit_files(self._git, "main", self._files)


def _gpu_region(name: str, reads: str, **fields: Any) -> dict[str, Any]:
    """`reads`: the store whose address its programs are given."""
    pool = {"name": "a", "nodes": 1, "gpus": 8, "gpu_model": "A100-80GB", "cpu": "96", "memory": "1000Gi"}
    opens = {"AWS_ENDPOINT_URL_S3": reads, "AWS_REGION": LOCATION}
    env = [{"name": variable, "value": value} for variable, value in opens.items()]
    profile = {"pod": {"containers": [{"name": MAIN, "env": env}]}}
    return {
        "name": name,
        "sync_engine": "local",
        "prices": {"A100-80GB": 1.0},
        "node_pools": [pool],
        "profile": profile,
        **fields,
    }


def _files(folder: Path, link: str, own: str, bytes_per_second: int, size: int) -> dict[str, Any]:
    """`link`: how near's store is reached, `own`: how far's."""

    def store(name: str, endpoint: str) -> dict[str, Any]:
        return {"url": f"s3://{name}", "endpoint": endpoint, "location": LOCATION, "secret": f"store-{name}"}

    gbit = bytes_per_second * 8 / 1e9 / LINK_SHARE / BELIEVED
    return {
        "reconciler.yaml": {
            "store": {"url": f"file://{folder}/hub"},
            "intervals": {"poll_seconds": 0.5, "push_seconds": 0.5},
        },
        "regions/near.yaml": {
            "name": NEAR,
            "sync_engine": "local",
            "node_pools": [{"name": "a", "nodes": 1, "cpu": "8", "memory": "64Gi"}],
            "object_store": store(NEAR, link),
        },
        "regions/far.yaml": _gpu_region(FAR, own, object_store=store(FAR, own)),
        "regions/bare.yaml": _gpu_region(BARE, link),
        "links.yaml": {
            "links": [{"source": NEAR, "target": to, "gbit_per_second": gbit, "usd_per_gb": 0.01} for to in (FAR, BARE)]
        },
        "datasets/photos.yaml": {
            "name": "photos",
            "uri": "s3://near/datasets/photos/",
            "version": "1",
            "size_gb": size / 1e9,
            "replicas": [{"region": NEAR}],
        },
        f"teams/{TEAM}.yaml": {"name": TEAM},
    }


@contextmanager
def fleet(folder: Path, sizes: Sequence[int], bytes_per_second: int) -> Iterator[Fleet]:
    """The fleet, with a dataset of so many objects of these sizes in `near`, and a link that gives so much."""
    with ExitStack() as up:
        seed(folder / NEAR, NEAR, {f"datasets/photos/{number}.bin": size for number, size in enumerate(sizes)})
        seed(folder / FAR, FAR, {})
        near, far = (up.enter_context(s3_server(folder / name)) for name in (NEAR, FAR))
        link = up.enter_context(throttled(near.endpoint))
        link.bytes_per_second = bytes_per_second
        made = Fleet(folder, _files(folder, link.url, far.endpoint, bytes_per_second, sum(sizes)), link.url)
        up.callback(made.stop)
        made.start()
        yield made
