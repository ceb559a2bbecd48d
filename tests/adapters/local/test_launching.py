"""What a program is given: arguments, environment, mounts; seen by real programs."""

import json
import sys
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.adapters.local.real import RealWorld, put_texts
from tests.adapters.local.world import TEAM, make_job


@pytest.fixture
def world(real_world: RealWorld) -> RealWorld:
    return real_world


PRINT = "import json, os, sys; print(json.dumps({'env': dict(os.environ), 'args': sys.argv[1:], 'cwd': os.getcwd()}))"


def seen(world: RealWorld, pod: dict[str, Any] | None = None, **container: Any) -> dict[str, Any]:
    """What a program sees that is run with these parts of a container's spec."""
    spec = {"command": [sys.executable, "-c", PRINT], **container}
    world.create(make_job(container=spec, pod=pod, annotations={"note": "n"}))
    world.suspend(False)
    end = world.ends()
    assert end["exitCode"] == 0, world.log()
    found: dict[str, Any] = json.loads(world.log())
    return found


def test_environment_in_order_by_value_and_by_reference(world: RealWorld) -> None:
    put_texts(world.folder / "secrets" / TEAM / "hf", {"token": "s3cr3t"})
    texts = {"a": "1", "b": "$(A)"}
    world.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": TEAM}, "data": texts})

    def by(kind: str, **says: Any) -> dict[str, Any]:
        return {"valueFrom": {kind: says}}

    env = [
        {"name": "EARLY", "value": "$(A)"},
        {"name": "A", "value": "one"},
        {"name": "LATE", "value": "$(A)-$(NAME)-$$(A)"},
        {"name": "EMPTY", "value": ""},
        {"name": "NAME", **by("fieldRef", fieldPath="metadata.name")},
        {"name": "PLACE", **by("fieldRef", fieldPath="metadata.namespace")},
        {"name": "NOTE", **by("fieldRef", fieldPath="metadata.annotations['note']")},
        {"name": "NODE", **by("fieldRef", fieldPath="spec.nodeName")},
        {"name": "TOKEN", **by("secretKeyRef", name="hf", key="token")},
        {"name": "TEXT", **by("configMapKeyRef", name="c", key="b")},
        {"name": "NONE", **by("secretKeyRef", name="no", key="no", optional=True)},
        {"name": "USED", "value": "$(TOKEN)!"},
    ]
    sources = [{"prefix": "C_", "configMapRef": {"name": "c"}}, {"secretRef": {"name": "no", "optional": True}}]
    found = seen(world, env=env, envFrom=sources, args=["$(A)", "$$(A)", "$(TOKEN)", "$(NO)"])
    name = world.pod()["metadata"]["name"]
    want = {
        "EARLY": "$(A)",
        "A": "one",
        "LATE": "one-$(NAME)-$(A)",
        "EMPTY": "",
        "NAME": name,
        "PLACE": TEAM,
        "NOTE": "n",
        "NODE": "n1",
        "TOKEN": "s3cr3t",
        "TEXT": "$(A)",
        "USED": "s3cr3t!",
        "C_a": "1",
        "C_b": "$(A)",
        "HOSTNAME": name,
        "NVIDIA_VISIBLE_DEVICES": "0",
        "CUDA_VISIBLE_DEVICES": "0",
    }
    assert {key: found["env"].get(key) for key in want} == want
    assert "NONE" not in found["env"]
    assert found["args"] == ["one", "$(A)", "s3cr3t", "$(NO)"]


def test_nothing_of_the_regions_own_environment_and_no_secret_on_disk(world: RealWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGION_PASSWORD", "hidden")
    put_texts(world.folder / "secrets" / TEAM / "hf", {"token": "s3cr3t"})
    env = [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}}]
    world.create(make_job(container={"command": ["/bin/sh", "-c", 'env | grep -c PASSWORD; test -n "$TOKEN"'], "env": env}))
    world.suspend(False)
    assert world.ends()["exitCode"] == 0
    assert world.log() == "0\n"
    written = [file for file in world.folder.rglob("*") if file.is_file() and "secrets" not in file.parts]
    assert written
    assert not [file for file in written if b"s3cr3t" in file.read_bytes()]


