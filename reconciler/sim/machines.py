"""Programs on nodes: how long they run and how they end stands in their environment, and each start and end is written down.

| variable | meaning |
|---|---|
| `SIM_SECONDS` | how long it runs; left out: until it is stopped |
| `SIM_FAILS` | how many of its tries fail; of a gang, the first node's |
| `SIM_CODE` | how a try that fails ends; 1 by default |
| `SIM_STOP` | seconds that it takes to end after SIGTERM; 0 by default |
| `SIM_NODES` | how many nodes it runs on; 1 by default |
| `SIM_PULL` | how often its image is still being pulled when the kubelet looks; 0 by default |
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from reconciler.adapters.local import SimulatedRuntime
from reconciler.adapters.local.runtime import Launch, Waiting
from reconciler.adapters.local.simulated_runtime import EXIT_CODE, RUN_SECONDS, STOP_SECONDS
from reconciler.model.names import LABEL_ATTEMPT, LABEL_JOB, LABEL_TEAM, JobKey
from reconciler.model.pods import MAIN
from reconciler.sim.judge import Judge, Run

_POWER_LOST = 137
_NODES_APART_MILLIS = 2000


class Machines(SimulatedRuntime):
    """What a region's nodes run."""

    def __init__(self, region: str, judge: Judge) -> None:
        """Nothing runs at first."""
        super().__init__()
        self._region = region
        self._judge = judge
        self._written: dict[tuple[str, str], Run] = {}
        self._pulls: dict[str, int] = {}

    def start(self, launch: Launch, now: int) -> Waiting | None:
        """Begin a run, and have the start judged."""
        key = launch.uid, launch.name
        if launch.is_init or launch.name != MAIN or key in self._runs:
            return super().start(launch, now)
        says = _says(launch)
        if self._pulls.setdefault(launch.uid, int(says.get("PULL", "0"))) > 0:
            self._pulls[launch.uid] -= 1
            return Waiting("ContainerCreating", "the image is being pulled")
        run = self._run_of(launch, says)
        self._judge.starts(run)
        self._written[key] = run
        fails = run.index == 0 and self._judge.failures(run.key, _form(run.attempt)) < int(says.get("FAILS", "0"))
        millis = None if "SECONDS" not in says else round(float(says["SECONDS"]) * 1000)
        if not fails and run.index > 0 and millis is not None:
            millis += _NODES_APART_MILLIS
        run.code = int(says.get("CODE", "1")) if fails else 0
        run.ends = None if millis is None else run.started + millis / 1000
        seconds = {} if millis is None else {RUN_SECONDS: str(millis / 1000)}
        told = {**seconds, EXIT_CODE: str(run.code), STOP_SECONDS: says.get("STOP", "0")}
        metadata = {**launch.pod["metadata"], "annotations": {**(launch.pod["metadata"].get("annotations") or {}), **told}}
        return super().start(replace(launch, pod={**launch.pod, "metadata": metadata}), now)

    def terminate(self, uid: str, container: str, now: int) -> None:
        """Ask it to end, and note when it will."""
        self._tell((uid, container))
        super().terminate(uid, container, now)
        self._follow((uid, container), now)

    def kill(self, uid: str, container: str, now: int) -> None:
        """End it, and note that."""
        self._tell((uid, container))
        super().kill(uid, container, now)
        self._follow((uid, container), now)

    def forget(self, uid: str, now: int) -> None:
        """Kill what is left of a pod and drop what is kept of it."""
        for key in [key for key in self._runs if key[0] == uid]:
            self.kill(*key, now)
        super().forget(uid, now)

    def power_off(self, uids: Collection[str] | None = None) -> None:
        """All that runs of these pods ends at this moment, and nothing is known of it afterwards; None: of all pods."""
        now = self._judge.agenda.seconds
        for key in [key for key in self._runs if uids is None or key[0] in uids]:
            del self._runs[key]
            run = self._written.get(key)
            if run is not None and (run.ends is None or now < run.ends):
                run.told, run.told_at = True, now
                run.ends, run.code = now, _POWER_LOST

    def _tell(self, key: tuple[str, str]) -> None:
        run = self._written.get(key)
        if run is not None and (run.ends is None or self._judge.agenda.seconds < run.ends):
            run.told = True
            run.told_at = self._judge.agenda.seconds if run.told_at is None else run.told_at

    def _follow(self, key: tuple[str, str], now: int) -> None:
        run, simulated = self._written.get(key), self._runs.get(key)
        if run is None or simulated is None or simulated.ends is None:
            return
        ends = self._judge.agenda.seconds + (simulated.ends - now) / 1000
        if run.ends is None or ends < run.ends - 0.001:
            run.ends, run.code = ends, simulated.code

    def _run_of(self, launch: Launch, says: Mapping[str, str]) -> Run:
        metadata = launch.pod["metadata"]
        labels = metadata["labels"]
        index = int((metadata.get("annotations") or {}).get("batch.kubernetes.io/job-completion-index", "0"))
        maker = labels["batch.kubernetes.io/controller-uid"]
        key = JobKey(labels[LABEL_TEAM], labels[LABEL_JOB])
        nodes = int(says.get("NODES", "1"))
        return Run(key, labels[LABEL_ATTEMPT], index, nodes, self._region, maker, self._judge.agenda.seconds)


def _says(launch: Launch) -> dict[str, str]:
    said = {one["name"]: str(one.get("value", "")) for one in launch.container.get("env") or ()}
    return {name.removeprefix("SIM_"): value for name, value in said.items() if name.startswith("SIM_")}


def _form(attempt: str) -> str:
    """The part of an attempt's name that tells what it runs: `-<6 of the run hash>-`."""
    return f"-{attempt.rsplit('-', 2)[1]}-"
