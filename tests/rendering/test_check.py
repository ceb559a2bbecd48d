"""The last look before a push: each rule is broken once, on a manifest that is good otherwise."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.model import names
from reconciler.rendering.check import OBJECT_LIMIT_BYTES, object_problems, problems
from reconciler.rendering.manifest import render_job, sentinel
from tests.examples import examples
from tests.rendering.builders import EFA, job, region, rendering

RICH = job(
    nodes=2,
    gpu={"count": 2},
    network="rdma",
    files=[{"path": "/etc/a", "content": "b"}],
    secrets=[{"name": "s", "env": "TOKEN"}, {"name": "s", "key": "k", "mount_path": "/s"}],
    prepare={"command": ["true"]},
)
GOOD = list(yaml.safe_load_all(render_job(rendering(RICH, region(EFA), gpu_products=("NVIDIA-H100",)))))
SINGLE = list(yaml.safe_load_all(render_job(rendering(job()))))

Objects = list[dict[str, Any]]


def at(objects: Objects, path: str) -> Any:
    """`0.spec.template` of a list of objects."""
    found: Any = objects
    for part in path.split("."):
        found = found[int(part) if part.isdigit() else part]
    return found


def put(path: str, value: Any, **more: Any) -> Callable[[Objects], object]:
    def change(objects: Objects) -> None:
        holder, _, key = path.rpartition(".")
        place = at(objects, holder)
        place[int(key) if isinstance(place, list) else key] = value
        for other, extra in more.items():
            put(other.replace("__", "."), extra)(objects)

    return change


def drop(path: str) -> Callable[[Objects], object]:
    def change(objects: Objects) -> None:
        holder, _, key = path.rpartition(".")
        place = at(objects, holder)
        del place[int(key) if isinstance(place, list) else key]

    return change


def add(path: str, value: Any) -> Callable[[Objects], object]:
    return lambda objects: at(objects, path).append(value)


POD = "0.spec.template.spec"
MAIN = f"{POD}.containers.0"

BROKEN: dict[str, tuple[Callable[[Objects], object], str]] = {
    "it would run at once": (put("0.spec.suspend", False), "spec.suspend: must be true"),
    "suspend is text": (put("0.spec.suspend", "true"), "spec.suspend: must be true or false, not text"),
    "suspend is left out": (drop("0.spec.suspend"), "spec.suspend: must be true"),
    "no gate": (drop(f"{POD}.schedulingGates"), "schedulingGates"),
    "another gate": (put(f"{POD}.schedulingGates.0.name", "x/y"), "schedulingGates"),
    "a second gate": (add(f"{POD}.schedulingGates", {"name": "x/y"}), "schedulingGates"),
    "cleaned up by itself": (put("0.spec.ttlSecondsAfterFinished", 5), "spec.ttlSecondsAfterFinished: is no field"),
    "a deadline of the Job": (put("0.spec.activeDeadlineSeconds", 5), "spec.activeDeadlineSeconds: is no field"),
    "a deadline of the pod": (put(f"{POD}.activeDeadlineSeconds", 5), "activeDeadlineSeconds: must be absent"),
    "tried again by itself": (put("0.spec.backoffLimit", 3), "spec.backoffLimit: must be 0"),
    "false for nought": (put("0.spec.backoffLimit", False), "spec.backoffLimit"),
    "replaced too early": (put("0.spec.podReplacementPolicy", "TerminatingOrFailed"), "spec.podReplacementPolicy"),
    "restarted in place": (put(f"{POD}.restartPolicy", "OnFailure"), "restartPolicy: must be Never"),
    "the program restarted in place": (put(f"{MAIN}.restartPolicy", "Always"), "restartPolicy: the program"),
    "a name made up by the server": (put("0.metadata.generateName", "a-"), "metadata.generateName: is no field"),
    "a finalizer": (put("0.metadata.finalizers", ["x/y"]), "metadata.finalizers: is no field"),
    "an owner": (put("0.metadata.ownerReferences", []), "metadata.ownerReferences: is no field"),
    "a misspelt field": (put("0.spec.paralelism", 2), "spec.paralelism: is no field"),
    "a misspelt field of the pod": (put(f"{POD}.dnsPolcy", "Default"), "spec.template.spec.dnsPolcy: is no field"),
    "a misspelt field of a container": (put(f"{MAIN}.resource", {}), "containers[0].resource: is no field"),
    "a field at the top": (put("0.status", {}), "status: is no field"),
    "a sync hook": (lambda o: at(o, "0.metadata.annotations").update({"argocd.argoproj.io/hook": "Sync"}), "hook: is not one of ours"),
    "no word to Flux": (lambda o: at(o, "0.metadata.annotations").pop("kustomize.toolkit.fluxcd.io/ssa"), "kustomize.toolkit.fluxcd.io/ssa"),
    "no word to Argo CD on the Service": (
        lambda o: at(o, "1.metadata.annotations").pop("argocd.argoproj.io/ignore-healthcheck"),
        "Service: metadata.annotations.argocd.argoproj.io/ignore-healthcheck",
    ),
    "a queue's label": (lambda o: at(o, "0.metadata.labels").update({"kueue.x-k8s.io/queue-name": "q"}), "belongs to another"),
    "a queue's label on the pods": (
        lambda o: at(o, "0.spec.template.metadata.labels").update({"kueue.x-k8s.io/queue-name": "q"}),
        "spec.template.metadata.labels.kueue.x-k8s.io/queue-name",
    ),
    "another namespace than the team": (put("0.metadata.namespace", "kube-system"), "must be `kube-system`"),
    "a Service in another namespace": (put("1.metadata.namespace", "other"), "Service: metadata.namespace"),
    "a ConfigMap of another name": (put("2.metadata.name", "other"), "ConfigMap: metadata.name"),
    "no attempt on the pods": (
        lambda o: at(o, "0.spec.template.metadata.labels").pop(names.LABEL_ATTEMPT), f"metadata.labels.{names.LABEL_ATTEMPT}",
    ),
    "no job's label": (lambda o: at(o, "0.metadata.labels").pop(names.LABEL_JOB), names.LABEL_JOB),
    "managed by another": (lambda o: at(o, "0.metadata.labels").update({names.LABEL_MANAGED: "helm"}), names.LABEL_MANAGED),
    "a name that is too long": (put("0.metadata.name", "a" * 53), "no attempt's name"),
    "a name that begins with a number": (put("0.metadata.name", "7a"), "no attempt's name"),
    "a name with a line end": (put("0.metadata.name", "a\n"), "no attempt's name"),
    "a label that is a number": (lambda o: at(o, "0.metadata.labels").update({"a": 1}), "labels.a: must be text, not a whole number"),
    "a label's value that is none": (lambda o: at(o, "0.metadata.labels").update({"a": "b c"}), "no value of a label"),
    "a label's domain that is none": (lambda o: at(o, "0.metadata.labels").update({"a..b/c": "d"}), "`a..b/c` is no key"),
    "another kind": (lambda o: o.append({"apiVersion": "v1", "kind": "Secret", "metadata": {}}), "kind that is not rendered (v1 Secret)"),
    "an old kind": (put("0.apiVersion", "batch/v1beta1"), "kind that is not rendered"),
    "two Jobs": (lambda o: o.append(copy.deepcopy(o[0])), "one Job, then at most"),
    "the Job comes second": (lambda o: o.reverse(), "one Job, then at most"),
    "no map": (lambda o: o.append(7), "is no map"),  # type: ignore[arg-type]
    "an empty document": (lambda o: o.append(None), "is no map"),  # type: ignore[arg-type]
    "a Service without its Job of several nodes": (
        lambda o: [at(o, "0.spec").pop(key) for key in ("completionMode", "completions", "parallelism")], "has a Service",
    ),
    "fewer pods at once than all": (put("0.spec.parallelism", 1), "go together"),
    "counted without an index": (put("0.spec.completionMode", "NonIndexed"), "go together"),
    "no subdomain": (drop(f"{POD}.subdomain"), "subdomain"),
    "a Service with an address": (put("1.spec.clusterIP", "10.0.0.1"), "must be headless"),
    "a Service that selects others": (put("1.spec.selector", {"app": "x"}), "must be headless"),
    "a ConfigMap that can change": (put("2.immutable", False), "must be immutable"),
    "a ConfigMap that holds a number": (lambda o: at(o, "2.data").update({"a": 1}), "data.a: must be text"),
    "no program": (put(f"{MAIN}.name", "other"), "none called `main`"),
    "two containers of one name": (lambda o: at(o, f"{POD}.containers").append(copy.deepcopy(at(o, MAIN))), "`main` is there twice"),
    "a step named like the program": (put(f"{POD}.initContainers.0.name", "main"), "`main` is there twice"),
    "no image": (drop(f"{MAIN}.image"), "image: is missing"),
    "two variables of one name": (add(f"{MAIN}.env", {"name": "JOB_ID", "value": "x"}), "`JOB_ID` is there twice"),
    "a variable of two sources": (
        add(f"{MAIN}.env", {"name": "X", "value": "a", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}), "more than one source",
    ),
    "a variable whose value is a number": (add(f"{MAIN}.env", {"name": "X", "value": 1}), "value: must be text, not a whole number"),
    "a variable without a name": (add(f"{MAIN}.env", {"value": "x"}), "no name"),
    "a key that leads out of the secret": (
        add(f"{MAIN}.env", {"name": "X", "valueFrom": {"secretKeyRef": {"name": "s", "key": ".."}}}), "no key of a secret",
    ),
    "a file that leads out of the secret": (
        add(f"{POD}.volumes", {"name": "v", "secret": {"secretName": "s", "items": [{"key": "..", "path": ".."}]}}), "no key of a secret",
    ),
    "a variable whose name is none": (add(f"{MAIN}.env", {"name": "A=B", "value": "x"}), "`A=B` is no name of a variable"),
    "a resource whose name is none": (
        lambda o: [at(o, f"{MAIN}.resources.{kind}").update({"a b/c": "1"}) for kind in ("requests", "limits")], "`a b/c` is no resource",
    ),
    "another attempt's name in the program's ears": (put(f"{MAIN}.env.1.value", "other-123456-a1"), "its attempt's name in ATTEMPT"),
    "a mount of nothing": (add(f"{MAIN}.volumeMounts", {"name": "gone", "mountPath": "/x"}), "there is no volume `gone`"),
    "two mounts in one place": (add(f"{MAIN}.volumeMounts", {"name": "shm", "mountPath": "/dev/shm"}), "`/dev/shm` is there twice"),
    "a mount over everything": (add(f"{MAIN}.volumeMounts", {"name": "shm", "mountPath": "/"}), "nothing can be mounted at `/`"),
    "a mount by a way around": (add(f"{MAIN}.volumeMounts", {"name": "shm", "mountPath": "/a/../b"}), "nothing can be mounted"),
    "two volumes of one name": (add(f"{POD}.volumes", {"name": "shm", "emptyDir": {}}), "`shm` is there twice"),
    "a volume of two sources": (add(f"{POD}.volumes", {"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}), "has 2 sources"),
    "a volume of no source": (add(f"{POD}.volumes", {"name": "v"}), "has 0 sources"),
    "a volume whose name is none": (add(f"{POD}.volumes", {"name": "V_1", "emptyDir": {}}), "`V_1` is no name"),
    "a token of Kubernetes": (put(f"{POD}.automountServiceAccountToken", True), "automountServiceAccountToken: must be false"),
    "a node": (put(f"{POD}.nodeName", "n1"), "nodeName: must be absent"),
    "a container put in later": (put(f"{POD}.ephemeralContainers", []), "ephemeralContainers: must be absent"),
    "amounts of the whole pod": (put(f"{POD}.resources", {"requests": {"cpu": "1"}}), "resources: must be absent"),
    "an amount that is none": (put(f"{MAIN}.resources.requests.cpu", "many"), "no quantity"),
    "less than nothing": (put(f"{MAIN}.resources.requests.cpu", "-1"), "cpu is negative"),
    "a limit below the request": (put(f"{MAIN}.resources.limits.memory", "1Mi"), "limit of memory is below"),
    "GPUs without a limit": (lambda o: at(o, f"{MAIN}.resources.limits").pop("nvidia.com/gpu"), "limit equal to its request"),
    "half a GPU": (
        lambda o: [at(o, f"{MAIN}.resources.{kind}").update({"nvidia.com/gpu": "500m"}) for kind in ("requests", "limits")], "whole number",
    ),
    "rights that contradict each other": (
        put(f"{MAIN}.securityContext", {"privileged": True, "allowPrivilegeEscalation": False}), "contradict each other",
    ),
    "a script larger than an engine carries": (put(f"{MAIN}.args", ["x" * OBJECT_LIMIT_BYTES]), "Job: is larger than 240 KiB"),
    "files larger than an engine carries": (put("2.data.file-0", "x" * OBJECT_LIMIT_BYTES), "ConfigMap: is larger"),
}  # fmt: skip


@pytest.mark.parametrize("good", [GOOD, SINGLE], ids=["several nodes", "one node"])
def test_a_good_manifest_has_no_problems(good: Objects) -> None:
    assert object_problems(good) == []


@pytest.mark.parametrize(("change", "expected"), BROKEN.values(), ids=BROKEN)
def test_a_broken_rule_is_named(change: Callable[[Objects], object], expected: str) -> None:
    objects = copy.deepcopy(GOOD)
    change(objects)
    found = object_problems(objects)
    assert any(expected in problem for problem in found), found
    # The same of the text, as it would be pushed.
    assert problems(yaml.safe_dump_all(objects).encode()) == found


@pytest.mark.parametrize(
    ("manifest", "expected"),
    {
        "broken YAML": (b"a: [", "not YAML"),
        "bytes that are not UTF-8": (b"a: \xff\xfe\xff", "not YAML"),
        "nothing": (b"", "no object"),
        "only a comment": (b"# a\n", "no object"),
        "a list": (b"- a\n", "is no map"),
        "an object of Python": (b"!!python/object:os.system {}", "not YAML"),
        "a Job without anything": (b"{apiVersion: batch/v1, kind: Job}", "metadata.name: is missing"),
        "a Job without a template": (
            b"{apiVersion: batch/v1, kind: Job, metadata: {}, spec: {}}",
            "spec.template.spec: is missing",
        ),
        "a Job that is all null": (b"{apiVersion: batch/v1, kind: Job, metadata: null, spec: null}", "must be a map"),
    }.values(),
)
def test_what_is_no_manifest_at_all(manifest: bytes, expected: str) -> None:
    found = problems(manifest)
    assert any(expected in problem for problem in found), found


def test_the_sentinel_is_the_only_object_that_may_stand_alone() -> None:
    assert problems(sentinel("eu-west")) == []
    changes: list[dict[str, Any]] = [{"data": {}}, {"data": {"region": "eu", "x": "y"}}, {"immutable": True}]
    for change in changes:
        changed = yaml.safe_load(sentinel("eu")) | change
        assert problems(yaml.safe_dump(changed).encode())
    for path, value in (
        ("0.metadata.namespace", "team-a"),
        ("0.metadata.name", "sentinel-us"),
        ("0.metadata.labels", {"a": "b"}),
    ):
        objects = [yaml.safe_load(sentinel("eu"))]
        put(path, value)(objects)
        assert object_problems(objects)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.sampled_from(("", "x", "1", "..")),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(("name", "key", "value", "x")) | st.integers(), inner, max_size=2)
    ),
    max_leaves=4,
)


def _places(value: Any, path: str = "") -> list[str]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, item in pairs if "." not in str(key) for found in (f"{path}{key}", *_places(item, f"{path}{key}."))]


@settings(max_examples=examples(400))
@given(st.sampled_from([place for place in _places(GOOD) if "." in place]), json_values)
def test_whatever_stands_somewhere_the_check_answers(place: str, value: Any) -> None:
    objects = copy.deepcopy(GOOD)
    before = at(objects, place)
    put(place, value)(objects)
    found = object_problems(objects)
    number = isinstance(value, int | float) and ("resources" in place or "sizeLimit" in place)
    assert found or type(value) is type(before) or number  # an amount may be a number as well
