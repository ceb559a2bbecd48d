"""What holds of every spec that the model accepts, in whatever region."""

import itertools
from typing import Any

import kubernetes_validate
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.model.job import JobSpec
from reconciler.model.pods import MAIN, node_needs, pod_requests
from reconciler.model.region import Region
from reconciler.rendering.environment import literal, reserved_names
from reconciler.rendering.labels import is_reserved
from reconciler.rendering.manifest import _values, render_job
from reconciler.rendering.manifest import objects as checked_objects
from reconciler.rendering.pod import pod_spec
from reconciler.rendering.rendering import Rendering
from tests.examples import examples
from tests.rendering.builders import EFA, PLAIN, STAGE_IMAGE, env_of, objects, region, rendering
from tests.rendering.strategies import specs

SLOW = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large)

SIDECAR: dict[str, Any] = {
    "initContainers": [
        {"name": "nic", "image": "nic:1", "restartPolicy": "Always", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}
    ],
    "overhead": {"cpu": "250m"},
}

PROFILES: dict[str, dict[str, Any]] = {
    "plain": PLAIN,
    "many network cards": EFA,
    "gangs of Volcano's": {**PLAIN, "profile": {**PLAIN["profile"], "gang": "volcano"}},
    "a sidecar and overhead": {**PLAIN, "profile": {**PLAIN["profile"], "pod": SIDECAR}},
    "another vendor's GPUs": {**PLAIN, "profile": {**PLAIN["profile"], "gpu_resource": "amd.com/gpu", "gpu_label": "amd.com/gpu.product-name"}},
}  # fmt: skip


def fit_for(spec: JobSpec, base: dict[str, Any]) -> Region:
    """A region that knows every name of the spec."""
    known = {name: {"key": f"taints/{name}"} for name in spec.tolerations}
    return region(
        base,
        profile={"tolerations": known, "queues": {spec.queue: "q"} if spec.queue else {}},
        overlay_allowed=["dnsPolicy", "containers", "initContainers", "volumes"],
    )


@st.composite
def renderings(draw: st.DrawFn) -> Rendering:
    spec = draw(specs())
    where = fit_for(spec, draw(st.sampled_from(list(PROFILES.values()))))
    checkpoint = draw(st.none() | st.just("s3://ckpt/x/$(HOME)/a2/"))
    return rendering(
        spec,
        where,
        number=draw(st.sampled_from((1, 2, 999))),
        team=draw(st.sampled_from(("team-a", "7", "t" * 63))),
        gpu_products=draw(st.sampled_from(((), ("NVIDIA-H100-80GB-HBM3", "H100_NVLINK_80GB")))),
        checkpoint=checkpoint,
        seeded_from=draw(st.none() | st.just("s3://ckpt/x/a1/")) if checkpoint else None,
        stage_image=STAGE_IMAGE,
    )


@settings(max_examples=examples(100), deadline=None, suppress_health_check=SLOW)
@given(renderings())
def test_what_is_read_back_is_what_was_meant(one: Rendering) -> None:
    manifest = render_job(one)
    found = objects(manifest)
    pod = found["Job"]["spec"]["template"]["spec"]
    assert pod == pod_spec(one)
    assert list(yaml.load_all(manifest, Loader=yaml.CSafeLoader)) == list(found.values())
    main = next(container for container in pod["containers"] if container["name"] == MAIN)
    _assert_the_specs_own_text(one, main, found)
    assert render_job(one) == manifest


def _assert_the_specs_own_text(one: Rendering, main: dict[str, Any], found: dict[str, Any]) -> None:
    spec = one.spec
    assert main.get("args", []) == list(spec.args)
    if spec.launcher == "none":
        assert main.get("command", []) == list(spec.command)
    variables = env_of(main)
    ours = reserved_names(spec) | {"CHECKPOINT_PATH"}
    assert {name: variables[name] for name in spec.env if name not in ours} == {
        name: value for name, value in spec.env.items() if name not in ours
    }
    for number, output in enumerate(spec.outputs, 1):
        told = variables[f"OUTPUT_URI_{number}"]
        assert told.startswith(literal(output.uri.rstrip("/")))
        assert told.endswith(f"/{one.attempt}/")
    contents = [file.content for file in spec.files]
    assert list(found.get("ConfigMap", {}).get("data", {}).values()) == contents
    labels = found["Job"]["metadata"]["labels"]
    assert {key: value for key, value in spec.labels.items() if not is_reserved(key)}.items() <= labels.items()


@settings(max_examples=examples(100), deadline=None, suppress_health_check=SLOW)
@given(renderings())
def test_the_pod_asks_for_what_was_planned(one: Rendering) -> None:
    asked = pod_requests(pod_spec(one))
    planned = node_needs(one.spec, one.profile)
    assert (
        asked.get(one.profile.gpu_resource, 0),
        asked["cpu"],
        asked["memory"],
        asked.get("ephemeral-storage", 0),
    ) == (planned.gpus, planned.cpu_milli, planned.memory_bytes, planned.disk_bytes)


@settings(max_examples=examples(40), deadline=None, suppress_health_check=SLOW)
@given(renderings())
def test_kubernetes_knows_every_field(one: Rendering) -> None:
    for kind, found in objects(render_job(one)).items():
        if kind == "PodGroup":  # a kind of Volcano's; its fields are check.py's closed rules
            continue
        kubernetes_validate.validate(found, "1.36", strict=True)


@settings(max_examples=examples(40), deadline=None, suppress_health_check=SLOW)
@given(renderings())
def test_what_is_checked_before_printing_is_what_is_printed(one: Rendering) -> None:
    assert checked_objects(one, _values(one)) == list(yaml.load_all(render_job(one), Loader=yaml.CSafeLoader))


@given(specs())
def test_the_order_of_keys_in_the_file_changes_nothing(spec: JobSpec) -> None:
    turned = JobSpec.model_validate(_turned(spec.model_dump(mode="json")))
    assert turned == spec
    where = fit_for(spec, EFA)
    assert render_job(rendering(turned, where)) == render_job(rendering(spec, where))


def _turned(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _turned(value[key]) for key in reversed(value)}
    return [_turned(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(PROFILES, 2)))
def test_regions_that_spell_differently_are_rendered_differently(one: str, other: str) -> None:
    spec = JobSpec.model_validate({"job_id": "a", "gpu": {"count": 4}, "image": "train:1", "network": "rdma"})
    assert render_job(rendering(spec, region(PROFILES[one]))) != render_job(rendering(spec, region(PROFILES[other])))
