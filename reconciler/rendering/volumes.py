"""Folders and files of the program: what is mounted where.

Decides volumes and mounts. The bytes come from elsewhere: datasets from steps.py, secrets and shared file systems from the
region. A dataset or output for which the job names a path inside one of its other volumes is taken to be there: it gets no volume
of its own, which would hide it.
"""

from typing import Any, NamedTuple

from reconciler.model.job import JobSpec
from reconciler.model.job_parts import Volume
from reconciler.model.names import ANNOTATION_PACE, PACE_FILE, PACE_FOLDER, STAGING_TEAM
from reconciler.model.pods import DEFAULT_SHM, main_resources
from reconciler.model.quantity import whole
from reconciler.rendering.rendering import Rendering, Unrenderable

PACE = "pace"
SHM_PATH = "/dev/shm"  # noqa: S108 - the kernel's own name for shared memory, not a temporary file
FILES, SHM = "files", "shm"


class Mounted(NamedTuple):
    """A volume of the pod and where the main container has it."""

    volume: dict[str, Any]
    mounts: tuple[dict[str, Any], ...]


def file_key(index: int) -> str:
    """The key of a spec's file in its ConfigMap; never made from its path."""
    return f"file-{index}"


def dataset_volume(index: int) -> str:
    """The name of the volume that a dataset is brought into."""
    return f"dataset-{index}"


def is_of_the_program(volume: str) -> bool:
    """Whether a volume of that name is made for the program alone, so that steps which bring data have no use for it."""
    return volume in {SHM, FILES} or volume.startswith(("dataset-", "output-"))


def _is_inside(path: str, folder: str) -> bool:
    return (path.rstrip("/") + "/").startswith(folder.rstrip("/") + "/")


def brought_datasets(rendering: Rendering) -> tuple[tuple[int, str], ...]:
    """(index, mount path) of each dataset that is brought into a volume of its own."""
    return tuple(
        (index, use.mount_path)
        for index, use in enumerate(rendering.spec.datasets)
        if use.mount_path is not None and rendering.folders[index] is None and not _is_there(rendering.spec, use.mount_path)
    )


def _shared_datasets(rendering: Rendering) -> list[Mounted]:
    """The datasets that are on the region's shared file system."""
    found = []
    for index, folder in enumerate(rendering.folders):
        asked, path = rendering.spec.datasets[index].mount_path, rendering.dataset_path(index)
        if folder is not None and path is not None and (asked is None or not _is_there(rendering.spec, asked)):
            source = _claimed(rendering.profile.shared_claim, "a dataset of the job is on one there")
            volume, (mount,) = _mounted(dataset_volume(index), source, path, read_only=True)
            found.append(Mounted(volume, ({**mount, "subPath": folder},)))
    return found


def _is_there(spec: JobSpec, path: str) -> bool:
    return any(_is_inside(path, volume.mount_path) for volume in spec.volumes)


def _mounted(name: str, source: dict[str, Any], path: str, *, read_only: bool = False) -> Mounted:
    mount: dict[str, Any] = {"name": name, "mountPath": path}
    if read_only:
        mount["readOnly"] = True
    return Mounted({"name": name, **source}, (mount,))


def _shm(rendering: Rendering) -> list[Mounted]:
    spec = rendering.spec
    if any(volume.mount_path.rstrip("/") == SHM_PATH for volume in spec.volumes):
        return []
    size = spec.shm
    if size is None and (spec.nodes > 1 or spec.gpu.count > 1):
        memory = main_resources(spec, rendering.profile)["memory"]
        # It is counted in memory, so more than that could never be used.
        size = min(DEFAULT_SHM, memory, key=whole)
    return [] if size is None else [_mounted(SHM, {"emptyDir": {"medium": "Memory", "sizeLimit": size}}, SHM_PATH)]


def _source(volume: Volume, shared_claim: str | None) -> dict[str, Any]:
    if volume.kind == "scratch":
        return {"emptyDir": {"sizeLimit": volume.size} if volume.size is not None else {}}
    return _claimed(volume.name if volume.kind == "claim" else shared_claim, "the job mounts one")


def _claimed(claim: str | None, why: str) -> dict[str, Any]:
    if claim is None:
        raise Unrenderable(f"the region has no shared file system (`profile.shared_claim`), and {why}")
    return {"persistentVolumeClaim": {"claimName": claim}}


def _folders(rendering: Rendering) -> list[Mounted]:
    spec = rendering.spec
    shared_claim = rendering.profile.shared_claim
    others = [volume.mount_path for volume in spec.volumes]
    found = [
        _mounted(f"volume-{index}", _source(volume, shared_claim), volume.mount_path) for index, volume in enumerate(spec.volumes)
    ]
    brought = brought_datasets(rendering)
    found += [_mounted(dataset_volume(index), {"emptyDir": {}}, path, read_only=True) for index, path in brought]
    found += _shared_datasets(rendering)
    found += [
        _mounted(f"output-{index}", {"emptyDir": {}}, output.path)
        for index, output in enumerate(spec.outputs)
        if not any(_is_inside(output.path, other) for other in others)
    ]
    return found


def _secrets(rendering: Rendering) -> list[Mounted]:
    called = rendering.profile.secrets
    found = []
    for index, secret in enumerate(rendering.spec.secrets):
        if secret.mount_path is not None:
            source: dict[str, Any] = {"secretName": called.get(secret.name, secret.name)}
            if secret.key is not None:
                source["items"] = [{"key": secret.key, "path": secret.key}]
            found.append(_mounted(f"secret-{index}", {"secret": source}, secret.mount_path, read_only=True))
    return found


def _files(rendering: Rendering) -> list[Mounted]:
    files = rendering.spec.files
    if not files:
        return []
    mounts = tuple(
        {"name": FILES, "mountPath": file.path, "subPath": file_key(index), "readOnly": True} for index, file in enumerate(files)
    )
    return [Mounted({"name": FILES, "configMap": {"name": rendering.attempt}}, mounts)]


def _pace(rendering: Rendering) -> list[Mounted]:
    """Of a staging task: how quick it may be, as the kubelet keeps it up to date from the pod's annotation."""
    if rendering.team != STAGING_TEAM:
        return []
    field = {"fieldPath": f"metadata.annotations['{ANNOTATION_PACE}']"}
    source = {"downwardAPI": {"items": [{"path": PACE_FILE, "fieldRef": field}]}}
    return [_mounted(PACE, source, PACE_FOLDER, read_only=True)]


def mounted(rendering: Rendering) -> list[Mounted]:
    """All volumes of the pod, with the main container's mounts. Raises Unrenderable."""
    return [*_shm(rendering), *_folders(rendering), *_secrets(rendering), *_files(rendering), *_pace(rendering)]
