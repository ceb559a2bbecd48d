"""The API of a region on one machine: objects as Kubernetes serves them, in memory.

Decides versions, identities, preconditions and how deletion goes on; what may be written is left to `admission`, what
follows from a write to the controllers, keeping it on disk to `keeping`. Stored objects are never changed in place: a
write puts a new one in the old one's place, so that what was read stays as it was read.

Invariants: `resourceVersion` rises with every write and with nothing else; a uid is never given twice; a pod with a
finalizer or with grace left stays listed; every key that was written since the last `drain` is in the next one.
"""

from collections.abc import Collection, Iterable
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from reconciler.adapters.local.admission import CLUSTER_WIDE, GATED, Rules, admitted, changed
from reconciler.adapters.local.job_rules import with_generated
from reconciler.adapters.local.merging import merged
from reconciler.adapters.local.moments import millis, stamp, whole_second
from reconciler.ports import Conflict, KubeObject, ObjectRef

Key = tuple[str, str, str]
"""Kind, namespace ('' for what has none), name."""

TERMINAL = ("Succeeded", "Failed")


def key_of(item: KubeObject) -> Key:
    """Where an object is stored."""
    return item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"]


def ref_of(item: KubeObject) -> ObjectRef:
    """The object at this version, for a request."""
    kind, namespace, name = key_of(item)
    return ObjectRef(kind, namespace, name, item["metadata"]["uid"], item["metadata"]["resourceVersion"])


def owner_of(item: KubeObject) -> KubeObject | None:
    """The reference to the object that controls this one."""
    return next((owner for owner in item["metadata"].get("ownerReferences") or () if owner.get("controller")), None)


