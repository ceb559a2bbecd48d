"""What an unquoted YAML value means: null, true, false, a number or a string, as YAML 1.2's core schema says.

YAML 1.1 readers (PyYAML, and in part the Go reader inside Kubernetes) read some of these texts as other things: `no` as
false, `12:30` as 750, `0755` as 493, a date as a date. A file is read by more than one of them, so such a text is a
`Trap`: refused, with the reading it would get elsewhere and what to write in its place.
Invariant: whatever is not a trap means the same to every reader.
Sources: yaml.org/spec/1.2.2 chapter 10.3.2, yaml.org/type (1.1); yaml/pyyaml#165, huggingface/huggingface_hub#797.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Trap:
    """A text that readers disagree about. `kind` says what some make of it without repeating it, `reading` in full."""

    kind: str
    reading: str
    instead: str = ""
    """What to write where that reading is wanted; '' where there is no such thing."""


Plain = str | int | float | bool | None

_WORDS: Final[dict[str, Plain]] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_YES: Final = frozenset({"y", "Y", "yes", "Yes", "YES", "on", "On", "ON"})
_NO: Final = frozenset({"n", "N", "no", "No", "NO", "off", "Off", "OFF"})
_FIRST: Final = frozenset("0123456789+-.=<")
_INT64: Final = 2**63

_INT: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT: Final = re.compile(r"(?:[-+]?(?:0|[1-9][0-9]*)\.[0-9]*|\.[0-9]+)(?:[eE][-+][0-9]+)?")
_JSON_FLOAT: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_SIGNED_POINT: Final = re.compile(r"[-+]\.[0-9]+(?:[eE][-+]?[0-9]+)?")
_EXPONENT: Final = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)[eE][-+]?[0-9]+")
_RADIX: Final = re.compile(r"[-+]?0(?:[xX][0-9a-fA-F_]+|[oO][0-7_]+|[bB][01_]+)")
_LEADING_ZERO: Final = re.compile(r"[-+]?0[0-9_]+(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]+)?")
_UNDERSCORE: Final = re.compile(r"[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9_]+)?")
_BASE_60: Final = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
_DATE: Final = re.compile(
    r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
    r"(?:(?:[Tt]|[ \t]+)[0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(?:\.[0-9]*)?(?:[ \t]*(?:Z|[-+][0-9]{1,2}(?::?[0-9]{2})?))?)?"
)
_INFINITE: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF|nan|NaN|NAN)")


def plain_value(text: str, *, json: bool = False) -> Plain | Trap:
    """The meaning of an unquoted text. In a JSON file `1e3` is a number to everybody, so there it is not a trap."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in _FIRST:
        return _number(text, json)
    if text in _YES or text in _NO:
        word = "true" if text in _YES else "false"
        return Trap("a boolean", f"the boolean {word}", word)
    return text


def _number(text: str, json: bool) -> Plain | Trap:
    if _INT.fullmatch(text):
        # The length comes first: Python refuses to convert some thousands of digits.
        whole = int(text) if len(text) <= 20 else _INT64
        return whole if -_INT64 <= whole < _INT64 else _same("a rounded number (it has more than 64 bits)")
    if _FLOAT.fullmatch(text) or (json and _JSON_FLOAT.fullmatch(text)):
        number = float(text)
        return number if math.isfinite(number) else _same("infinity (it is too large for a number)")
    for pattern, trap in _TRAPS:
        if pattern.fullmatch(text):
            return trap(text)
    return text


def _same(reading: str) -> Trap:
    return Trap(reading, reading)


def _exponent(text: str) -> Trap:
    instead = _decimal(float(text))
    return Trap("a number", f"the number {instead}" if instead else "a number", instead)


def _decimal(number: float) -> str:
    """A number without an exponent; '' where that would be long or not exact."""
    if not math.isfinite(number) or abs(number) >= 1e15:
        return ""
    written = f"{number:.0f}" if number == round(number) else f"{number:.12f}".rstrip("0")
    return written if float(written) == number else ""


def _radix(text: str) -> Trap:
    kind = "a hexadecimal, octal or binary number"
    digits = text.replace("_", "").lower()
    if not 3 <= len(digits.lstrip("+-")) <= 18:
        return _same(kind)
    number = str(int(digits, 0))
    return Trap(kind, f"the number {number}", number)


def _leading_zero(text: str) -> Trap:
    digits = text.replace("_", "")
    if len(digits) > 20 or not digits.lstrip("+-").isdigit() or set(digits) & {"8", "9"}:
        return _same("a number without its leading zero")
    return Trap("a number in base 8", f"the number {int(digits, 8)} (base 8)")


def _underscore(text: str) -> Trap:
    instead = text.replace("_", "")
    return Trap("a number", f"the number {instead}", instead)


def _base_60(text: str) -> Trap:
    parts = text.lstrip("+-").replace("_", "").partition(".")[0].split(":")
    if len(parts) > 4 or len(parts[0]) > 9:
        return _same("a number in base 60")
    number = 0
    for part in parts:
        number = number * 60 + int(part)
    return Trap("a number in base 60", f"the number {number} (base 60)")


_TRAPS: Final[tuple[tuple[re.Pattern[str], Callable[[str], Trap]], ...]] = (
    (_RADIX, _radix),
    (_LEADING_ZERO, _leading_zero),
    (_SIGNED_POINT, lambda text: Trap("a number", "a number", text.replace(".", "0."))),
    (_EXPONENT, _exponent),
    (_UNDERSCORE, _underscore),
    (_BASE_60, _base_60),
    (_DATE, lambda _: _same("a date")),
    (_INFINITE, lambda _: _same("infinity or not-a-number")),
    (re.compile("="), lambda _: _same("the default key of YAML 1.1")),
    (re.compile("<<"), lambda _: _same("a merge key")),
)
