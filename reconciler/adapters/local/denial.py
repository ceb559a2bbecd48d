"""How a region's API server says no: in the words of a kube-apiserver, for the agent and the sync engine read them.

Decides the wording and the reason; what is refused stands in the modules of rules.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reconciler.ports import KubeObject, Refused

_RESOURCE = {"Job": "Job.batch"}


class Denied(Refused):
    """A write that the API server refuses. `reason` is the API's word for it; '' for a value of the wrong type."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Subject:
    """The object that is being checked, as its messages name it."""

    kind: str
    namespace: str
    name: str


def subject_of(body: KubeObject) -> Subject:
    """The object's names, whatever else is wrong with it."""
    metadata = body.get("metadata")
    fields = metadata if isinstance(metadata, Mapping) else {}
    return Subject(str(body.get("kind", "")), str(fields.get("namespace", "")), str(fields.get("name", "")))


def invalid(subject: Subject, path: str, what: str) -> Denied:
    """A value that is not allowed."""
    resource = _RESOURCE.get(subject.kind, subject.kind)
    return Denied("Invalid", f'{resource} "{subject.name}" is invalid: {path}: {what}')


def not_offered(subject: Subject, path: str, why: str) -> Denied:
    """A value that Kubernetes takes and a local region does not; running without it would be another job."""
    return invalid(subject, path, f"Forbidden: a local region does not offer it: {why}")


def mistyped(subject: Subject, path: str, wanted: str, value: Any) -> Denied:
    """A value of the wrong JSON type."""
    where = f"{subject.namespace}/{subject.name}; {'batch/v1' if subject.kind == 'Job' else 'v1'}, Kind={subject.kind}"
    got = {str: "string", bool: "bool", int: "int", float: "float", type(None): "null"}.get(type(value), "object")
    return Denied("", f"failed to create typed patch object ({where}): .{path}: expected {wanted}, got {got}")


def expect_text(subject: Subject, path: str, value: Any) -> str:
    """The value, if it is a string."""
    if not isinstance(value, str):
        raise mistyped(subject, path, "string", value)
    return value


def expect_map(subject: Subject, path: str, value: Any) -> Mapping[str, Any]:
    """The value, if it is a map; an empty one for null, as the API reads it."""
    if value is not None and not isinstance(value, Mapping):
        raise mistyped(subject, path, "map", value)
    return value or {}


def expect_list(subject: Subject, path: str, value: Any) -> list[Any]:
    """The value, if it is a list; an empty one for null, as the API reads it."""
    if value is not None and not isinstance(value, list | tuple):
        raise mistyped(subject, path, "list", value)
    return list(value or ())


def expect_number(subject: Subject, path: str, value: Any) -> int:
    """The value, if it is a whole number."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise mistyped(subject, path, "numeric (int or float)", value)
    return value
