"""The pod of an attempt: volumes, steps, amounts, places, rights."""

import os
import subprocess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.names import GATE
from reconciler.model.region import StoreAddress
from reconciler.rendering.manifest import Rendering, Unrenderable, problems, render_job
from reconciler.rendering.steps import ONLY_FIRST_NODE
from tests.rendering.builders import EFA, PLAIN, STAGE_IMAGE, env_of, job, main_of, objects, pod_of, region, rendering

# ---- launcher


def test_torchrun_starts_the_script_on_every_node() -> None:
    main = main_of(render_job(rendering(job(nodes=4, launcher="torchrun", args=["train.py", "--lr", "1e-3"]))))
    assert main["command"] == [
        "torchrun", "--nnodes=4", "--nproc_per_node=8", "--node_rank=$(NODE_RANK)", "--master_addr=$(MASTER_ADDR)",
        "--master_port=$(MASTER_PORT)",
    ]  # fmt: skip
    assert main["args"] == ["train.py", "--lr", "1e-3"]
    assert {"NODE_RANK", "MASTER_ADDR", "MASTER_PORT"} <= set(env_of(main))


def test_without_a_command_the_image_has_its_own() -> None:
    main = main_of(render_job(rendering(job())))
    assert "command" not in main
    assert "args" not in main
    assert main_of(render_job(rendering(job(command=["a"], working_dir="/w"))))["workingDir"] == "/w"


