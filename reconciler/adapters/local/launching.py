"""From a container's spec to a program that can be started here: arguments, environment, folder.

Decides what Kubernetes decides of these (order, `$(NAME)`, references to fields, ConfigMaps and secrets) and what a plain
machine needs beside it: the base environment that an image would bring, `POD_ROOT`, the GPUs' indices. Images are not
run: a container without a command needs an entry point for its image in the runtime's settings.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from reconciler.adapters.local.expansion import expanded
from reconciler.adapters.local.placing import LOOPBACK, Place, place_of, placed
from reconciler.adapters.local.runtime import DEVICES, Launch, Texts
from reconciler.adapters.local.volumes import Sources, Unready, mount
from reconciler.ports import KubeObject

_MAPPED_FIELD = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


def program(
    launch: Launch, folder: Path, volumes: Path, sources: Sources, base: Texts, entry_points: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """What the shim needs to know, as JSON: argv, env, cwd, log. Makes the container's folders. Raises Unready or OSError."""
    pod, container = launch.pod, launch.container
    root = folder / "root"
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    place = place_of(pod, mount(pod, container, volumes, folder, sources))
    known = {name: placed(value, place) for name, value in environment(pod, container, sources).items()}
    command = list(container.get("command") or _entry_point(container["image"], entry_points))
    argv = [placed(expanded(word, known), place) for word in (*command, *(container.get("args") or ()))]
    own = {"HOSTNAME": pod["spec"].get("hostname") or pod["metadata"]["name"], "POD_ROOT": str(root)}
    return {
        "argv": argv,
        "env": {**base, "HOME": str(root), **own, **_devices(pod), **known, "POD_ROOT": str(root)},
        "cwd": _working_folder(container.get("workingDir"), root, place),
        "log": str(folder / "log"),
    }


def _working_folder(asked: str | None, root: Path, place: Place) -> str:
    """Where a mount is, or what a mount lies below, is found in the container's root; anything else on the machine."""
    if not asked:
        return str(root)
    below = root / asked.lstrip("/")
    return str(below) if below.is_dir() else placed(asked, place)


def environment(pod: KubeObject, container: KubeObject, sources: Sources) -> dict[str, str]:
    """The container's variables as a kubelet works them out, in order. Raises Unready."""
    found = dict(_from_sources(container, sources))
    named: dict[str, str] = {}
    for variable in container.get("env") or ():
        value: str | None = variable.get("value") or ""
        if value:
            value = expanded(value, named)
        elif variable.get("valueFrom"):
            value = _referred(variable["valueFrom"], pod, sources)
        if value is not None:
            named[variable["name"]] = value
    return found | named


def _from_sources(container: KubeObject, sources: Sources) -> Iterator[tuple[str, str]]:
    for one in container.get("envFrom") or ():
        field, words = ("configMapRef", "configmap") if one.get("configMapRef") else ("secretRef", "secret")
        name = one[field]["name"]
        texts = sources.config_map(name) if words == "configmap" else sources.secret(name)
        if texts is None and not one[field].get("optional"):
            raise Unready(f'{words} "{name}" not found')
        for key, value in (texts or {}).items():
            yield f"{one.get('prefix') or ''}{key}", value


def _referred(source: KubeObject, pod: KubeObject, sources: Sources) -> str | None:
    if source.get("fieldRef"):
        return field_of(source["fieldRef"]["fieldPath"], pod)
    for field, words in (("configMapKeyRef", "configmap"), ("secretKeyRef", "secret")):
        if not source.get(field):
            continue
        name, key = source[field]["name"], source[field]["key"]
        texts = sources.config_map(name) if words == "configmap" else sources.secret(name)
        if texts is not None and key in texts:
            return texts[key]
        if source[field].get("optional"):
            return None
        where = (
            f'{words} "{name}" not found' if texts is None else f"couldn't find key {key} in {words} {sources.namespace}/{name}"
        )
        raise Unready(where)
    raise Unready(f"a local region has no environment variables from {', '.join(sorted(source))}")


def field_of(path: str, pod: KubeObject) -> str:
    """The text of a pod's field, for variables and files. Raises Unready for a field that is not offered."""
    mapped = _MAPPED_FIELD.fullmatch(path)
    if mapped is not None:
        return str((pod["metadata"].get(mapped[1]) or {}).get(mapped[2], ""))
    metadata, spec = pod["metadata"], pod["spec"]
    fields = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata["namespace"],
        "metadata.uid": metadata["uid"],
        "spec.nodeName": spec["nodeName"],
        "spec.serviceAccountName": spec.get("serviceAccountName", "default"),
        "status.hostIP": LOOPBACK,
        "status.podIP": LOOPBACK,
    }
    if path not in fields:
        raise Unready(f"a local region has no field {path} for environment variables")
    return str(fields[path])


def _entry_point(image: str, entry_points: Mapping[str, Sequence[str]]) -> Sequence[str]:
    for pattern, argv in entry_points.items():
        if fnmatchcase(image, pattern):
            return argv
    raise Unready(f"images are not run here: give the container a `command`, or the region an entry point for {image}")


def _devices(pod: KubeObject) -> dict[str, str]:
    """The GPUs that the program may see. The driver heeds CUDA's variable, images' tools the other one."""
    indices = (pod["metadata"].get("annotations") or {}).get(DEVICES, "")
    return {"NVIDIA_VISIBLE_DEVICES": indices or "void", "CUDA_VISIBLE_DEVICES": indices}
