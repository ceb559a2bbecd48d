"""Checks a document against a JSON Schema (draft 07) and returns every fault as a Problem at its line and column.

Decides which faults are told: of a choice (`anyOf`, `oneOf`) only those of the branch that fits best, of a wrong type only
that. How a fault is worded is left to `schema_words`. The only door to jsonschema; nothing is ever fetched for a `$ref`.
Invariant: no problems means that the document is valid; nothing of a value that may be a secret is repeated.
"""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from jsonschema import Draft7Validator, TypeChecker, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import extend

from reconciler.adapters.schema_words import Fault, problem_of
from reconciler.adapters.showing import Pointer, capped
from reconciler.adapters.strict_yaml import Document
from reconciler.model.problem import Problem

__all__ = ["Validator", "check", "compile_schema"]

_DRAFT: Final = "http://json-schema.org/draft-07/schema"
# Later drafts' words, which a draft-07 validator would pass over in silence.
_LATER: Final = frozenset({"prefixItems", "unevaluatedProperties", "unevaluatedItems", "dependentRequired", "dependentSchemas",
                           "$dynamicRef", "$recursiveRef", "minContains", "maxContains"})  # fmt: skip
_BY_NAME: Final = frozenset({"properties", "patternProperties", "definitions", "$defs"})
_MAX_ERRORS: Final = 1000
_MAX_ERRORS_OF_A_LIST: Final = 200
_Errors = Iterator[ValidationError]


def compile_schema(schema: Mapping[str, Any]) -> Validator:
    """Make a schema ready to check with; done once and kept.

    Raises ValueError where it is no draft-07 schema or holds a reference that leads out of it (a fault of ours, not of a
    user's file).
    """
    if not str(schema.get("$schema", _DRAFT)).startswith(_DRAFT):
        raise ValueError(f"the schema is written for {schema['$schema']}, not for draft 07")
    Draft7Validator.check_schema(schema)
    for keyword, value in _keywords(schema):
        if keyword in _LATER:
            raise ValueError(f"the schema uses `{keyword}`, which draft 07 does not know")
        if keyword == "$ref":
            _resolved(schema, str(value))
        if keyword in _BY_NAME and any(inner is False for inner in value.values()):
            raise ValueError(f"the schema has `false` in `{keyword}`, where jsonschema loses the place: write `not: {{}}`")
    validator: Validator = _Checker(schema)
    return validator


def check(document: Document, path: str, validator: Validator) -> list[Problem]:
    """All faults of the document, in order of position: at most 50, and one that counts the rest. [] where it is valid.

    `path` names the file. An unknown field is placed at its name, a missing one at the mapping that lacks it, anything
    else at its value.
    """
    errors = islice(validator.iter_errors(document.value), _MAX_ERRORS)
    faults = _first_causes([fault for error in errors for fault in _faults(error)])
    return capped(problem_of(fault, document, path) for fault in faults)


def _keywords(schema: Any) -> Iterator[tuple[str, Any]]:
    """Every keyword of a schema and of those inside it; names of properties are not keywords."""
    if isinstance(schema, list):
        for each in schema:
            yield from _keywords(each)
    if not isinstance(schema, Mapping):
        return
    for keyword, value in schema.items():
        yield keyword, value
        if keyword in _BY_NAME:
            yield from _keywords(list(value.values()))
        elif keyword not in {"enum", "const", "default", "examples"}:
            yield from _keywords(value)


def _resolved(schema: Mapping[str, Any], reference: str) -> None:
    target: Any = schema
    if not reference.startswith("#"):
        raise ValueError(f"the reference {reference} leads out of the schema")
    for step in (part.replace("~1", "/").replace("~0", "~") for part in reference.split("/")[1:]):
        if not isinstance(target, Mapping) or step not in target:
            raise ValueError(f"the reference {reference} leads nowhere")
        target = target[step]


# ---- keywords that tell more than jsonschema's own, and do no more work than the schema's own limits allow ----------


def _required(_: Validator, names: list[str], instance: Any, __: Mapping[str, Any]) -> _Errors:
    if isinstance(instance, dict):
        for name in names:
            if name not in instance:
                yield ValidationError("missing", validator_value=name)


def _additional_properties(validator: Any, rule: Any, instance: Any, schema: Mapping[str, Any]) -> _Errors:
    if not isinstance(instance, dict) or len(instance) > schema.get("maxProperties", len(instance)):
        return
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for name in instance:
        if name in known or any(re.search(pattern, name) for pattern in patterns):
            continue
        if rule is False:
            yield ValidationError("unknown", path=(name,), instance=instance[name])
        else:
            yield from validator.descend(instance[name], rule, path=name)


def _items(validator: Any, rule: Any, instance: Any, schema: Mapping[str, Any]) -> _Errors:
    if isinstance(instance, list) and len(instance) <= schema.get("maxItems", len(instance)):
        yield from islice(Draft7Validator.VALIDATORS["items"](validator, rule, instance, schema) or (), _MAX_ERRORS_OF_A_LIST)


