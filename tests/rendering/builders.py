"""Specs, regions and renderings for the tests, with only what a test cares about to be written in it."""

from collections.abc import Mapping
from typing import Any

import yaml

from reconciler.model import identity, names
from reconciler.model.job import JobSpec
from reconciler.model.region import Region
from reconciler.rendering.rendering import Rendering

STAGE_IMAGE = "reg.example.com/platform/reconciler:1.0"

BASIC: dict[str, Any] = {"job_id": "llm-a", "gpu": {"count": 8}, "image": "reg.example.com:5000/team/train:1.4"}

EFA: dict[str, Any] = {
    "name": "us-efa",
    "registry_mirror": "mirror.us.example.com:5000",
    "object_store": {"url": "s3://store-us/", "location": "us-east-1"},
    "profile": {
        "cpu_per_gpu": "11",
        "memory_per_gpu": "240Gi",
        "rdma": {
            "resources": {"vpc.amazonaws.com/efa": "32", "hugepages-2Mi": "5120Mi"},
            "env": {"FI_PROVIDER": "efa", "NCCL_DEBUG": "WARN"},
            "pod": {"containers": [{"securityContext": {"capabilities": {"add": ["IPC_LOCK"]}}}]},
        },
        "tolerations": {"spot": {"key": "cloud.example.com/spot"}, "reserved": {"key": "reserved", "value": "ml"}},
        "queues": {"research": "gpu-research"},
        "secrets": {"hf-token": "team-hf-token"},
        "image_pull_secrets": ["registry"],
        "shared_claim": "fsx",
        "pod": {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]},
    },
}
"""A region whose nodes have many network cards, spelled as an extended resource."""

PLAIN: dict[str, Any] = {
    "name": "lab",
    "profile": {
        "tolerations": {"spot": {"key": "spot"}, "reserved": {"key": "reserved"}},
        "queues": {"research": "research"},
        "shared_claim": "nfs-home",
    },
}
"""A region that spells nothing in a way of its own."""


def job(**changes: Any) -> JobSpec:
    """The basic job with some fields changed, through the model's own door."""
    return JobSpec.model_validate({**BASIC, **changes})


def region(base: Mapping[str, Any] = PLAIN, **changes: Any) -> Region:
    """A region; `profile` is changed field by field."""
    profile = {**base.get("profile", {}), **changes.pop("profile", {})}
    return Region.model_validate({**base, **changes, "profile": profile})


def rendering(spec: JobSpec, where: Region | None = None, **changes: Any) -> Rendering:
    """The first attempt of a job of team-a, unless said otherwise."""
    team, number = changes.pop("team", "team-a"), changes.pop("number", 1)
    run_hash = identity.run_hash(team, spec)
    said: dict[str, Any] = {
        "team": team,
        "spec": spec,
        "region": where or region(),
        "attempt": names.attempt_name(spec.job_id, run_hash, number),
        "number": number,
        "run_hash": run_hash,
        "gpu_products": (),
        "checkpoint": None if spec.checkpoint_path is None else f"{spec.checkpoint_path.rstrip('/')}/a{number}/",
        "seeded_from": None,
        "stage_image": STAGE_IMAGE,
        "dataset_uris": tuple(use.uri or f"s3://datasets/{use.name}/" for use in spec.datasets),
    }
    return Rendering(**{**said, **changes})


def objects(manifest: bytes) -> dict[str, dict[str, Any]]:
    """The objects of a file by kind, read by a YAML reader."""
    return {one["kind"]: one for one in yaml.safe_load_all(manifest)}


def pod_of(manifest: bytes) -> dict[str, Any]:
    """The pod's spec in a file."""
    pod: dict[str, Any] = objects(manifest)["Job"]["spec"]["template"]["spec"]
    return pod


def main_of(manifest: bytes) -> dict[str, Any]:
    """The program's container in a file."""
    return next(container for container in pod_of(manifest)["containers"] if container["name"] == "main")


def env_of(container: Mapping[str, Any]) -> dict[str, Any]:
    """A container's variables by name; what they hold, or where it comes from."""
    return {variable["name"]: variable.get("value", variable.get("valueFrom")) for variable in container.get("env", ())}
