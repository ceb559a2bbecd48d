"""The nodes behind which a kubelet stands: registered, kept alive, their GPUs given to pods.

Decides what a kubelet writes of a node. That a silent one becomes NotReady is the node controller's affair.
Invariant: two live pods never have the same GPU, whatever is killed and when: what is given is on disk before it is used.
"""

import json
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reconciler.adapters.local import NodeSpec
from reconciler.adapters.local.moments import millis, stamp
from reconciler.adapters.local.nodes import as_node
from reconciler.adapters.local.runtime import DEVICES
from reconciler.model.pods import pod_requests
from reconciler.ports import KubeObject
from tests.e2e.kubelet.api import MERGE, STRATEGIC, Api, Denied

GPUS = "nvidia.com/gpu"
ADDRESS = "127.0.0.1"
LEASE_SECONDS = 40
REPORT_MILLIS = 300_000
"""A status in which nothing is new is written again after so long, as by a real kubelet."""

_HEALTHY = {
    "MemoryPressure": "KubeletHasSufficientMemory",
    "DiskPressure": "KubeletHasNoDiskPressure",
    "PIDPressure": "KubeletHasSufficientPID",
}


def register(api: Api, spec: NodeSpec, port: int, now: int) -> None:
    """Make the node, or go on with the one that is there, and say that it is ready. `port`: of the kubelet's endpoint."""
    node = as_node(spec, now)
    labels = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"} | ({f"{GPUS}.present": "true"} if spec.gpus else {})
    node["metadata"]["labels"] |= labels
    try:
        api.create("/api/v1/nodes", {key: value for key, value in node.items() if key != "status"})
    except Denied as denied:
        if denied.status != 409:
            raise
        api.patch(f"/api/v1/nodes/{spec.name}", {"metadata": {"labels": node["metadata"]["labels"]}}, MERGE)
    _report(api, spec, port, now)


def beat(api: Api, spec: NodeSpec, port: int, now: int) -> None:
    """Renew the node's lease, and its status if somebody called it not ready or it is old. A node that was deleted stays so."""
    node = api.get(f"/api/v1/nodes/{spec.name}")
    if node is None:
        return
    _renew(api, node)
    ready = next((one for one in node["status"].get("conditions") or () if one["type"] == "Ready"), None)
    if ready is None or ready["status"] != "True" or millis(ready["lastHeartbeatTime"]) + REPORT_MILLIS < now:
        _report(api, spec, port, now)


def _renew(api: Api, node: KubeObject) -> None:
    name = node["metadata"]["name"]
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": at}
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    if api.patch(f"{leases}/{name}", {"spec": spec}, MERGE) is None:
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"]}
        made = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name, "ownerReferences": [owner]}}
        api.create(leases, {**made, "spec": spec})


def _report(api: Api, spec: NodeSpec, port: int, now: int) -> None:
    at = stamp(now)
    known = api.get(f"/api/v1/nodes/{spec.name}")
    if known is None:
        return
    before = {one["type"]: one for one in (known.get("status") or {}).get("conditions") or ()}
    said = {"Ready": ("True", "KubeletReady", "kubelet is posting ready status")}
    said |= {kind: ("False", reason, "there is enough") for kind, reason in _HEALTHY.items()}
    conditions = []
    for kind, (value, reason, message) in said.items():
        same = kind in before and before[kind]["status"] == value
        since = before[kind]["lastTransitionTime"] if same else at
        words = {"type": kind, "status": value, "reason": reason, "message": message}
        conditions.append(words | {"lastHeartbeatTime": at, "lastTransitionTime": since})
    version = str((api.get("/version") or {})["gitVersion"])
    facts = {
        "architecture": "amd64",
        "operatingSystem": "linux",
        "osImage": "processes of this machine",
        "bootID": "",
        "machineID": "",
    }
    facts |= {"systemUUID": "", "kernelVersion": platform.release(), "containerRuntimeVersion": "processes://1"}
    status = {
        **as_node(spec, now)["status"],
        "conditions": conditions,
        # No host name among them: the API server would look it up before it takes the address.
        "addresses": [{"type": "InternalIP", "address": ADDRESS}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        "nodeInfo": {**facts, "kubeletVersion": version, "kubeProxyVersion": version},
    }
    api.patch(f"/api/v1/nodes/{spec.name}/status", {"status": status}, STRATEGIC)


class TooFew(Exception):
    """The node has not as many free GPUs as the scheduler thought."""


class Devices:
    """Which pod has which GPUs of which node, one file a pod."""

    def __init__(self, folder: Path) -> None:
        """With what was given before."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        files = [file for file in folder.iterdir() if not file.name.endswith(".part")]
        self._given: dict[str, Mapping[str, Any]] = {file.name: json.loads(file.read_text("utf-8")) for file in files}

    def with_gpus(self, pod: KubeObject, spec: NodeSpec) -> KubeObject:
        """The pod, annotated with its GPUs for the runtime; they stay its own until `free`. Raises TooFew."""
        uid, wanted = pod["metadata"]["uid"], pod_requests(pod["spec"]).get(GPUS, 0)
        if not wanted:
            return pod
        if uid not in self._given:
            taken = {index for one in self._given.values() if one["node"] == spec.name for index in one["gpus"]}
            free = [index for index in range(spec.gpus - spec.unhealthy_gpus) if index not in taken]
            if len(free) < wanted:
                raise TooFew(
                    f"Pod was rejected: Allocate failed due to requested number of devices unavailable for {GPUS}. "
                    f"Requested: {wanted}, Available: {len(free)}, which is unexpected"
                )
            self._keep(uid, {"node": spec.name, "gpus": free[:wanted]})
        said = {DEVICES: ",".join(map(str, self._given[uid]["gpus"]))}
        return {**pod, "metadata": {**pod["metadata"], "annotations": {**(pod["metadata"].get("annotations") or {}), **said}}}

    def free(self, uid: str) -> None:
        """What the pod had is anybody's."""
        if self._given.pop(uid, None) is not None:
            (self._folder / uid).unlink()

    def holders(self) -> list[str]:
        """The uids of the pods that have any."""
        return list(self._given)

    def _keep(self, uid: str, given: Mapping[str, Any]) -> None:
        part = self._folder / f"{uid}.part"
        part.write_text(json.dumps(given), "utf-8")
        part.replace(self._folder / uid)
        self._given[uid] = given
