"""What really ran: every pod and Job of ours in every region, as the API servers tell it, written down as it comes.

It believes neither hub nor agent. Judged on it: each attempt runs once (as many pods as it has nodes, and no more), and no two
attempts of one job have running pods at the same time.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.watch import Watch
from urllib3.exceptions import HTTPError

from reconciler.model.names import ANNOTATION_JOB_ID, LABEL_ATTEMPT, LABEL_MANAGED, MANAGED_BY

OURS = f"{LABEL_MANAGED}={MANAGED_BY}"
_TERMINAL = ("Succeeded", "Failed")


@dataclass
class PodRun:
    """One pod that ran: from when it was first seen to run, to when it was first seen not to (None: it still does)."""

    region: str
    namespace: str
    attempt: str
    job: str
    uid: str
    index: str
    began: float
    ended: float | None = None


@dataclass
class Hops:
    """When what happened to an attempt, by the monotonic clock of the test."""

    created: float | None = None
    """Its Job was made by the sync engine."""
    released: float | None = None
    """Its Job was un-suspended."""
    running: float | None = None
    """All of its pods that were seen ran."""


@dataclass
class Witness:
    """The record. Read it with `lock` held, or when nothing happens any more."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    runs: dict[str, PodRun] = field(default_factory=dict)
    """By the pod's uid."""
    hops: dict[tuple[str, str], Hops] = field(default_factory=lambda: defaultdict(Hops))
    """By namespace and attempt."""
    jobs: dict[tuple[str, str], set[str]] = field(default_factory=lambda: defaultdict(set))
    """Namespace and name of a Job → the uids that bore it."""
    blind: list[str] = field(default_factory=list)
    """What it could not make out: with any of these, that it saw no fault says nothing."""

    def pod(self, region: str, kind: str, pod: Mapping[str, Any]) -> None:
        """A pod was made, changed or removed."""
        metadata, now = pod["metadata"], time.monotonic()
        uid, phase = metadata["uid"], (pod.get("status") or {}).get("phase")
        attempt = metadata["labels"].get(LABEL_ATTEMPT, "")
        with self.lock:
            run = self.runs.get(uid)
            if run is None and phase == "Running":
                job = (metadata.get("annotations") or {}).get(ANNOTATION_JOB_ID, "")
                index = (metadata.get("annotations") or {}).get("batch.kubernetes.io/job-completion-index", "")
                self.runs[uid] = PodRun(region, metadata["namespace"], attempt, job, uid, index, now)
                hops = self.hops[metadata["namespace"], attempt]
                hops.running = now
            elif run is not None and run.ended is None and (phase in _TERMINAL or kind == "DELETED"):
                run.ended = now

    def job(self, kind: str, job: Mapping[str, Any]) -> None:
        """A Job was made, changed or removed."""
        metadata, now = job["metadata"], time.monotonic()
        where = metadata["namespace"], metadata["name"]
        with self.lock:
            hops = self.hops[where]
            if kind == "ADDED":
                self.jobs[where].add(metadata["uid"])
                hops.created = hops.created or now
            if not job["spec"].get("suspend") and kind != "DELETED":
                hops.released = hops.released or now

    def now(self) -> float:
        """The clock of all its times."""
        return time.monotonic()

    def of(self, job: str) -> list[PodRun]:
        """All runs of a job's pods, as they began."""
        with self.lock:
            return sorted((run for run in self.runs.values() if run.job == job), key=lambda run: run.began)

    def faults(self) -> list[str]:
        """What must never be: an attempt's index that ran twice, two attempts of a job at once."""
        with self.lock:
            runs = sorted(self.runs.values(), key=lambda run: run.began)
            found = list(self.blind)
        seen = set()
        for run in runs:
            if (run.region, run.namespace, run.attempt, run.index) in seen:
                found.append(f"{run.namespace}/{run.attempt} index {run.index or 0} ran a second time in {run.region}")
            seen.add((run.region, run.namespace, run.attempt, run.index))
        for number, one in enumerate(runs):
            for other in runs[number + 1 :]:
                same = (one.namespace, one.job) == (other.namespace, other.job) and one.attempt != other.attempt
                if same and (one.ended is None or other.began < one.ended):
                    found.append(f"{one.attempt} in {one.region} and {other.attempt} in {other.region} ran at the same time")
        return found


def _watching(witness: Witness, region: str, kubeconfig: Path, stop: threading.Event) -> list[threading.Thread]:
    api = config.new_client_from_config(str(kubeconfig))
    lists = (
        (client.CoreV1Api(api).list_pod_for_all_namespaces, lambda kind, item: witness.pod(region, kind, item)),
        (client.BatchV1Api(api).list_job_for_all_namespaces, witness.job),
    )

    def follow(listing: Any, tell: Any) -> None:
        while not stop.is_set():
            try:
                # Without a version each watch begins with all there is, so nothing that is still there is missed in between.
                for event in Watch().stream(listing, label_selector=OURS, timeout_seconds=30):
                    # None: a line that was cut with its connection. The next watch tells it whole.
                    if event is not None and event["type"] in ("ADDED", "MODIFIED", "DELETED"):
                        tell(event["type"], event["raw_object"])
                    if stop.is_set():
                        break
            except (ApiException, HTTPError, OSError):  # an API server that tests take down comes back
                stop.wait(0.2)
            except Exception as error:  # noqa: BLE001 - told by `faults`
                with witness.lock:
                    witness.blind.append(f"the witness of {region} was blind: {error!r}")
                stop.wait(1.0)

    return [threading.Thread(target=follow, args=each, name=f"witness of {region}", daemon=True) for each in lists]


@contextmanager
def witnessing(regions: Mapping[str, Path]) -> Iterator[Witness]:
    """A witness of regions (name → an administrator's kubeconfig) for the time of a `with` block."""
    witness, stop = Witness(), threading.Event()
    threads = [each for name, path in regions.items() for each in _watching(witness, name, path, stop)]
    for thread in threads:
        thread.start()
    try:
        yield witness
    finally:
        stop.set()
