"""The published schemas: the dialect, the files, and that they say what the model says."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from reconciler.adapters.schema_check import compile_schema
from reconciler.adapters.schemas import DIALECT, KINDS, SUFFIX, as_text, published, schema_of, write_all
from tests.adapters.schema_samples import SAMPLES

PUBLISHED = Path(__file__).parents[2] / "schemas"
DRAFT_07 = {
    "$schema", "$ref", "definitions", "title", "description", "default", "examples", "type", "enum", "const",
    "properties", "patternProperties", "additionalProperties", "required", "propertyNames", "minProperties", "maxProperties",
    "items", "minItems", "maxItems", "uniqueItems", "minLength", "maxLength", "pattern", "format",
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "anyOf", "allOf", "oneOf", "not",
}  # fmt: skip
NAMED = {"properties", "patternProperties", "definitions"}


def schemas_in(node: Any, where: str = "#") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema in a schema, with where it stands."""
    if isinstance(node, list):
        for index, item in enumerate(node):
            yield from schemas_in(item, f"{where}/{index}")
    elif isinstance(node, dict):
        yield where, node
        for key, value in node.items():
            if key in NAMED:
                for name, inner in value.items():
                    yield from schemas_in(inner, f"{where}/{key}/{name}")
            elif key not in {"default", "examples", "enum", "const"}:
                yield from schemas_in(value, f"{where}/{key}")


@pytest.mark.parametrize("kind", KINDS)
def test_the_published_file_is_the_model_s(kind: str) -> None:
    assert (PUBLISHED / (kind + SUFFIX)).read_text("utf-8") == as_text(schema_of(kind)), "run `make schemas`"


def test_nothing_else_is_published() -> None:
    assert {file.name for file in PUBLISHED.iterdir()} == {kind + SUFFIX for kind in KINDS}


def test_writing_makes_all_files_and_removes_those_of_kinds_that_are_gone(tmp_path: Path) -> None:
    folder = tmp_path / "schemas"
    folder.mkdir()
    (folder / f"pod{SUFFIX}").write_text("{}")
    (folder / "README.md").write_text("kept")
    write_all(folder)
    assert {file.name for file in folder.iterdir()} == {kind + SUFFIX for kind in KINDS} | {"README.md"}
    assert json.loads((folder / f"job{SUFFIX}").read_text("utf-8")) == schema_of("job")


@pytest.mark.parametrize("kind", KINDS)
def test_the_schema_that_is_used_is_the_published_one(kind: str) -> None:
    assert published(kind) == json.loads((PUBLISHED / (kind + SUFFIX)).read_text("utf-8"))


@pytest.mark.parametrize("name", ["pod", "", "../schemas/job"])
def test_there_is_no_schema_for_another_name(name: str) -> None:
    with pytest.raises(KeyError):
        published(name)


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_draft_07_to_any_reader(kind: str) -> None:
    schema = published(kind)
    assert schema["$schema"] == DIALECT
    Draft7Validator.check_schema(schema)
    compile_schema(schema)
    for where, each in schemas_in(schema):
        assert set(each) <= DRAFT_07, where
        if "$ref" in each:
            assert set(each) == {"$ref"}, f"{where}: draft 07 ignores what stands beside a reference"
            assert each["$ref"].removeprefix("#/definitions/") in schema["definitions"], where


@pytest.mark.parametrize("kind", KINDS)
def test_every_mapping_says_which_keys_it_takes(kind: str) -> None:
    for where, each in schemas_in(published(kind)):
        if "properties" in each or "patternProperties" in each:
            assert each.get("additionalProperties") is False, where
        elif each.get("type") == "object":
            assert "additionalProperties" in each, where


@pytest.mark.parametrize("kind", KINDS)
def test_patterns_mean_the_same_to_editors(kind: str) -> None:
    """ECMA 262 has no \\A, \\Z, named groups in Python's spelling or inline flags; and an open end would let a newline in."""
    patterns = [each["pattern"] for _, each in schemas_in(published(kind)) if "pattern" in each]
    patterns += [name for _, each in schemas_in(published(kind)) for name in each.get("patternProperties", ())]
    for pattern in patterns:
        assert not re.search(r"\\[AZz]|\(\?(P|[aiLmsux]+[):-])", pattern), pattern
        assert pattern.startswith("^"), pattern
        assert pattern.endswith(r"$(?!\n)"), pattern


@pytest.mark.parametrize("kind", KINDS)
def test_defaults_and_examples_are_valid_themselves(kind: str) -> None:
    schema = published(kind)
    for where, each in schemas_in(schema):
        shown = [each["default"]] if "default" in each else []
        for value in [*shown, *each.get("examples", ())]:
            part = {**each, "definitions": schema.get("definitions", {})}
            assert list(Draft7Validator(part).iter_errors(value)) == [], where


@pytest.mark.parametrize("kind", KINDS)
def test_everything_is_described(kind: str) -> None:
    schema = published(kind)
    for name, each in {"the kind": schema, **schema.get("definitions", {})}.items():
        assert each["title"], name
        assert "enum" in each or each["description"], name


@pytest.mark.parametrize("kind", KINDS)
def test_a_rich_value_is_valid(kind: str) -> None:
    KINDS[kind].model_validate_json(json.dumps(SAMPLES[kind]))
    assert list(Draft7Validator(published(kind)).iter_errors(SAMPLES[kind])) == []
