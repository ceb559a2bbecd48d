"""Makes a history that fails smaller: leaves out all that it fails without (delta debugging).

Source of the method: Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def shrunk(items: Sequence[T], fails: Callable[[tuple[T, ...]], bool], most_tries: int = 400) -> tuple[T, ...]:
    """As few of the items, in order, as still fail: no single one can be left out, unless `most_tries` were used up."""
    kept, size, tries = tuple(items), max(len(items) // 2, 1), 0
    while tries < most_tries:
        start, smaller = 0, False
        while start < len(kept) and tries < most_tries:
            fewer = kept[:start] + kept[start + size :]
            tries += 1
            if fails(fewer):
                kept, smaller = fewer, True
            else:
                start += size
        if size > 1:
            size //= 2
        elif not smaller:
            break
    return kept