def test_several_nodes_are_an_indexed_job_with_a_headless_service() -> None:
    found = objects(render_job(rendering(job(nodes=3))))
    spec = found["Job"]["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 3, 3)
    name = found["Job"]["metadata"]["name"]
    assert (found["Service"]["metadata"]["name"], spec["template"]["spec"]["subdomain"]) == (name, name)
    assert found["Service"]["spec"]["selector"].items() <= spec["template"]["metadata"]["labels"].items()


def test_one_node_is_neither() -> None:
    for spec in (job(), job(launcher="torchrun", args=["t.py"])):
        found = objects(render_job(rendering(spec)))
        assert set(found) == {"Job"}
        assert "completionMode" not in found["Job"]["spec"]
        assert "subdomain" not in found["Job"]["spec"]["template"]["spec"]


# ---- volumes: spec → (mount path → (source, read only))

S = {"kind": "scratch", "mount_path": "/s"}
VOLUMES: dict[str, tuple[dict[str, Any], dict[str, tuple[dict[str, Any], bool]]]] = {
    "one GPU on one node has no shared memory of its own": ({"gpu": {"count": 1}}, {}),
    "several GPUs share memory": ({"gpu": {"count": 2}}, {"/dev/shm": ({"emptyDir": {"medium": "Memory", "sizeLimit": "64Gi"}}, False)}),
    "as much as there is, at most": (
        {"gpu": {"count": 2}, "resources": {"memory": "16Gi"}}, {"/dev/shm": ({"emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}}, False)},
    ),
    "as much as it asks for": (
        {"gpu": {"count": 1}, "shm": "250G"}, {"/dev/shm": ({"emptyDir": {"medium": "Memory", "sizeLimit": "250G"}}, False)},
    ),
    "its own volume there comes first": (
        {"gpu": {"count": 2}, "volumes": [{"kind": "claim", "name": "c", "mount_path": "/dev/shm/"}]},
        {"/dev/shm/": ({"persistentVolumeClaim": {"claimName": "c"}}, False)},
    ),
    "scratch": ({"gpu": {"count": 0}, "volumes": [S, {**S, "mount_path": "/t", "size": "1Ti"}]}, {
        "/s": ({"emptyDir": {}}, False), "/t": ({"emptyDir": {"sizeLimit": "1Ti"}}, False),
    }),
    "the region's shared file system": (
        {"gpu": {"count": 0}, "volumes": [{"kind": "shared", "mount_path": "/f"}]}, {"/f": ({"persistentVolumeClaim": {"claimName": "nfs-home"}}, False)},
    ),
    "a dataset is brought into a folder": (
        {"gpu": {"count": 0}, "dataset": {"uri": "s3://d/", "mount_path": "/data"}}, {"/data": ({"emptyDir": {}}, True)},
    ),
    "unless it lies in a volume of the job": (
        {"gpu": {"count": 0}, "dataset": {"uri": "s3://d/", "mount_path": "/s/data"}, "volumes": [S]}, {"/s": ({"emptyDir": {}}, False)},
    ),
    "a name that only begins alike is no part of it": (
        {"gpu": {"count": 0}, "dataset": {"uri": "s3://d/", "mount_path": "/sdata"}, "volumes": [S]},
        {"/s": ({"emptyDir": {}}, False), "/sdata": ({"emptyDir": {}}, True)},
    ),
    "a folder for results": ({"gpu": {"count": 0}, "outputs": [{"path": "/o", "uri": "s3://r/"}]}, {"/o": ({"emptyDir": {}}, False)}),
    "unless it lies in a volume as well": (
        {"gpu": {"count": 0}, "outputs": [{"path": "/s/o", "uri": "s3://r/"}], "volumes": [S]}, {"/s": ({"emptyDir": {}}, False)},
    ),
    "all keys of a secret as files": (
        {"gpu": {"count": 0}, "secrets": [{"name": "k", "mount_path": "/k"}]}, {"/k": ({"secret": {"secretName": "k"}}, True)},
    ),
    "one key of a secret": (
        {"gpu": {"count": 0}, "secrets": [{"name": "k", "key": "a.json", "mount_path": "/k"}]},
        {"/k": ({"secret": {"secretName": "k", "items": [{"key": "a.json", "path": "a.json"}]}}, True)},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("spec", "expected"), VOLUMES.values(), ids=VOLUMES)
def test_what_is_mounted_where(spec: dict[str, Any], expected: dict[str, tuple[dict[str, Any], bool]]) -> None:
    manifest = render_job(rendering(job(**spec)))
    sources = {volume.pop("name"): volume for volume in pod_of(manifest).get("volumes", [])}
    mounts = main_of(manifest).get("volumeMounts", [])
    assert {mount["mountPath"]: (sources[mount["name"]], mount.get("readOnly", False)) for mount in mounts} == expected
    assert problems(manifest) == []


def test_files_stand_where_they_were_asked_for_whatever_their_names() -> None:
    files = [
        {"path": "/etc/a/.b", "content": ""},
        {"path": "/x/.y z", "content": "1"},
        {"path": "/x/" + "n" * 300, "content": "2"},
    ]
    found = objects(render_job(rendering(job(files=files))))
    assert found["ConfigMap"]["immutable"] is True
    assert found["ConfigMap"]["data"] == {"file-0": "", "file-1": "1", "file-2": "2"}
    mounts = [mount for mount in main_of(render_job(rendering(job(files=files))))["volumeMounts"] if mount["name"] == "files"]
    assert [(mount["mountPath"], mount["subPath"]) for mount in mounts] == [
        (file["path"], f"file-{at}") for at, file in enumerate(files)
    ]


def test_a_region_without_a_shared_file_system_cannot_be_asked_for_one() -> None:
    spec = job(volumes=[{"kind": "shared", "mount_path": "/f"}])
    with pytest.raises(Unrenderable, match="shared_claim"):
        render_job(rendering(spec, region({"name": "bare"})))


def test_a_dataset_of_the_shared_file_system_is_mounted_as_it_is() -> None:
    spec = job(dataset=[{"name": "corpus", "mount_path": "/data"}, {"name": "images"}, {"name": "tail", "mount_path": "/tail"}])
    uris = ("volume:///datasets/corpus/", "volume:///images", "s3://store-us/tail/")
    manifest = render_job(rendering(spec, dataset_uris=uris))
    shared = {"persistentVolumeClaim": {"claimName": "nfs-home"}}
    sources = {volume.pop("name"): volume for volume in pod_of(manifest)["volumes"]}
    mounts = {mount["mountPath"]: mount for mount in main_of(manifest)["volumeMounts"] if mount["name"] != "shm"}
    assert {path: sources[mount["name"]] for path, mount in mounts.items()} == {
        "/data": shared,
        "/mnt/datasets/2": shared,
        "/tail": {"emptyDir": {}},
    }
    assert [(mounts[path]["subPath"], mounts[path]["readOnly"]) for path in ("/data", "/mnt/datasets/2")] == [
        ("datasets/corpus", True),
        ("images", True),
    ]
    assert [step["name"] for step in pod_of(manifest)["initContainers"]] == ["fetch-dataset-2"]
    said = {one["name"]: one.get("value") for one in main_of(manifest)["env"]}
    assert [said[f"DATASET_URI_{number}"] for number in (1, 2, 3)] == ["file:///data", "file:///mnt/datasets/2", uris[2]]
    assert problems(manifest) == []
    with pytest.raises(Unrenderable, match="shared_claim"):
        render_job(rendering(spec, region({"name": "bare"}), dataset_uris=uris))


def test_a_dataset_of_the_shared_file_system_is_taken_to_be_in_a_volume_of_the_job_s_own_only_where_the_job_says_so() -> None:
    volumes = [{"kind": "scratch", "mount_path": "/mnt"}]
    spec = job(dataset=[{"name": "corpus"}, {"name": "tail", "mount_path": "/mnt/tail"}], volumes=volumes)
    mounts = main_of(render_job(rendering(spec, dataset_uris=("volume:///corpus", "volume:///tail"))))["volumeMounts"]
    assert {mount["mountPath"] for mount in mounts if mount["name"] != "shm"} == {"/mnt", "/mnt/datasets/1"}


# ---- steps before the program

EVERY_STEP = job(
    nodes=2,
    dataset={"uri": "s3://store-us/d/$x", "mount_path": "/data"},
    checkpoint_path="s3://ckpt/x/",
    prepare={"command": ["make", "-j"], "image": "alpine:3"},
    env={"TUNING": "1"},
    secrets=[{"name": "aws", "env": "AWS_SECRET_ACCESS_KEY"}],
    files=[{"path": "/a", "content": "b"}],
)


def steps_of(one: Rendering) -> dict[str, dict[str, Any]]:
    return {step["name"]: step for step in pod_of(render_job(one)).get("initContainers", [])}


def test_data_first_then_the_checkpoint_then_the_jobs_own_step() -> None:
    side = {"name": "side", "image": "s:1", "env": [{"name": "SIDE", "value": "1"}]}
    where = region(EFA, profile={"pod": {"containers": [{"env": [{"name": "AWS_PROFILE", "value": "team"}]}, side]}})
    one = rendering(EVERY_STEP, where, number=2, seeded_from="s3://ckpt/x/a1/")
    steps = steps_of(one)
    assert list(steps) == ["fetch-dataset-0", "seed-checkpoint", "prepare"]
    fetch, seed, prepare = steps.values()
    assert fetch["command"] == ["reconciler", "stage", "dataset", "s3://store-us/d/$$x", "file:///data"]
    assert seed["command"] == ["reconciler", "stage", "checkpoint", "s3://ckpt/x/a1/", "s3://ckpt/x/a2/"]
    assert fetch["image"] == seed["image"] == "mirror.us.example.com:5000/platform/reconciler:1.0"
    assert prepare["image"] == "mirror.us.example.com:5000/library/alpine:3"
    # What brings data has what opens the stores, and nothing else of the job's.
    assert set(env_of(seed)) == {"AWS_PROFILE", "AWS_SECRET_ACCESS_KEY"}
    assert set(env_of(fetch)) == {"AWS_PROFILE", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"}
    assert [mount for mount in fetch["volumeMounts"] if mount["name"].startswith("dataset")] == [
        {"name": "dataset-0", "mountPath": "/data"}
    ]
    assert not any("nvidia.com/gpu" in amounts for step in (fetch, seed) for amounts in step["resources"].values())
    main = main_of(render_job(one))
    for field in ("env", "resources", "volumeMounts", "securityContext"):
        assert prepare[field] == main[field]
    assert problems(render_job(one)) == []


def test_a_first_attempt_is_not_seeded_and_a_plain_job_has_no_steps() -> None:
    assert list(steps_of(rendering(job(checkpoint_path="s3://c/x/")))) == []
    assert list(steps_of(rendering(job(dataset="s3://d/")))) == []


def test_a_region_may_name_its_own_image_of_the_steps() -> None:
    where = region(EFA, profile={"stage_image": "reg.example.com/lab/reconciler:2.0"})
    seed = steps_of(rendering(EVERY_STEP, where, number=2, seeded_from="s3://ckpt/x/a1/"))["seed-checkpoint"]
    assert seed["image"] == "mirror.us.example.com:5000/lab/reconciler:2.0"


def test_the_regions_store_is_opened_at_its_address() -> None:
    store = {"url": "s3://store/pre", "endpoint": "http://store.example.com:9000", "location": "lab"}
    spec = job(checkpoint_path="s3://store/ckpt/")
    seed = steps_of(rendering(spec, region(PLAIN, object_store=store), number=2, seeded_from="s3://elsewhere/a1/"))[
        "seed-checkpoint"
    ]
    assert env_of(seed) == {"AWS_ENDPOINT_URL_S3": "http://store.example.com:9000", "AWS_REGION": "lab"}
    assert seed["image"] == STAGE_IMAGE
    other = job(checkpoint_path="s3://store-2/ckpt/")
    seed = steps_of(rendering(other, region(PLAIN, object_store=store), number=2, seeded_from="s3://elsewhere/a1/"))[
        "seed-checkpoint"
    ]
    assert env_of(seed) == {}


def test_a_checkpoint_in_another_regions_store_is_opened_at_that_ones_address() -> None:
    own = {"url": "s3://store/pre", "endpoint": "http://store.example.com:9000", "location": "lab"}
    there = StoreAddress(url="s3://far/pre", endpoint="http://far.example.com:9000", location="attic")
    gives = {"containers": [{"name": "main", "env": [{"name": "AWS_ENDPOINT_URL_S3", "value": own["endpoint"]}]}]}
    where = region(PLAIN, object_store=own, profile={"pod": gives})
    spec = job(checkpoint_path="s3://far/ckpt/")
    made = rendering(spec, where, number=2, seeded_from="s3://far/ckpt/a1/", checkpoint_store=there)
    assert env_of(steps_of(made)["seed-checkpoint"]) == {
        "AWS_ENDPOINT_URL_S3": "http://far.example.com:9000",
        "AWS_REGION": "attic",
    }


def test_steps_come_before_the_regions_sidecars_and_cost_nothing_beside_them() -> None:
    sidecar = {"name": "nic", "image": "nic:1", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}
    where = region(PLAIN, profile={"pod": {"initContainers": [sidecar]}})
    assert list(steps_of(rendering(job(prepare={"command": ["true"]}), where))) == ["prepare", "nic"]


def test_on_one_node_the_step_is_run_as_it_is() -> None:
    assert steps_of(rendering(job(prepare={"command": ["make", "x"]})))["prepare"]["command"] == ["make", "x"]


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20), max_size=4))
def test_on_several_nodes_only_the_first_runs_it_with_its_arguments_untouched(arguments: list[str]) -> None:
    step = steps_of(rendering(job(nodes=2, prepare={"command": ["printf", "%s\\0", "", *arguments]})))["prepare"]
    assert ONLY_FIRST_NODE in step["command"]

    def run(index: str) -> bytes:
        env = {**os.environ, "JOB_COMPLETION_INDEX": index}
        return subprocess.run(step["command"], env=env, capture_output=True, check=True).stdout

    assert run("0").decode().split("\0") == ["", *arguments, ""]
    assert run("1") == run("10") == b""


def test_a_step_that_fails_fails_the_pod() -> None:
    step = steps_of(rendering(job(nodes=2, prepare={"command": ["sh", "-c", "exit 7"]})))["prepare"]
    assert subprocess.run(step["command"], env={**os.environ, "JOB_COMPLETION_INDEX": "0"}, check=False).returncode == 7


# ---- amounts

AMOUNTS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, str], dict[str, str]]] = {
    "devices and memory are limits as well": (
        {"gpu": {"count": 2}}, {}, {"cpu": "16000m", "memory": "137438953472", "nvidia.com/gpu": "2"},
        {"memory": "137438953472", "nvidia.com/gpu": "2"},
    ),
    "no GPU, no device": ({"gpu": {"count": 0}}, {}, {"cpu": "1", "memory": "4Gi"}, {"memory": "4Gi"}),
    "as the spec says": (
        {"gpu": {"count": 1}, "resources": {"cpu": "3", "memory": "5Gi", "ephemeral_storage": "7Gi"}}, {},
        {"cpu": "3", "memory": "5Gi", "ephemeral-storage": "7Gi", "nvidia.com/gpu": "1"}, {"memory": "5Gi", "nvidia.com/gpu": "1"},
    ),
    "huge pages and network cards": (
        {"gpu": {"count": 0}, "network": "rdma"}, {"rdma": {"resources": {"rdma/hca": "1", "hugepages-2Mi": "1Gi"}}},
        {"cpu": "1", "memory": "4Gi", "rdma/hca": "1", "hugepages-2Mi": "1Gi"}, {"memory": "4Gi", "rdma/hca": "1", "hugepages-2Mi": "1Gi"},
    ),
    "the region's pod asks for more": (
        {"gpu": {"count": 1}}, {"pod": {"containers": [{"resources": {"requests": {"nvidia.com/gpu": "4", "memory": "1Gi"}}}]}},
        {"cpu": "8000m", "memory": "1Gi", "nvidia.com/gpu": "4"}, {"memory": "1Gi", "nvidia.com/gpu": "4"},
    ),
    "a limit of the region above the request": (
        {"gpu": {"count": 0}}, {"pod": {"containers": [{"resources": {"limits": {"memory": "9Gi", "cpu": "2"}}}]}},
        {"cpu": "1", "memory": "4Gi"}, {"memory": "9Gi", "cpu": "2"},
    ),
    "a limit of the region on devices above the request": (
        {"gpu": {"count": 1}}, {"pod": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "4"}}}]}},
        {"cpu": "8000m", "memory": "68719476736", "nvidia.com/gpu": "1"}, {"memory": "68719476736", "nvidia.com/gpu": "1"},
    ),
    "a limit of the region below the request": (
        {"gpu": {"count": 1}}, {"pod": {"containers": [{"resources": {"limits": {"memory": "1Gi", "nvidia.com/gpu": "0"}}}]}},
        {"cpu": "8000m", "memory": "68719476736", "nvidia.com/gpu": "1"}, {"memory": "68719476736", "nvidia.com/gpu": "1"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("spec", "profile", "requests", "limits"), AMOUNTS.values(), ids=AMOUNTS)
def test_what_it_asks_for(
    spec: dict[str, Any], profile: dict[str, Any], requests: dict[str, str], limits: dict[str, str]
) -> None:
    manifest = render_job(rendering(job(**spec), region(PLAIN, profile=profile)))
    assert main_of(manifest)["resources"] == {"requests": requests, "limits": limits}
    assert problems(manifest) == []


# ---- places

ONLY = {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["NVIDIA-H100-80GB-HBM3", "H100_NVLINK_80GB"]}
ZONE = {"key": "zone", "operator": "In", "values": ["a"]}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PLACES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "the chosen model alone": ({}, {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [ONLY]}]}}),
    "and what the region asks for": (
        {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [ZONE]}]}},
        {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [ZONE, ONLY]}]}},
    ),
    "in each of the region's alternatives": (
        {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [ZONE]}, {"matchFields": [ZONE]}]}},
        {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [ZONE, ONLY]}, {"matchExpressions": [ONLY], "matchFields": [ZONE]}]}},
    ),
    "beside what the region prefers": (
        {"preferredDuringSchedulingIgnoredDuringExecution": [{"preference": {"matchExpressions": [ZONE]}, "weight": 1}]},
        {"preferredDuringSchedulingIgnoredDuringExecution": [{"preference": {"matchExpressions": [ZONE]}, "weight": 1}],
         REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [ONLY]}]}},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("of_the_region", "expected"), PLACES.values(), ids=PLACES)
