"""What a pod requests, and how partial pods are merged."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.model.attempt import Needs
from reconciler.model.pods import main_resources, merge_pod, node_needs, pod_requests, wants_rdma
from reconciler.model.region import Profile
from tests.builders import GIB, make_spec
from tests.examples import examples

GPU = "nvidia.com/gpu"


def container(name: str = "main", *, always: bool = False, limits: Any = None, **requests: str) -> dict[str, Any]:
    asked = {"gpu": GPU}
    resources: dict[str, Any] = {"requests": {asked.get(word, word): amount for word, amount in requests.items()}}
    if limits is not None:
        resources["limits"] = limits
    return {"name": name, "resources": resources, **({"restartPolicy": "Always"} if always else {})}


def test_sidecars_init_steps_and_overhead() -> None:
    spec = {
        "overhead": {"cpu": "250m"},
        "initContainers": [container("side", always=True, cpu="500m", gpu="1"), container("warm", cpu="6", gpu="4")],
        "containers": [container("main", cpu="4", gpu="2")],
    }
    assert pod_requests(spec) == {"cpu": 6750, GPU: 5}


REQUESTS: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "nothing": ({}, {}),
    "containers that run together add up": (
        {"containers": [container(cpu="1", memory="1Gi"), container("b", cpu="500m", memory="1Gi")]},
        {"cpu": 1500, "memory": 2 * GIB},
    ),
    "a request that is left out is the limit": (
        {"containers": [container(limits={"cpu": "2", GPU: "8"}, cpu="1")]},
        {"cpu": 1000, GPU: 8},
    ),
    "init steps run one by one": (
        {"initContainers": [container("a", cpu="3"), container("b", cpu="2")], "containers": [container(cpu="1")]},
        {"cpu": 3000},
    ),
    "a sidecar that starts after an init step does not add to it": (
        {"initContainers": [container("a", cpu="3"), container("b", always=True, cpu="2")], "containers": [container(cpu="2")]},
        {"cpu": 4000},
    ),
    "two sidecars run together": (
        {"initContainers": [container("a", always=True, cpu="3"), container("b", always=True, cpu="2")], "containers": []},
        {"cpu": 5000},
    ),
    "fields that are there and empty": (
        {"containers": [{"name": "main", "resources": None}], "initContainers": None, "overhead": None},
        {},
    ),
}


@pytest.mark.parametrize("case", REQUESTS.values(), ids=REQUESTS.keys())
def test_requests(case: tuple[dict[str, Any], dict[str, int]]) -> None:
    assert pod_requests(case[0]) == case[1]


steps = st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=6)
mains = st.lists(st.integers(0, 9), max_size=4)


@settings(max_examples=examples(300), deadline=None, derandomize=True)
@given(steps, mains, st.integers(0, 3))
def test_requests_against_time(initial: list[tuple[bool, int]], together: list[int], overhead: int) -> None:
    """Walk through the pod's life and look at what runs at each moment."""
    running, most = 0, 0
    for always, cpu in initial:
        most = max(most, running + cpu)
        running += cpu if always else 0
    most = max(most, running + sum(together)) + overhead
    spec = {
        "overhead": {"cpu": str(overhead)},
        "initContainers": [container(f"i{at}", always=always, cpu=str(cpu)) for at, (always, cpu) in enumerate(initial)],
        "containers": [container(f"c{at}", cpu=str(cpu)) for at, cpu in enumerate(together)],
    }
    assert pod_requests(spec).get("cpu", 0) == most * 1000


