"""What really ran, when and where, written down by the machines that run it; and what may never be so.

It asks neither hub nor agent. It knows each start and end of a program, and what the status branch said in public at that
moment. `Violation` is raised in the very call that breaks a rule, so the stack shows who did it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from reconciler.adapters.local import SimulatedRuntime
from reconciler.adapters.local.runtime import Launch, Waiting
from reconciler.adapters.local.simulated_runtime import EXIT_CODE, RUN_SECONDS, STOP_SECONDS
from reconciler.model.attempt import Attempt, State
from reconciler.model.names import LABEL_ATTEMPT, LABEL_JOB, LABEL_TEAM, JobKey
from reconciler.model.pods import MAIN

MAY_START = frozenset({State.GRANTED, State.RUNNING, State.STOPPING})
"""In the ledger, at the moment of a start. Stopping: the region may not have heard of it yet."""


class Violation(AssertionError):
    """Something happened that must never happen."""


@dataclass(slots=True)
class Run:
    """One program on one node. Moments in milliseconds of the virtual time."""

    key: JobKey
    attempt: str
    index: int
    nodes: int
    region: str
    pod: str
    maker: str
    """Uid of the object that made the pod."""
    started: int
    ends: int | None
    code: int
    told: bool = False
    """Whether somebody asked it to end before it did by itself."""


@dataclass(slots=True)
class Witness:
    """All runs of a history. `published` gives an attempt as the status branch has it; `reruns` the highest asked for."""

    published: Callable[[JobKey, str], Attempt | None]
    reruns: Mapping[JobKey, int]
    runs: list[Run] = field(default_factory=list)
    touched: set[str] = field(default_factory=set)
    """Attempts at whose objects a person laid hands: what their programs did may be lost to those who look."""
    moments: dict[str, Callable[[], int]] = field(default_factory=dict)
    """Region → its present moment; their clocks need not agree."""

    _epochs: dict[str, int] = field(default_factory=dict)
    _granted: dict[tuple[str, str], int] = field(default_factory=dict)

    def granted(self, region: str, epoch: int, attempt: str) -> None:
        """The store lists an attempt under an epoch."""
        self._granted[region, attempt] = max(epoch, self._granted.get((region, attempt), 0))

    def given_up(self, region: str, epoch: int) -> None:
        """A region's lease was revoked: nothing of ours runs there, and only what is granted under the new epoch may."""
        running = [run for run in self.running() if run.region == region]
        if running:
            raise Violation(f"{region} was given up, and runs {running[0]}")
        self._epochs[region] = epoch

    def of_attempt(self, attempt: str) -> list[Run]:
        return [run for run in self.runs if run.attempt == attempt]

    def running(self, attempts: Iterable[str] | None = None) -> list[Run]:
        """What runs at this moment."""
        wanted = None if attempts is None else set(attempts)
        return [run for run in self.runs if self._runs(run) and (wanted is None or run.attempt in wanted)]

    def succeeded(self, key: JobKey) -> set[str]:
        """Attempts of a job whose programs all ended well, with nobody's hands on them."""
        wells: dict[str, int] = {}
        for run in self.runs:
            if run.key == key and run.code == 0 and not run.told and not self._runs(run):
                wells[run.attempt] = wells.get(run.attempt, 0) + 1
        whole = {run.attempt for run in self.runs if run.key == key and wells.get(run.attempt) == run.nodes}
        return whole - self.touched

    def failures(self, key: JobKey, form: str) -> int:
        """How often a program failed by itself. `form`: the part of an attempt's name that tells what it runs."""
        failed = [run for run in self.runs if run.key == key and run.code and not run.told and not self._runs(run)]
        return len({run.attempt for run in failed if form in run.attempt})

    def _runs(self, run: Run) -> bool:
        return run.ends is None or self.moments[run.region]() < run.ends

    def starts(self, run: Run) -> None:
        """Judge a start, and write it down."""
        others = [other for other in self.running() if other.key == run.key and other.attempt != run.attempt]
        if others:
            raise Violation(f"two attempts of {run.key} run at once: {run.attempt} starts in {run.region} beside {others[0]}")
        before = self.of_attempt(run.attempt)
        if any(other.index == run.index for other in before):
            raise Violation(f"{run.attempt} starts a second time: {before} and {run}")
        if any(other.maker != run.maker for other in before):
            raise Violation(f"{run.attempt} is run by two objects: {before} and {run}")
        said = self.published(run.key, run.attempt)
        if said is None or said.state not in MAY_START:
            raise Violation(f"{run.attempt} starts, and the ledger says {said.state if said else 'nothing'} of it")
        if said.region != run.region:
            raise Violation(f"{run.attempt} starts in {run.region}; the ledger has it in {said.region}")
        epoch = self._granted.get((run.region, run.attempt), 0)
        if epoch < self._epochs.get(run.region, 0):
            raise Violation(f"{run.attempt} starts in {run.region} by a grant of epoch {epoch}, which was revoked")
        successes = self.succeeded(run.key) - {run.attempt}
        if len(successes) > self.reruns.get(run.key, 0):
            raise Violation(f"{run.attempt} starts, though {sorted(successes)} succeeded and nobody asked for more")
        self.runs.append(run)


