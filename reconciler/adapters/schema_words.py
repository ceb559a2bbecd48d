"""Words for the faults that `schema_check` finds: a code, what is wrong, what to do, and the line and column.

Decides the code (a closed set, `CODES`) and the advice, which comes from the schema's own descriptions, examples, ranges
and lists of values, and from what the writer most likely meant.
Invariant: a value is repeated only as `showing` allows it; jsonschema's own messages, which repeat whole values, never.
"""

import difflib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from reconciler.adapters.showing import Pointer, cut, dotted, found, is_visible, name_of, quoted, shown
from reconciler.adapters.strict_yaml import Document
from reconciler.model.problem import Problem

MANY: Final = 12
"""How many names or values are listed in one message."""

_TYPES: Final = {
    "string": "a string", "integer": "a whole number", "number": "a number", "boolean": "true or false",
    "array": "a list", "object": "a mapping", "null": "nothing",
}  # fmt: skip
_LOOSE: Final = re.compile(r"[-_ .]")


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that a schema refuses. `pointer` leads to the value, or to the mapping that lacks a field.

    `keyword` is JSON Schema's, `limit` what the schema says for it (for `required`: the missing name); `const` is told as
    an `enum` of one, `type` always as a list. `false`: the schema allows nothing here. `requiredAny`: one of these groups
    of names is missing.
    """

    pointer: Pointer
    keyword: str
    limit: Any
    instance: Any
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Words:
    code: str
    what: str
    todo: str
    at_key: bool = False


def problem_of(fault: Fault, document: Document, path: str) -> Problem:
    """The fault as people read it. `path` names the file."""
    words = _WORDS.get(fault.keyword, _other)(fault, document)
    line, column = document.position(fault.pointer, key=words.at_key)
    what = f"{dotted(fault.pointer)}: {words.what}"
    return Problem(path, line, column, words.code, what, words.todo)


# ---- fields -------------------------------------------------------------------------------------------------------


def _unknown(fault: Fault, _: Document) -> _Words:
    name = str(fault.pointer[-1])
    known = list(fault.schema.get("properties", ()))
    if patterns := fault.schema.get("patternProperties"):
        rule = next(iter(patterns.values()))
        return _Words("BadPattern", "the name does not have the right form", _form(rule, "give it another name"), at_key=True)
    before, colon, _rest = name.partition(":")
    if colon and before in known:
        return _Words("UnknownField", "there is no such field", "put a space after the `:`", at_key=True)
    if name != name.strip() and name.strip() in known:
        return _Words(
            "UnknownField", "there is no such field", "remove the space around it (it may be a no-break space)", at_key=True
        )
    near = nearest(name, known)
    listed = f"known here: {_listed(sorted(known))}" if known else "remove it"
    todo = f"did you mean `{near}`?" if near is not None else listed
    return _Words("UnknownField", "there is no such field", todo, at_key=True)


def _missing(fault: Fault, _: Document) -> _Words:
    rule = fault.schema.get("properties", {}).get(fault.limit, {})
    return _Words("MissingField", f"`{fault.limit}` is missing", _form(rule, f"add `{fault.limit}: …`"))


def _missing_any(fault: Fault, _: Document) -> _Words:
    groups = [" and ".join(f"`{name}`" for name in group) for group in fault.limit]
    return _Words("MissingField", f"one of these is missing: {', '.join(groups)}", "add one of them")


def _dependency(fault: Fault, _: Document) -> _Words:
    for name, needed in fault.limit.items():
        lacking = [each for each in needed if each not in fault.instance] if isinstance(needed, list) else []
        if name in fault.instance and lacking:
            return _Words("MissingField", f"`{name}` needs {_listed(lacking, '`')} as well", "add what is missing, or remove it")
    return _other(fault, _)


def _bad_name(fault: Fault, _: Document) -> _Words:
    return _Words("BadPattern", "the name does not have the right form", _form(fault.schema, "give it another name"), at_key=True)


def _nothing_allowed(_: Fault, __: Document) -> _Words:
    return _Words("NotAllowed", "this is not allowed here", "remove it", at_key=True)


# ---- values -------------------------------------------------------------------------------------------------------


def _wrong_type(fault: Fault, document: Document) -> _Words:
    types = [name for name in fault.limit if name != "null"] or ["null"]
    what = f"{_types(types)} is needed, found {found(fault.pointer, fault.instance)}"
    return _Words("WrongType", what, _conversion(fault, set(types), document.written(fault.pointer)))


def _types(names: Iterable[str]) -> str:
    *first, last = dict.fromkeys(_TYPES[name] for name in names)
    return f"{', '.join(first)} or {last}" if first else last


def _conversion(fault: Fault, types: set[str], written: str | None) -> str:
    """How the value that was found becomes one of the wanted types."""
    value, pointer = fault.instance, fault.pointer
    if value is None:
        return _form(fault.schema, "give a value, or remove the line")
    if "string" in types and isinstance(value, (bool, int, float)):
        text = written if written is not None else str(value)
        return f"put it in quotes: {quoted(text)}" if is_visible(pointer, text) else "put it in quotes"
    if isinstance(value, str):
        return _from_string(value, pointer, types)
    if types <= {"integer"} and isinstance(value, float):
        return f"write {int(value)}" if value == int(value) else "write a whole number"
    if "array" in types and not isinstance(value, (dict, list)):
        return "write it as a list, in [ ]"
    if isinstance(value, list):
        return "give one value, not a list" if "object" not in types else "write `name: value`, without `-`"
    return _form(fault.schema, f"write {_types(sorted(types))}")


def _from_string(value: str, pointer: Pointer, types: set[str]) -> str:
    if (types & {"integer", "number"} and re.fullmatch(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?", value)) or (
        "boolean" in types and value in {"true", "false"}
    ):
        return "remove the quotes"
    if "array" in types:
        text = shown(pointer, value)
        return f"write it as a list: [{text}]" if text else "write it as a list, in [ ]"
    if "object" in types:
        name = value.partition(":")[0]
        glued = ":" in value and name.isidentifier() and is_visible(pointer, value)
        return f"put a space after `{cut(name)}:`" if glued else "write `name: value` lines below it"
    return f"write {_types(sorted(types))}"


def _out_of_range(fault: Fault, _: Document) -> _Words:
    low, high = fault.schema.get("minimum"), fault.schema.get("maximum")
    relation = {
        "minimum": "less than", "maximum": "more than", "exclusiveMinimum": "not more than", "exclusiveMaximum": "not less than",
        "multipleOf": "not a multiple of",
    }[fault.keyword]  # fmt: skip
    value = shown(fault.pointer, fault.instance) or "the value"
    todo = f"give a number from {low} to {high}" if low is not None and high is not None else _form(fault.schema, "change it")
    return _Words("OutOfRange", f"{value} is {relation} {fault.limit}", todo)


def _not_listed(fault: Fault, _: Document) -> _Words:
    value = shown(fault.pointer, fault.instance) or "the value"
    allowed = [_text(each) for each in fault.limit]
    near = nearest(fault.instance, allowed) if isinstance(fault.instance, str) else None
    choice = f"`{allowed[0]}`" if len(allowed) == 1 else f"one of {_listed(allowed)}"
    todo = f"did you mean {quoted(near)}?" if near is not None else f"write {choice}"
    return _Words("NotAllowed", f"{value} is not {choice}", todo)


def _bad_pattern(fault: Fault, _: Document) -> _Words:
    value = str(fault.instance)
    subject = shown(fault.pointer, value) or "the value"
    detail = _odd(value)
    what = f"{subject} {detail}" if detail else f"{subject} does not have the right form"
    todo = "write it on one line, without `|` or `>`" if value.endswith("\n") else "correct it"
    return _Words("BadPattern", what, _form(fault.schema, todo))


def _odd(value: str) -> str:
    """What cannot be seen, or looks like something else, in a text that has not the right form; '' where nothing does."""
    if value.endswith("\n"):
        return "ends with a line break"
    if "\n" in value:
        return "has more than one line"
    if value != value.strip():
        return "begins or ends with a space"
    odd = next((c for c in value if not c.isascii()), None)
    return f"holds the character U+{ord(odd):04X}, which is not plain ASCII" if odd else ""


def _size(fault: Fault, _: Document) -> _Words:
    unit = {"L": "characters", "I": "items", "P": "fields"}[fault.keyword[3]]
    size, limit = len(fault.instance), fault.limit
    if limit == 1:
        unit = unit.removesuffix("s")
    many = fault.keyword[3] != "L"
    if fault.keyword.startswith("max"):
        return _Words("TooMany" if many else "TooLong", f"it has {size} {unit}, at most {limit} may be", "make it shorter")
    what = f"it has {size} {unit}, at least {limit} must be" if size else "it is empty"
    return _Words("TooFew" if many else "TooShort", what, _form(fault.schema, "give more, or remove it"))


def _twice(fault: Fault, _: Document) -> _Words:
    value = shown(fault.pointer, fault.instance)
    return _Words("NotUnique", f"{value or 'this item'} is in the list already", "remove one of the two")


def _one_of(fault: Fault, _: Document) -> _Words:
    names = [name for branch in fault.limit if isinstance(branch, Mapping) for name in branch.get("required", ())]
    given = [name for name in dict.fromkeys(names) if isinstance(fault.instance, dict) and name in fault.instance]
    if len(given) > 1:
        return _Words("NotAllowed", f"{_listed(given, '`')} are given together", "give one of them")
    return _Words("Invalid", "it can be read in more than one way", _form(fault.schema, "give only one of the forms"))


def _not(fault: Fault, _: Document) -> _Words:
    names = fault.limit.get("required", ()) if isinstance(fault.limit, Mapping) else ()
    if len(names) > 1:
        return _Words("NotAllowed", f"{_listed(names, '`')} are given together", "remove one of them")
    return _Words("NotAllowed", "this is not allowed here", _form(fault.schema, "change or remove it"))


def _other(fault: Fault, _: Document) -> _Words:
    return _Words("Invalid", "this is not allowed here", _form(fault.schema, "change or remove it"))


# ---- advice -------------------------------------------------------------------------------------------------------


def _form(rule: Any, otherwise: str) -> str:
    """What the schema says of a value's right form: its description's first sentence and an example."""
    if not isinstance(rule, Mapping):
        return otherwise
    description = " ".join(str(rule.get("description", "")).split())
    first = re.split(r"(?<=[a-z0-9)`])\. ", description)[0].rstrip(".")
    examples = rule.get("examples") or ()
    parts = [otherwise] if otherwise else []
    if first:
        parts.append(first[:1].lower() + first[1:] if first[1:2].islower() or first[1:2] == " " else first)
    if examples:
        parts.append(f"for example {_text(examples[0])}")
    return ": ".join([parts[0], ", ".join(parts[1:])]) if len(parts) > 1 else "".join(parts)


def _text(value: Any) -> str:
    """A value of the schema (never of a user's file) as it is written in YAML."""
    return value if isinstance(value, str) else json.dumps(value)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known word that was most likely meant; None where none is near. `jobId` and `job-id` are near to `job_id`."""
    if len(name) > 64:
        return None
    by_letters = {_LOOSE.sub("", word).lower(): word for word in known}
    close = difflib.get_close_matches(_LOOSE.sub("", name).lower(), by_letters, n=1, cutoff=0.7)
    return by_letters[close[0]] if close else None


def _listed(words: Iterable[str], mark: str = "") -> str:
    names = [f"{mark}{name_of(word)}{mark}" for word in words]
    more = f", … ({len(names) - MANY} more)" if len(names) > MANY else ""
    return ", ".join(names[:MANY]) + more


_WORDS: Final[Mapping[str, Callable[[Fault, Document], _Words]]] = {
    "additionalProperties": _unknown,
    "required": _missing,
    "requiredAny": _missing_any,
    "dependencies": _dependency,
    "propertyNames": _bad_name,
    "false": _nothing_allowed,
    "type": _wrong_type,
    "enum": _not_listed,
    "pattern": _bad_pattern,
    "uniqueItems": _twice,
    "oneOf": _one_of,
    "not": _not,
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), _out_of_range),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _size),
}
CODES: Final = frozenset(
    {"UnknownField", "MissingField", "WrongType", "OutOfRange", "NotAllowed", "BadPattern", "TooLong", "TooShort", "TooMany",
     "TooFew", "NotUnique", "Invalid"}
)  # fmt: skip
