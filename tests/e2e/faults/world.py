"""The fleet of the faults: the same parts as the plain one, with every way between them going over a wire that can be cut.

What it tells of the ledger it reads from the forge's own folder, and of the store from the server's, so that it sees them whatever is
cut, and within milliseconds.
"""

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reconciler.hub.ledger import HubFile
from reconciler.model.grants import Grants, HubLease, Lease
from reconciler.model.record import JobRecord, Phase
from reconciler.model.region_state import RegionState
from tests.e2e.faults.runs import Run, Runs, recording
from tests.e2e.faults.times import TIMES
from tests.e2e.faults.training import Curve, assert_one_curve, curve_of, training
from tests.e2e.faults.wires import Wires
from tests.e2e.fleet.up import ENGINES, Fleet, Layout, fleet_up
from tests.waiting import until

TEAM = "language"
DEADMAN = "eu-west"
"""The region in which Kubernetes ends what its agent no longer answers for."""
START = 90.0
"""At most so many seconds from a push to a program that runs, on a busy machine."""


@dataclass
class World:
    """The fleet, its wires and the record of what ran."""

    fleet: Fleet
    wires: Wires
    runs: Runs
    stories: list[tuple[str, object]] = field(default_factory=list)
    """How long what took, told at the end of all tests."""

    # ---- what stands in Git and in the store

    def _git(self, *arguments: str) -> str | None:
        command = ["git", "--git-dir", str(self.fleet.folder / "gitea/repos/ops/jobs.git"), *arguments]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        return done.stdout if done.returncode == 0 else None

    def hub_file(self) -> HubFile:
        """What the ledger says of the hub and its regions."""
        text = self._git("show", "status:hub.json")
        return HubFile() if text is None else HubFile.model_validate_json(text)

    def state(self, region: str) -> RegionState:
        """A region as the ledger tells it."""
        found = self.hub_file().regions.get(region)
        return RegionState.READY if found is None else found.state

    def record(self, job: str) -> JobRecord:
        """A job as the ledger tells it; AssertionError where it is not there."""
        found = self.found(job)
        assert found is not None, f"{job} is not in the ledger"
        return found

    def found(self, job: str) -> JobRecord | None:
        """The same, where it may not be there yet."""
        text = self._git("show", f"status:jobs/{TEAM}/{job}.json")
        return None if text is None else JobRecord.model_validate_json(text)

    def branch(self, name: str) -> str:
        """A branch's commit."""
        return (self._git("rev-parse", f"refs/heads/{name}") or "").strip()

    def until_ledger(self, condition: Callable[[], object], within_seconds: float) -> None:
        """Wait until the ledger is so; returns within milliseconds of the push that makes it so."""
        ref, known = self.fleet.folder / "gitea/repos/ops/jobs.git/refs/heads/status", [""]

        def is_so() -> bool:
            tip = ref.read_text("ascii")
            if tip == known[0]:
                return False
            known[0] = tip
            return bool(condition())

        until(is_so, within_seconds, 0.005)

    def lease(self, region: str) -> Lease:
        """A region's lease."""
        return Lease.model_validate_json(self.fleet.lease(region))

    def grants(self, region: str) -> Grants:
        """What may run there."""
        path = self.fleet.store.folder / "hub/fleet/regions" / region / "grants.json"
        return Grants.model_validate_json(path.read_bytes())

    def term(self) -> int:
        """Of the hub that leads."""
        return HubLease.model_validate_json((self.fleet.store.folder / "hub/fleet/hub/lease.json").read_bytes()).term

    def granted(self, region: str) -> list[str]:
        """The attempts that may."""
        return [one.attempt for one in self.grants(region).attempts]

    # ---- jobs

    @property
    def _checkpoints(self) -> Path:
        return self.fleet.folder / "stores/checkpoints"

    def train(self, job: str, *regions: str, **fields: Any) -> None:
        """Push a training job that may run in these regions, or let it run in others than before."""
        text = training(job, self._checkpoints, allowed_regions=list(regions), **fields)
        self.fleet.person.push({f"jobs/{TEAM}/{job}.yaml": text}, f"{job} may run in {', '.join(regions)}")

    def until_trains(self, job: str, region: str | None = None, number: int = 1, within_seconds: float = START) -> Run:
        """Wait until the job's program runs (there), in its nth attempt that ran, and has told of steps; that run."""

        def found() -> Run | None:
            if len(self.runs.attempts(job)) != number:
                return None
            running = [run for run in self.runs.running(job) if region in (None, run.region)]
            curve = self.curve(running[0]) if running else None
            return running[0] if curve is not None and len(curve.losses) > 3 else None

        try:
            return until(found, within_seconds, 0.2)
        except AssertionError as error:
            raise AssertionError(
                f"{job} does not run in {region or 'any region'} as number {number}; {self.told(job)}"
            ) from error

    def told(self, job: str) -> str:
        """What is known of a job and of the regions, for whoever reads a failed test."""
        record = self.found(job)
        attempts = [(one.name, one.region, one.state.value) for one in record.attempts] if record is not None else []
        why = record.why.text if record is not None and record.why is not None else ""
        regions = {name: one.reason.text for name, one in self.hub_file().regions.items()}
        return f"attempts {attempts}; {why}; regions {regions}; runs {self.runs.of(job)}"

    def trained_anywhere(self, job: str, *regions: str, **fields: Any) -> Run:
        """Push it and wait until it trains in the first of the regions, whatever the others offer; then let it run in all of them."""
        return self.all_trained_anywhere({job: regions}, **fields)[0]

    def all_trained_anywhere(self, places: Mapping[str, Sequence[str]], **fields: Any) -> list[Run]:
        """The same with several jobs at a time: job → its regions."""
        for job, regions in places.items():
            self.train(job, regions[0], **fields)
        runs = [self.until_trains(job, regions[0]) for job, regions in places.items()]
        wider = {job: tuple(regions) for job, regions in places.items() if len(regions) > 1}
        for job, regions in wider.items():
            self.train(job, *regions, **fields)
        for job, regions in wider.items():
            self._until_allowed(job, regions)
        return runs

    def _until_allowed(self, job: str, regions: tuple[str, ...]) -> None:
        until(lambda: (found := self.found(job)) is not None and found.spec.allowed_regions == regions, START, 0.1)

    def curve(self, run: Run) -> Curve | None:
        """What one attempt printed, wherever the kubelet keeps it by now."""
        kubelet = self.fleet.folder / run.region / "plane/kubelet"
        kept = [kubelet / "pods" / run.pod / "containers/main/log", *kubelet.glob(f"logs/{run.attempt}-*/main.log")]
        for log in kept:
            try:
                return curve_of(log.read_text("utf-8"))
            except FileNotFoundError:
                continue
        return None

    def enough(self, *jobs: str) -> None:
        """Let them end."""
        for job in jobs:
            (self._checkpoints / job / "enough").touch()

    def finish(self, job: str) -> list[Run]:
        """Let it end, and judge its curve over all attempts; the runs."""
        self.enough(job)
        self.until_phase(job, Phase.SUCCEEDED)
        runs = self.runs.of(job)
        curves = [self.curve(run) for run in runs]
        assert None not in curves, (runs, curves)
        assert_one_curve([curve for curve in curves if curve is not None])
        return runs

    def until_phase(self, job: str, phase: Phase, within_seconds: float = START) -> None:
        """Wait for a job."""
        try:
            until(lambda: (found := self.found(job)) is not None and found.phase is phase, within_seconds, 0.2)
        except AssertionError as error:
            raise AssertionError(f"{job} is never {phase}; {self.told(job)}") from error

    # ---- regions

    def others(self, region: str) -> list[str]:
        """All regions but one."""
        return [name for name in self.fleet.regions if name != region]

    def ways(self, *who: str) -> list[str]:
        """The ways of somebody to store and forge."""
        return [f"{each}-{whom}" for each in who for whom in ("store", "git")]

    def until_state(self, region: str, state: RegionState, within_seconds: float = TIMES.failover) -> None:
        """Wait until the ledger tells a region so."""
        until(lambda: self.state(region) is state, within_seconds, 0.1)

    def until_revoked(self, region: str, before: int, within_seconds: float = TIMES.failover) -> None:
        """Wait until its lease is revoked once more than `before` times."""
        until(lambda: len(self.runs.revoked(region)) > before, within_seconds, 0.01)

    def until_renewal_is_near(self, region: str) -> None:
        """Wait until the next renewal of its lease is due in a moment: cut off now, it has used up most of what the last one gave."""
        before = self.fleet.lease(region)
        until(lambda: self.fleet.lease(region) != before, TIMES.failover, 0.02)
        self.passes(TIMES.renew * 0.8)

    def passes(self, seconds: float, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Let time pass, and ask something all the while."""
        deadline = self.fleet.witness.now() + seconds
        until(lambda: (meanwhile(), self.fleet.witness.now() > deadline)[1], seconds + 60.0, 0.2)

    def story(self, title: str, begin: float, **moments: float) -> None:
        """Note when what happened, in seconds from a moment: how long a failover takes is worth knowing, and asserted nowhere."""
        words = ", ".join(f"{name.replace('_', ' ')} {at - begin:.1f} s" for name, at in moments.items())
        self.stories.append((title, words))

    def until_well(self, within_seconds: float = TIMES.failover) -> None:
        """Everything runs, and every region is heard of."""
        self.wires.mend()
        self.fleet.hub.start()
        for region in self.fleet.regions.values():
            region.agent.start()
        until(lambda: self.hub_file().regions == {} and self.hub_file().term > 0, within_seconds, 0.3)

    def check(self) -> None:
        """AssertionError for what must never be."""
        assert self.runs.faults() == []
        assert self.runs.unseen() == []
        self.fleet.check()


def end_of(run: Run, within_seconds: float) -> float:
    """Wait until a program has ended; when that was."""
    return until(lambda: run.ended, within_seconds, 0.05)


@contextmanager
def world_up(folder: Path, regions: Sequence[str] = tuple(ENGINES)) -> Iterator[World]:
    """All of it, up."""
    wires = Wires()
    wires.start()
    fields = {name: {"loss": TIMES.region, "deadman": name == DEADMAN} for name in regions}
    layout = Layout(wires.way, fields, {name: TIMES.agent(deadman=name == DEADMAN) for name in regions}, examples=False)
    try:
        with fleet_up(folder, layout) as fleet, recording(folder, regions, fleet.store.folder / "hub/fleet/regions") as runs:
            (folder / "stores/checkpoints").mkdir(parents=True, exist_ok=True)
            yield World(fleet, wires, runs)
    finally:
        wires.stop()