class Objects:
    """All objects of one region. Not safe between threads: `region.LocalCluster` lets in one at a time."""

    def __init__(self, origin: str, rules: Rules, saved: Iterable[KubeObject] = (), version: int = 0) -> None:
        """`origin` tells this region's uids from those of others; `saved` and `version` go on where a region ended."""
        self._origin = origin
        self._rules = rules
        self._kinds: dict[str, dict[tuple[str, str], KubeObject]] = {}
        self._sorted: dict[str, tuple[KubeObject, ...]] = {}
        self._owned: dict[str, dict[Key, None]] = {}
        self._written: set[Key] = set()
        self.version = version
        for item in saved:
            self._place(item)

    def get(self, kind: str, namespace: str, name: str) -> KubeObject | None:
        """One object, or None."""
        return self._kinds.get(kind, {}).get((namespace, name))

    def every(self, kind: str) -> tuple[KubeObject, ...]:
        """All objects of a kind, by namespace and name."""
        if kind not in self._sorted:
            self._sorted[kind] = tuple(item for _, item in sorted(self._kinds.get(kind, {}).items()))
        return self._sorted[kind]

    def owned(self, uid: str) -> list[KubeObject]:
        """The objects that the one with this uid controls, by name."""
        return [self._kinds[kind][namespace, name] for kind, namespace, name in sorted(self._owned.get(uid, ()))]

    def everything(self) -> list[KubeObject]:
        """All objects, kind by kind."""
        return [item for kind in sorted(self._kinds) for item in self.every(kind)]

    def drain(self) -> set[Key]:
        """The keys written, made or removed since the last call, with those of the objects that control them."""
        written, self._written = self._written, set()
        return written

    def check(self, body: KubeObject) -> dict[str, Any]:
        """What `create` would store of it; nothing is stored. Raises Denied."""
        return admitted(body, self._namespaces(), self._rules)

    def create(self, body: KubeObject, now: int, owner: KubeObject | None = None) -> KubeObject:
        """Store a new object, controlled by `owner`. Raises Denied, or Conflict where the name is taken."""
        item = self.check(body)
        kind, namespace, name = key_of(item)
        if self.get(kind, namespace, name) is not None:
            raise Conflict(f'{kind} "{name}" already exists')
        uid = str(uuid5(NAMESPACE_OID, f"{self._origin}/{kind}/{namespace}/{name}/{self.version + 1}/{now}"))
        metadata = {**item["metadata"], "uid": uid, "creationTimestamp": stamp(now), "generation": 1}
        if kind in CLUSTER_WIDE:
            metadata.pop("namespace", None)
        if owner is not None:
            metadata["ownerReferences"] = [_ownership(owner)]
        item["metadata"] = metadata
        if kind == "Job":
            item |= {"spec": with_generated(item["spec"], name, uid), "status": {}}
        elif kind == "Pod":
            item["status"] = _new_pod_status(item["spec"], now)
        return self._write(item)

    def patch(self, target: ObjectRef, body: KubeObject) -> KubeObject:
        """JSON merge patch at exactly that version. Raises Conflict or Denied."""
        old = self._at(target)
        asked = body.get("metadata") or {}
        for field in ("uid", "resourceVersion"):
            if field in asked and asked[field] != old["metadata"][field]:
                raise Conflict(f'{target.kind} "{target.name}": the object has been modified; {field} differs')
        new = changed(old, merged(old, body))
        if new == old:
            return old
        if new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] = old["metadata"]["generation"] + 1
        return self._write(new)

    def replace(self, item: KubeObject, **parts: Any) -> KubeObject:
        """A controller's own write: the stored object with those parts, unchecked; no write where nothing differs."""
        kind, namespace, name = key_of(item)
        old = self._kinds[kind][namespace, name]
        new = {**old, **parts}
        return old if new == old else self._write(new)

    def delete(self, item: KubeObject, now: int, grace_seconds: int | None = None) -> None:
        """Ask for the object's end. A pod gets its grace first; what a Job controls is deleted after it, in background.

        A later, shorter grace counts from `now` and shortens; a longer one changes nothing. As on Kubernetes, a grace of
        0 removes a pod at once, whatever it still runs; the kubelet then ends that.
        """
        if item["kind"] != "Pod":
            self._remove(item)
            return
        metadata = item["metadata"]
        own = metadata.get("deletionGracePeriodSeconds", item["spec"]["terminationGracePeriodSeconds"])
        grace = own if grace_seconds is None else max(grace_seconds, 0)
        if not item["spec"].get("nodeName") or item["status"]["phase"] in TERMINAL:
            grace = 0
        ends = whole_second(now) + grace * 1000
        already = metadata.get("deletionTimestamp")
        if grace == 0 and not metadata.get("finalizers"):
            self._remove(item)
        elif already is None or grace < metadata["deletionGracePeriodSeconds"]:
            ends = ends if already is None else min(ends, millis(already))
            self.replace(item, metadata={**metadata, "deletionTimestamp": stamp(ends), "deletionGracePeriodSeconds": grace})

    def ended(self, pod: KubeObject, now: int) -> None:
        """The kubelet's last word on a deleted pod: nothing of it runs, so it goes as soon as no finalizer holds it."""
        self.delete(pod, now, 0)

    def release(self, pod: KubeObject, finalizer: str) -> KubeObject | None:
        """Take one finalizer off; None where that let the pod go."""
        metadata = pod["metadata"]
        left = [name for name in metadata.get("finalizers") or () if name != finalizer]
        if left == (metadata.get("finalizers") or []):
            return pod
        if not left and metadata.get("deletionGracePeriodSeconds") == 0:
            self._remove(pod)
            return None
        kept = {key: value for key, value in metadata.items() if key != "finalizers"}
        return self.replace(pod, metadata=kept | ({"finalizers": left} if left else {}))

    def _at(self, target: ObjectRef) -> KubeObject:
        item = self.get(target.kind, target.namespace, target.name)
        if item is None or item["metadata"]["uid"] != target.uid:
            raise Conflict(f'{target.kind} "{target.name}" with uid {target.uid} is not there any more')
        if item["metadata"]["resourceVersion"] != target.resource_version:
            raise Conflict(f'{target.kind} "{target.name}": the object has been modified; read it again')
        return item

    def _namespaces(self) -> Collection[str]:
        return {name for _, name in self._kinds.get("Namespace", {})}

    def _write(self, item: dict[str, Any]) -> KubeObject:
        self.version += 1
        item["metadata"] = {**item["metadata"], "resourceVersion": str(self.version)}
        self._place(item)
        return item

    def _place(self, item: KubeObject) -> None:
        kind, namespace, name = key = key_of(item)
        old = self.get(kind, namespace, name)
        if old is not None and (owner := owner_of(old)):
            self._owned[owner["uid"]].pop(key, None)
        if owner := owner_of(item):
            self._owned.setdefault(owner["uid"], {})[key] = None
        self._kinds.setdefault(kind, {})[namespace, name] = item
        self._touch(item, key)

    def _remove(self, item: KubeObject) -> None:
        kind, namespace, name = key = key_of(item)
        self.version += 1
        if owner := owner_of(item):
            self._owned[owner["uid"]].pop(key, None)
            if not self._owned[owner["uid"]]:
                del self._owned[owner["uid"]]
        del self._kinds[kind][namespace, name]
        self._touch(item, key)

    def _touch(self, item: KubeObject, key: Key) -> None:
        self._sorted.pop(key[0], None)
        self._written.add(key)
        if owner := owner_of(item):
            self._written.add((owner["kind"], key[1], owner["name"]))


def _ownership(owner: KubeObject) -> dict[str, Any]:
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _new_pod_status(spec: KubeObject, now: int) -> dict[str, Any]:
    if not spec.get("schedulingGates"):
        return {"phase": "Pending"}
    gated = {
        "type": "PodScheduled",
        "status": "False",
        "lastTransitionTime": stamp(now),
        "reason": GATED,
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    }
    return {"phase": "Pending", "conditions": [gated]}
