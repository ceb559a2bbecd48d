"""Problems in the forms that others read."""

import json
import re
from typing import Any

import pytest
from jsonschema import Draft7Validator

from reconciler.adapters.problem_formats import formatted
from reconciler.model.problem import Problem

PLAIN = Problem("jobs/nlp/a.yaml", 17, 9, "TooLarge", "gpu.count: 2000 is above 1024", "ask for fewer")
WHOLE_FILE = Problem("jobs/nlp/b.yaml", 0, 0, "EmptyFile", "the file holds nothing", "write it, or remove the file")
HOSTILE = Problem("jobs/nlp/a,b:c%\n::error file=x::forged\udcff.yaml", 3, 1, "BadName", "100% wrong:\r\n::error::x", "rename it")
UNICODE = Problem("jobs/nlp/é 漢.yaml", 2, 4, "UnknownField", "gpu.größe: no such field", "remove it")

SARIF_PARTS = {
    "type": "object",
    "required": ["version", "runs"],
    "additionalProperties": False,
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"const": "2.1.0"},
        "runs": {"type": "array", "minItems": 1, "maxItems": 1, "items": {"$ref": "#/definitions/run"}},
    },
    "definitions": {
        "run": {
            "type": "object",
            "required": ["tool", "results"],
            "additionalProperties": False,
            "properties": {
                "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                "tool": {
                    "required": ["driver"],
                    "additionalProperties": False,
                    "properties": {"driver": {"$ref": "#/definitions/driver"}},
                },
                "results": {"type": "array", "items": {"$ref": "#/definitions/result"}},
            },
        },
        "driver": {
            "required": ["name"],
            "additionalProperties": False,
            "properties": {
                "name": {"type": "string"},
                "rules": {
                    "type": "array",
                    "uniqueItems": True,
                    "items": {
                        "required": ["id"],
                        "additionalProperties": False,
                        "properties": {"id": {"type": "string", "pattern": "^[A-Z][A-Za-z]+$"}},
                    },
                },
            },
        },
        "result": {
            "required": ["message", "ruleId", "ruleIndex", "level", "locations"],
            "additionalProperties": False,
            "properties": {
                "ruleId": {"type": "string"},
                "ruleIndex": {"type": "integer", "minimum": 0},
                "level": {"enum": ["none", "note", "warning", "error"]},
                "message": {"required": ["text"], "additionalProperties": False, "properties": {"text": {"type": "string"}}},
                "locations": {"type": "array", "items": {"$ref": "#/definitions/location"}},
            },
        },
        "location": {
            "required": ["physicalLocation"],
            "additionalProperties": False,
            "properties": {
                "physicalLocation": {
                    "required": ["artifactLocation"],
                    "additionalProperties": False,
                    "properties": {
                        "artifactLocation": {
                            "required": ["uri"],
                            "additionalProperties": False,
                            "properties": {
                                "uri": {"type": "string", "pattern": r"^[A-Za-z0-9._~%/:-]+$"},
                                "uriBaseId": {"type": "string"},
                            },
                        },
                        "region": {
                            "required": ["startLine"],
                            "additionalProperties": False,
                            "properties": {
                                "startLine": {"type": "integer", "minimum": 1},
                                "startColumn": {"type": "integer", "minimum": 1},
                            },
                        },
                    },
                },
            },
        },
    },
}
"""The part of the SARIF 2.1.0 schema that we write, with its required fields and limits."""


def sarif(*problems: Problem) -> Any:
    log = json.loads(formatted(problems, "sarif"))
    Draft7Validator(SARIF_PARTS).validate(log)
    return log


def test_text_is_one_line_a_problem_in_order_of_position() -> None:
    earlier = Problem("jobs/nlp/a.yaml", 2, 1, "UnknownField", "gpus: no such field", "did you mean `gpu`")
    assert formatted([WHOLE_FILE, PLAIN, earlier], "text") == (
        "jobs/nlp/a.yaml:2:1: UnknownField: gpus: no such field; did you mean `gpu`\n"
        "jobs/nlp/a.yaml:17:9: TooLarge: gpu.count: 2000 is above 1024; ask for fewer\n"
        "jobs/nlp/b.yaml:0:0: EmptyFile: the file holds nothing; write it, or remove the file\n"
    )


