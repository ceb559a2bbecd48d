"""Events about pods: why a container does not start, where people and the agent look for it.

Decides which warnings a kubelet tells; each once, when a container begins to wait for that reason.
Source: Kubernetes, pkg/kubelet/kuberuntime, `FailedToPullImage` and `FailedToCreateContainer`.
"""

import secrets
from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.adapters.local.moments import stamp
from reconciler.ports import KubeObject
from tests.e2e.kubelet.api import Api, Denied

_TOLD = ("ErrImagePull", "CreateContainerConfigError", "CreateContainerError")


def complain(api: Api, pod: KubeObject, status: Mapping[str, Any], now: int) -> None:
    """Tell what is new in `status` and keeps a container of the pod from starting. In a namespace that ends nothing is told."""
    metadata = pod["metadata"]
    for container, message in _complaints(pod["status"], status):
        about = {"apiVersion": "v1", "kind": "Pod", "namespace": metadata["namespace"], "name": metadata["name"]}
        event = {
            "metadata": {"name": f"{metadata['name']}.{secrets.token_hex(8)}", "namespace": metadata["namespace"]},
            "involvedObject": {**about, "uid": metadata["uid"], "fieldPath": f"spec.containers{{{container}}}"},
            "type": "Warning",
            "reason": "Failed",
            "message": message,
            "source": {"component": "kubelet", "host": pod["spec"]["nodeName"]},
            "firstTimestamp": stamp(now),
            "lastTimestamp": stamp(now),
            "count": 1,
        }
        try:
            api.create(f"/api/v1/namespaces/{metadata['namespace']}/events", event)
        except Denied as denied:
            if denied.status != 403:
                raise


def _complaints(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(container, words) of each that waits in vain and did not before."""
    before = _waiting(old)
    for container, waiting in _waiting(new).items():
        if waiting["reason"] in _TOLD and before.get(container, {}).get("reason") != waiting["reason"]:
            failed = "Failed to pull image: " if waiting["reason"] == "ErrImagePull" else "Error: "
            yield container, failed + waiting.get("message", waiting["reason"])


def _waiting(status: Mapping[str, Any]) -> dict[str, Mapping[str, str]]:
    statuses = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    return {one["name"]: one["state"]["waiting"] for one in statuses if "waiting" in one["state"]}