MERGES: dict[str, tuple[Any, Any, Any]] = {
    "maps by key": ({"a": 1, "b": {"c": 2}}, {"b": {"d": 3}}, {"a": 1, "b": {"c": 2, "d": 3}}),
    "a value replaces a value": ({"dnsPolicy": "Default"}, {"dnsPolicy": "None"}, {"dnsPolicy": "None"}),
    "an unnamed container is the main one": (
        {"containers": [{"name": "main", "image": "a"}]},
        {"containers": [{"env": [{"name": "X", "value": "1"}]}]},
        {"containers": [{"name": "main", "image": "a", "env": [{"name": "X", "value": "1"}]}]},
    ),
    "another container comes after": (
        {"containers": [{"name": "main"}]},
        {"containers": [{"name": "side", "image": "b"}]},
        {"containers": [{"name": "main"}, {"name": "side", "image": "b"}]},
    ),
    "variables by name": (
        {"env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]},
        {"env": [{"name": "Y", "value": "3"}]},
        {"env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "3"}]},
    ),
    "mounts by path": (
        {"volumeMounts": [{"name": "a", "mountPath": "/x"}]},
        {"volumeMounts": [{"name": "b", "mountPath": "/x"}, {"name": "a", "mountPath": "/y"}]},
        {"volumeMounts": [{"name": "b", "mountPath": "/x"}, {"name": "a", "mountPath": "/y"}]},
    ),
    "other lists are appended": (
        {"tolerations": [{"key": "a"}]},
        {"tolerations": [{"key": "a"}]},
        {"tolerations": [{"key": "a"}] * 2},
    ),
    "a list over nothing": ({}, {"containers": [{"image": "a"}]}, {"containers": [{"name": "main", "image": "a"}]}),
    "nothing over something": ({"a": 1}, {}, {"a": 1}),
}


@pytest.mark.parametrize("case", MERGES.values(), ids=MERGES.keys())
def test_merge(case: tuple[Any, Any, Any]) -> None:
    base, overlay, merged = case
    before = repr(base), repr(overlay)
    assert merge_pod(base, overlay) == merged
    assert (repr(base), repr(overlay)) == before, "what was merged is left as it was"


RDMA = {
    "resources": {"rdma/hca": "1", "hugepages-2Mi": "4Gi"},
    "pod": {"containers": [{"resources": {"requests": {"cpu": "40"}}}]},
}

NEEDS: dict[str, tuple[dict[str, Any], dict[str, Any], Needs]] = {
    "what the region gives per GPU": (
        {"gpus": 4},
        {"cpu_per_gpu": "11500m", "memory_per_gpu": "240Gi"},
        Needs(gpus=4, cpu_milli=46_000, memory_bytes=960 * GIB),
    ),
    "what the region gives without GPUs": (
        {"gpus": 0},
        {"cpu_without_gpu": "2", "memory_without_gpu": "8Gi"},
        Needs(cpu_milli=2000, memory_bytes=8 * GIB),
    ),
    "what the job says": (
        {"gpus": 1, "resources": {"cpu": "500m", "memory": "1.5Gi", "ephemeral_storage": "10G"}},
        {},
        Needs(gpus=1, cpu_milli=500, memory_bytes=3 * GIB // 2, disk_bytes=10 * 10**9),
    ),
    "GPUs by another name": (
        {"gpus": 2, "resources": {"cpu": "1", "memory": "1Gi"}},
        {"gpu_resource": "amd.com/gpu"},
        Needs(gpus=2, cpu_milli=1000, memory_bytes=GIB),
    ),
    "what RDMA adds, where the job would use it": (
        {"gpus": 1, "nodes": 2, "resources": {"cpu": "1", "memory": "1Gi"}},
        {"rdma": RDMA},
        Needs(gpus=1, cpu_milli=40_000, memory_bytes=GIB),
    ),
    "and not where it would not": (
        {"gpus": 1, "nodes": 2, "network": "tcp", "resources": {"cpu": "1", "memory": "1Gi"}},
        {"rdma": RDMA},
        Needs(gpus=1, cpu_milli=1000, memory_bytes=GIB),
    ),
    "what every pod of the region carries, and the job's own overlay over it": (
        {"gpus": 0, "resources": {"cpu": "1", "memory": "1Gi"}, "pod_overlay": {"containers": [container(cpu="3")]}},
        {"pod": {"initContainers": [container("side", always=True, cpu="250m")], "overhead": {"memory": "1Gi"}}},
        Needs(cpu_milli=3250, memory_bytes=2 * GIB),
    ),
}


@pytest.mark.parametrize("case", NEEDS.values(), ids=NEEDS.keys())
def test_needs_of_a_node(case: tuple[dict[str, Any], dict[str, Any], Needs]) -> None:
    job, profile, needs = case
    assert node_needs(make_spec(**job), Profile.model_validate(profile)) == needs


def test_main_resources_name_the_resources_of_the_region() -> None:
    profile = Profile.model_validate({"gpu_resource": "amd.com/gpu", "rdma": RDMA})
    assert main_resources(make_spec(gpus=2, nodes=2), profile) == {
        "cpu": "16000m",
        "memory": str(128 * GIB),
        "amd.com/gpu": "2",
        "rdma/hca": "1",
        "hugepages-2Mi": "4Gi",
    }


@pytest.mark.parametrize(
    ("network", "mode", "nodes", "wanted"),
    [
        ("rdma", "none", 1, True), ("tcp", "sync", 4, False), ("none", "sync", 4, False), (None, "sync", 2, True),
        (None, "sync", 1, False), (None, "async", 2, False), (None, "none", 2, False),
    ],
)  # fmt: skip
def test_who_would_use_rdma(network: str | None, mode: str, nodes: int, wanted: bool) -> None:
    fields: dict[str, Any] = {} if network is None else {"network": network}
    assert wants_rdma(make_spec(communication_mode=mode, nodes=nodes, **fields)) is wanted
