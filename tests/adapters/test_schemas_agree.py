"""What the model accepts its schema accepts, and back, apart from rules between fields: tried on broken-up values."""

import copy
import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from jsonschema.protocols import Validator
from pydantic import ValidationError

from reconciler.adapters.schema_check import compile_schema
from reconciler.adapters.schemas import KINDS, published
from tests.adapters.schema_samples import SAMPLES
from tests.adapters.test_schemas import schemas_in
from tests.examples import examples

TRICKY = [
    "",
    " ",
    "a",
    "A",
    "-",
    "a-",
    "a b",
    "a/b",
    "a\n",
    "é",
    "٣",
    "x" * 63,
    "x" * 64,
    "x" * 129,
    "x" * 1025,
    "0",
    "1",
    "8Gi",
    "8gi",
    "1e3",
    "s3://b/k",
    "s3://b/k\n",
    "ftp://b/k",
    "/",
    "/a:b",
    "job",
    "none",
    "normal",
    "2026-05-01T12:00:00Z",
    "2026-13-45T00:00:00Z",
    "137",
    "256",
    "True",
    "null",
    "a.b/c",
    "a@b",
    "http://x",
    "https://x/y",
    "Exists",
    "{}",
]
TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, -1, 2, 8, 255, 256, 1000, 1001, 4096, 4097, 10**6, 10**9 + 1, 2**53, 2**62]),
    st.sampled_from([0.0, 1.0, 8.0, -0.5, 0.5, 1.5, 1e9, 1e12]),
    st.sampled_from(TRICKY),
    TEXT,
)
JUNK = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(TRICKY), inner, max_size=3)
)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at] + [place for key, child in inner for place in places(child, (*at, key))]


@st.composite
def broken_up(draw: st.DrawFn, kind: str) -> Any:
    """A valid value with up to three things changed: something replaced, removed, added, doubled, or put elsewhere."""
    value = copy.deepcopy(SAMPLES[kind])
    for _ in range(draw(st.integers(0, 3))):
        *above, last = draw(st.sampled_from(places(value)[1:]))
        holder = value
        for step in above:
            holder = holder[step]
        change = draw(st.sampled_from(["replace", "replace", "remove", "move", "add", "double"]))
        if change == "remove":
            del holder[last]
        elif change == "move":
            other: Any = value
            for step in draw(st.sampled_from(places(value))):
                other = other[step]
            holder[last] = copy.deepcopy(other)
        elif change == "double" and isinstance(holder, list):
            holder.extend([copy.deepcopy(holder[last])] * draw(st.sampled_from([1, 40, 300])))
        elif change == "add" and isinstance(holder, dict):
            holder[draw(st.sampled_from(TRICKY) | st.sampled_from(sorted(holder)) | TEXT)] = draw(JUNK)
        else:
            holder[last] = draw(JUNK)
        assume(len(places(value)) > 1)
    return value


@cache
def validator(kind: str) -> Validator:
    return compile_schema(published(kind))


def limits(kind: str, *words: str) -> set[int]:
    """The whole numbers that a schema gives for these keywords."""
    return {int(each[word]) for _, each in schemas_in(published(kind)) for word in words if word in each}


def neighbours(kind: str, value: Any) -> Iterator[Any]:
    """Values of the same type about every limit that the schema names, and some of other types."""
    yield from (None, True, 0, 8.0, "", [], {}, ["a"], {"a": 1})
    if isinstance(value, int | float):
        for limit in limits(kind, "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
            yield from (limit - 1, limit, limit + 1, limit + 0.5)
    elif isinstance(value, str):
        yield from TRICKY
        yield from (value + end for end in ("\n", " ", "/", "x"))
        for limit in limits(kind, "maxLength", "minLength"):
            yield from ("é" * (limit + more) for more in (0, 1))
    elif isinstance(value, list) and value:
        for limit in limits(kind, "maxItems", "minItems"):
            yield from (value[-1:] * (limit + more) for more in (0, 1))
    elif isinstance(value, dict) and value:
        some = next(iter(value.values()))
        yield from ({**value, name: some} for name in TRICKY)
        yield from ({key: inner for key, inner in value.items() if key != left_out} for left_out in value)
        for limit in limits(kind, "maxProperties"):
            yield from ({f"a{number}": some for number in range(limit + more)} for more in (0, 1))


def replaced(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    if not place:
        return new
    step, *rest = place
    inner = replaced(value[step], tuple(rest), new)
    if isinstance(value, dict):
        return {**value, step: inner}
    return [inner if index == step else old for index, old in enumerate(value)]


def disagreement(kind: str, value: Any) -> str | None:
    """How the two differ on a value; None where they agree."""
    fault = next(iter(validator(kind).iter_errors(value)), None)
    try:
        KINDS[kind].model_validate_json(json.dumps(value))
    except ValidationError as error:
        kinds = {detail["type"] for detail in error.errors()}
        # A rule between fields, and a date that is none: draft 07 can say neither.
        if fault is None and not kinds & {"value_error", "datetime_from_date_parsing", "datetime_parsing"}:
            return f"only the model refuses it: {error}"
        return None
    if fault is None or (fault.validator == "const" and fault.instance == fault.validator_value):
        return None  # pydantic takes `true` for the literal 1, as Python does
    return f"only the schema refuses it: {fault.message}"


LARGE = {"job", "record"}


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=[pytest.mark.slow] if kind in LARGE else []) for kind in KINDS])
def test_they_agree_about_every_limit(kind: str) -> None:
    tried = 0
    for place in places(SAMPLES[kind]):
        old = SAMPLES[kind]
        for step in place:
            old = old[step]
        for new in neighbours(kind, old):
            tried += 1
            told = disagreement(kind, replaced(SAMPLES[kind], place, new))
            assert told is None, f"{place} = {str(new)[:80]!r}: {told}"
    assert tried > 50


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_they_agree_on_what_is_broken_in_several_places(kind: str, data: st.DataObject) -> None:
    assert disagreement(kind, data.draw(broken_up(kind))) is None
