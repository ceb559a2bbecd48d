"""Problems as others read them: people, programs, GitHub's workflow log, code scanning (SARIF 2.1.0).

Decides the spelling only; which problems there are, and what they say, is settled before. Positions count characters
from 1; 0 is left out where the format has a word for "the file as a whole".

Invariant: a path or text never breaks out of its place (a file name with a line end cannot forge a second message).
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from types import MappingProxyType
from typing import Any, Literal
from urllib.parse import quote

from reconciler.model.problem import Problem

Format = Literal["text", "json", "github", "sarif"]

_SARIF = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def formatted(problems: Iterable[Problem], form: Format) -> str:
    """All problems in one form, in order of path and position. Ends with a line end unless it is empty."""
    return _FORMS[form](sorted(problems))


def _text(problems: list[Problem]) -> str:
    return "".join(f"{_one_line(str(problem))}\n" for problem in problems)


def _json(problems: list[Problem]) -> str:
    # ASCII, because a path may hold bytes that no encoder of the reader's takes.
    return json.dumps([asdict(problem) for problem in problems], indent=2) + "\n"


def _github(problems: list[Problem]) -> str:
    """Workflow commands; the log shows 10 a step as annotations and keeps all (actions/toolkit#734)."""
    return "".join(f"{_command(problem)}\n" for problem in problems)


def _command(problem: Problem) -> str:
    where = {"file": _one_line(problem.path), "line": problem.line, "col": problem.column, "title": problem.code}
    properties = ",".join(f"{name}={_property(str(value))}" for name, value in where.items() if value)
    return f"::error {properties}::{_message(_one_line(f'{problem.what}; {problem.todo}'))}"


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")


def _sarif(problems: list[Problem]) -> str:
    codes = sorted({problem.code for problem in problems})
    driver = {"name": "reconciler", "rules": [{"id": code} for code in codes]}
    results = [_result(problem, codes.index(problem.code)) for problem in problems]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": _SARIF, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _result(problem: Problem, rule: int) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": _artifact(problem.path)}
    if problem.line:
        physical["region"] = {"startLine": problem.line} | ({"startColumn": problem.column} if problem.column else {})
    return {
        "ruleId": problem.code,
        "ruleIndex": rule,
        "level": "error",
        "message": {"text": _one_line(f"{problem.what}; {problem.todo}")},
        "locations": [{"physicalLocation": physical}],
    }


def _artifact(path: str) -> dict[str, str]:
    uri = quote(path.encode("utf-8", "surrogateescape"))
    return {"uri": f"file://{uri}"} if path.startswith("/") else {"uri": uri, "uriBaseId": "%SRCROOT%"}


def _one_line(text: str) -> str:
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in text)


_FORMS: Mapping[Format, Callable[[list[Problem]], str]] = MappingProxyType(
    {"text": _text, "json": _json, "github": _github, "sarif": _sarif}
)