class WitnessedRuntime(SimulatedRuntime):
    """Simulated programs that do what their container's environment says (see `person.PROGRAMS`), and are written down."""

    def __init__(self, region: str, witness: Witness) -> None:
        super().__init__()
        self._region = region
        self._witness = witness
        self._written: dict[tuple[str, str], Run] = {}

    def start(self, launch: Launch, now: int) -> Waiting | None:
        key = launch.uid, launch.name
        if launch.is_init or launch.name != MAIN or key in self._runs:
            return super().start(launch, now)
        run = self._run_of(launch, now)
        self._witness.starts(run)
        self._written[key] = run
        says = _says(launch)
        lasts = None if "SECONDS" not in says else now + round(float(says["SECONDS"]) * 1000)
        fails = self._fails(run, says)
        if not fails and run.index > 0 and lasts is not None:
            lasts += 2000  # nodes do not end at one instant
        run.ends, run.code = lasts, int(says.get("CODE", "1")) if fails else 0
        seconds = {} if lasts is None else {RUN_SECONDS: str((lasts - now) / 1000)}
        told = {**seconds, EXIT_CODE: str(run.code), STOP_SECONDS: says.get("STOP", "0")}
        metadata = {**launch.pod["metadata"], "annotations": {**(launch.pod["metadata"].get("annotations") or {}), **told}}
        return super().start(replace(launch, pod={**launch.pod, "metadata": metadata}), now)

    def terminate(self, uid: str, container: str, now: int) -> None:
        self._tell((uid, container), now)
        super().terminate(uid, container, now)
        self._follow((uid, container))

    def kill(self, uid: str, container: str, now: int) -> None:
        self._tell((uid, container), now)
        super().kill(uid, container, now)
        self._follow((uid, container))

    def forget(self, uid: str, now: int) -> None:
        for key in [key for key in self._runs if key[0] == uid]:
            self.kill(*key, now)
        super().forget(uid, now)

    def _tell(self, key: tuple[str, str], now: int) -> None:
        run = self._written.get(key)
        if run is not None and (run.ends is None or now < run.ends):
            run.told = True

    def _follow(self, key: tuple[str, str]) -> None:
        run, simulated = self._written.get(key), self._runs.get(key)
        if run is not None and simulated is not None:
            run.ends, run.code = simulated.ends, simulated.code

    def _fails(self, run: Run, says: Mapping[str, str]) -> bool:
        """The first FAILS tries of a program fail; of a gang, the first node does."""
        return run.index == 0 and self._witness.failures(run.key, _form(run.attempt)) < int(says.get("FAILS", "0"))

    def _run_of(self, launch: Launch, now: int) -> Run:
        metadata = launch.pod["metadata"]
        labels = metadata["labels"]
        index = int((metadata.get("annotations") or {}).get("batch.kubernetes.io/job-completion-index", "0"))
        maker = labels["batch.kubernetes.io/controller-uid"]
        key, nodes = JobKey(labels[LABEL_TEAM], labels[LABEL_JOB]), int(_says(launch).get("NODES", "1"))
        return Run(key, labels[LABEL_ATTEMPT], index, nodes, self._region, launch.uid, maker, now, None, 0)


def _says(launch: Launch) -> dict[str, str]:
    said = {one["name"]: str(one.get("value", "")) for one in launch.container.get("env") or ()}
    return {name.removeprefix("SIM_"): value for name, value in said.items() if name.startswith("SIM_")}


def _form(attempt: str) -> str:
    """The part of an attempt's name that tells what it runs: `-<6 of the run hash>-`."""
    return f"-{attempt.rsplit('-', 2)[1]}-"
