"""What the end-to-end tests of both sync engines need: programs run as processes, a jobs repository, the bootstrap as it is printed."""

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar
from urllib.error import URLError

from reconciler.model.names import manifest_path, region_branch
from reconciler.ports import SyncEngine, SyncState
from reconciler.rendering.branch import sentinel
from reconciler.rendering.manifest import render_checked
from tests.e2e.control_plane import HERE, ControlPlane
from tests.githttp import GitServer, commit_files
from tests.rendering.builders import job, region, rendering
from tests.waiting import until

_SECONDS = 90.0


class Processes:
    """Programs that are started together and ended together. Each has its log in `folder/log`."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.logs = folder / "log"
        self.logs.mkdir(parents=True, exist_ok=True)
        self._environment = {"HOME": str(folder), "TMPDIR": str(folder), "PATH": os.environ["PATH"], **environment}
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> None:
        """Begin one, if it does not run."""
        if name in self._running:
            return
        with (self.logs / name).open("ab") as log:
            self._running[name] = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**self._environment, **(environment or {})},
            )

    def until_ready(self, url: str) -> None:
        """Wait for an address to answer with success; AssertionError with its last words if one has ended."""
        until(lambda: self._answers(url), _SECONDS, 0.1)

    def _answers(self, url: str) -> bool:
        self.check()
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - on loopback
                return bool(answer.status < 300)
        except (URLError, OSError):
            return False

    def check(self) -> None:
        """AssertionError with its last words if one has ended by itself."""
        for name, running in self._running.items():
            if running.poll() is not None:
                words = (self.logs / name).read_text(errors="replace")[-2000:]
                raise AssertionError(f"{name} ended with {running.returncode}:\n{words}")

    def stop(self, *names: str) -> None:
        """End those named, or all; the last started first."""
        for name in names or tuple(reversed(self._running)):
            running = self._running.pop(name)
            running.terminate()
            try:
                running.wait(5)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()


class Engine(Protocol):
    """A sync engine's programs."""

    def install(self) -> None: ...

    def start(self) -> None: ...

    def stop(self) -> None: ...


EngineT = TypeVar("EngineT", bound=Engine)


@contextmanager
def installed(engine: EngineT) -> Iterator[EngineT]:
    """An engine that is installed and up, for the time of a `with` block."""
    engine.install()
    try:
        engine.start()
        yield engine
    finally:
        engine.stop()


FLEET = {
    "regions/eu.yaml": b"name: eu\nsync_engine: flux\n",
    "teams/red.yaml": b"name: red\n",
    "jobs/blue/train.yaml": b"{}",
}
"""A main branch with one region and two teams."""


class Attempt(NamedTuple):
    """Where an attempt's manifest is, and what its objects are called."""

    path: str
    team: str
    name: str


class Jobs:
    """A jobs repository on a Git server, whose main declares the region `eu`, with the region's branch as the hub would write it."""

    def __init__(self, server: GitServer, name: str = "jobs", store: str = "https://s3.example.com") -> None:
        self.bare = server.create(name)
        self.url = server.url(name)
        self.files: dict[str, bytes] = {"manifests/_sentinel.yaml": sentinel("eu")}
        settings = f"store: {{url: 's3://bucket/hub', endpoint: '{store}', location: us-east-1}}\n"
        commit_files(self.bare, "main", {**FLEET, "reconciler.yaml": settings.encode()})

    def add(self, job_id: str, team: str = "red", **changes: Any) -> Attempt:
        """Put a job's manifest there; it is on the branch after the next push."""
        rendered = rendering(job(job_id=job_id, gpu={"count": 1}, **changes), region(name="eu"), team=team)
        path = manifest_path(team, rendered.attempt)
        self.files[path] = render_checked(rendered)
        return Attempt(path, team, rendered.attempt)

    def spoil(self, attempt: Attempt, old: str, new: str) -> None:
        """Make a manifest bad that the renderer would never make so."""
        body = self.files[attempt.path].decode()
        assert old in body
        self.files[attempt.path] = body.replace(old, new, 1).encode()

    def remove(self, *attempts: Attempt) -> None:
        """Take manifests off."""
        for attempt in attempts:
            del self.files[attempt.path]

    def push(self) -> str:
        """Commit what there is; returns the commit."""
        return commit_files(self.bare, region_branch("eu"), self.files)


