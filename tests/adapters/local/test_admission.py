"""What the API of the local region takes, what it refuses and in which words, and what of a stored object may change."""

from pathlib import Path
from typing import Any, cast

import pytest

from reconciler.adapters.local.denial import Denied
from reconciler.adapters.local.manifests import objects_of
from tests.adapters.local.world import TEAM, World, conditions, make_job, make_pod


def named(body: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {**body, "metadata": {**body["metadata"], **metadata}}


def main(**container: Any) -> dict[str, Any]:
    return make_job(container=container)


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "a kind that is not there": (
        {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "x"}},
        "NotFound",
        "no matches for kind",
    ),
    "another version": (
        {**make_job(), "apiVersion": "batch/v1beta1"},
        "NotFound",
        'no matches for kind "Job" in version "batch/v1beta1"',
    ),
    "no name": (named(make_job(), name=""), "Invalid", "metadata.name: Required value"),
    "a name with upper case": (named(make_job(), name="Train"), "Invalid", "metadata.name: Invalid value"),
    "a name too long": (named(make_job(), name="x" * 64), "Invalid", "metadata.name: Invalid value"),
    "no namespace": (named(make_job(), namespace=""), "Invalid", "metadata.namespace: Required value"),
    "no such namespace": (named(make_job(), namespace="team-zz"), "NotFound", 'namespaces "team-zz" not found'),
    "a label with a space": (named(make_job(), labels={"a": "b c"}), "Invalid", "metadata.labels: Invalid value"),
    "a label that is a number": (named(make_job(), labels={"a": 1}), "", ".metadata.labels.a: expected string, got int"),
    "a label key with a space": (named(make_job(), labels={"a b": "c"}), "Invalid", "not a qualified name"),
    "time to live": (make_job(ttlSecondsAfterFinished=5), "Invalid", "spec.ttlSecondsAfterFinished: Forbidden"),
    "back-off": (make_job(backoffLimit=3), "Invalid", "spec.backoffLimit: Forbidden"),
    "no back-off limit, which means 6": (make_job(backoffLimit=None), "Invalid", "spec.backoffLimit: Forbidden"),
    "pods replaced before they have ended": (
        make_job(podReplacementPolicy=None),
        "Invalid",
        "spec.podReplacementPolicy: Forbidden",
    ),
    "restarts": (make_job(pod={"restartPolicy": "OnFailure"}), "Invalid", "restartPolicy: Forbidden"),
    "a deadline of nothing": (make_job(activeDeadlineSeconds=0), "Invalid", "must be greater than or equal to 1"),
    "a deadline that is true": (make_job(activeDeadlineSeconds=True), "", "expected numeric (int or float), got bool"),
    "suspend that is a word": (make_job(suspend=cast("bool", "yes")), "", ".spec.suspend: expected boolean, got string"),
    "an unknown mode": (make_job(completionMode="Both"), "Invalid", "spec.completionMode: Unsupported value"),
    "an indexed job without completions": (
        make_job(completionMode="Indexed", completions=None),
        "Invalid",
        "spec.completions: Required",
    ),
    "no container": (make_job(pod={"containers": []}), "Invalid", "spec.template.spec.containers: Required value"),
    "no image": (main(image=""), "Invalid", "containers[0].image: Required value"),
    "a container name with a dot": (main(name="a.b"), "Invalid", "containers[0].name: Invalid value"),
    "two containers of one name": (
        make_job(pod={"initContainers": [{"name": "main", "image": "x"}]}),
        "Invalid",
        'containers[0].name: Duplicate value: "main"',
    ),
    "an env value that is a number": (main(env=[{"name": "A", "value": 1}]), "", "env[0].value: expected string, got int"),
    "an env value that is a truth": (main(env=[{"name": "A", "value": True}]), "", "env[0].value: expected string, got bool"),
    "an env value twice": (main(env=[{"name": "A", "value": "1", "valueFrom": {"x": {}}}]), "Invalid", "may not be specified"),
    "an argument that is a number": (main(args=[1]), "", "args[0]: expected string, got int"),
    "no quantity": (main(resources={"limits": {"cpu": "a lot"}}), "Invalid", "quantities must match"),
    "less than nothing": (main(resources={"limits": {"cpu": "-1"}}), "Invalid", "must be greater than or equal to 0"),
    "fewer cards than the limit": (
        main(resources={"limits": {"nvidia.com/gpu": "2"}, "requests": {"nvidia.com/gpu": "1"}}),
        "Invalid",
        "must be equal to nvidia.com/gpu limit",
    ),
    "required pod affinity": (
        make_job(pod={"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}}),
        "Invalid",
        "affinity.podAffinity: Forbidden: a local region does not offer it",
    ),
    "a spread that must hold": (
        make_job(pod={"topologySpreadConstraints": [{"maxSkew": 1}]}),
        "Invalid",
        "topologySpreadConstraints[0]",
    ),
    "tolerations that are a word": (make_job(pod={"tolerations": "all"}), "", "tolerations: expected list, got string"),
    "a toleration that is nothing": (make_job(pod={"tolerations": [None]}), "", "tolerations[0]: expected a value, got null"),
    "affinity that is a list": (make_job(pod={"affinity": []}), "", "affinity: expected map, got object"),
    "volumes that are a number": (make_job(pod={"volumes": 5}), "", "volumes: expected list, got int"),
    "a volume without a name": (make_job(pod={"volumes": [{"emptyDir": {}}]}), "Invalid", "volumes[0].name: Required value"),
    "a mount without a path": (main(volumeMounts=[{"name": "v"}]), "Invalid", "volumeMounts[0].mountPath: Required value"),
    "a reference without a key": (
        main(env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s"}}}]),
        "Invalid",
        "env[0].valueFrom.secretKeyRef.key: Required value",
    ),
    "variables from nowhere": (main(envFrom=[{"prefix": "A"}]), "Invalid", "envFrom[0]: Required value"),
    "a grace below nothing": (make_job(grace=-1), "Invalid", "must be greater than or equal to 0"),
    "overhead that is no quantity": (make_job(pod={"overhead": {"cpu": "x"}}), "Invalid", "quantities must match"),
    "no template": (make_job(template=None), "Invalid", "spec.template: Required value"),
    "a finalizer that is a number": (named(make_job(), finalizers=[1]), "", ".metadata.finalizers[0]: expected string, got int"),
    "a gate twice": (make_job(pod={"schedulingGates": [{"name": "a"}] * 2}), "Invalid", "Duplicate value"),
    "a gated pod on a node": (
        make_pod("p", nodeName="n1", schedulingGates=[{"name": "a"}]),
        "Invalid",
        "Forbidden: cannot be set",
    ),
    "an unknown priority class": (
        make_job(pod={"priorityClassName": "top"}),
        "Forbidden",
        "no PriorityClass with name top was found",
    ),
    "a ConfigMap with a number": (
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": TEAM}, "data": {"a": 1}},
        "",
        ".data.a: expected string, got int",
    ),
}


@pytest.mark.parametrize(("body", "reason", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused(body: dict[str, Any], reason: str, words: str) -> None:
    with pytest.raises(Denied) as denied:
        World().create(body)
    assert denied.value.reason == reason
    assert words in str(denied.value)


def test_every_manifest_that_is_rendered_is_taken() -> None:
    files = sorted((Path(__file__).parents[2] / "golden").glob("*/out/**/*.yaml"))
    assert files
    for file in files:
        items = objects_of(file.name, file.read_bytes())
        world = World()
        with world.cluster.changes() as (objects, now):
            for namespace in {item["metadata"]["namespace"] for item in items} - {TEAM, "gpu-reconciler"}:
                objects.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}, now)
            for item in items:
                stored = objects.create(item, now)
                assert ("spec" in stored) == ("spec" in item)


def test_what_is_filled_in() -> None:
    world = World(priorities={"high": 7})
    job = make_job(pod={"priorityClassName": "high"})
    del job["spec"]["completions"], job["spec"]["parallelism"], job["spec"]["completionMode"]
    del job["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    created = world.create(job)
    uid = created["metadata"]["uid"]
    assert created["metadata"]["creationTimestamp"] == "2026-05-01T10:00:00Z"
    assert created["metadata"]["generation"] == 1
    spec = created["spec"]
    assert (spec["completions"], spec["parallelism"], spec["completionMode"]) == (1, 1, "NonIndexed")
    assert spec["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert spec["template"]["spec"]["terminationGracePeriodSeconds"] == 30
    resources = spec["template"]["spec"]["containers"][0]["resources"]
    assert resources["requests"] == {"nvidia.com/gpu": "1", "cpu": "1", "memory": "1Gi"}
    world.suspend(False)
    world.settle()
    assert world.pod()["spec"]["priority"] == 7


def test_unknown_fields_are_dropped_and_known_ones_kept() -> None:
    world = World()
    job = make_job(container={"comand": ["x"], "workingDir": "/w"}, pod={"nodeSelectr": {}, "hostNetwork": True}, paralelism=2)
    spec = world.create(job)["spec"]
    assert "paralelism" not in spec
    assert "nodeSelectr" not in spec["template"]["spec"]
    assert spec["template"]["spec"]["hostNetwork"] is True
    assert "comand" not in spec["template"]["spec"]["containers"][0]
    assert spec["template"]["spec"]["containers"][0]["workingDir"] == "/w"


CHANGES: dict[str, tuple[dict[str, Any], str | None]] = {
    "suspend": ({"suspend": False}, None),
    "the deadline": ({"activeDeadlineSeconds": 9}, None),
    "no deadline": ({"activeDeadlineSeconds": None}, None),
    "parallelism": ({"parallelism": 2}, None),
    "scheduling of a Job that has not started": (
        {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"nodeSelector": {"zone": "z"}, "schedulingGates": None}}},
        None,
    ),
    "completions": ({"completions": 2}, "spec.completions: Invalid value: 2: field is immutable"),
    "the mode": ({"completionMode": "Indexed"}, "spec.completionMode: Invalid value: 'Indexed': field is immutable"),
    "the selector": ({"selector": None}, "spec.selector: Invalid value: None: field is immutable"),
    "the image": ({"template": {"spec": {"containers": [{"name": "main", "image": "y"}]}}}, "field is immutable"),
    "a time to live": ({"ttlSecondsAfterFinished": 1}, "spec.ttlSecondsAfterFinished: Forbidden"),
    "a wrong type": ({"suspend": "no"}, "expected boolean, got string"),
}


@pytest.mark.parametrize(("spec", "words"), CHANGES.values(), ids=CHANGES.keys())
def test_what_of_a_job_may_change(spec: dict[str, Any], words: str | None) -> None:
    world = World()
    world.create(make_job(gated=True))
    if words is None:
        world.patch(world.job(), {"spec": spec})
        return
    before = world.job()
    with pytest.raises(Denied) as denied:
        world.patch(before, {"spec": spec})
    assert words in str(denied.value)
    assert world.job() == before


def test_the_template_of_a_job_that_has_started_is_fixed() -> None:
    world = World()
    world.create(make_job())
    world.release()
    with pytest.raises(Denied, match="field is immutable"):
        world.patch(world.job(), {"spec": {"template": {"spec": {"nodeSelector": {"zone": "z"}}}}})


def test_gates_may_only_be_removed_and_nothing_else_of_a_pod_changes() -> None:
    world = World()
    world.create(make_pod("p", schedulingGates=[{"name": "a"}, {"name": "b"}]))
    for body in (
        {"spec": {"schedulingGates": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}},
        {"spec": {"nodeSelector": {"x": "y"}}},
        {"spec": {"schedulingGates": None, "nodeName": "n1"}},
    ):
        with pytest.raises(Denied):
            world.patch(world.get("Pod", "p"), body)
    world.patch(world.get("Pod", "p"), {"spec": {"schedulingGates": [{"name": "b"}]}})
    world.settle()
    assert conditions(world.get("Pod", "p")) == ["PodScheduled=False (SchedulingGated)"]
    world.patch(world.get("Pod", "p"), {"spec": {"schedulingGates": None}})
    world.settle()
    assert world.get("Pod", "p")["status"]["phase"] == "Running"


@pytest.mark.parametrize("body", [{"metadata": None}, {"spec": None}, {"kind": None}, {"spec": {"schedulingGates": ["x"]}}])
def test_a_patch_that_makes_no_sense_changes_nothing(body: dict[str, Any]) -> None:
    world = World()
    world.create(make_pod("p", schedulingGates=[{"name": "a"}]))
    before = world.get("Pod", "p")
    with pytest.raises(Denied):
        world.patch(before, body)
    assert world.get("Pod", "p") == before


def test_status_and_the_servers_own_fields_are_not_a_writers() -> None:
    world = World()
    world.create(make_job())
    before = world.job()
    body = {
        "status": {"succeeded": 1},
        "metadata": {"generation": 99, "creationTimestamp": None, "finalizers": None, "name": "x"},
    }
    assert world.patch(before, body) == before
