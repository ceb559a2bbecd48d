"""What a message may show of a user's file: where a value stands, and the value itself when that is safe.

Invariant: no text that may be a secret leaves through here, none is longer than 40 characters, and none holds a control
character, so a message is one line wherever it is printed.
"""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from reconciler.adapters.credentials import has_credential, hides_value, may_be_secret
from reconciler.model.problem import Problem

Pointer = tuple[str | int, ...]
"""The way from the top of a file to a value: keys of mappings and indexes of lists, from 0."""

SHOWN_CHARACTERS: Final = 40
SHOWN_PROBLEMS: Final = 50

_HIDDEN: Final = "[…]"
_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
# `NVIDIA_VISIBLE_DEVICES_2` is long and has a digit, and is a name all the same.
_WORDS: Final = re.compile(r"[A-Za-z]+(?:[_-][A-Za-z]+)*[_-]?[0-9]{0,3}")
_KINDS: Final = {
    str: "a string", bool: "a boolean", int: "a number", float: "a number",
    list: "a list", dict: "a mapping", type(None): "nothing (null)",
}  # fmt: skip


def cut(text: str) -> str:
    """The text on one line, at most 40 characters, without anything invisible."""
    short = text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in short)


def quoted(text: str) -> str:
    """The text in double quotes, cut as `cut` does."""
    return '"' + cut(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def name_of(key: str) -> str:
    """A field's name as messages show it; a name that may be a secret is not shown."""
    return _HIDDEN if _is_secret_name(key) else cut(key)


def _is_secret_name(key: str) -> bool:
    return has_credential(key) or (may_be_secret(key) and not _WORDS.fullmatch(key))


def dotted(pointer: Sequence[str | int]) -> str:
    """A pointer as people write it: `stages[0].gpu.count`; the file itself is `the file`."""
    text = ""
    for step in pointer:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _is_secret_name(step):
            text += _HIDDEN
        elif _PLAIN_KEY.fullmatch(step) and len(step) <= SHOWN_CHARACTERS:
            text += ("." if text else "") + step
        else:
            text += f"[{quoted(step)}]"
    return text or "the file"


def is_visible(pointer: Sequence[str | int], value: Any) -> bool:
    """Whether a scalar at this place may be repeated in a message."""
    if any(isinstance(step, str) and hides_value(step) for step in pointer):
        return False
    return not may_be_secret(str(value))


def shown(pointer: Sequence[str | int], value: Any) -> str | None:
    """A scalar as a message shows it, such as `"eu"`, `8` or `true`; None where it must not be repeated."""
    if isinstance(value, (list, dict)) or not is_visible(pointer, value):
        return None
    return quoted(value) if isinstance(value, str) else cut(json.dumps(value))


def found(pointer: Sequence[str | int], value: Any) -> str:
    """What a value is, in words, with the value where it may be shown: `the number 8`, `a string`, `nothing (null)`."""
    kind = _KINDS[type(value)]
    text = None if value is None else shown(pointer, value)
    return kind if text is None else f"{kind.replace('a ', 'the ', 1)} {text}"


def capped(problems: Iterable[Problem], more: int = 0) -> list[Problem]:
    """The first 50 problems in order of position, each once; a last one counts the rest (`more`: further ones not listed)."""
    ordered = sorted(dict.fromkeys(problems), key=lambda problem: (problem.line, problem.column))
    kept, left = ordered[:SHOWN_PROBLEMS], ordered[SHOWN_PROBLEMS:]
    rest = len(left) + more
    if rest:
        at = left[0] if left else kept[-1]
        what = f"and {rest} more problem{'s' if rest > 1 else ''}"
        kept.append(Problem(at.path, at.line, at.column, "MoreProblems", what, "mend these first"))
    return kept
