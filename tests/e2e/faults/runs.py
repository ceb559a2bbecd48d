"""Which programs of jobs ran on this machine, by its own list of processes; and what the regions' leases said then.

It believes no API server: a program is found by /proc, its start is the kernel's, and its end is told by a pidfd. Judged on it: no
two attempts of a job run at once, no attempt runs in two pods, and nothing runs in a region from the moment that its lease is
revoked. What the kubelets say they started must be among what was found, so that a log that saw nothing is no proof.
"""

import json
import os
import re
import selectors
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from reconciler.adapters.local.shim import processes

_LOOK_SECONDS = 0.1
_YOUNG_SECONDS = 2.0
"""A process of so few seconds may not be what it will be: it is looked at again."""
_MARK, _ATTEMPT, _JOB, _REGION = "LOCAL_REGION_CONTAINER", "ATTEMPT", "JOB_ID", "REGION"
_STARTED = re.compile(r"^pod (\S+)/(\S+): .*\bmain=(?:running|terminated)", re.MULTILINE)


@dataclass
class Run:
    """One process of a job's program. Seconds of the monotonic clock; `ended` None: it runs."""

    region: str
    job: str
    attempt: str
    pod: str
    """Its uid."""
    pid: int
    began: float
    ended: float | None = None


@dataclass(frozen=True, slots=True)
class Revocation:
    """A region's lease was seen to be revoked."""

    region: str
    epoch: int
    at: float


@dataclass
class Runs:
    """The record of one fleet. Read by its methods."""

    folder: Path
    """The fleet's."""
    regions: Sequence[str]
    lock: threading.Lock = field(default_factory=threading.Lock)
    runs: list[Run] = field(default_factory=list)
    revocations: list[Revocation] = field(default_factory=list)
    trouble: str = ""

    def of(self, job: str) -> list[Run]:
        """A job's programs, as they began."""
        with self.lock:
            return sorted((run for run in self.runs if run.job == job), key=lambda run: run.began)

    def running(self, job: str) -> list[Run]:
        """Those that run now."""
        return [run for run in self.of(job) if run.ended is None]

    def attempts(self, job: str) -> list[str]:
        """Its attempts that ran, each once, in order."""
        return list(dict.fromkeys(run.attempt for run in self.of(job)))

    def revoked(self, region: str) -> list[Revocation]:
        """When its lease was revoked."""
        with self.lock:
            return [one for one in self.revocations if one.region == region]

    def faults(self) -> list[str]:
        """What must never be."""
        with self.lock:
            runs = sorted(self.runs, key=lambda run: run.began)
            revocations = list(self.revocations)
            found = [self.trouble] if self.trouble else []
        for number, one in enumerate(runs):
            for other in runs[number + 1 :]:
                if one.job != other.job:
                    continue
                if one.attempt != other.attempt and (one.ended is None or other.began < one.ended):
                    found.append(f"{_words(one)} and {_words(other)} ran at the same time")
                if one.attempt == other.attempt and one.pod != other.pod:
                    found.append(f"{_words(one)} ran again in another pod: {_words(other)}")
        for lost in revocations:
            late = (run for run in runs if run.region == lost.region and run.began < lost.at < (run.ended or float("inf")))
            found += [f"{_words(run)} ran when the lease of {lost.region} was revoked at {lost.at:.2f}" for run in late]
        return found

    def unseen(self) -> list[str]:
        """What a kubelet says it started, and this has not seen."""
        with self.lock:
            seen = {(run.region, run.attempt) for run in self.runs}
        found = []
        for region in self.regions:
            log = self.folder / region / "plane" / "kubelet.log"
            for _, pod in _STARTED.findall(log.read_text("utf-8", "replace")):
                if (region, pod.rpartition("-")[0]) not in seen:
                    found.append(f"{region}: {pod}")
        return found


def _words(run: Run) -> str:
    until = "now" if run.ended is None else f"{run.ended:.2f}"
    return f"{run.attempt} in {run.region} (pid {run.pid}, {run.began:.2f} to {until})"


class _Look:
    """What the looking thread keeps."""

    def __init__(self, record: Runs, leases: Path, stop: threading.Event) -> None:
        self._record, self._leases, self._stop = record, leases, stop
        self._known: set[int] = set()
        self._ends = selectors.DefaultSelector()
        self._wrote: dict[str, int] = {}
        self._boot = time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()

    def look(self) -> None:
        """Wait a moment for ends, and look at everything once."""
        now = time.monotonic
        if self._ends.get_map():
            for key, _ in self._ends.select(_LOOK_SECONDS):
                with self._record.lock:
                    key.data.ended = now()
                self._ends.unregister(key.fd)
                os.close(key.fd)
        else:
            self._stop.wait(_LOOK_SECONDS)
        pids = set(processes())
        self._known &= pids
        for pid in pids - self._known:
            self._consider(pid)
        for region in self._record.regions:
            self._lease(region)

    def _consider(self, pid: int) -> None:
        try:
            watched = os.pidfd_open(pid)
        except OSError:
            return
        try:
            stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
            words = Path(f"/proc/{pid}/environ").read_bytes().decode("utf-8", "replace").split("\0")
        except (OSError, IndexError):
            os.close(watched)
            return
        began = int(stat[19]) / os.sysconf("SC_CLK_TCK") - self._boot
        told = dict(word.split("=", 1) for word in words if "=" in word)
        run = self._run(pid, told, began)
        if run is None:
            os.close(watched)
            if time.monotonic() - began > _YOUNG_SECONDS:
                self._known.add(pid)
            return
        self._known.add(pid)
        self._ends.register(watched, selectors.EVENT_READ, run)
        with self._record.lock:
            self._record.runs.append(run)

    def _run(self, pid: int, told: dict[str, str], began: float) -> Run | None:
        pod, _, container = told.get(_MARK, "").partition("/")
        region = told.get(_REGION, "")
        if container != "main" or region not in self._record.regions:
            return None
        if not (self._record.folder / region / "plane/kubelet/pods" / pod).is_dir():
            return None  # another fleet's on this machine
        return Run(region, told[_JOB], told[_ATTEMPT], pod, pid, began)

    def _lease(self, region: str) -> None:
        path = self._leases / region / "lease.json"
        try:
            wrote = path.stat().st_mtime_ns
            if self._wrote.get(region) == wrote:
                return
            lease = json.loads(path.read_bytes())
        except (FileNotFoundError, json.JSONDecodeError):
            return
        self._wrote[region] = wrote
        if not lease["revoked"] or any(lease["epoch"] == one.epoch for one in self._record.revoked(region)):
            return
        at = time.monotonic() - (time.time_ns() - wrote) / 1e9
        with self._record.lock:
            self._record.revocations.append(Revocation(region, lease["epoch"], at))


@contextmanager
def recording(folder: Path, regions: Sequence[str], leases: Path) -> Iterator[Runs]:
    """The record of a fleet for the time of a `with` block. `leases`: the folder in the store with a folder for each region."""
    record, stop = Runs(folder, tuple(regions)), threading.Event()
    look = _Look(record, leases, stop)

    def go_on() -> None:
        try:
            while not stop.is_set():
                look.look()
        except Exception as error:  # noqa: BLE001 - told by `faults`
            with record.lock:
                record.trouble = f"the record of this machine's programs is blind: {error!r}"

    thread = threading.Thread(target=go_on, name="record of programs", daemon=True)
    thread.start()
    try:
        yield record
    finally:
        stop.set()
        thread.join()