@dataclass(frozen=True)
class Missing:
    container: dict[str, Any]
    want: str
    pod: dict[str, Any] = field(default_factory=dict)


def from_secret(**says: Any) -> dict[str, Any]:
    return {"env": [{"name": "T", "valueFrom": {"secretKeyRef": says}}]}


MOUNT = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}


def volume(**source: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "v", **source}]}


MISSING = {
    "no such secret": Missing(from_secret(name="no", key="k"), 'secret "no" not found'),
    "no such key": Missing(from_secret(name="hf", key="k"), "couldn't find key k in secret team-a/hf"),
    "a secret's name that is a path": Missing(from_secret(name="../team-b/hf", key="token"), 'secret "../team-b/hf" not found'),
    "no such ConfigMap": Missing({"envFrom": [{"configMapRef": {"name": "no"}}]}, 'configmap "no" not found'),
    "no such field": Missing(
        {"env": [{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "status.podIPs"}}}]},
        "a local region has no field status.podIPs",
    ),
    "an image without a command": Missing({"command": []}, "images are not run here: give the container a `command`"),
    "a mount of no volume": Missing(MOUNT, 'volume mount "v" names no volume of the pod'),
    "no such claim": Missing(
        MOUNT, 'persistentvolumeclaim "shared" not found', volume(persistentVolumeClaim={"claimName": "shared"})
    ),
    "a volume of another kind": Missing(MOUNT, "a local region has no volumes of kind nfs", volume(nfs={"server": "s"})),
    "a key that a volume wants": Missing(
        MOUNT,
        'secret "hf" references non-existent key: k',
        volume(secret={"secretName": "hf", "items": [{"key": "k", "path": "k"}]}),
    ),
    "a path in a volume that leads out": Missing(
        MOUNT, "mount path /../x is not", volume(secret={"secretName": "hf", "items": [{"key": "token", "path": "../x"}]})
    ),
    "a mount path that is no path": Missing(
        {"volumeMounts": [{"name": "v", "mountPath": "v/.."}]}, "mount path v/.. is not an absolute path", volume(emptyDir={})
    ),
    "a sub-path that leads out": Missing(
        {"volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "../x"}]},
        "sub-path ../x must not lead out of its volume",
        volume(emptyDir={}),
    ),
}


@pytest.mark.parametrize("case", MISSING.values(), ids=MISSING.keys())
def test_a_container_waits_for_what_is_missing(world: RealWorld, case: Missing) -> None:
    put_texts(world.folder / "secrets" / TEAM / "hf", {"token": "t"})
    put_texts(world.folder / "secrets" / "team-b" / "hf", {"token": "theirs"})
    world.create(make_job(container={"command": ["true"], **case.container}, pod=case.pod))
    world.suspend(False)

    def waiting() -> dict[str, str] | None:
        found: dict[str, str] | None = world.pod()["status"]["containerStatuses"][0]["state"].get("waiting")
        return found if found and "message" in found else None

    said = world.when(waiting)
    assert said["reason"] == "CreateContainerConfigError"
    assert said["message"].startswith(case.want)


def test_a_secret_that_comes_later_is_found_at_the_next_look(world: RealWorld) -> None:
    world.create(make_job(container={"command": ["/bin/sh", "-c", "echo $$T"], **from_secret(name="late", key="k")}))
    world.suspend(False)
    world.when(lambda: "waiting" in world.pod()["status"].get("containerStatuses", [{"state": {}}])[0]["state"])
    put_texts(world.folder / "secrets" / TEAM / "late", {"k": "here"})
    world.patch(world.pod(), {"metadata": {"labels": {"look": "again"}}})
    assert world.ends()["exitCode"] == 0
    assert world.log() == "here\n"


def test_an_entry_point_for_an_image(world: RealWorld) -> None:
    world.create(make_job(container={"image": "reg.example.com/entry:1", "args": ["$(A)"], "env": [{"name": "A", "value": "b"}]}))
    world.suspend(False)
    world.ends()
    assert world.log() == "entry b\n"


