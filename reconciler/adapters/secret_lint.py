"""Finds credentials that stand in a file where a reference belongs: what is in Git is read by many and never forgotten.

Decides by the known shapes of tokens anywhere in the file (comments too), and by a variable, flag or assignment whose name
holds a secret and whose value is written out. What a credential looks like is left to `credentials`.
Invariant: no problem repeats the credential. Texts that are no credentials (paths, digests, references) are let through.
Source: published example jobs that put `HF_TOKEN` in `env` and `wandb login <key>` in `args`.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate, islice, pairwise
from typing import Any, Final

from reconciler.adapters.credentials import credentials_in, is_secret_assignment, may_hold_assignment, may_hold_credential
from reconciler.adapters.showing import Pointer, capped, dotted
from reconciler.adapters.strict_yaml import Document
from reconciler.model.problem import Problem

CODE: Final = "CredentialInFile"
_TODO: Final = "use `secrets:`, a reference the region resolves; what was pushed is known to others, so have it withdrawn"
_FINDINGS_OF_A_TEXT: Final = 100
_FLAG: Final = re.compile(r"--?[A-Za-z][A-Za-z0-9_-]*")
_VALUE: Final = r"""["']?([^\s"'`;&<>]{8,500})"""
# As they stand in arguments, scripts and small files: `NAME=value`, `name: value`, `"name": "value"`, `--flag value`.
_ASSIGNMENTS: Final = (
    re.compile(r"""\b([A-Za-z][\w.-]{1,100})["']?[ \t]{0,3}[=:][ \t]{0,3}""" + _VALUE),
    re.compile(r"(?<![\w-])--?([A-Za-z][\w-]{1,100})[ \t]+" + _VALUE),
)


@dataclass(frozen=True, slots=True)
class _Finding:
    """A credential and the value that it stands in."""

    pointer: Pointer
    kind: str
    secret: str


def find_credentials(document: Document, path: str) -> list[Problem]:
    """A problem for each credential in the file, in order of position, capped as all problems are; [] for none.

    `path` names the file. The position is that of the credential itself, in comments and text blocks too; where it was
    written with escapes, that of its value.
    """
    # Only an escape can hide from a look at the whole text what its values hold.
    shapes = "\\" in document.text or may_hold_credential(document.text)
    findings = list(_in_value(document.value, (), _in_text if shapes else _assignments))
    known = {finding.secret for finding in findings}
    starts = [0, *accumulate(len(line) + 1 for line in document.text.split("\n"))]
    problems = [
        Problem(
            path, *_position(document, starts, finding), CODE, f"{dotted(finding.pointer)}: {finding.kind} is written out", _TODO
        )
        for finding in findings
    ]
    for kind, offset, secret in credentials_in(document.text):
        if secret not in known:
            what = f"{kind} is written out in a comment or a name"
            problems.append(Problem(path, *_line_and_column(starts, offset), CODE, what, _TODO))
    return capped(problems)


def _position(document: Document, starts: list[int], finding: _Finding) -> tuple[int, int]:
    line, column = document.position(finding.pointer)
    offset = document.text.find(finding.secret, starts[line - 1] + column - 1)
    return (line, column) if offset < 0 else _line_and_column(starts, offset)


def _line_and_column(starts: list[int], offset: int) -> tuple[int, int]:
    line = bisect_right(starts, offset)
    return line, offset - starts[line - 1] + 1


_Look = Callable[[str], Iterator[tuple[str, str]]]
"""Finds kinds and texts of credentials in one string."""


def _in_value(value: Any, at: Pointer, look: _Look) -> Iterator[_Finding]:
    """The credentials of a value and of all below it, each once for each value."""
    if isinstance(value, str):
        yield from _once(at, islice(look(value), _FINDINGS_OF_A_TEXT))
    elif isinstance(value, dict):
        yield from _in_mapping(value, at, look)
    elif isinstance(value, list):
        yield from _in_list(value, at, look)


def _once(at: Pointer, found: Iterator[tuple[str, str]]) -> Iterator[_Finding]:
    told: list[str] = []
    for kind, secret in found:
        if not any(secret in other or other in secret for other in told):
            told.append(secret)
            yield _Finding(at, kind, secret)


def _in_text(text: str) -> Iterator[tuple[str, str]]:
    for kind, _, secret in credentials_in(text):
        yield kind, secret
    yield from _assignments(text)


def _assignments(text: str) -> Iterator[tuple[str, str]]:
    if not may_hold_assignment(text):
        return
    for pattern in _ASSIGNMENTS:
        for name, value in pattern.findall(text):
            # Code assigns calls and other names to `password`; a secret written out has a digit and no brackets.
            if re.search(r"[0-9]", value) and not re.search(r"[(\[{]", value) and is_secret_assignment(name, value):
                yield "a secret", value


def _in_mapping(fields: dict[str, Any], at: Pointer, look: _Look) -> Iterator[_Finding]:
    for name, value in fields.items():
        inside = list(_in_value(value, (*at, name), look))
        yield from inside
        if not inside and isinstance(value, str) and is_secret_assignment(_variable(fields, name), value):
            yield _Finding((*at, name), "a secret", value)


def _variable(fields: dict[str, Any], name: str) -> str:
    """The variable that a field gives a value to: itself, or in Kubernetes' form `{name: …, value: …}` the one named."""
    variable = fields.get("name") if name == "value" else None
    return variable if isinstance(variable, str) else name


def _in_list(items: list[Any], at: Pointer, look: _Look) -> Iterator[_Finding]:
    found: set[str] = set()
    for index, item in enumerate(items):
        for finding in _in_value(item, (*at, index), look):
            found.add(finding.secret)
            yield finding
    words = [(index, item) for index, item in enumerate(items) if isinstance(item, str)]
    for (_, flag), (index, value) in pairwise(words):
        if value not in found and _FLAG.fullmatch(flag) and is_secret_assignment(flag.lstrip("-"), value):
            found.add(value)
            yield _Finding((*at, index), "a secret", value)
    # A command is one word after the other: [wandb, login, <key>].
    for kind, secret in look(" ".join(word for _, word in words)):
        holders = [] if secret in found else [index for index, word in words if secret in word]
        if holders:
            yield _Finding((*at, holders[0]), kind, secret)
