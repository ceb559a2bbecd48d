"""One field of a YAML or JSON file set or taken out, and nothing else of the file changed.

A text has many places where a field may stand, and many where a line may be added. Each is tried, and that one is taken after
which the file says just what it said before, with the field changed: so the text's syntax need not be understood here.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final

from reconciler.commands.ends import BadInput
from reconciler.model.problem import Invalid

_FIRST: Final = re.compile(rb"\{\s*")
_ANCHOR: Final = re.compile(rb"^(?:\xef\xbb\xbf)?(?:job_id|name):[^\r\n]*(\r\n|\r|\n)", re.MULTILINE)
_VALUE: Final = rb"""("[^"\r\n]*"|'[^'\r\n]*'|[^\s,}#"'][^\s,}#]*)(?=$|[\s,}#])"""


def with_field(body: bytes, path: str, name: str, value: str, says: Callable[[bytes], bool]) -> bytes:
    """The text with the field at that value, as YAML and JSON both write it. `says`: whether a text says what is wanted; it may
    raise Invalid. Raises BadInput where no place can be found for it.
    """
    return _first(_set(body, path, name.encode(), value.encode()), says, f"{name}: {value}", path)


def without_field(body: bytes, path: str, name: str, default: str, says: Callable[[bytes], bool]) -> bytes:
    """The text without the field, or with its default. The same otherwise."""
    return _first(_unset(body, name.encode(), default.encode()), says, f"{name}: {default}", path)


def _first(candidates: Iterator[bytes], says: Callable[[bytes], bool], line: str, path: str) -> bytes:
    for text in candidates:
        try:
            if says(text):
                return text
        except Invalid:
            continue
    raise BadInput(f"no place for `{line}` was found in {path}", "write that into it by hand, and commit it")


def _standing(name: bytes) -> re.Pattern[bytes]:
    return re.compile(
        rb"""((?:^(?:\xef\xbb\xbf)?|[\s,{])(["']?)""" + re.escape(name) + rb"""\2[ \t]*:\s*)""" + _VALUE, re.MULTILINE
    )


def _set(body: bytes, path: str, name: bytes, value: bytes) -> Iterator[bytes]:
    for match in _standing(name).finditer(body):
        yield body[: match.start(3)] + value + body[match.end(3) :]
    line_end = b"\r\n" if b"\r\n" in body else b"\n"
    yield body + (b"" if body.endswith((b"\n", b"\r")) else line_end) + name + b": " + value + line_end
    for match in _ANCHOR.finditer(body):
        yield body[: match.end()] + name + b": " + value + match[1] + body[match.end() :]
    key = b'"' + name + b'": ' if path.endswith(".json") else name + b": "
    for match in _FIRST.finditer(body):
        yield body[: match.end()] + key + value + b", " + body[match.end() :]


def _unset(body: bytes, name: bytes, default: bytes) -> Iterator[bytes]:
    for match in re.finditer(rb"^" + re.escape(name) + rb":[^\r\n]*(\r\n|\r|\n|\Z)", body, re.MULTILINE):
        yield body[: match.start()] + body[match.end() :]
    for match in _standing(name).finditer(body):
        yield body[: match.start(3)] + default + body[match.end(3) :]
