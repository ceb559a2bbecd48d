"""What an API server's answer means to the caller, in the errors of the ports.

Decides by the HTTP code and by what the `Status` object says; which codes a call takes as an answer is the call's to say.
Invariant: no answer of a server becomes any other error than Conflict, Transient or Refused.
Source: Kubernetes API conventions, "HTTP status codes" and "Response status kind".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

from reconciler.ports import Conflict, Refused, Transient

MERGE_PATCH: Final = "application/merge-patch+json"
"""Content of a patch that sets fields, whatever else has changed. Source: RFC 7396."""
_LONGEST_WORDS: Final = 600
_TRY_LATER: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})
_VERBS: Final = {"GET": "get or list", "POST": "create", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True, slots=True)
class Request:
    """One request. `body` is sent as JSON; `path` is the API's, already quoted."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    content: str = "application/json"

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that the caller takes: its HTTP code, and its JSON (a `Status` where it is no success)."""

    code: int
    value: Any


def failure(request: Request, code: int, value: Any) -> Conflict | Transient | Refused:
    """The error for an answer that the caller does not take."""
    words = f"{request}: {code}, {said(value)}"
    if code in _TRY_LATER or code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Transient(words)
    if code in {HTTPStatus.CONFLICT, HTTPStatus.GONE}:
        return Conflict(words)
    return Refused(f"{words}; {_what_to_do(request, code)}")


def said(value: Any) -> str:
    """The message of a `Status`, in one line of bounded length."""
    message = value.get("message") if isinstance(value, Mapping) else value
    words = " ".join(str(message or "no reason given").split())
    return words if len(words) <= _LONGEST_WORDS else words[: _LONGEST_WORDS - 1] + "…"


def blames(value: Any, name: str) -> bool:
    """Whether a `Status` names that field as a cause."""
    details = value.get("details") if isinstance(value, Mapping) else None
    causes = (details or {}).get("causes") or ()
    return any(cause.get("field") == name for cause in causes)


def _what_to_do(request: Request, code: int) -> str:
    match code:
        case HTTPStatus.UNAUTHORIZED:
            return "the API server does not know who we are: renew the token or client certificate"
        case HTTPStatus.FORBIDDEN:
            verb = _VERBS.get(request.method, request.method)
            return f"if it is a right that is missing, allow {verb} there in the role of the agent's account"
        case HTTPStatus.NOT_FOUND:
            return "create the namespace, or install the kind, that it names"
        case HTTPStatus.UNPROCESSABLE_ENTITY:
            return "the API server holds the change to be invalid: compare its version with those that are supported"
        case _ if code < HTTPStatus.BAD_REQUEST:
            return "the address answers with a redirection: name the API server itself"
        case _:
            return "the API server does not take such a request: check that the address is a Kubernetes API"
