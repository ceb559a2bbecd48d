"""What people commit and regions report, in the tests of the hub: only what a test cares about has to be written in it."""

import json
from typing import Any

from reconciler.model.report import PodReport, WorkloadReport
from tests.builders import NOW, TEAM

IMAGE = "reg.example.com:5000/team/train:1.4"
POOL = "node_pools: [{name: a, nodes: 2, gpus: 8, gpu_model: A100-80GB, cpu: '96', memory: 1000Gi}]\n"
SETTINGS = "intervals: {push_seconds: 0}\n"


def region_file(name: str, usd: float = 2.0, more: str = "") -> str:
    """regions/<name>.yaml: two nodes of 8 A100."""
    return f"name: {name}\nprices: {{A100-80GB: {usd}}}\n{POOL}{more}"


FILES = {
    "reconciler.yaml": SETTINGS,
    "regions/eu.yaml": region_file("eu", 1.0),
    "regions/us.yaml": region_file("us", 20.0),
}
"""Two regions alike, of which eu is cheaper and so the first choice."""


def job_file(job_id: str = "llm-a", *, gpus: int = 8, **fields: Any) -> str:
    """A job's file. `fields` are those of the spec; None leaves one out."""
    gpu = {"count": gpus, **({"model": "A100-80GB"} if gpus else {})}
    said = {"job_id": job_id, "gpu": gpu, "image": IMAGE, **fields}
    return json.dumps({name: value for name, value in said.items() if value is not None}, indent=1)


def work(attempt: str, state: str = "Held", *pods: PodReport, **fields: Any) -> WorkloadReport:
    """What a region says of an attempt; not stopped where it is released."""
    said = {"namespace": TEAM, "uid": "u1", "state": state, "stopped": state != "Released", "pods": pods}
    return WorkloadReport.model_validate({"attempt": attempt, **said, **fields})


def pod(attempt: str, phase: str = "Running", **fields: Any) -> PodReport:
    """One pod of an attempt, on the first node."""
    return PodReport.model_validate({"name": f"{attempt}-x", "phase": phase, "node": "n0", "started_at": NOW, **fields})


def running(attempt: str, **fields: Any) -> WorkloadReport:
    """What a region says of an attempt that runs."""
    return work(attempt, "Released", pod(attempt), **fields)


def stopped(attempt: str, **fields: Any) -> WorkloadReport:
    """What a region says of an attempt that was stopped: nothing of it runs."""
    return work(attempt, "Held", **fields)


def succeeded(attempt: str, **fields: Any) -> WorkloadReport:
    """What a region says of an attempt whose program ended with exit code 0."""
    return work(attempt, "Ended", pod(attempt, "Succeeded", exit_code=0, ended_at=NOW), succeeded=True, **fields)


def failed(attempt: str, code: int = 1, **fields: Any) -> WorkloadReport:
    """What a region says of an attempt whose program failed."""
    return work(attempt, "Ended", pod(attempt, "Failed", exit_code=code, ended_at=NOW), failed="BackoffLimitExceeded", **fields)
