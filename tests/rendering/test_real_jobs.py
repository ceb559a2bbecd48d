"""Jobs as people run them, one file a kind: every one is said in our words, and rendered for regions that spell differently."""

from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from reconciler.model.job import JobSpec
from reconciler.model.pods import node_needs, pod_requests
from reconciler.model.quantity import milli, whole
from reconciler.rendering.manifest import problems, render_job, reserved_problems
from tests.rendering.builders import EFA, PLAIN, objects, region, rendering

SHAPES = sorted((Path(__file__).parents[1] / "cases" / "shapes").glob("*.yaml"))
REGIONS = {"many network cards": EFA, "plain": PLAIN}


def read(path: Path) -> JobSpec:
    return JobSpec.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))


def test_there_are_enough_of_them() -> None:
    assert len(SHAPES) >= 30
    assert all(path.read_text(encoding="utf-8").startswith("# ") for path in SHAPES)
    assert len({read(path).job_id for path in SHAPES}) == len(SHAPES)


@pytest.mark.parametrize("where", REGIONS)
@pytest.mark.parametrize("path", SHAPES, ids=lambda path: path.stem)
def test_it_is_rendered_as_kubernetes_takes_it(path: Path, where: str) -> None:
    spec = read(path)
    assert reserved_problems(spec) == []
    one = rendering(spec, region(REGIONS[where]), gpu_products=("NVIDIA-H100-80GB-HBM3",))
    manifest = render_job(one)
    assert problems(manifest) == []
    found = objects(manifest)
    for single in found.values():
        assert kubernetes_validate.validate(single, "1.36", strict=True) == "1.36"
    assert set(found) == {"Job"} | ({"Service"} if spec.nodes > 1 else set()) | ({"ConfigMap"} if spec.files else set())
    asked, planned = pod_requests(found["Job"]["spec"]["template"]["spec"]), node_needs(spec, one.profile)
    assert (asked.get("nvidia.com/gpu", 0), asked["cpu"], asked["memory"]) == (
        planned.gpus,
        planned.cpu_milli,
        planned.memory_bytes,
    )


@pytest.mark.parametrize("path", SHAPES, ids=lambda path: path.stem)
def test_what_it_says_reaches_its_pods(path: Path) -> None:
    """The file as a person reads it against the objects, without our model in between."""
    said = yaml.safe_load(path.read_text(encoding="utf-8"))
    found = objects(render_job(rendering(read(path), region(EFA))))
    job, pod = found["Job"]["spec"], found["Job"]["spec"]["template"]["spec"]
    main = pod["containers"][0]
    variables = {variable["name"]: variable for variable in main["env"]}
    assert main.get("args", []) == said.get("args", [])
    assert {name: variables[name]["value"] for name in said.get("env", {})} == said.get("env", {})
    assert (job.get("completions", 1), job.get("parallelism", 1)) == (said.get("nodes", 1),) * 2
    assert whole(main["resources"]["requests"].get("nvidia.com/gpu", 0)) == said["gpu"]["count"]
    if "cpu" in said.get("resources", {}):
        assert milli(main["resources"]["requests"]["cpu"]) == milli(said["resources"]["cpu"])
    assert pod["terminationGracePeriodSeconds"] == said.get("grace_seconds", 30)
    mounted = {mount["mountPath"] for mount in main.get("volumeMounts", [])}
    assert {volume["mount_path"] for volume in said.get("volumes", [])} <= mounted
    assert [file["content"] for file in said.get("files", [])] == list(found.get("ConfigMap", {"data": {}})["data"].values())
    for secret in said.get("secrets", []):
        assert secret.get("mount_path") in mounted or "secretKeyRef" in variables[secret["env"]]["valueFrom"]
    assert ("vpc.amazonaws.com/efa" in main["resources"]["requests"]) == (
        said.get("network") == "rdma"
        or (said.get("nodes", 1) > 1 and said.get("network") is None and "communication_mode" not in said)
    )
