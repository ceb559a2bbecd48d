"""Containers without processes: how long they run and how they end stands in their pod's annotations.

Decides by passed-in time alone, so that a simulation of weeks takes seconds and repeats itself. Init containers end at
once and well. Kept in memory only: a region that starts anew finds its simulated containers lost, as after a reboot.

| annotation | meaning |
|---|---|
| `local.reconciler/run-seconds` | how long the containers run; left out: until they are stopped |
| `local.reconciler/exit-code` | how they end by themselves; 0 by default |
| `local.reconciler/stop-seconds` | how long they take to end after SIGTERM, then with code 143; 0 by default |
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

from reconciler.adapters.local.runtime import Ended, Launch, Running, Waiting
from reconciler.ports import KubeObject

RUN_SECONDS = "local.reconciler/run-seconds"
EXIT_CODE = "local.reconciler/exit-code"
STOP_SECONDS = "local.reconciler/stop-seconds"

_TERMINATED, _KILLED = 143, 137


@dataclass(frozen=True, slots=True)
class _Run:
    started: int
    ends: int | None
    code: int
    stop_millis: int
    told: bool = False
    seen_ended: bool = False


class SimulatedRuntime:
    """The `Runtime` protocol by virtual time."""

    def __init__(self) -> None:
        """Nothing runs at first."""
        self._runs: dict[tuple[str, str], _Run] = {}

    def start(self, launch: Launch, now: int) -> Waiting | None:
        """Begin a run as the pod's annotations say."""
        key = launch.uid, launch.name
        if key in self._runs:
            return None
        says = launch.pod["metadata"].get("annotations") or {}
        try:
            seconds = "0" if launch.is_init else says.get(RUN_SECONDS)
            self._runs[key] = _Run(
                started=now,
                ends=None if seconds is None else now + round(float(seconds) * 1000),
                code=0 if launch.is_init else int(says.get(EXIT_CODE, 0)),
                stop_millis=round(float(says.get(STOP_SECONDS, 0)) * 1000),
            )
        except (ValueError, OverflowError) as error:
            return Waiting("CreateContainerConfigError", f"the annotations of the simulation must be numbers: {error}")
        return None

    def poll(self, uid: str, container: str, now: int) -> Running | Ended | None:
        """How the run is at `now`."""
        run = self._runs.get((uid, container))
        if run is None:
            return None
        if run.ends is None or now < run.ends:
            return Running(run.started)
        self._runs[uid, container] = replace(run, seen_ended=True)
        return Ended(run.code, "Completed" if run.code == 0 else "Error", "", run.started, run.ends)

    def terminate(self, uid: str, container: str, now: int) -> None:
        """End it after its stop time, unless it ends by itself before that."""
        run = self._runs.get((uid, container))
        if run is None or run.told:
            return
        stops = now + run.stop_millis
        if run.ends is None or stops < run.ends:
            run = replace(run, ends=stops, code=_TERMINATED)
        self._runs[uid, container] = replace(run, told=True)

    def kill(self, uid: str, container: str, now: int) -> None:
        """End it now."""
        run = self._runs.get((uid, container))
        if run is not None and (run.ends is None or now < run.ends):
            self._runs[uid, container] = replace(run, ends=now, code=_KILLED)

    def pods(self) -> Collection[str]:
        """The uids of all pods with runs."""
        return {uid for uid, _ in self._runs}

    def forget(self, uid: str, now: int) -> None:  # noqa: ARG002 – nothing is left to end
        """Drop the pod's runs."""
        for key in [key for key in self._runs if key[0] == uid]:
            del self._runs[key]

    def tell(self, pod: KubeObject) -> None:
        """Nothing reads a file here."""

    def due(self, uids: Collection[str], now: int) -> int | None:
        """When the next of these pods' runs ends."""
        waited = [run for (uid, _), run in self._runs.items() if uid in uids and not run.seen_ended]
        ends = [run.ends for run in waited if run.ends is not None]
        return max(now, min(ends)) if ends else None

    def log_tail(self, uid: str, container: str, limit: int) -> str:  # noqa: ARG002 – nothing is written
        """Simulated containers write nothing."""
        return ""
