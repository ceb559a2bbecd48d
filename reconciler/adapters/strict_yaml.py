"""Reads a file that a person wrote: YAML (or JSON) of which every reader understands the same, or a list of what is wrong.

Decides what a file may hold: one document of plain mappings, lists and scalars; no anchors, aliases, tags, merge keys,
duplicate keys, or texts that YAML 1.1 and 1.2 read differently (`yaml_scalars`). Keys are the literal text as written.
What fields there are is left to `schema_check`, what they mean to the model.
Invariant: for any bytes there is a Document or Invalid with all problems up to the first that stops the parser.
Sources: yaml/pyyaml#165 (duplicate keys), python-jsonschema/check-jsonschema#116 (dates).
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, NoReturn, cast

from yaml import CSafeLoader
from yaml.error import YAMLError
from yaml.events import (
    AliasEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
)

from reconciler.adapters.showing import Pointer, capped, cut, dotted, is_visible, quoted
from reconciler.adapters.yaml_scalars import Trap, plain_value
from reconciler.adapters.yaml_text import FORBIDDEN, decoded, syntax_problem
from reconciler.model.problem import Invalid, Problem


@dataclass(frozen=True, slots=True)
class Limits:
    """What a file may have: bytes, and mappings and lists inside each other (an empty one at the top has depth 1)."""

    size_bytes: int = 256 * 1024
    depth: int = 20


DEFAULT_LIMITS: Final = Limits()
_BREAK: Final = re.compile("[\n\t]")


class _Place(NamedTuple):
    """A value and the parser's event that it began with, which knows where it stands and how it was written."""

    value: Any
    event: Event
    children: "dict[str, tuple[ScalarEvent, _Place]] | list[_Place] | None"


@dataclass(frozen=True, slots=True)
class Document:
    """A file that was read. `value` holds only dict, list, str, int, float, bool and None; `text` is what was parsed."""

    value: Any
    text: str = field(repr=False)
    _top: _Place = field(repr=False, compare=False)

    def position(self, pointer: Sequence[str | int], *, key: bool = False) -> tuple[int, int]:
        """Line and column, from 1, of the value at `pointer`, or of its key. Raises LookupError where there is none.

        An item of a list, and the file itself, have no key: then it is the value's position.
        """
        place = self._top
        event = place.event
        for step in pointer:
            key_event, place = _child(place, step)
            event = key_event if key and key_event is not None else place.event
        return _position(event)

    def written(self, pointer: Sequence[str | int]) -> str | None:
        """The scalar at `pointer` as its unquoted text (`1.10`, `True`); None where it was quoted or is no scalar."""
        place = self._top
        for step in pointer:
            _, place = _child(place, step)
        event = place.event
        return event.value if isinstance(event, ScalarEvent) and not event.style else None


def _child(place: _Place, step: str | int) -> tuple[ScalarEvent | None, _Place]:
    match place.children, step:
        case dict(by_key), str(key):
            return by_key[key]
        case list(items), int(index):
            return None, items[index]
    raise LookupError(f"there is nothing at {step!r}")


def _position(event: Event) -> tuple[int, int]:
    mark = event.start_mark
    return (mark.line + 1, mark.column + 1) if mark is not None else (0, 0)


@dataclass(frozen=True, slots=True)
class _Reading:
    """One file being read: where the next event comes from, and what was found wrong so far."""

    next_event: Callable[[], Event]
    path: str
    depth_limit: int
    is_json: bool
    problems: list[Problem] = field(default_factory=list)

    def refuse(self, event: Event, code: str, what: str, todo: str) -> None:
        self.problems.append(Problem(self.path, *_position(event), code, what, todo))


def parse(body: bytes, path: str, *, limits: Limits = DEFAULT_LIMITS) -> Document:
    """Read a file's bytes. `path` names it in problems, and ends in `.json` where it is JSON.

    Raises Invalid with every problem, in order of position, at most 50 of them and one that counts the rest.
    """
    text = decoded(body, path, limits.size_bytes)
    next_event = cast("Callable[[], Event]", CSafeLoader(text).get_event)
    reading = _Reading(next_event, path, limits.depth, path.lower().endswith(".json"))
    try:
        top = _document(reading)
    except YAMLError as error:
        reading.problems.append(syntax_problem(error, text, path))
        raise Invalid(capped(reading.problems)) from error
    if reading.problems:
        raise Invalid(capped(reading.problems))
    return Document(top.value, text, top)


def _document(reading: _Reading) -> _Place:
    """The one document of the stream."""
    reading.next_event()
    start = reading.next_event()
    if not isinstance(start, DocumentStartEvent):
        _refuse_empty(reading)
    event = reading.next_event()
    top = _node(reading, event, ())
    if isinstance(event, ScalarEvent) and not event.value and not event.style and not reading.problems:
        _refuse_empty(reading)
    reading.next_event()
    after = reading.next_event()
    if isinstance(after, DocumentStartEvent):
        what = "a second document begins here; a file holds one"
        reading.refuse(after, "SeveralDocuments", what, "remove the `---`, or move what follows to a file of its own")
    return top


def _refuse_empty(reading: _Reading) -> NoReturn:
    raise Invalid([Problem(reading.path, 0, 0, "EmptyFile", "the file holds nothing", "write it, or remove the file")])


