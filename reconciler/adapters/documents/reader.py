"""Bytes in, a typed value or all problems out.

Decides the order at the door. What the model accepts its schema accepts too, so the schema, which takes ten times as long,
is asked only about files that the model refuses: it finds all faults at once and tells them apart. Where it finds none,
the fault is in the rules between fields, which the model alone knows. What each of them refuses is theirs.

Invariant: for any bytes there is a value that the model accepts or Invalid with at least one problem; no message and no
cause of an error repeats a value that may be a secret.
"""

import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from reconciler.adapters.schemas import KINDS, SUFFIX, published
from reconciler.adapters.secret_lint import find_credentials
from reconciler.adapters.showing import Pointer, capped, dotted
from reconciler.adapters.strict_yaml import Document, parse
from reconciler.model.base import Model
from reconciler.model.job import JobSpec
from reconciler.model.problem import Invalid, Problem

if TYPE_CHECKING:
    from reconciler.adapters.schema_check import Validator

M = TypeVar("M", bound=Model)

_NAMED = re.compile(r"`([^`]+)`")


def read_job(body: bytes, path: str) -> JobSpec:
    """A job's spec from its file. Raises Invalid with every problem of the file."""
    return read_config(JobSpec, body, path)


def read_config(kind: type[M], body: bytes, path: str) -> M:
    """A value of any kind that has a published schema (`Region`, `Policy`, `Placement` …) from its file. Raises Invalid."""
    document = parse(body, path)
    problems = find_credentials(document, path)
    try:
        # By way of JSON: only there does a strict model take a string for a time or for an enum's member.
        value = kind.model_validate_json(json.dumps(document.value))
    except ValidationError as error:
        problems += _schema_problems(document, path, kind) or list(_refusals(error, document, path, kind))
    else:
        if not problems:
            return value
    raise Invalid(capped(problems))


def locate(body: bytes, path: str, pointer: Sequence[str | int]) -> tuple[int, int]:
    """Line and column, from 1, of the value at `pointer` in a file that was read before, or of what comes nearest above."""
    return _position(parse(body, path), pointer)


@cache
def _validator(kind: type[Model]) -> "Validator":
    from reconciler.adapters.schema_check import compile_schema

    return compile_schema(published(_name(kind)))


def _schema_problems(document: Document, path: str, kind: type[Model]) -> list[Problem]:
    # The schema's machinery takes longer to import than a sound repository to read, and only a refused file needs it.
    from reconciler.adapters.schema_check import check

    return check(document, path, _validator(kind))


def _name(kind: type[Model]) -> str:
    return next(name for name, model in KINDS.items() if model is kind)


def _refusals(error: ValidationError, document: Document, path: str, kind: type[Model]) -> Iterator[Problem]:
    """What the model refuses although the schema does not: the rules between fields."""
    details = error.errors(include_url=False, include_input=False)
    # Of a union each branch complains; once a rule has spoken, the others only say that theirs is another shape.
    rules = [detail for detail in details if detail["type"] == "value_error"]
    for detail in rules or details:
        at = _within(document.value, detail["loc"])
        said = str(detail["ctx"]["error"]) if rules else detail["msg"]
        line, column = _position(document, _place_meant(document.value, at, said))
        todo = f"change one of these fields; schemas/{_name(kind)}{SUFFIX} describes them"
        yield Problem(path, line, column, "RuleBroken", f"{dotted(at)}: {said}" if at else said, todo)


def _within(value: Any, location: Sequence[str | int]) -> Pointer:
    """The steps of the model's location that the document has too; the others name branches of unions."""
    pointer: list[str | int] = []
    for step in location:
        if step in (value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()):
            value = value[step]
            pointer.append(step)
    return tuple(pointer)


def _place_meant(value: Any, at: Pointer, message: str) -> Pointer:
    """The place below `at` that the message's first quoted word names: a field, else the last name or text that equals it."""
    for step in at:
        value = value[step]
    for quoted in _NAMED.findall(message):
        field = quoted.partition(":")[0]
        if isinstance(value, dict) and field in value:
            return (*at, field)
        places = [place for place, word in _words(value, at) if word == quoted]
        if places:
            return places[-1]
    return at


def _words(value: Any, at: Pointer) -> Iterator[tuple[Pointer, str]]:
    """Every name and text below a place, with where it stands, in the order of the file."""
    if isinstance(value, str):
        yield at, value
    elif isinstance(value, dict):
        for key, child in value.items():
            yield (*at, key), key
            yield from _words(child, (*at, key))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _words(child, (*at, index))


def _position(document: Document, pointer: Sequence[str | int]) -> tuple[int, int]:
    for end in range(len(pointer), 0, -1):
        try:
            return document.position(pointer[:end], key=isinstance(pointer[end - 1], str))
        except LookupError:
            continue
    return document.position(())
