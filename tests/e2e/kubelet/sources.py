"""What the API server has for a pod's programs: ConfigMaps, secrets, and volumes that are put together from several sources.

Decides how these become files, where the local runtime knows none of them: secrets are mirrored into its folder of secrets,
`projected` and `downwardAPI` volumes are made once for each pod and handed on as folders. Tokens of service accounts are real,
and not renewed: they end after the time that the volume asks for (an hour by default).
"""

import base64
import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from reconciler.adapters.local import ProcessRuntime, ProcessSettings
from reconciler.adapters.local.launching import field_of
from reconciler.adapters.local.runtime import Launch, Texts, Waiting
from reconciler.adapters.local.telling import tell
from reconciler.adapters.local.volumes import Unready
from reconciler.ports import KubeObject
from tests.e2e.kubelet.api import Api, Denied

_MAPS = ("metadata.labels", "metadata.annotations")


class ApiRuntime(ProcessRuntime):
    """Programs of this machine, with what an API server has for them."""

    def __init__(self, folder: Path, settings: ProcessSettings, api: Api) -> None:
        super().__init__(folder / "pods", settings)
        self._api = api
        self._made = folder / "projected"

    def config_map(self, namespace: str, name: str) -> Texts | None:
        """The ConfigMap's texts, None where there is none."""
        found = self._api.get(f"/api/v1/namespaces/{namespace}/configmaps/{name}")
        return None if found is None else found.get("data") or {}

    def start(self, launch: Launch, now: int) -> Waiting | None:
        """Start the program with all that its pod names, or say what is missing."""
        try:
            pod = self._prepared(launch.pod)
        except (Unready, Denied) as missing:
            return Waiting("CreateContainerConfigError", str(missing))
        return super().start(replace(launch, pod=pod), now)

    def tell(self, pod: KubeObject) -> None:
        """Where these volumes stand here."""
        tell(pod, self._made / pod["metadata"]["uid"])

    def forget(self, uid: str, now: int) -> None:
        """Also what was made for the pod."""
        super().forget(uid, now)
        shutil.rmtree(self._made / uid, ignore_errors=True)

    def _prepared(self, pod: KubeObject) -> KubeObject:
        namespace = pod["metadata"]["namespace"]
        for name in sorted(set(_secrets(pod["spec"]))):
            self._mirror(namespace, name)
        volumes = []
        for volume in pod["spec"].get("volumes") or ():
            kind = next((kind for kind in ("projected", "downwardAPI") if kind in volume), None)
            if kind is not None:
                folder = self._made / pod["metadata"]["uid"] / volume["name"]
                self._make(pod, volume[kind]["sources"] if kind == "projected" else [{kind: volume[kind]}], folder)
                volume = {"name": volume["name"], "hostPath": {"path": str(folder)}}  # noqa: PLW2901
            volumes.append(volume)
        return {**pod, "spec": {**pod["spec"], "volumes": volumes}}

    def _secret(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        found = self._api.get(f"/api/v1/namespaces/{namespace}/secrets/{name}")
        return None if found is None else {key: base64.b64decode(value) for key, value in (found.get("data") or {}).items()}

    def _mirror(self, namespace: str, name: str) -> None:
        folder = self._settings.secrets / namespace / name
        shutil.rmtree(folder, ignore_errors=True)
        found = self._secret(namespace, name)
        if found is not None:
            folder.mkdir(parents=True, mode=0o700)
            _write(folder, found)

    def _make(self, pod: KubeObject, sources: list[KubeObject], folder: Path) -> None:
        if folder.is_dir():
            return
        part = folder.with_name(f"{folder.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True, mode=0o700)
        for source in sources:
            ((kind, says),) = source.items()
            _write(part, self._content(pod, kind, says))
        part.replace(folder)

    def _content(self, pod: KubeObject, kind: str, says: KubeObject) -> Mapping[str, bytes]:
        """Path → bytes of one source of a volume."""
        namespace = pod["metadata"]["namespace"]
        match kind:
            case "serviceAccountToken":
                return {says["path"]: self._token(pod, says)}
            case "downwardAPI":
                return {item["path"]: _field(item, pod).encode() for item in says.get("items") or ()}
            case "secret":
                return _chosen(self._secret(namespace, says["name"]), says, f'secret "{says["name"]}" not found')
            case "configMap":
                texts = self.config_map(namespace, says["name"])
                found = None if texts is None else {key: text.encode() for key, text in texts.items()}
                return _chosen(found, says, f'configmap "{says["name"]}" not found')
        raise Unready(f"this kubelet has no volumes of kind {kind}")

    def _token(self, pod: KubeObject, says: KubeObject) -> bytes:
        metadata = pod["metadata"]
        account = f"/api/v1/namespaces/{metadata['namespace']}/serviceaccounts/{pod['spec'].get('serviceAccountName', 'default')}"
        bound = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
        spec: dict[str, Any] = {"expirationSeconds": says.get("expirationSeconds", 3600), "boundObjectRef": bound}
        if says.get("audience"):
            spec["audiences"] = [says["audience"]]
        made = self._api.create(
            f"{account}/token", {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        )
        if made is None:
            raise Unready(f"{account.rsplit('/', 1)[1]}: no such service account")
        return str(made["status"]["token"]).encode()


def _secrets(spec: KubeObject) -> Iterator[str]:
    """The names of the secrets of volumes and variables."""
    for volume in spec.get("volumes") or ():
        if volume.get("secret"):
            yield volume["secret"]["secretName"]
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        yield from (one["secretRef"]["name"] for one in container.get("envFrom") or () if one.get("secretRef"))
        sources = [one.get("valueFrom") or {} for one in container.get("env") or ()]
        yield from (source["secretKeyRef"]["name"] for source in sources if source.get("secretKeyRef"))


def _chosen(found: Mapping[str, bytes] | None, says: KubeObject, missing: str) -> Mapping[str, bytes]:
    if found is None and not says.get("optional"):
        raise Unready(missing)
    found = found or {}
    if not says.get("items"):
        return found
    absent = [item["key"] for item in says["items"] if item["key"] not in found]
    if absent and not says.get("optional"):
        raise Unready(f"{missing.removesuffix(' not found')} references non-existent key: {absent[0]}")
    return {item["path"]: found[item["key"]] for item in says["items"] if item["key"] in found}


def _field(item: KubeObject, pod: KubeObject) -> str:
    path = (item.get("fieldRef") or {}).get("fieldPath", "")
    if path not in _MAPS:
        return field_of(path, pod)
    entries = (pod["metadata"].get(path.removeprefix("metadata.")) or {}).items()
    return "".join(f"{key}={json.dumps(value)}\n" for key, value in sorted(entries))


def _write(folder: Path, content: Mapping[str, bytes]) -> None:
    for path, body in content.items():
        file = folder / path
        if not file.resolve().is_relative_to(folder.resolve()):
            raise Unready(f"path {path} must not lead out of its volume")
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file.touch(mode=0o600)
        file.write_bytes(body)
