"""What a job may change of its pod: the region's list, what needs a line of its own, and what no list allows."""

from typing import Any

import pytest

from reconciler.rendering.check_pod import pod_problems
from reconciler.rendering.manifest import Unrenderable, overlay_problems, problems, render_job, reserved_problems
from reconciler.rendering.overlay import NEVER, SENSITIVE
from reconciler.rendering.pod import pod_spec
from reconciler.rendering.shapes import POD, misfits
from tests.rendering.builders import PLAIN, env_of, job, main_of, pod_of, region, rendering

EVERYTHING = sorted(POD)


def refused(overlay: dict[str, Any], *allowed: str) -> list[str]:
    return overlay_problems(job(pod_overlay=overlay), region(PLAIN, overlay_allowed=list(allowed)))


def fields(found: list[str]) -> list[str]:
    return [line.partition(": ")[0] for line in found]


MAIN_IS = {"containers": [{"securityContext": {"privileged": True}}]}

ALLOWED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "no overlay": ({}, []),
    "a field that is on the list": ({"dnsPolicy": "Default"}, ["dnsPolicy"]),
    "what is below a field on the list": ({"containers": [{"resources": {"limits": {"cpu": "4"}}}]}, ["containers.resources"]),
    "the program called by its name": ({"containers": [{"name": "main", "tty": True}]}, ["containers.tty"]),
    "another container, where containers are": ({"containers": [{"name": "log", "image": "log:1"}]}, ["containers"]),
    "a volume of a harmless kind": ({"volumes": [{"name": "v", "emptyDir": {}}]}, ["volumes"]),
    "only one kind of volume": ({"volumes": [{"name": "v", "emptyDir": {}}]}, ["volumes.emptyDir"]),
    "the host's network, by a line of its own": ({"hostNetwork": True}, ["hostNetwork"]),
    "more rights, by a line of their own": (MAIN_IS, ["containers.securityContext.privileged"]),
    "keys of people, with dots in them": ({"nodeSelector": {"example.com/a.b": "c"}}, ["nodeSelector"]),
    "a sidecar": ({"initContainers": [{"name": "nic", "image": "n:1", "restartPolicy": "Always"}]}, ["initContainers"]),
}

