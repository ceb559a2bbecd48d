"""What the adapters of both sync engines share: an engine's own object, read and annotated, and the weight of its words.

Decides which words speak against an object itself, and which only say that somebody did not answer, or that a quota is full: an
attempt is taken back for the first, never for the others. What an object's status says is flux_status.py's and argocd_status.py's
to read.

Invariant: an error that speaks against one object or file has that in its key; every other has the engine's object there, so that
no job is held to be refused for what is not its own.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from reconciler.adapters.kube.answers import MERGE_PATCH, Request
from reconciler.adapters.kube.connection import Connection
from reconciler.ports import Conflict, KubeObject, Refused, Transient

WORKLOADS: Final = frozenset({("batch", "Job"), ("jobset.x-k8s.io", "JobSet")})
"""Group and kind of what runs; an attempt's other objects bear the same name and come and go with it."""

_BOOTSTRAP: Final = "apply what `reconciler bootstrap` prints for this region"
_OF_THE_MOMENT: Final = frozenset(
    {
        "Conflict",
        "Expired",
        "InternalError",
        "ServerTimeout",
        "ServiceUnavailable",
        "StorageReadError",
        "Timeout",
        "TooManyRequests",
        "Unauthorized",
    }
)
"""Reasons of an API server that say nothing of the object. Source: k8s.io/apimachinery, metav1.StatusReason."""
_NO_ANSWER: Final = re.compile(
    # A request of Go's client that failed is told as `Patch "https://…": why`, whatever the why. Source: net/url, Error.
    r"\b(?:Get|Head|Post|Put|Patch|Delete) \"?https?://"
    r"|deadline exceeded|context canceled|request canceled|timed out|i/o timeout|time allotted|Bad Gateway|Gateway Time-?out"
    r"|connection (?:refused|reset|closed)|closed (?:network )?connection|broken pipe|\bEOF\b|dial tcp|no route to host"
    r"|network is unreachable|no such host|server misbehaving|\btls: |TLS handshake|\bx509: |\bhttp2: |GOAWAY|stream error"
    r"|connection lost|transport is closing|code = (?:Unavailable|DeadlineExceeded)|etcdserver|leader changed|rate limiter"
    r"|too many requests|failed calling webhook|no endpoints available|Internal error occurred|unable to handle the request"
    r"|service unavailable|object has been modified|asked for the client to provide credentials|(?:^|: )Unauthorized$",
    re.IGNORECASE,
)
_QUOTA: Final = re.compile(r"\bis forbidden: (?:exceeded quota|status unknown for quota)\b")
"""A quota that is full, or not counted yet. Source: Kubernetes, plugin/pkg/admission/resourcequota."""
_QUOTING: Final = '" is invalid: '
"""What stands after this is about the object's fields, and may be words of its own. Source: k8s.io/apimachinery, NewInvalid."""


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
        answer = connection.ask(Request("PATCH", place.path, body=body, content=MERGE_PATCH), take=(HTTPStatus.NOT_FOUND,))
    except Conflict as error:  # others wrote it again and again meanwhile
        raise Transient(str(error)) from error
    if answer.code == HTTPStatus.NOT_FOUND:
        raise Refused(f"{place.kind} {place.name} is not in namespace {place.namespace}; {_BOOTSTRAP}")


def is_verdict(message: str, reason: str = "") -> bool:
    """Whether words of an API server, with its reason where it is known, speak against the object that was sent.

    A quota's refusal does not: there will be room in it again, so no job is kept out of the region for it.
    """
    if is_of_quota(message):
        return False
    return reason not in _OF_THE_MOMENT if reason else _NO_ANSWER.search(message.partition(_QUOTING)[0]) is None


def is_of_quota(message: str) -> bool:
    """Whether it is a quota of the namespace that has no room for the object."""
    return _QUOTA.search(message.partition(_QUOTING)[0]) is not None


def one_line(message: str) -> str:
    """The message without line breaks: engines write lists of what they did below what went wrong."""
    return " ".join(message.split())
