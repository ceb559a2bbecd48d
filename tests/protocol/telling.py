"""A history in the words and the order in which a person would tell it.

Decides the order and what is said in one line. The order is another than the explorer's only where the model allows both, and what
was sent long before it arrived is said to arrive late. Invariant: what is told can happen, and ends as the history did.
"""

import re
from collections.abc import Sequence

from tests.protocol.explorer import replayed
from tests.protocol.model import wrong
from tests.protocol.state import Rules

_TICKS = ("the hub's clock ticks", "A's clock ticks")


def tell(history: Sequence[str], rules: Rules) -> tuple[str, ...]:
    """The lines of a history that ends in something wrong."""
    return tuple(_sentence(line) for line in _joined(in_order(history, rules)))


def in_order(history: Sequence[str], rules: Rules) -> tuple[str, ...]:
    """The same steps, with what belongs together side by side wherever that can be."""
    told = list(history)
    better = True
    while better:
        better = False
        for at in range(len(told)):
            for other in _moves(told, at):
                if _weight(other) < _weight(told) and _goes_wrong(other, rules):
                    told, better = other, True
    return tuple(told)


def _moves(told: Sequence[str], at: int) -> list[list[str]]:
    rest = [*told[:at], *told[at + 1 :]]
    return [[*rest[:to], told[at], *rest[to:]] for to in range(len(told)) if to != at]


def _goes_wrong(history: Sequence[str], rules: Rules) -> bool:
    return any(wrong(state) for state in replayed(history, rules))


def _weight(told: Sequence[str]) -> tuple[int, int]:
    """How many lines it takes; and how late what everything hangs on comes."""
    ticks = [at for at, words in enumerate(told) if words in _TICKS]
    return len(_joined(told)), -sum(ticks)


_PAIRS = (
    (r"hub (\d) reads the ledger and pushes: (.*)\nhub \1's push arrives: \2", r"hub \1 commits: \2"),
    (r"hub (\d) sends grants that name attempt 1\nhub \1's grants arrive: they name attempt 1", r"hub \1 grants attempt 1 in A"),
    (r"(hub \d) commits: (.*)\n\1 grants attempt 1 in A", r"\1 commits: \2; and grants it"),
    (r"(hub \d) commits: (.*)\n\1 grants attempt 2 in B, where it runs", r"\1 commits: \2; and grants it, so that it runs there"),
    (r"(hub \d) commits: (.*)\n\1 writes A's grants without attempt 1", r"\1 commits: \2; and writes A's grants without it"),
    (
        r"A's agent sends a renewal\nthe renewal arrives, and the lease has a new ETag",
        "a renewal arrives: the lease has a new ETag",
    ),
    (r"a renewal arrives: .*\nA's agent has the answer to its renewal", "A's agent renews the lease, which has a new ETag"),
    (r"the hub sends a revocation\nthe revocation arrives", "the hub revokes the lease"),
    (r"sends the release\nthe release arrives", "releases it"),
    (
        r"A's agent sends the lift of the gate\nthe lift arrives, and attempt 1 runs in A",
        "its gate is lifted, and attempt 1 runs in A",
    ),
    (
        r"releases it\nthe controller makes a gated pod\nits gate is lifted, and attempt 1 runs in A",
        "releases it; its pod's gate is lifted: attempt 1 runs in A",
    ),
    (
        r"(the controller makes a gated pod)\nA's agent sends the lift of the gate",
        r"\1, and the agent sends the lift of its gate",
    ),
    (r"releases it\n(the controller makes a gated pod)", r"releases it; \1"),
    (r"(A's agent suspends the object and closes it)\nA's agent (deletes|closes)", r"\1, and \2"),
    (r"A's agent reads its grants: they name attempt 1\nA's agent (writes)", r"A's agent reads its grants with attempt 1, \1"),
    (
        r"A's agent reads its grants: (they do not .*)\nA's agent (suspends .*|reports .*)",
        r"A's agent reads its grants: \1; it \2",
    ),
)
"""Lines that follow each other, and what a person would say in one."""


def _joined(told: Sequence[str]) -> list[str]:
    text = "\n".join(_with_ticks_counted(told))
    for pair, line in _PAIRS:
        text = re.sub(pair, line, text)
    return text.splitlines()


def _with_ticks_counted(told: Sequence[str]) -> list[str]:
    lines: list[str] = []
    counts = [0, 0]
    for words in (*told, ""):
        if words in _TICKS:
            counts[_TICKS.index(words)] += 1
            continue
        if any(counts):
            lines.append(f"time goes by: {_number(counts[0])} of the hub's clock, {counts[1] or 'none'} of A's")
            counts = [0, 0]
        lines.append(words)
    return lines[:-1]


def _number(ticks: int) -> str:
    return f"{ticks} tick{'' if ticks == 1 else 's'}" if ticks else "no tick"


def _sentence(line: str) -> str:
    return line[0].upper() + line[1:] + "."