def test_the_chosen_model_binds(of_the_region: dict[str, Any], expected: dict[str, Any]) -> None:
    pod = {"affinity": {"nodeAffinity": of_the_region, "podAntiAffinity": {}}} if of_the_region else {}
    manifest = render_job(rendering(job(), region(PLAIN, profile={"pod": pod}), gpu_products=tuple(ONLY["values"])))
    assert pod_of(manifest)["affinity"]["nodeAffinity"] == expected
    assert problems(manifest) == []


def test_any_model_and_no_gpu_bind_nothing() -> None:
    assert "affinity" not in pod_of(render_job(rendering(job())))
    assert "affinity" not in pod_of(render_job(rendering(job(gpu={"count": 0}), gpu_products=("NVIDIA-L4",))))


def test_tolerations_by_the_regions_names_for_them() -> None:
    pod = pod_of(render_job(rendering(job(tolerations=["spot", "reserved"]), region(EFA))))
    assert pod["tolerations"] == [
        {"key": "cloud.example.com/spot", "operator": "Exists"},
        {"key": "reserved", "operator": "Equal", "value": "ml"},  # a value with Exists would be refused
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
    ]
    with pytest.raises(Unrenderable, match="`night`"):
        render_job(rendering(job(tolerations=["night"]), region(EFA)))


