"""Reads a manifest file as the sync engines' Go reader does, so that what would go wrong there goes wrong here.

Decides the values of plain scalars (`y` is true, `1e3` and `0o17` are numbers, a date is text) and refuses keys that
stand twice; files that people write are read by another, stricter reader. What the objects may hold is admission's.
"""

import re
from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any

import yaml

from reconciler.ports import KubeObject


class Unreadable(Exception):
    """The file is not YAML of objects; the message is made like Flux's."""


@lru_cache(maxsize=256)
def objects_of(path: str, body: bytes) -> tuple[KubeObject, ...]:
    """The file's objects, in order, which are not to be changed; empty documents are none. Raises Unreadable."""
    try:
        documents = list(yaml.load_all(body, Loader=_GoReader))
    except (yaml.YAMLError, ValueError) as error:
        raise Unreadable(f"failed to decode Kubernetes YAML from {path}: MalformedYAMLError: {_words(error)}") from error
    found = [document for document in documents if document is not None]
    for item in found:
        if not isinstance(item, dict) or not isinstance(item.get("metadata"), dict) or not isinstance(item.get("kind"), str):
            raise Unreadable(f"failed to decode Kubernetes YAML from {path}: missing metadata.name or kind in object")
    return tuple(found)


class _GoReader(yaml.CSafeLoader):
    """Scalars as gopkg.in/yaml.v2 resolves them, which the Kubernetes libraries read YAML with."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """A map of strings; Kubernetes knows no other keys."""
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a string", key.start_mark)
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f'key "{key.value}" already set in map', key.start_mark)
            seen.add(key.value)
        return {key.value: self.construct_object(value, deep=deep) for key, value in node.value}


_WORDS: dict[str, bool] = dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True)
_WORDS |= dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False)
_INTEGER = r"[-+]?(0b[01_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|[0-9][0-9_]*)"
_FLOAT = r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"


def _integer(text: str) -> int:
    digits = text.replace("_", "")
    if re.fullmatch(r"[-+]?0[0-7]+", digits):
        return int(digits, 8)
    return int(digits, 0 if re.match(r"[-+]?0[box]", digits) else 10)


def _number(text: str) -> int | float:
    number = float(text)
    return int(number) if number.is_integer() else number


def _resolve(tag: str, pattern: str, value: Callable[[str], Any]) -> None:
    _GoReader.add_implicit_resolver(tag, re.compile(rf"(?:{pattern})\Z"), None)
    _GoReader.add_constructor(tag, lambda _, node: value(str(node.value)))


_GoReader.yaml_implicit_resolvers = {}
_resolve("tag:yaml.org,2002:bool", "|".join(_WORDS), _WORDS.__getitem__)
_resolve("tag:yaml.org,2002:int", _INTEGER, _integer)
_resolve("tag:yaml.org,2002:float", _FLOAT, _number)
_resolve("tag:yaml.org,2002:null", "~|null|Null|NULL|", lambda _: None)


def _words(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"yaml: line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1}: {error.problem}"
    return f"yaml: {error}"