def _node(reading: _Reading, event: Event, at: Pointer) -> _Place:
    """The value that begins with `event`, read to its end."""
    if isinstance(event, ScalarEvent):
        if event.anchor is not None or event.tag is not None:
            _refuse_properties(reading, event, at)
        return _Place(_scalar(reading, event, at), event, None)
    if isinstance(event, AliasEvent):
        what = f"{dotted(at)}: an alias (a name after `*`) stands for a value written elsewhere"
        reading.refuse(event, "AliasUsed", what, "write the value out; if it is text, put it in quotes")
        return _Place(None, event, None)
    collection = cast("CollectionStartEvent", event)
    if collection.anchor is not None or collection.tag is not None:
        _refuse_properties(reading, collection, at)
    if len(at) >= reading.depth_limit:
        what = f"mappings and lists stand more than {reading.depth_limit} deep inside each other"
        reading.refuse(event, "TooDeep", what, "make it flatter")
        raise Invalid(capped(reading.problems))
    return _mapping(reading, event, at) if isinstance(event, MappingStartEvent) else _sequence(reading, event, at)


def _refuse_properties(reading: _Reading, event: ScalarEvent | CollectionStartEvent, at: Pointer) -> None:
    if event.anchor is not None:
        what = f"{dotted(at)}: an anchor (a name after `&`) is not allowed"
        reading.refuse(event, "AnchorUsed", what, "remove it; if the value is text that begins with `&`, put it in quotes")
    if event.tag is not None:
        what = f"{dotted(at)}: a tag (a type after `!`) is not allowed"
        reading.refuse(event, "TagUsed", what, "remove it; if the value is text that begins with `!`, put it in quotes")


def _scalar(reading: _Reading, event: ScalarEvent, at: Pointer) -> Any:
    if event.style:  # libyaml says '' for an unquoted scalar, where PyYAML's own parser says None
        if event.style == '"' and (bad := FORBIDDEN.search(event.value)):
            what = f"{dotted(at)}: an escape stands for the character U+{ord(bad.group()):04X}, which cannot be seen"
            reading.refuse(event, "ControlCharacter", what, "remove it")
        return event.value
    value = plain_value(event.value, json=reading.is_json)
    if isinstance(value, Trap):
        _refuse_trap(reading, event, at, value)
    return value


def _refuse_trap(reading: _Reading, event: ScalarEvent, at: Pointer, trap: Trap) -> None:
    subject, meaning, todo = "the value", trap.kind, "put it in quotes if text is meant"
    if is_visible(at, event.value):
        subject, meaning = cut(event.value), trap.reading
        todo = f"write {quoted(event.value)} if text is meant" + (f", {trap.instead} if not" if trap.instead else "")
    what = f"{dotted(at)}: {subject} is {meaning} to some YAML readers and something else to others"
    reading.refuse(event, "AmbiguousValue", what, todo)


def _sequence(reading: _Reading, start: Event, at: Pointer) -> _Place:
    places: list[_Place] = []
    event = reading.next_event()
    while not isinstance(event, SequenceEndEvent):
        places.append(_node(reading, event, (*at, len(places))))
        event = reading.next_event()
    return _Place([place.value for place in places], start, places)


def _mapping(reading: _Reading, start: Event, at: Pointer) -> _Place:
    places: dict[str, tuple[ScalarEvent, _Place]] = {}
    event = reading.next_event()
    while not isinstance(event, MappingEndEvent):
        key = _key(reading, event, at)
        below = (*at, "?" if key is None else key.value)
        place = _node(reading, reading.next_event(), below)
        if key is None:
            pass
        elif key.value in places:
            _refuse_twice(reading, places[key.value][0], key, below)
        else:
            places[key.value] = (key, place)
        event = reading.next_event()
    return _Place({key: place.value for key, (_, place) in places.items()}, start, places)


def _key(reading: _Reading, event: Event, at: Pointer) -> ScalarEvent | None:
    """The key that begins with `event`; None where it was refused, and then it has been read to its end."""
    if not isinstance(event, ScalarEvent):
        if isinstance(event, AliasEvent):
            _node(reading, event, (*at, "?"))
        else:
            _refuse_complex_key(reading, event, at)
        return None
    if event.anchor is not None or event.tag is not None:
        _refuse_properties(reading, event, (*at, event.value))
    if not event.style and event.value in {"", "<<"}:
        _refuse_word(reading, event, at)
        return None
    if event.style and (bad := FORBIDDEN.search(event.value) or _BREAK.search(event.value)):
        what = f"{dotted(at)}: a name holds the character U+{ord(bad.group()):04X}"
        reading.refuse(event, "BadKey", what, "write the name on one line, with characters that can be seen")
    return event


def _refuse_word(reading: _Reading, event: ScalarEvent, at: Pointer) -> None:
    if event.value:
        what = f"{dotted(at)}: a merge key (`<<`) is not allowed"
        reading.refuse(event, "MergeKeyUsed", what, "write the fields out")
    else:
        reading.refuse(event, "BadKey", f"{dotted(at)}: there is no name before the `:`", "write the name")


def _refuse_complex_key(reading: _Reading, event: Event, at: Pointer) -> None:
    reading.refuse(
        event,
        "BadKey",
        f"{dotted(at)}: a mapping or list stands where a name is needed",
        "write a plain name; `{{ … }}` is not filled in here: if it is text, put the whole value in quotes",
    )
    _node(reading, event, (*at, "?"))


def _refuse_twice(reading: _Reading, first: Event, second: Event, at: Pointer) -> None:
    (line, column), (again, next_column) = _position(first), _position(second)
    where = f"on line {line} and on line {again}" if line != again else f"on line {line} at columns {column} and {next_column}"
    what = f"{dotted(at)} is given twice, {where}"
    reading.refuse(second, "DuplicateKey", what, "keep the one that is meant")
