"""A frozen value with some of its parts changed: as `dataclasses.replace`, in less than half the time.

A step of the agent changes its memory several times, and that has many parts. `replace` asks for each of them what kind of field
it is and passes all of them to `__init__`, which sets them one by one; here the parts go straight into their slots. So this is
for values that work nothing out when they are made: no `__post_init__`, no field that `__init__` does not take.
"""

from collections.abc import Callable
from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["changed"]

if TYPE_CHECKING:
    from dataclasses import replace as changed  # a type checker then knows the parts
else:
    V = TypeVar("V")

    def changed(value: V, /, **parts: Any) -> V:
        """The value with those parts. Raises KeyError for a part that it does not have."""
        kind = type(value)
        every, setters, by_name = _slots_of(kind)
        new = object.__new__(kind)
        for put, part in zip(setters, every(value), strict=True):
            put(new, part)
        for name, part in parts.items():
            by_name[name](new, part)
        return new


_Setter = Callable[[object, object], None]


@cache
def _slots_of(kind: type[Any]) -> tuple[Callable[[Any], tuple[object, ...]], tuple[_Setter, ...], dict[str, _Setter]]:
    """How all parts are read at once, how each is set, and the latter by name. Raises TypeError where setting is not enough."""
    names = tuple(field.name for field in fields(kind))
    if len(names) < 2 or hasattr(kind, "__post_init__") or any(name not in kind.__slots__ for name in names):
        raise TypeError(f"{kind.__name__} is not a plain frozen dataclass with slots, of two parts or more")
    by_name = {name: getattr(kind, name).__set__ for name in names}
    return attrgetter(*names), tuple(by_name.values()), by_name
