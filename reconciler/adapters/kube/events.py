"""What the cluster's controllers complain of about an object: its warning Events.

Decides which of them are told, and in what order. Events are written to be read by people; they may be missing or late, and
nothing is decided by them. Source: Kubernetes API reference, "Event".
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from reconciler.adapters.kube.answers import Request
from reconciler.adapters.kube.connection import Connection
from reconciler.ports import ObjectRef

_PAGE: Final = 100
_MOMENTS: Final = ("lastTimestamp", "eventTime", "firstTimestamp")


def complaints(connection: Connection, target: ObjectRef, limit: int) -> Sequence[str]:
    """The last `limit` different warnings about that very object, newest first, as `Reason: message`. Raises like `ask`."""
    query = {"fieldSelector": f"involvedObject.uid={target.uid},type=Warning", "limit": str(_PAGE)}
    path = f"/api/v1/namespaces/{quote(target.namespace, safe='')}/events"
    found = connection.ask(Request("GET", path, query)).value.get("items") or []
    ordered = sorted(found, key=_when, reverse=True)
    return list(dict.fromkeys(_words(item) for item in ordered))[:limit]


def _when(event: Mapping[str, Any]) -> str:
    # All are UTC in one form, so that texts order as moments do.
    series = event.get("series") or {}
    return str(series.get("lastObservedTime") or next((event[name] for name in _MOMENTS if event.get(name)), ""))


def _words(event: Mapping[str, Any]) -> str:
    return ": ".join(" ".join(str(event[name]).split()) for name in ("reason", "message") if event.get(name))