def test_json_holds_every_field_and_any_path() -> None:
    read = json.loads(formatted([PLAIN, HOSTILE], "json"))
    assert [Problem(**item) for item in read] == [HOSTILE, PLAIN]
    assert read[1] == {
        "path": "jobs/nlp/a.yaml",
        "line": 17,
        "column": 9,
        "code": "TooLarge",
        "what": "gpu.count: 2000 is above 1024",
        "todo": "ask for fewer",
    }


GITHUB = {
    "with a position": (
        PLAIN,
        "::error file=jobs/nlp/a.yaml,line=17,col=9,title=TooLarge::gpu.count: 2000 is above 1024; ask for fewer",
    ),
    "of the file as a whole": (
        WHOLE_FILE,
        "::error file=jobs/nlp/b.yaml,title=EmptyFile::the file holds nothing; write it, or remove the file",
    ),
    "with names in any script": (
        UNICODE,
        "::error file=jobs/nlp/é 漢.yaml,line=2,col=4,title=UnknownField::gpu.größe: no such field; remove it",
    ),
}


@pytest.mark.parametrize("case", GITHUB)
def test_github_command(case: str) -> None:
    problem, command = GITHUB[case]
    assert formatted([problem], "github") == command + "\n"


@pytest.mark.parametrize("form", ["text", "github"])
def test_a_hostile_name_cannot_forge_a_message(form: Any) -> None:
    lines = formatted([HOSTILE], form).splitlines()
    assert len(lines) == 1
    lines[0].encode("utf-8")
    if form == "github":
        properties = re.fullmatch(r"::error (.*?)::(.*)", lines[0])
        assert properties is not None
        assert [part.partition("=")[0] for part in properties[1].split(",")] == ["file", "line", "col", "title"]
        assert "a%2Cb%3Ac%25" in properties[1]
        assert properties[2].startswith("100%25 wrong:")


def test_sarif_names_rules_and_places() -> None:
    run = sarif(PLAIN, UNICODE, WHOLE_FILE)["runs"][0]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert rules == ["EmptyFile", "TooLarge", "UnknownField"]
    assert [rules[result["ruleIndex"]] for result in run["results"]] == [result["ruleId"] for result in run["results"]]
    places = [result["locations"][0]["physicalLocation"] for result in run["results"]]
    assert places[0] == {
        "artifactLocation": {"uri": "jobs/nlp/a.yaml", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 17, "startColumn": 9},
    }
    assert places[1] == {"artifactLocation": {"uri": "jobs/nlp/b.yaml", "uriBaseId": "%SRCROOT%"}}
    assert places[2]["artifactLocation"]["uri"] == "jobs/nlp/%C3%A9%20%E6%BC%A2.yaml"


SARIF_PATHS = {
    "a line end and a byte that is no UTF-8": (
        HOSTILE.path,
        "jobs/nlp/a%2Cb%3Ac%25%0A%3A%3Aerror%20file%3Dx%3A%3Aforged%FF.yaml",
        True,
    ),
    "an absolute path": ("/tmp/jobs/a b.yaml", "file:///tmp/jobs/a%20b.yaml", False),
    "a name that looks like a scheme": ("c:x.yaml", "c%3Ax.yaml", True),
}


@pytest.mark.parametrize("case", SARIF_PATHS)
def test_sarif_path(case: str) -> None:
    path, uri, relative = SARIF_PATHS[case]
    found = sarif(Problem(path, 1, 1, "BadName", "x", "y"))["runs"][0]["results"][0]["locations"][0]
    assert found["physicalLocation"]["artifactLocation"] == {"uri": uri} | ({"uriBaseId": "%SRCROOT%"} if relative else {})


def test_no_problems_is_a_valid_empty_answer_in_every_form() -> None:
    assert formatted([], "text") == ""
    assert formatted([], "github") == ""
    assert json.loads(formatted([], "json")) == []
    assert sarif()["runs"][0]["results"] == []
