"""A small schema with every kind of rule, and what the check says of a file by it."""

from typing import Any

from reconciler.adapters.schema_check import check, compile_schema
from reconciler.adapters.strict_yaml import parse

NAME = {
    "type": "string",
    "pattern": r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$(?!\n)",
    "description": "Letters, digits, `-`. More in the manual.",
    "examples": ["llm-a"],
}
SCHEMA: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "$id": "https://example.com/schemas/job.json",
    "type": "object",
    "required": ["job_id", "gpu"],
    "additionalProperties": False,
    "properties": {
        "job_id": NAME,
        "gpu": {"$ref": "#/definitions/Gpu"},
        "nodes": {"type": "integer", "minimum": 1, "maximum": 64},
        "share": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
        "step": {"type": "integer", "multipleOf": 8},
        "suspend": {"type": "boolean"},
        "mode": {"type": "string", "enum": ["sync", "async", "none"]},
        "kind": {"const": "job"},
        "retries": {"enum": [0, 1, 2, True]},
        "args": {"type": "array", "items": {"type": "string", "maxLength": 20}, "maxItems": 4},
        "env": {"type": "object", "additionalProperties": {"type": "string"}, "propertyNames": {"pattern": "^[A-Z_]+$(?!\n)"}},
        "labels": {"type": "object", "patternProperties": {"^[a-z]+$(?!\n)": {"type": "string"}}, "additionalProperties": False},
        "regions": {"type": "array", "items": NAME, "uniqueItems": True, "minItems": 1},
        "owner": {"type": "string", "minLength": 1, "maxLength": 10},
        "priority": {"anyOf": [{"type": "string", "enum": ["high", "low"]}, {"type": "integer", "minimum": 0, "maximum": 100}]},
        "dataset": {
            "anyOf": [
                {"type": "string", "pattern": "^s3://", "description": "Where it is", "examples": ["s3://b/c/"]},
                {"$ref": "#/definitions/Dataset"},
                {"type": "array", "items": {"anyOf": [{"type": "string"}, {"$ref": "#/definitions/Dataset"}]}, "maxItems": 3},
                {"type": "null"},
            ]
        },
        "volume": {
            "oneOf": [
                {
                    "type": "object",
                    "required": ["kind", "size"],
                    "properties": {"kind": {"const": "scratch"}, "size": {"type": "string"}},
                },
                {
                    "type": "object",
                    "required": ["kind", "claim"],
                    "properties": {"kind": {"const": "claim"}, "claim": {"type": "string"}},
                },
            ]
        },
        "either": {"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b", "c"]}]},
        "one": {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        "together": {"type": "object", "dependencies": {"user": ["password_ref"]}, "not": {"required": ["x", "y"]}},
        "gone": {"not": {}},
        "limits": {"type": "object", "minProperties": 1, "maxProperties": 2},
    },
    "definitions": {
        "Gpu": {
            "type": "object",
            "required": ["count"],
            "additionalProperties": False,
            "properties": {
                "count": {"type": "integer", "minimum": 1, "maximum": 1024, "description": "GPUs per node"},
                "model": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
            },
        },
        "Dataset": {
            "type": "object",
            "additionalProperties": False,
            "properties": {"name": NAME, "version": {"type": "string"}, "size_gb": {"type": "number", "minimum": 0}},
        },
    },
}
VALIDATOR = compile_schema(SCHEMA)
GOOD = "job_id: a\ngpu: {count: 1}\n"


def problems(text: str) -> list[str]:
    return [str(problem).removeprefix("a.yaml:") for problem in check(parse(text.encode(), "a.yaml"), "a.yaml", VALIDATOR)]
