"""The volumes of a pod as folders on this machine, and a container's mounts as links to them.

Decides which kinds of volume there are: emptyDir, ConfigMaps, secrets (from the region's folder of secrets), claims
(folders that somebody made), host paths, the pod's own fields. Any other kind keeps the container waiting, in words.
Invariant: nothing is written outside the pod's own folder, and no sub-path leads out of its volume.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from reconciler.adapters.local.placing import MACHINES_OWN
from reconciler.adapters.local.runtime import ConfigMaps, Texts
from reconciler.ports import KubeObject


class Unready(Exception):
    """Something that a container needs is not there (yet), in the kubelet's words."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Where a namespace's texts and folders come from: ConfigMaps of the API; `secrets/<namespace>/<name>/<key>` and
    `claims/<namespace>/<name>/` below the region's folder."""

    namespace: str
    config_maps: ConfigMaps
    secrets: Path
    claims: Path

    def config_map(self, name: str) -> Texts | None:
        """The ConfigMap's texts."""
        return self.config_maps(self.namespace, name)

    def secret(self, name: str) -> Texts | None:
        """The secret's texts, None where there is no folder for it."""
        folder = self.secrets / self.namespace / name
        if PurePosixPath(name).name != name or not folder.is_dir():
            return None
        try:
            return {file.name: file.read_text(encoding="utf-8") for file in sorted(folder.iterdir()) if file.is_file()}
        except UnicodeDecodeError as error:
            raise Unready(f'secret "{name}" is not UTF-8 text') from error

    def claim(self, name: str) -> Path:
        """The claim's folder. Raises Unready where nobody made one."""
        folder = self.claims / self.namespace / name
        if PurePosixPath(name).name != name or not folder.is_dir():
            raise Unready(f'persistentvolumeclaim "{name}" not found: make the folder {folder}')
        return folder


def mount(pod: KubeObject, container: KubeObject, folder: Path, place: Path, sources: Sources) -> dict[str, Path]:
    """Make what the container mounts; returns each mount path with its link. Raises Unready or OSError.

    `folder` is for the pod's volumes. A link stands below `place/root` as its path says; where that would be inside a
    folder that is not the pod's own, or something stands there already, it stands in `place/mounts`.
    """
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
    mounts = [one for one in container.get("volumeMounts") or () if one["mountPath"].rstrip("/") != MACHINES_OWN]
    own = (place / "root").resolve(), folder.resolve()
    links: dict[str, Path] = {}
    for at, one in enumerate(sorted(mounts, key=lambda item: len(item["mountPath"]))):
        if one["name"] not in volumes:
            raise Unready(f'volume mount "{one["name"]}" names no volume of the pod')
        target = _volume(volumes[one["name"]], folder / one["name"], sources)
        if one.get("subPath"):
            target = _within(target, one["subPath"])
        link = place / "root" / _relative(one["mountPath"])
        if not any(link.parent.resolve().is_relative_to(folder) for folder in own) or (link.exists() and not link.is_symlink()):
            link = place / "mounts" / str(at)
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink():
            link.symlink_to(target)
        links[one["mountPath"]] = link
    return links


def _relative(path: str) -> PurePosixPath:
    parts = PurePosixPath(path).parts
    if not path.startswith("/") or ".." in parts or len(parts) < 2:
        raise Unready(f"mount path {path} is not an absolute path below /")
    return PurePosixPath(*parts[1:])


def _within(volume: Path, sub_path: str) -> Path:
    parts = PurePosixPath(sub_path).parts
    if sub_path.startswith("/") or ".." in parts:
        raise Unready(f"sub-path {sub_path} must not lead out of its volume")
    target = volume.joinpath(*parts)
    if not target.exists():
        target.mkdir(parents=True)
    return target


def _volume(volume: Mapping[str, KubeObject], folder: Path, sources: Sources) -> Path:
    if "emptyDir" in volume:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return folder
    if volume.get("configMap"):
        says = volume["configMap"]
        return _files(folder, says, sources.config_map(says["name"]), f'configmap "{says["name"]}" not found')
    if volume.get("secret"):
        says = volume["secret"]
        return _files(folder, says, sources.secret(says["secretName"]), f'secret "{says["secretName"]}" not found')
    if volume.get("downwardAPI"):
        return folder  # filled by who knows the pod
    if volume.get("persistentVolumeClaim"):
        return sources.claim(volume["persistentVolumeClaim"]["claimName"])
    if volume.get("hostPath"):
        return Path(str(volume["hostPath"]["path"]))
    kinds = ", ".join(sorted(volume.keys() - {"name"}))
    raise Unready(f"a local region has no volumes of kind {kinds}")


def _files(folder: Path, says: KubeObject, texts: Texts | None, missing: str) -> Path:
    if texts is None and not says.get("optional"):
        raise Unready(missing)
    texts = texts or {}
    items = says.get("items") or [{"key": key, "path": key} for key in texts]
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for item in items:
        if item["key"] not in texts:
            raise Unready(f"{missing.removesuffix(' not found')} references non-existent key: {item['key']}")
        file = folder / _relative(f"/{item['path']}")
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file.touch(mode=0o600)
        file.write_text(texts[item["key"]], encoding="utf-8")
    return folder
