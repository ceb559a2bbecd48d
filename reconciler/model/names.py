"""Names that we make: of attempts, labels, branches. Never reused, injective, inside the limits of whoever reads them."""

import hashlib
import json
import re
from typing import Any, NamedTuple

PREFIX = "gpu-reconciler.dev"
GATE = f"{PREFIX}/grant"
"""The scheduling gate in every pod template; only the agent lifts it (verified: a controller's late pod is born gated)."""
LABEL_MANAGED = "app.kubernetes.io/managed-by"
MANAGED_BY = "gpu-reconciler"
LABEL_ATTEMPT = f"{PREFIX}/attempt"
LABEL_JOB = f"{PREFIX}/job"
LABEL_TEAM = f"{PREFIX}/team"
ANNOTATION_JOB_ID = f"{PREFIX}/job-id"
ANNOTATION_QUEUE = f"{PREFIX}/queue"
"""The region's queue, for the agent: it sets the queue's label at the grant; in the file that label would hold quota."""
ANNOTATION_CLOSED = f"{PREFIX}/closed"
"""Set by the agent on what it has ended, Jobs and gated pods. The write alone makes every older release or lift fail."""
ANNOTATION_OUT = f"{PREFIX}/out-of-queue"
"""Of a Workload of Kueue's: it was the agent who took it out of its queue."""
ANNOTATION_PACE = f"{PREFIX}/bytes-per-second"
"""Of a staging task's pods, set by the agent: the bandwidth that is reserved for it at present; `unlimited` for no limit."""
PACE_UNLIMITED = "unlimited"
PACE_FILE = "bytes-per-second"
PACE_FOLDER = "/etc/gpu-reconciler"
"""Where the worker reads it, as the kubelet keeps it up to date."""

LABEL_STAGE = f"{PREFIX}/stage"
"""Of a staging task's objects: what kind of task it is."""

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
"""Kueue's: the LocalQueue that an object waits in."""
GRANT_CHECK = "reconciler-grant"
"""The AdmissionCheck by which a region's ClusterQueues wait for our grants."""
GRANT_CONTROLLER = f"{PREFIX}/agent"
"""What that check's `spec.controllerName` must be, so that the agent answers for it."""

STAGING_TEAM = "gpu-staging"
"""The namespace of staging tasks, in the ledger the team of these jobs of the hub's own. No team of people may be called so."""

ATTEMPT_LIMIT = 52
"""Room for `-<index>-<5 random>` within the 63 characters of a pod's host name (kubernetes/kubernetes#50850)."""


class JobKey(NamedTuple):
    """A job's identity: its team (folder, namespace) and its `job_id`; never the path of its file."""

    team: str
    job_id: str

    def __str__(self) -> str:
        return f"{self.team}/{self.job_id}"


def digest(value: Any) -> str:
    """SHA-256 of a JSON value in one canonical form, as hex."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _with_hash(text: str, limit: int, of: str) -> str:
    tail = "-x" + hashlib.sha256(of.encode()).hexdigest()[:8]
    return text[: limit - len(tail)].rstrip("-.") + tail


def shortened(text: str, limit: int) -> str:
    """`text` if it fits, else its beginning and a hash of the whole: differing texts stay different.

    A text that already looks like a shortened one is shortened as well, so that nobody can name a job after the
    short form of another.
    """
    looks_short = re.search(r"-x[0-9a-f]{8}$", text) is not None
    return _with_hash(text, limit, text) if len(text) > limit or looks_short else text


def attempt_name(job_id: str, run_hash: str, number: int) -> str:
    """`<job_id>-<6 of the run hash>-a<number>`, at most 52 characters, a DNS label that starts with a letter.

    `number` counts a job's attempts from 1 and is never given twice, which is what keeps names from being reused.
    """
    tail = f"-{run_hash[:6]}-a{number}"
    limit = ATTEMPT_LIMIT - len(tail)
    if job_id[0].isdigit():  # a Service's name must start with a letter
        return _with_hash(f"j-{job_id}", limit, job_id) + tail
    return shortened(job_id, limit) + tail


def attempt_stems(job_id: str) -> frozenset[str]:
    """What the names of a job's attempts begin with, up to run hash and number: long ids leave more room to short numbers."""
    return frozenset(attempt_name(job_id, "0" * 6, 10**digits).removesuffix(f"-000000-a{10**digits}") for digits in range(6))


def stem_of(attempt: str) -> str | None:
    """What an attempt's name begins with, up to run hash and number; None where it is no attempt's name."""
    found = re.fullmatch(r"(.+)-[0-9a-f]{6}-a[0-9]+", attempt)
    return found[1] if found is not None else None


def label_value(text: str) -> str:
    """A label's value for any id: itself, or shortened to 63 characters."""
    return shortened(text, 63)


def region_branch(region: str) -> str:
    """The output branch of a region."""
    return f"region/{region}"


def proposal_branch(key: JobKey) -> str:
    """The branch on which a placement waits for its approval."""
    return f"proposals/{key.team}/{key.job_id}"


def placement_path(key: JobKey) -> str:
    """Where a job's placement stands on the placements branch."""
    return f"{key.team}/{key.job_id}.yaml"


def record_path(key: JobKey) -> str:
    """Where a job's record stands on the status branch."""
    return f"jobs/{key.team}/{key.job_id}.json"


def job_at(path: str) -> JobKey | None:
    """The job whose record stands at this path of the status branch; None where no record does."""
    folder, *names = path.removesuffix(".json").split("/")
    return JobKey(*names) if folder == "jobs" and len(names) == 2 and path.endswith(".json") else None


def attempt_at(path: str) -> str:
    """The attempt whose manifest stands at this path of a region's branch."""
    return path.rpartition("/")[2].removesuffix(".yaml")


def manifest_path(namespace: str, attempt: str) -> str:
    """Where an attempt's manifest stands on its region's branch."""
    return f"manifests/{namespace}/{attempt}.yaml"
