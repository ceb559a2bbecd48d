"""Answers of pure functions, kept until the next question about the same thing: most looks show just what the one before did.

Decides only when an answer need not be worked out anew. Invariant: that changes nothing but the time it takes, for a function is
given what it was asked and nothing else, and nothing that is asked about is ever changed in place. What is kept may vanish at any
time.
"""

from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass, field
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(slots=True)
class Answers(Generic[T]):
    """The last answers of one function, by what they are about."""

    _known: dict[Hashable, tuple[tuple[object, ...], T]] = field(default_factory=dict)

    def of(self, about: Hashable, function: Callable[P, T], *asked: P.args, **named: P.kwargs) -> T:
        """What the function says; the very answer of the last time where it was asked just the same."""
        known, question = self._known.get(about), (function, asked, named)
        if known is not None and known[0] == question:
            return known[1]
        answer = function(*asked, **named)
        self._known[about] = question, answer
        return answer

    def keep_only(self, about: Collection[Hashable]) -> None:
        """Forget what is about anything else."""
        if len(self._known) > len(about):
            self._known = {one: known for one, known in self._known.items() if one in about}