def _property_names(validator: Any, rule: Any, instance: Any, _: Mapping[str, Any]) -> _Errors:
    if isinstance(instance, dict):
        for name in instance:
            if not validator.evolve(schema=rule).is_valid(name):
                yield ValidationError("name", path=(name,), instance=name, schema=rule)


def _unique_items(_: Validator, wanted: bool, instance: Any, __: Mapping[str, Any]) -> _Errors:
    """By the text of each item: jsonschema compares every item with every other."""
    if not wanted or not isinstance(instance, list):
        return
    seen: set[str] = set()
    for index, item in enumerate(instance):
        text = json.dumps(item, sort_keys=True)
        if text in seen:
            yield ValidationError("twice", path=(index,), instance=item)
        seen.add(text)


def _is_whole(_: TypeChecker, instance: object) -> bool:
    """8.0 is no whole number here, as it is none for the model, which converts nothing."""
    return isinstance(instance, int) and not isinstance(instance, bool)


_Checker: Final = extend(  # type: ignore[no-untyped-call]  # jsonschema's stubs leave it untyped
    Draft7Validator,
    {
        "required": _required,
        "additionalProperties": _additional_properties,
        "items": _items,
        "propertyNames": _property_names,
        "uniqueItems": _unique_items,
    },
    type_checker=Draft7Validator.TYPE_CHECKER.redefine("integer", _is_whole),
)


# ---- which of the errors a person should read ---------------------------------------------------------------------


def _faults(error: ValidationError) -> list[Fault]:
    """What an error comes down to."""
    if error.validator in {"anyOf", "oneOf"} and error.context:
        return _best_branch(error)
    keyword, limit = str(error.validator or "false"), error.validator_value
    if keyword == "const":
        keyword, limit = "enum", [limit]
    elif keyword == "type":
        limit = [limit] if isinstance(limit, str) else limit
    schema = error.schema if isinstance(error.schema, Mapping) else {}
    return [Fault(tuple(error.absolute_path), keyword, limit, error.instance, schema)]


def _best_branch(error: ValidationError) -> list[Fault]:
    """The faults of the branch that the value comes nearest to; of branches alike, one fault for all of them."""
    at = tuple(error.absolute_path)
    branches: dict[Any, list[Fault]] = {}
    for child in error.context:
        branches.setdefault(child.relative_schema_path[0], []).extend(_faults(child))
    each = [_first_causes(faults) for faults in branches.values()]
    fitting = [faults for faults in each if not any(fault.keyword == "type" and fault.pointer == at for fault in faults)]
    for keyword in ("type", "enum", "required"):
        merged = _merged(error, keyword, fitting or each)
        if merged is not None:
            return [merged]
    return min(fitting or each, key=lambda faults: (_wrong_kinds(faults, at), len(faults)))


def _merged(error: ValidationError, keyword: str, branches: list[list[Fault]]) -> Fault | None:
    """One fault for branches that all fail at the value itself, by the same keyword only; None where they differ."""
    at = tuple(error.absolute_path)
    limits: list[Any] = []
    for faults in branches:
        if any(fault.keyword != keyword or fault.pointer != at for fault in faults):
            return None
        if keyword == "required":
            limits.append([fault.limit for fault in faults])
        else:
            limits.extend(limit for fault in faults for limit in fault.limit if limit not in limits)
    if keyword == "required":
        return Fault(at, "requiredAny", limits, error.instance, {}) if len(limits) > 1 else None
    schema = error.schema if isinstance(error.schema, Mapping) else {}
    return Fault(at, keyword, limits, error.instance, schema)


def _wrong_kinds(faults: list[Fault], at: Pointer) -> int:
    """How many fields that tell the branches apart (`kind: {const: …}`) have another branch's value."""
    return sum("const" in fault.schema and len(fault.pointer) == len(at) + 1 for fault in faults)


def _first_causes(faults: list[Fault]) -> list[Fault]:
    """Of several faults of one value only the first that matters: a number where a string is needed has no pattern.

    A mapping or list of the right type keeps all of its own faults: two missing fields are two faults.
    """
    best: dict[Pointer, Fault] = {}
    for fault in faults:
        known = best.get(fault.pointer)
        if known is None or _rank(fault) < _rank(known):
            best[fault.pointer] = fault
    return [
        fault
        for fault in faults
        if best[fault.pointer] is fault
        or (isinstance(fault.instance, (dict, list)) and best[fault.pointer].keyword not in {"type", "additionalProperties"})
    ]


def _rank(fault: Fault) -> int:
    return _RANKS.get(fault.keyword, len(_RANKS))


_RANKS: Final = {
    keyword: rank for rank, keyword in enumerate(("additionalProperties", "type", "enum", "minLength", "maxLength", "minimum"))
}
