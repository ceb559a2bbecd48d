"""Whole collections, page by page, each as it was at one moment.

Decides how a collection is asked for. Which ones, and in what order, is the cluster's.

Invariant: what is returned is one state of the collection, no older than the request: the first page names no resourceVersion,
which makes the API server prove that it is up to date, and the pages after it are of the first one's version or fail (410),
after which all is asked for again.
Source: Kubernetes API concepts, "Resource versions" and "Retrieving large results sets in chunks".
"""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from reconciler.adapters.kube.answers import Request
from reconciler.adapters.kube.connection import Connection
from reconciler.ports import Clock, KubeObject, Transient

_BEGINNINGS: Final = 3
"""How often a list is begun whose pages expire; an API server keeps a version for minutes, so twice is rare."""


@dataclass(frozen=True, slots=True)
class Collection:
    """All objects at a path, or those with a label. `page`: at most so many at once."""

    path: str
    page: int
    label: str = ""


@dataclass(frozen=True, slots=True)
class Until:
    """When a look that is not complete is given up, on the monotonic clock."""

    clock: Clock
    moment: float


def every(connection: Connection, wanted: Collection, until: Until) -> list[KubeObject]:
    """All objects of the collection; each names its kind as if it had been asked for alone, and `managedFields` are left out.

    (They are bookkeeping of server-side apply, half of an object's bytes, and read by nobody here.) Raises Transient or Refused.
    """
    for _ in range(_BEGINNINGS):
        found = _all_pages(connection, wanted, until)
        if found is not None:
            return found
    raise Transient(
        f"{wanted.path}: its pages expired {_BEGINNINGS} times before all were read; the API server is too slow for it"
    )


def _all_pages(connection: Connection, wanted: Collection, until: Until) -> list[KubeObject] | None:
    """None where a page had expired."""
    found: list[KubeObject] = []
    query = {"limit": str(wanted.page)}
    if wanted.label:
        query["labelSelector"] = wanted.label
    while True:
        if until.clock.monotonic() > until.moment:
            raise Transient(f"{wanted.path}: not all was read in time; {len(found)} objects were")
        answer = connection.ask(Request("GET", wanted.path, query), take=(HTTPStatus.GONE,))
        if answer.code == HTTPStatus.GONE:
            return None
        found += _items(wanted, answer.value)
        following = (answer.value.get("metadata") or {}).get("continue")
        if not following:
            return found
        query["continue"] = following


def _items(wanted: Collection, page: dict[str, Any]) -> list[KubeObject]:
    kind, version, items = (page.get(name) for name in ("kind", "apiVersion", "items"))
    if not str(kind).endswith("List") or not isinstance(items, list):
        raise Transient(f"{wanted.path}: the answer is {kind}, not a list; something else answers for the API server")
    named = {"apiVersion": version, "kind": str(kind).removesuffix("List")}
    for item in items:
        item["metadata"].pop("managedFields", None)
    return [{**named, **item} for item in items]
