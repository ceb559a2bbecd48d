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
from reconciler.adapters.kube.slim import slim
from reconciler.ports import Clock, KubeObject, Transient

_BEGINNINGS: Final = 3
"""How often a list is begun whose pages expire; an API server keeps a version for minutes, so twice is rare."""


@dataclass(frozen=True, slots=True)
class Collection:
    """All objects of a kind at a path, or those that a label selector finds."""

    kind: str
    path: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Until:
    """How a look goes on: at most `page` objects at once, and given up at that moment of the monotonic clock."""

    clock: Clock
    moment: float
    page: int


@dataclass(frozen=True, slots=True)
class Found:
    """A collection's objects, slim, and the version of the whole, from which it can be watched."""

    items: list[KubeObject]
    version: str


def every(connection: Connection, wanted: Collection, until: Until) -> Found:
    """All objects of the collection. Raises Transient or Refused."""
    for _ in range(_BEGINNINGS):
        found = _all_pages(connection, wanted, until)
        if found is not None:
            return found
    raise Transient(
        f"{wanted.path}: its pages expired {_BEGINNINGS} times before all were read; the API server is too slow for it"
    )


def _all_pages(connection: Connection, wanted: Collection, until: Until) -> Found | None:
    """None where a page had expired."""
    found: list[KubeObject] = []
    query = {"limit": str(until.page)}
    if wanted.label:
        query["labelSelector"] = wanted.label
    while True:
        if until.clock.monotonic() > until.moment:
            raise Transient(f"{wanted.path}: not all was read in time; {len(found)} objects were")
        answer = connection.ask(Request("GET", wanted.path, query), take=(HTTPStatus.GONE,))
        if answer.code == HTTPStatus.GONE:
            return None
        found += _items(wanted, answer.value)
        metadata = answer.value.get("metadata") or {}
        following = metadata.get("continue")
        if not following:
            return Found(found, str(metadata.get("resourceVersion") or ""))
        query["continue"] = following


def _items(wanted: Collection, page: dict[str, Any]) -> list[KubeObject]:
    kind, items = page.get("kind"), page.get("items")
    if kind != f"{wanted.kind}List" or not isinstance(items, list):
        raise Transient(f"{wanted.path}: the answer is {kind}, not a list; something else answers for the API server")
    return [slim(wanted.kind, item) for item in items]