def bootstrap(repo: str, *options: str, home: Path) -> str:
    """What `reconciler bootstrap` prints, run as its users run it."""
    done = reconciler("bootstrap", "eu", "--repo", repo, "--public", *options, home=home)
    assert done.returncode == 0, done.stderr
    return done.stdout


def reconciler(*arguments: str, home: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command as its users run it, with variables of the environment."""
    command = [sys.executable, "-m", "reconciler.cli", *arguments]
    environment = {**os.environ, "HOME": str(home), "PYTHONPATH": str(HERE.parents[1]), **variables}
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=home, env=environment)


@dataclass
class Synced:
    """A region with its sync engine, its jobs repository, and our adapter of the engine."""

    plane: ControlPlane
    jobs: Jobs
    engine: SyncEngine

    def told(self) -> str:
        """Push, and tell the engine, as the agent does."""
        commit = self.jobs.push()
        self.engine.nudge(commit)
        return commit

    def until(self, what: Callable[[SyncState], bool]) -> SyncState:
        """The first state that is so."""
        return until(lambda: state if what(state := self.engine.state()) else None, 60.0, 0.02)

    def applied(self) -> SyncState:
        """Push, tell, and wait until it is applied whole."""
        commit = self.told()
        return self.until(lambda state: state.commit == commit and not state.errors)

    def error_of(self, key: str) -> str:
        """Push, tell, and wait until something is said under a key."""
        self.told()
        return self.until(lambda state: key in state.errors).errors[key]

    def there(self, kind: str, namespace: str) -> set[str]:
        """Names of a kind's objects."""
        found = self.plane.kubectl("get", kind, "-n", namespace, "-o", "name").split()
        return {line.partition("/")[2] for line in found}


# ---- what holds of both engines -----------------------------------------------------------------------------------


def check_a_nudge_brings_a_commit_in_and_takes_it_out(world: Synced) -> None:
    """Five jobs, one after the other, come and go; how long each took to be applied is printed."""
    took = []
    world.applied()
    for number in range(5):
        attempt = world.jobs.add(f"job-{number}", nodes=2)
        began = time.monotonic()
        state = world.applied()
        took.append(time.monotonic() - began)
        assert state.objects == {(attempt.team, attempt.name)}
        assert world.plane.get("job", attempt.name, attempt.team)["spec"]["suspend"] is True
        world.jobs.remove(attempt)
        assert world.applied().objects == frozenset()
        assert world.there("jobs", "red") == set()
        assert attempt.name not in world.there("services", "red")
    print(f"push and nudge → applied: {sorted(round(one, 2) for one in took)} s")


def check_what_was_changed_or_runs_is_never_touched(world: Synced) -> None:
    """A Job that somebody has changed and that runs stays as it is while another comes."""
    attempt = world.jobs.add("kept")
    world.applied()
    patch = '{"spec":{"suspend":false,"activeDeadlineSeconds":5000},"metadata":{"labels":{"mine":"x"}}}'
    world.plane.kubectl("patch", "job", attempt.name, "-n", "red", "--type=merge", "-p", patch)
    until(lambda: world.plane.get("job", attempt.name, "red")["status"].get("active"))
    before = world.plane.get("job", attempt.name, "red")["metadata"]
    world.jobs.add("other")
    world.applied()
    after = world.plane.get("job", attempt.name, "red")["metadata"]
    assert (after["uid"], after["generation"]) == (before["uid"], before["generation"])
