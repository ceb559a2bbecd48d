"""One application of a branch's manifests to a region's objects, as Flux does it with `ssa: IfNotPresent` and `prune`.

Decides what is made, what is left alone and what is pruned. All or nothing: everything new is checked first, and the
first object that the API server would refuse stops the whole application, removals included. Where the manifests come
from is `sync`'s.

Invariants: an object that exists is never touched; only what this branch had made is ever pruned, in background; what
was applied is written down together with the objects.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reconciler.adapters.local.denial import Denied, subject_of
from reconciler.adapters.local.objects import Key, Objects, key_of
from reconciler.ports import KubeObject

APPLIED_FROM = "local.reconciler/applied-from"
"""Annotation on what the sync engine made: the branch."""
_PERMITTED = ("ConfigMap", "Job", "Service")
_INVENTORY = "sync-inventory"

Manifests = Mapping[str, Sequence[KubeObject]]
"""Path → the objects of that file."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """What was applied last: the commit, and the keys of its objects."""

    commit: str | None
    keys: frozenset[Key]


@dataclass(frozen=True, slots=True)
class Stopped:
    """Why nothing was applied: the first bad file, and the words for it."""

    path: str
    message: str


def read_inventory(objects: Objects, namespace: str) -> Inventory:
    """What was applied last, nothing where nothing was."""
    kept = objects.get("ConfigMap", namespace, _INVENTORY)
    if kept is None:
        return Inventory(None, frozenset())
    return Inventory(kept["data"]["commit"], frozenset((*key,) for key in json.loads(kept["data"]["objects"])))


def write_inventory(objects: Objects, namespace: str, inventory: Inventory, now: int) -> None:
    """Remember what was applied; nothing is written where nothing is new."""
    said = {"commit": inventory.commit or "", "objects": json.dumps(sorted(inventory.keys))}
    kept = objects.get("ConfigMap", namespace, _INVENTORY)
    if kept is None:
        names = {"namespace": namespace, "name": _INVENTORY}
        objects.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": names, "data": said}, now)
    else:
        objects.replace(kept, data=said)


def first_fault(objects: Objects, manifests: Manifests) -> Stopped | None:
    """What the API server would refuse first, in order of path; None where all can be applied."""
    seen: dict[Key, str] = {}
    for path, item in _all(manifests):
        fault = _fault(objects, item)
        if fault is not None:
            return Stopped(path, fault)
        key = key_of(item)
        if key in seen:
            return Stopped(path, f"{_named(item)} is in {seen[key]} as well; remove one of the two")
        seen[key] = path
    return None


def apply(objects: Objects, manifests: Manifests, before: Inventory, branch: str, now: int) -> frozenset[Key]:
    """Make what is missing and prune what the branch has no more; returns the keys that it has. Check it before."""
    keys = frozenset(key_of(item) for _, item in _all(manifests))
    for _, item in _all(manifests):
        if objects.get(*key_of(item)) is None:
            metadata = item["metadata"]
            marked = {**metadata, "annotations": {**(metadata.get("annotations") or {}), APPLIED_FROM: branch}}
            objects.create({**item, "metadata": marked}, now)
    for key in sorted(before.keys - keys):
        made = objects.get(*key)
        if made is not None and (made["metadata"].get("annotations") or {}).get(APPLIED_FROM) == branch:
            objects.delete(made, now)
    return keys


def _all(manifests: Manifests) -> Sequence[tuple[str, KubeObject]]:
    return [(path, item) for path in sorted(manifests) for item in manifests[path]]


def _named(item: KubeObject) -> str:
    subject = subject_of(item)
    return f"{subject.kind}/{subject.namespace}/{subject.name}"


def _fault(objects: Objects, item: KubeObject) -> str | None:
    """Flux's words for what is wrong with an object; nothing is wrong with one that exists, since it is not touched."""
    subject = subject_of(item)
    if subject.kind not in _PERMITTED:
        allowed = ", ".join(_PERMITTED)
        return f"{_named(item)} dry-run failed (Forbidden): a region's branch may hold {allowed} only"
    if objects.get(subject.kind, subject.namespace, subject.name) is not None:
        return None
    try:
        objects.check(item)
    except Denied as denied:
        if denied.reason == "NotFound" and str(denied).startswith("namespaces "):
            return f"{_named(item)} not found: {denied}"
        return f"{_named(item)} dry-run failed{f' ({denied.reason})' if denied.reason else ''}: {denied}"
    return None
