"""What Flux says of a region's branch, read from the status of its GitRepository and its Kustomization. Pure.

Decides which commit is applied, which workloads that commit holds, and what each message is about. Flux applies all objects or
none and names the first that it cannot apply, so there is one error of an object at a time (fluxcd/kustomize-controller#1168).

Sources: fluxcd/pkg ssa/errors (DryRunErr), kustomize-controller's internal/controller and internal/inventory, 1.9.6.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from reconciler.adapters.kube.engines import WORKLOADS, Found, Missing, Place, is_verdict, one_line
from reconciler.ports import KubeObject, SyncState

_OF_OBJECT: Final = re.compile(
    r"(?P<object>[A-Za-z]\w*/(?:[^/\s]+/)?\S+) "
    r"(?:dry-run failed(?: \((?P<reason>\w+)\))?|apply failed|not found|namespace not specified): (?P<words>.*)"
)
_OF_FILE: Final = re.compile(r"/(?P<path>manifests/[^:\s]+\.(?:ya?ml|json))(?=[:\s]|$)")
_COMMIT: Final = re.compile(r"(?:sha1:|sha256:|/|^)(?P<commit>[0-9a-f]{40}(?:[0-9a-f]{24})?)$")
_BUILD_FAILED: Final = "BuildFailed"


def state_of(source: tuple[Place, Found], kustomization: tuple[Place, Found]) -> SyncState:
    """The region's sync state, by both objects or by what is missing of them."""
    errors: dict[str, str] = {}
    for place, found in (source, kustomization):
        errors |= _standing(place, found)
    place, applied = kustomization
    if isinstance(applied, Missing):
        return SyncState(None, errors, frozenset())
    refused = _not_ready(applied)
    if refused is not None:
        errors |= _about(place, *refused)
    status = applied.get("status") or {}
    return SyncState(commit_of(str(status.get("lastAppliedRevision") or "")), errors, _workloads(status))


def commit_of(revision: str) -> str | None:
    """The commit of a revision such as `region/eu@sha1:…`; None where it names none."""
    found = _COMMIT.search(revision)
    return found["commit"] if found is not None else None


def _standing(place: Place, found: Found) -> Mapping[str, str]:
    """What keeps the object from being worked on at all."""
    if isinstance(found, Missing):
        return {place.key: found.words}
    if (found.get("spec") or {}).get("suspend"):
        kind = "source git" if place.kind == "GitRepository" else place.kind.lower()
        return {place.key: f"it is suspended; `flux resume {kind} {place.name} -n {place.namespace}` lets it go on"}
    refused = _not_ready(found) if place.kind == "GitRepository" else None
    return {place.key: f"{refused[0]}: {refused[1]}"} if refused is not None else {}


def _not_ready(found: KubeObject) -> tuple[str, str] | None:
    """Reason and message of a `Ready` condition that is False."""
    for condition in (found.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "Ready" and condition.get("status") == "False":
            return str(condition.get("reason") or ""), str(condition.get("message") or "")
    return None


def _about(place: Place, reason: str, message: str) -> Mapping[str, str]:
    """The error under the object or file that it speaks against, else under the Kustomization."""
    first = message.strip().partition("\n")[0]
    named = _OF_OBJECT.fullmatch(first)
    if named is not None and is_verdict(named["words"], named["reason"] or ""):
        return {named["object"]: first}
    words = one_line(message)
    file = _OF_FILE.search(words) if reason == _BUILD_FAILED else None
    if file is not None:
        return {file["path"]: words}
    return {place.key: f"{reason}: {words}"}


def _workloads(status: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    entries = (status.get("inventory") or {}).get("entries") or ()
    found = (_parts(str(entry.get("id") or "")) for entry in entries)
    return frozenset((namespace, name) for namespace, name, group, kind in found if (group, kind) in WORKLOADS)


def _parts(entry: str) -> tuple[str, str, str, str]:
    """Namespace, name, group and kind of `<namespace>_<name>_<group>_<kind>`; only names of roles have more `_` in them."""
    front, _, kind = entry.rpartition("_")
    front, _, group = front.rpartition("_")
    namespace, _, name = front.partition("_")
    return namespace, name, group, kind
