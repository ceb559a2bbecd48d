"""What a mutant is: hub and agent with one thing made wrong, for the time of a `with` block."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Mutant:
    """`name` says what is wrong with it."""

    name: str
    applied: Callable[[], AbstractContextManager[None]]


MUTANTS: list[Mutant] = []
"""All that were declared, in order."""


def mutant(name: str) -> Callable[[Callable[[], AbstractContextManager[None]]], Callable[[], AbstractContextManager[None]]]:
    """Declare a mutant."""

    def declare(applied: Callable[[], AbstractContextManager[None]]) -> Callable[[], AbstractContextManager[None]]:
        MUTANTS.append(Mutant(name, applied))
        return applied

    return declare


@contextmanager
def exchanged(owner: Any, name: str, made: Callable[[Any], Any]) -> Iterator[None]:
    """`owner.name` is what `made` makes of it."""
    before = owner.__dict__[name]
    setattr(owner, name, made(before))
    try:
        yield
    finally:
        setattr(owner, name, before)