def test_mounts_are_found_below_pod_root_and_by_arguments(world: RealWorld) -> None:
    shared = world.folder / "claims" / TEAM / "shared"
    put_texts(shared, {"old": "kept"})
    put_texts(world.folder / "secrets" / TEAM / "hf", {"token": "t", "other": "o"})
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": TEAM}, "data": {"file-0": "script"}}
    world.create(config)
    volumes = [
        {"name": "scratch", "emptyDir": {}},
        {"name": "shm", "emptyDir": {"medium": "Memory"}},
        {"name": "shared", "persistentVolumeClaim": {"claimName": "shared"}},
        {"name": "files", "configMap": {"name": "c"}},
        {"name": "secret", "secret": {"secretName": "hf", "items": [{"key": "token", "path": "deep/token"}]}},
    ]
    mounts = [
        {"name": "scratch", "mountPath": "/scratch"},
        {"name": "scratch", "mountPath": "/part", "subPath": "sub/part"},
        {"name": "shm", "mountPath": "/dev/shm"},
        {"name": "shared", "mountPath": "/shared"},
        {"name": "files", "mountPath": "/shared/run.sh", "subPath": "file-0"},
        {"name": "files", "mountPath": "/scratch/config", "subPath": "file-0"},
        {"name": "secret", "mountPath": "/secret/"},
    ]
    script = (
        'set -e; cd "$POD_ROOT"; cat shared/old secret/deep/token scratch/config; echo; ls secret; '
        'echo new >shared/new; echo x >part/file; cat scratch/sub/part/file; cat "$1" "$RUN"; '
        "test -d /dev/shm; test ! -e dev"
    ).replace("$", "$$")
    command = ["/bin/sh", "-c", script, "sh"]
    env = [{"name": "RUN", "value": "/shared/run.sh"}]
    container = {"command": command, "args": ["/shared/run.sh"], "env": env, "volumeMounts": mounts, "workingDir": "/scratch"}
    world.create(make_job(container=container, pod={"volumes": volumes}))
    world.suspend(False)
    end = world.ends()
    assert world.log() == "kepttscript\ndeep\nx\nscriptscript"
    assert end["exitCode"] == 0
    assert sorted(file.name for file in shared.iterdir()) == ["new", "old"], "nothing of the pod's stands in the shared folder"


def test_host_folders_and_what_is_optional(world: RealWorld) -> None:
    put_texts(world.folder / "host", {"file": "here"})
    volumes = [
        {"name": "host", "hostPath": {"path": str(world.folder / "host")}},
        {"name": "none", "secret": {"secretName": "no", "optional": True}},
    ]
    mounts = [{"name": "host", "mountPath": "/host"}, {"name": "none", "mountPath": "/none"}]
    command = ["/bin/sh", "-c", "cat $$POD_ROOT/host/file; ls -A $$POD_ROOT/none/"]
    world.create(make_job(container={"command": command, "volumeMounts": mounts}, pod={"volumes": volumes}))
    world.suspend(False)
    assert world.ends()["exitCode"] == 0
    assert world.log() == "here"


def test_the_working_folder(world: RealWorld) -> None:
    found = seen(
        world, {"volumes": [{"name": "w", "emptyDir": {}}]}, volumeMounts=[{"name": "w", "mountPath": "/w"}], workingDir="/w"
    )
    assert found["cwd"].endswith("/volumes/w")
    assert found["env"]["POD_ROOT"] == found["env"]["HOME"]


def test_a_working_folder_that_a_mount_lies_below(world: RealWorld) -> None:
    mounts = [{"name": "w", "mountPath": "/opt/deep/w"}]
    found = seen(world, {"volumes": [{"name": "w", "emptyDir": {}}]}, volumeMounts=mounts, workingDir="/opt")
    assert found["cwd"] == found["env"]["POD_ROOT"] + "/opt"


def test_a_working_folder_that_is_not_there_fails_the_start(world: RealWorld) -> None:
    world.create(make_job(container={"command": ["true"], "workingDir": "/no/such/folder"}))
    world.suspend(False)
    end = world.ends()
    assert (end["exitCode"], end["reason"]) == (128, "StartError")
    assert "/no/such/folder" in end["message"]


def test_a_pod_that_is_gone_leaves_no_folder(world: RealWorld) -> None:
    world.run("echo x >$POD_ROOT/file; exit 0")
    world.ends()
    assert [*(world.folder / "pods").iterdir()]
    world.delete(world.job())
    world.when(lambda: not [*(world.folder / "pods").iterdir()])
