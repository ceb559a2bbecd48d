"""Values as YAML text, so that no value can ever become structure and every reader reads the same value.

Decides the spelling of scalars, maps and lists; the templates decide where they stand. A string is always double-quoted
and on one line, escaped as JSON does it; what YAML 1.1 or Go's reader would take for a line break or refuse, and what a
reviewer would not see, is escaped as well. So `12345e7`, `y` and `0o17` stay strings for PyYAML and for Go alike.

Invariant: reading the text back gives the value that went in.
"""

import math
import re
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any

_PLAIN_KEY = re.compile(r"[A-Za-z][A-Za-z0-9._/-]{0,200}").fullmatch
_LONGEST_KEY = 1000
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
"""Keys that a reader of YAML 1.1 takes for something other than text."""

# DEL and C1 controls (readers refuse them, NEL breaks lines), U+2028 and U+2029 (line breaks), the byte-order mark,
# U+FFFE and U+FFFF (not printable), marks without width or of direction (a reviewer cannot see them), and surrogates.
_UNSAFE = re.compile("[\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufffe\uffff\ud800-\udfff]")


class Quoted(str):
    """YAML text made here; nothing else may be put into a template."""

    __slots__ = ()


def quoted(value: Any) -> Quoted:
    """Any JSON value as YAML on one line. Raises TypeError or ValueError for what JSON has no word for."""
    return Quoted(_flow(value))


def block(value: Any, indent: int) -> Quoted:
    """Any JSON value as what follows `key:`; maps and lists one line an entry, `indent` spaces deep."""
    out: list[str] = []
    _nested(value, " " * indent, out)
    return Quoted("".join(out))


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    if 0xD800 <= code <= 0xDFFF:
        raise ValueError("half of a surrogate pair is not text and cannot be written as UTF-8")
    return f"\\u{code:04x}"


def _text(value: str) -> str:
    written = encode_basestring(value)
    return written if written.isascii() and "\x7f" not in written else _UNSAFE.sub(_escaped, written)


def _number(value: float) -> str:
    if not math.isfinite(value):
        raise ValueError(f"{value} has no word in JSON")
    written = repr(value)
    # Without a point PyYAML takes `1e+16` for a string.
    return written.replace("e", ".0e") if "e" in written and "." not in written else written


@lru_cache(maxsize=8192)
def _key(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a key must be text, not {type(value).__name__}")
    written = value if _PLAIN_KEY(value) and value.lower() not in _WORDS else _text(value)
    if len(written) > _LONGEST_KEY:
        raise ValueError("a key this long is none to YAML readers (1024 characters as written)")
    return written


def _flow(value: Any) -> str:
    # The order is that of how often they come.
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, dict):
        return "{" + ", ".join([f"{_key(key)}: {_flow(item)}" for key, item in value.items()]) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join([_flow(item) for item in value]) + "]"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return _number(value)
    raise TypeError(f"{type(value).__name__} has no word in JSON")


def _nested(value: Any, pad: str, out: list[str]) -> None:
    if value and isinstance(value, dict):
        _fields(value, pad, f"\n{pad}", out)
    elif value and isinstance(value, list | tuple):
        deeper = pad + "  "
        for item in value:
            out.append(f"\n{pad}- ")
            _entry(item, deeper, out)
    else:
        out.append(" " + _flow(value))


def _entry(value: Any, pad: str, out: list[str]) -> None:
    """What follows `- `: small maps (a variable, a mount, a toleration) on the same line, others a line a key."""
    if not value or not isinstance(value, dict) or _is_small(value):
        out.append(_flow(value))
        return
    _fields(value, pad, "", out)


def _fields(value: dict[str, Any], pad: str, lead: str, out: list[str]) -> None:
    deeper = pad + "  "
    for key, item in value.items():
        if isinstance(item, dict | list | tuple):
            out.append(f"{lead}{_key(key)}:")
            _nested(item, deeper, out)
        else:
            out.append(f"{lead}{_key(key)}: {_flow(item)}")
        lead = "\n" + pad


def _is_small(value: dict[str, Any]) -> bool:
    return len(value) <= 2 or not any(isinstance(item, dict | list | tuple) for item in value.values())
