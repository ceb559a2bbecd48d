"""What Argo CD says of a region's branch, read from the status of its Application. Pure.

Decides which commit is applied whole, which workloads it holds, and what each message is about. Unlike Flux, Argo CD applies what
it can and names every object that it could not, so the commit counts as applied only where nothing differs any more.

Sources: argo-cd v3.6 pkg/apis/application/v1alpha1 (ApplicationStatus), gitops-engine pkg/sync and pkg/sync/common.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from reconciler.adapters.kube.engines import WORKLOADS, Found, Missing, Place, is_verdict, one_line
from reconciler.ports import SyncState

_OF_FILE: Final = re.compile(r'[Ff]ailed to (?:unmarshal|read|load)[^"]{0,40}"(?P<name>[^"]+\.(?:ya?ml|json))"')
_SYNCED: Final = "Synced"
_BROKEN: Final = frozenset({"Failed", "Error"})


def state_of(place: Place, found: Found) -> SyncState:
    """The region's sync state, by its Application or by that it is missing."""
    if isinstance(found, Missing):
        return SyncState(None, {place.key: found.words}, frozenset())
    status = found.get("status") or {}
    applied = _applied(status)
    return SyncState(applied, _errors(place, status), _workloads(status, applied))


def _is_synced(status: Mapping[str, Any]) -> bool:
    return (status.get("sync") or {}).get("status") == _SYNCED


def _applied(status: Mapping[str, Any]) -> str | None:
    """The last commit that the cluster was seen to match, or that was synced whole: a sync of parts leaves no history."""
    if _is_synced(status):
        return (status.get("sync") or {}).get("revision") or None
    history = status.get("history") or ()
    return (history[-1].get("revision") or None) if history else None


def _workloads(status: Mapping[str, Any], applied: str | None) -> frozenset[tuple[str, str]]:
    """Where another commit than the one applied was compared, also what that no longer has: the one applied may have it."""
    same = applied is not None and (status.get("sync") or {}).get("revision") == applied
    return frozenset(
        (str(one.get("namespace") or ""), str(one.get("name") or ""))
        for one in status.get("resources") or ()
        if (one.get("group") or "", one.get("kind")) in WORKLOADS and not (same and one.get("requiresPruning"))
    )


def _errors(place: Place, status: Mapping[str, Any]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for condition in status.get("conditions") or ():
        if str(condition.get("type") or "").endswith("Error"):
            key, words = _of_condition(place, condition)
            found[key] = f"{found[key]}; {words}" if key in found else words
    if not _is_synced(status):
        objects = dict(_of_objects(place, status))
        found |= objects
        operation = status.get("operationState") or {}
        if operation.get("phase") in _BROKEN and not objects and place.key not in found:
            found[place.key] = f"{operation['phase']}: {one_line(str(operation.get('message') or ''))}"
    return found


def _of_condition(place: Place, condition: Mapping[str, Any]) -> tuple[str, str]:
    """The error of a condition, under the file that it names, else under the Application."""
    words = one_line(str(condition.get("message") or ""))
    file = _OF_FILE.search(words)
    # Without its folder, as Argo CD names it; the name of an attempt is never given twice.
    return (file["name"].rpartition("/")[2], words) if file is not None else (place.key, f"{condition['type']}: {words}")


def _of_objects(place: Place, status: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """What the last operation could not apply and the branch still wants."""
    result = (status.get("operationState") or {}).get("syncResult") or {}
    wanted = {_identity(one) for one in status.get("resources") or () if not one.get("requiresPruning")}
    for one in result.get("resources") or ():
        # An operation's result stays after its file has left. Where nothing could be compared, nothing is known of that.
        still = not wanted or _identity(one) in wanted
        if one.get("status") == "SyncFailed" and still:
            message = one_line(str(one.get("message") or ""))
            key = f"{one.get('kind')}/{one.get('namespace') or ''}/{one.get('name')}"
            yield (key, message) if is_verdict(message) else (place.key, f"{key}: {message}")


def _identity(one: Mapping[str, Any]) -> tuple[str, str, str, str]:
    group, kind, namespace, name = (str(one.get(word) or "") for word in ("group", "kind", "namespace", "name"))
    return group, kind, namespace, name
