"""The schema check: which schemas it takes, and that it agrees with jsonschema itself on what is valid."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator
from jsonschema.exceptions import SchemaError

from reconciler.adapters.schema_check import check, compile_schema
from reconciler.adapters.schema_words import CODES
from reconciler.adapters.secret_lint import find_credentials
from reconciler.adapters.strict_yaml import parse
from tests.adapters.schema_check_sample import SCHEMA, VALIDATOR
from tests.examples import examples

NOT_OURS: dict[str, tuple[dict[str, Any], str]] = {
    "a reference to another file": ({"$ref": "other.json#/x"}, "leads out of the schema"),
    "a reference to the network": ({"properties": {"a": {"$ref": "https://example.com/x.json"}}}, "leads out of the schema"),
    "a reference to nowhere": ({"properties": {"a": {"$ref": "#/definitions/X"}}}, "leads nowhere"),
    "another draft": ({"$schema": "https://json-schema.org/draft/2020-12/schema"}, "not for draft 07"),
    "a field that is false": ({"properties": {"a": False}}, "loses the place"),
    "a keyword of a later draft": ({"properties": {"a": {"prefixItems": [True]}}}, "prefixItems"),
}


@pytest.mark.parametrize(("schema", "words"), NOT_OURS.values(), ids=NOT_OURS.keys())
def test_a_schema_that_cannot_be_checked_in_full_is_refused(schema: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        compile_schema(schema)


def test_a_schema_that_is_none_is_refused() -> None:
    with pytest.raises(SchemaError):
        compile_schema({"type": "text"})


def test_a_property_may_be_called_like_a_keyword() -> None:
    validator = compile_schema({"properties": {name: {"type": "string"} for name in ("$ref", "prefixItems", "enum")}})
    assert check(parse(b"$ref: x\nprefixItems: z\n", "a.yaml"), "a.yaml", validator) == []


VALUES = st.sampled_from(
    [0, 1, 8, 16, 64, 65, 0.5, 1.0, 1.5, -1, True, False, None, "", "a", "b", "A", "a\n", "sync", "high", "job", "claim",
     "scratch", "s3://b/", "x" * 21, [], ["a"], ["a", "a"], ["a", 1], [1, 1], [{"name": "d"}],
     [{"nme": "d"}], ["a"] * 5, {}, {"a": 1},
     {"a": 1, "b": 2}, {"b": 1, "c": 1}, {"count": 1}, {"count": 0}, {"count": 1, "model": ["x"]}, {"name": "d"}, {"A": "x"},
     {"a": "x"}, {"kind": "claim", "claim": "c"}, {"kind": "scratch"}, {"kind": "scratch", "size": "1", "claim": "c"},
     {"user": 1}, {"user": 1, "password_ref": 1}, {"x": 1, "y": 2}, {"a": 1, "b": 2, "c": 3}]
)  # fmt: skip
FILES = st.fixed_dictionaries({"job_id": st.just("a") | VALUES, "gpu": st.just({"count": 1}) | VALUES}).flatmap(
    lambda base: st.dictionaries(st.sampled_from([*SCHEMA["properties"], "zz"]), VALUES, max_size=4).map(lambda more: more | base)
)


def has_a_whole_float(value: Any) -> bool:
    """1.0 is an integer to draft 07, and none to us."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (isinstance(value, float) and value.is_integer()) or any(map(has_a_whole_float, inner))


@given(value=(FILES | VALUES).filter(lambda value: not has_a_whole_float(value)))
@settings(max_examples=examples(600), deadline=None)
def test_no_problems_means_valid_to_jsonschema_itself_and_the_other_way_round(value: Any) -> None:
    told = check(parse(json.dumps(value).encode(), "a.json"), "a.json", VALIDATOR)
    assert (told == []) == Draft7Validator(SCHEMA).is_valid(value)
    assert {problem.code for problem in told} <= CODES
    assert len(set(told)) == len(told)


TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc", "Cf", "Zl", "Zp"]), max_size=20)
ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from([*SCHEMA["properties"], "count"]) | TEXTS, inner),
    max_leaves=15,
)


@given(value=ANY)
@settings(max_examples=examples(300), deadline=None)
def test_any_document_is_checked_and_every_problem_is_one_line(value: Any) -> None:
    document = parse(json.dumps(value).encode(), "a.json")
    for problem in [*check(document, "a.json", VALIDATOR), *find_credentials(document, "a.json")]:
        assert str(problem).isprintable()
        assert (problem.line, 1) <= (1, problem.column) <= (1, len(document.text))