def test_what_the_region_gives_every_pod() -> None:
    where = region(PLAIN, profile={"runtime_class": "kata", "scheduler_name": "gang", "image_pull_secrets": ["a", "b"]})
    pod = pod_of(render_job(rendering(job(), where)))
    assert (pod["runtimeClassName"], pod["schedulerName"], pod["imagePullSecrets"]) == (
        "kata",
        "gang",
        [{"name": "a"}, {"name": "b"}],
    )
    plain = pod_of(render_job(rendering(job())))
    assert not {
        "runtimeClassName",
        "schedulerName",
        "imagePullSecrets",
        "nodeSelector",
        "tolerations",
        "priorityClassName",
    } & set(plain)
    assert (plain["automountServiceAccountToken"], plain["enableServiceLinks"], plain["schedulingGates"]) == (
        False,
        False,
        [{"name": GATE}],
    )


@pytest.mark.parametrize(
    ("spec", "used"),
    {
        "it asks": ({"network": "rdma"}, True),
        "several nodes in step with each other": ({"nodes": 2}, True),
        "one node": ({}, False),
        "independent pieces": ({"nodes": 2, "communication_mode": "none"}, False),
        "it does not want it": ({"nodes": 2, "network": "tcp"}, False),
    }.values(),
)
def test_rdma_as_the_region_spells_it(spec: dict[str, Any], *, used: bool) -> None:
    where = region(EFA, profile={"rdma": {**EFA["profile"]["rdma"], "annotations": {"k8s.v1.cni.cncf.io/networks": "rail"}}})
    manifest = render_job(rendering(job(**spec), where))
    main = main_of(manifest)
    annotations = objects(manifest)["Job"]["spec"]["template"]["metadata"]["annotations"]
    assert ("vpc.amazonaws.com/efa" in main["resources"]["limits"]) == used
    assert ("FI_PROVIDER" in env_of(main)) == used
    assert ("capabilities" in main["securityContext"]) == used
    assert ("k8s.v1.cni.cncf.io/networks" in annotations) == used
    assert problems(manifest) == []


