"""The agent's record: one ConfigMap in its own namespace, replaced by compare-and-swap.

Decides where it stands and how a lost comparison shows; what is in it is the agent's. Invariant: a write succeeds only on the
version that its writer had read, and on an object that exists exactly where one was read.
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from reconciler.adapters.kube.answers import MERGE_PATCH, Answer, Request
from reconciler.adapters.kube.connection import Connection
from reconciler.model.names import LABEL_MANAGED, MANAGED_BY
from reconciler.ports import Conflict, Stored

_FIELD = "record"


@dataclass(frozen=True, slots=True)
class Place:
    """The ConfigMap's namespace and name."""

    namespace: str
    name: str

    @property
    def collection(self) -> str:
        """Path of the namespace's ConfigMaps."""
        return f"/api/v1/namespaces/{quote(self.namespace, safe='')}/configmaps"

    @property
    def path(self) -> str:
        """Path of this one."""
        return f"{self.collection}/{quote(self.name, safe='')}"


def read(connection: Connection, place: Place) -> Stored | None:
    """The record, from the API server itself. One that somebody has emptied reads as no bytes. Raises Transient or Refused."""
    answer = connection.ask(Request("GET", place.path), take=(HTTPStatus.NOT_FOUND,))
    if answer.code == HTTPStatus.NOT_FOUND:
        return None
    return Stored(_bytes_of(answer.value), _version(answer))


def write(connection: Connection, place: Place, body: bytes, expect: str | None) -> str:
    """Replace the record, or create it where `expect` is None; returns the version. Raises Conflict, Transient or Refused."""
    written = {"binaryData": {_FIELD: base64.b64encode(body).decode()}}
    if expect is None:
        metadata = {"namespace": place.namespace, "name": place.name, "labels": {LABEL_MANAGED: MANAGED_BY}}
        made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **written}
        return _version(connection.ask(Request("POST", place.collection, body=made)))
    patch = {"metadata": {"resourceVersion": expect}, **written}
    request = Request("PATCH", place.path, body=patch, content=MERGE_PATCH)
    answer = connection.ask(request, take=(HTTPStatus.NOT_FOUND,))
    if answer.code == HTTPStatus.NOT_FOUND:
        raise Conflict(f"{request}: the agent's record is not there any more")
    return _version(answer)


def _version(answer: Answer) -> str:
    return str(answer.value["metadata"]["resourceVersion"])


def _bytes_of(item: Mapping[str, Any]) -> bytes:
    try:
        return base64.b64decode((item.get("binaryData") or {}).get(_FIELD) or "")
    except binascii.Error:
        return b""
