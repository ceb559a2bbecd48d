"""What the adapters of both sync engines share: an engine's own object, read and annotated, and the weight of its words.

Decides which words speak against an object itself, and which only say that somebody did not answer: a job is ended for the
first, never for the second. What an object's status says is flux_status.py's and argocd_status.py's to read.

Invariant: an error that speaks against one object or file has that in its key; every other has the engine's object there, so that
no job is held to be refused for what is not its own.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from reconciler.adapters.kube.answers import Request
from reconciler.adapters.kube.connection import Connection
from reconciler.ports import Conflict, KubeObject, Refused, Transient

WORKLOADS: Final = frozenset({("batch", "Job"), ("jobset.x-k8s.io", "JobSet")})
"""Group and kind of what runs; an attempt's other objects bear the same name and come and go with it."""

_MERGE: Final = "application/merge-patch+json"
_BOOTSTRAP: Final = "apply what `reconciler bootstrap` prints for this region"
_OF_THE_MOMENT: Final = frozenset(
    {"Conflict", "Expired", "InternalError", "ServerTimeout", "ServiceUnavailable", "Timeout", "TooManyRequests", "Unauthorized"}
)
"""Reasons of an API server that say nothing of the object. Source: k8s.io/apimachinery, metav1.StatusReason."""
_NO_ANSWER: Final = re.compile(
    r"deadline exceeded|context canceled|connection re(?:fused|set)|dial tcp|\bEOF\b|i/o timeout|timed out|TLS handshake"
    r"|no such host|etcdserver|rate limiter|too many requests|failed calling webhook|Internal error occurred"
    r"|unable to handle the request|object has been modified|leader changed",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where an engine's object is: `root` and `plural` as in the API's paths."""

    kind: str
    root: str
    plural: str
    namespace: str
    name: str

    @property
    def path(self) -> str:
        """Its path, quoted."""
        return f"{self.root}/namespaces/{quote(self.namespace, safe='')}/{self.plural}/{quote(self.name, safe='')}"

    @property
    def key(self) -> str:
        """The key of errors that are about this object, or about nothing in particular."""
        return f"{self.kind}/{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Missing:
    """There is no such object; `words` say what is missing and what to do."""

    words: str


Found = KubeObject | Missing


def look_at(connection: Connection, place: Place) -> Found:
    """The object, or that it is missing. Raises Transient or Refused."""
    try:
        answer = connection.ask(Request("GET", place.path), take=(HTTPStatus.NOT_FOUND,))
    except Conflict as error:  # no answer to a read; whatever it means, the next look shows it
        raise Transient(str(error)) from error
    if answer.code != HTTPStatus.NOT_FOUND:
        found: KubeObject = answer.value
        return found
    if _names_an_object(answer.value):
        return Missing(f"{place.kind} {place.name} is not in namespace {place.namespace}; {_BOOTSTRAP}")
    return Missing(f"the cluster knows no {place.kind} ({place.root.removeprefix('/apis/')}); install the engine")


def _names_an_object(status: Any) -> bool:
    details = status.get("details") if isinstance(status, Mapping) else None
    return bool((details or {}).get("name"))


def annotate(connection: Connection, place: Place, annotations: Mapping[str, str]) -> None:
    """Set annotations, whatever else has changed. Raises Transient or Refused."""
    body = {"metadata": {"annotations": dict(annotations)}}
    try:
        answer = connection.ask(Request("PATCH", place.path, body=body, content=_MERGE), take=(HTTPStatus.NOT_FOUND,))
    except Conflict as error:  # others wrote it again and again meanwhile
        raise Transient(str(error)) from error
    if answer.code == HTTPStatus.NOT_FOUND:
        raise Refused(f"{place.kind} {place.name} is not in namespace {place.namespace}; {_BOOTSTRAP}")


def is_verdict(message: str, reason: str = "") -> bool:
    """Whether words of an API server, or its reason where it is known, speak against the object that was sent."""
    return reason not in _OF_THE_MOMENT if reason else _NO_ANSWER.search(message) is None


def one_line(message: str) -> str:
    """The message without line breaks: engines write lists of what they did below what went wrong."""
    return " ".join(message.split())