# ---- rights

RIGHTS: dict[str, tuple[dict[str, Any], dict[str, Any] | None]] = {
    "no way to more rights": ({}, {"allowPrivilegeEscalation": False}),
    "also where the region says other things": ({"runAsUser": 7}, {"runAsUser": 7, "allowPrivilegeEscalation": False}),
    "unless the region says so": ({"allowPrivilegeEscalation": True}, {"allowPrivilegeEscalation": True}),
    "or gives all rights": ({"privileged": True}, {"privileged": True}),
    "or as good as all": ({"capabilities": {"add": ["SYS_ADMIN"]}}, {"capabilities": {"add": ["SYS_ADMIN"]}}),
}


@pytest.mark.parametrize(("context", "expected"), RIGHTS.values(), ids=RIGHTS)
def test_rights(context: dict[str, Any], expected: dict[str, Any]) -> None:
    partial = {"containers": [{"securityContext": context}, {"name": "side", "image": "s:1"}]}
    manifest = render_job(rendering(job(), region(PLAIN, profile={"pod": partial})))
    assert main_of(manifest)["securityContext"] == expected
    side = next(container for container in pod_of(manifest)["containers"] if container["name"] == "side")
    assert side["securityContext"] == {"allowPrivilegeEscalation": False}
    assert problems(manifest) == []


# ---- the value itself


def test_a_rendering_that_does_not_add_up_is_refused() -> None:
    with pytest.raises(ValueError, match="0 dataset URIs for 1 datasets"):
        rendering(job(dataset="s3://d/"), dataset_uris=())
    with pytest.raises(ValueError, match="checkpoint prefix of its own"):
        rendering(job(), seeded_from="s3://c/a1/")


def test_rendering_changes_nothing_of_what_it_was_given() -> None:
    partial = {"containers": [{"env": [{"name": "A", "value": "1"}], "resources": {"requests": {"cpu": "1"}}}], "volumes": []}
    where = region(PLAIN, profile={"pod": partial}, overlay_allowed=["containers.env"])
    spec = job(pod_overlay={"containers": [{"env": [{"name": "A", "value": "2"}]}]}, nodes=2)
    before = (where.model_dump_json(), spec.model_dump_json())
    assert render_job(rendering(spec, where)) == render_job(rendering(spec, where))
    assert (where.model_dump_json(), spec.model_dump_json()) == before