REFUSED: dict[str, tuple[dict[str, Any], list[str], str]] = {
    "anything, where there is no list": ({"dnsPolicy": "Default"}, [], "dnsPolicy"),
    "a folder of the host": ({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, ["volumes"], "volumes.hostPath"),
    "a token by way of a projected volume": (
        {"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]}, ["volumes"], "volumes.projected",
    ),
    "a network file system of one's own": ({"volumes": [{"name": "v", "nfs": {"server": "s", "path": "/"}}]}, ["volumes"], "volumes.nfs"),
    "privileged, where containers are allowed": (MAIN_IS, ["containers", "containers.securityContext"], "containers.securityContext.privileged"),
    "privileged in another container": (
        {"containers": [{"name": "x", "image": "x", "securityContext": {"privileged": True}}]}, ["containers"],
        "containers.securityContext.privileged",
    ),
    "privileged in an init container": (
        {"initContainers": [{"name": "x", "image": "x", "securityContext": {"privileged": True}}]}, ["initContainers"],
        "initContainers.securityContext.privileged",
    ),
    "a capability": (
        {"containers": [{"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}]}, ["containers"],
        "containers.securityContext.capabilities.add",
    ),
    "more rights than at the start": (
        {"containers": [{"securityContext": {"allowPrivilegeEscalation": True}}]}, ["containers"],
        "containers.securityContext.allowPrivilegeEscalation",
    ),
    "no filter of system calls": (
        {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}, ["securityContext"], "securityContext.seccompProfile",
    ),
    "settings of the kernel": ({"securityContext": {"sysctls": [{"name": "a", "value": "b"}]}}, ["securityContext"], "securityContext.sysctls"),
    "a port of the host": (
        {"containers": [{"ports": [{"containerPort": 80, "hostPort": 80}]}]}, ["containers"], "containers.ports.hostPort",
    ),
    "mounts that reach the host": (
        {"containers": [{"volumeMounts": [{"name": "v", "mountPath": "/v", "mountPropagation": "Bidirectional"}]}]}, ["containers"],
        "containers.volumeMounts.mountPropagation",
    ),
    "a neighbour on the list does not help": ({"hostPID": True}, ["hostNetwork", "hostIPC"], "hostPID"),
    "a name that only begins alike": ({"dnsPolicy": "Default"}, ["dns", "dnsPolicyX"], "dnsPolicy"),
    "a container of another name, where only parts of the program's are": (
        {"containers": [{"name": "x", "image": "y"}]}, ["containers.image"], "containers.name",
    ),
    "a name and nothing else": ({"containers": [{"env": [{"name": "X"}]}]}, [], "containers.env.name"),
    "a secret to pull by": ({"imagePullSecrets": [{"name": "x"}]}, ["volumes"], "imagePullSecrets.name"),
    "an empty list of volumes": ({"volumes": []}, [], "volumes"),
    "labels, which stand elsewhere": ({"metadata": {"labels": {"a": "b"}}}, EVERYTHING, "metadata"),
    "a namespace": ({"namespace": "kube-system"}, EVERYTHING, "namespace"),
    "a whole template": ({"spec": {"dnsPolicy": "Default"}}, EVERYTHING, "spec"),
    "a misspelt field": ({"containers": [{"resource": {}}]}, EVERYTHING, "containers[0].resource"),
    "a map for a list": ({"containers": {"main": {}}}, EVERYTHING, "containers"),
    "text for a number": ({"priority": "9"}, EVERYTHING, "priority"),
    "a boolean for a number": ({"priority": True}, EVERYTHING, "priority"),
    "null": ({"dnsPolicy": None}, EVERYTHING, "dnsPolicy"),
    "a date": ({"nodeSelector": {"a": __import__("datetime").date(2026, 1, 1)}}, EVERYTHING, "nodeSelector.a"),
    "a key that is a number": ({"nodeSelector": {1: "a"}}, EVERYTHING, "nodeSelector"),
    "a key that no reader reads": ({"dnsConfig": {"k" * 2000: "v"}}, EVERYTHING, "dnsConfig"),
    "no number at all": ({"dnsConfig": {"options": [{"value": float("nan")}]}}, EVERYTHING, "dnsConfig.options[0].value"),
    "half a character": ({"dnsConfig": {"searches": ["a\ud800"]}}, EVERYTHING, "dnsConfig.searches[0]"),
    "an amount that is none": ({"containers": [{"resources": {"limits": {"cpu": "lots"}}}]}, EVERYTHING, "containers.resources.limits.cpu"),
    "less than nothing": ({"containers": [{"resources": {"requests": {"cpu": -1}}}]}, EVERYTHING, "containers.resources.requests.cpu"),
    "our variable": ({"containers": [{"env": [{"name": "ATTEMPT", "value": "x"}]}]}, EVERYTHING, "containers.env"),
    "our step": ({"initContainers": [{"name": "seed-checkpoint", "image": "x"}]}, EVERYTHING, "initContainers.name"),
    "a step called like the program": ({"initContainers": [{"name": "main", "image": "x"}]}, EVERYTHING, "initContainers.name"),
}  # fmt: skip


@pytest.mark.parametrize(("overlay", "allowed"), ALLOWED.values(), ids=ALLOWED)
def test_allowed(overlay: dict[str, Any], allowed: list[str]) -> None:
    assert refused(overlay, *allowed) == []


@pytest.mark.parametrize(("overlay", "allowed", "field"), REFUSED.values(), ids=REFUSED)
def test_refused_with_the_field(overlay: dict[str, Any], allowed: list[str], field: str) -> None:
    assert field in fields(refused(overlay, *allowed))


@pytest.mark.parametrize("field", sorted(NEVER))
def test_what_no_list_can_allow(field: str) -> None:
    values: list[Any] = ["x", 1, True, [], {}]
    value = next(value for value in values if not list(misfits(value, POD[field])))
    assert fields(refused({field: value}, *EVERYTHING, field)) == [field]


@pytest.mark.parametrize("field", sorted(SENSITIVE))
def test_what_needs_a_line_of_its_own_is_a_field_that_there_is(field: str) -> None:
    shape: Any = POD
    for part in field.split("."):
        shape = shape[0] if isinstance(shape, list) else shape
        assert part in shape
        shape = shape[part]


def test_the_refusal_says_whom_to_ask_for_what() -> None:
    [problem] = refused({"dnsPolicy": "Default"})
    assert problem == "dnsPolicy: lab does not allow it; ask whoever runs the region for a line `dnsPolicy` in `overlay_allowed`"


def test_an_allowed_overlay_is_merged_last() -> None:
    overlay = {
        "containers": [{"env": [{"name": "DEBUG", "value": "2"}], "resources": {"limits": {"cpu": "4"}}}],
        "nodeSelector": {"disk": "nvme"},
    }
    where = region(PLAIN, profile={"pod": {"nodeSelector": {"disk": "hdd", "pool": "gpu"}, "containers": [{"tty": True}]}})
    with pytest.raises(Unrenderable, match=r"pod_overlay: containers.env.value: lab does not allow it"):
        render_job(rendering(job(pod_overlay=overlay), where))
    where = region(
        PLAIN,
        profile=where.profile.model_dump(mode="json", exclude_defaults=True),
        overlay_allowed=["containers", "nodeSelector"],
    )
    manifest = render_job(rendering(job(env={"DEBUG": "1"}, resources={"cpu": "8"}, pod_overlay=overlay), where))
    assert pod_of(manifest)["nodeSelector"] == {"disk": "nvme", "pool": "gpu"}
    assert env_of(main_of(manifest))["DEBUG"] == "2"
    assert main_of(manifest)["tty"] is True
    # A limit below the request would be refused by Kubernetes.
    assert (main_of(manifest)["resources"]["requests"]["cpu"], main_of(manifest)["resources"]["limits"]["cpu"]) == ("8", "8")
    assert problems(manifest) == []


def test_even_an_overlay_that_nobody_checked_leaves_the_gate_and_the_ends_alone() -> None:
    overlay = {
        "schedulingGates": [{"name": "other"}],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 9999,
        "automountServiceAccountToken": True,
        "subdomain": "x",
    }
    one = rendering(job(pod_overlay=overlay, nodes=2))
    pod = pod_spec(one)
    assert list(pod_problems(pod)) == []
    assert (pod["subdomain"], pod["terminationGracePeriodSeconds"]) == (one.attempt, 30)
    with pytest.raises(Unrenderable, match="cannot be changed by a job"):
        render_job(one)


BAD_PROFILES: dict[str, tuple[dict[str, Any], str]] = {
    "a map for a list": ({"pod": {"containers": {"main": {}}}}, "containers: must be a list, not a map"),
    "a misspelt field": ({"pod": {"dnsPolcy": "Default"}}, "dnsPolcy: is no field"),
    "an amount that is none": (
        {"pod": {"containers": [{"resources": {"limits": {"cpu": "lots"}}}]}},
        "limits.cpu: is no quantity",
    ),
    "in the spelling of RDMA": ({"rdma": {"pod": {"hostNetwork": "yes"}}}, "hostNetwork: must be true or false, not text"),
}


@pytest.mark.parametrize(("profile", "expected"), BAD_PROFILES.values(), ids=BAD_PROFILES)
def test_a_profile_that_cannot_become_a_pod_is_a_region_to_be_mended(profile: dict[str, Any], expected: str) -> None:
    with pytest.raises(Unrenderable, match=f"the profile of lab: pod: .*{expected}"):
        render_job(rendering(job(network="rdma"), region(PLAIN, profile=profile)))


RESERVED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "nothing of ours": ({"env": {"MASTER_ADDR": "localhost"}, "labels": {"example.com/a": "b"}}, []),
    "a label of a queue": ({"labels": {"kueue.x-k8s.io/queue-name": "q"}}, ["labels.kueue.x-k8s.io/queue-name"]),
    "a variable of ours": ({"env": {"ATTEMPT": "1"}}, ["env.ATTEMPT"]),
    "a variable of ours by a secret": ({"secrets": [{"name": "s", "env": "JOB_ID"}]}, ["secrets.env"]),
    "an address, on several nodes": ({"nodes": 2, "env": {"MASTER_ADDR": "x"}}, ["env.MASTER_ADDR"]),
    "a port may be chosen": ({"nodes": 2, "env": {"MASTER_PORT": "1234"}}, []),
    "a checkpoint's path, where there is one": ({"checkpoint_path": "s3://c/", "env": {"CHECKPOINT_PATH": "x"}}, ["env.CHECKPOINT_PATH"]),
    "and where there is none": ({"env": {"CHECKPOINT_PATH": "/ckpt"}}, []),
    "a dataset's address": ({"dataset": ["s3://a/", "s3://b/"], "env": {"DATASET_URI_2": "x", "DATASET_URI_3": "y"}}, ["env.DATASET_URI_2"]),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "expected"), RESERVED.values(), ids=RESERVED)
def test_what_is_not_the_specs_own_to_set(changes: dict[str, Any], expected: list[str]) -> None:
    spec = job(**changes)
    assert fields(reserved_problems(spec)) == expected
    manifest = render_job(rendering(spec))
    assert problems(manifest) == []
    # Left out, or else as the spec says.
    for name, value in spec.env.items():
        assert (env_of(main_of(manifest))[name] == value) == (f"env.{name}" not in expected)
