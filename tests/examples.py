"""How many examples a property is tried with: all of them in `make test`, a part of them before every commit."""

import os

THOROUGH = os.environ.get("TESTS") == "thorough"


def examples(number: int) -> int:
    """`number` where there is time, else a fifth of them."""
    return number if THOROUGH else max(10, number // 5)
