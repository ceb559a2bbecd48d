"""What the links were measured to do, a row each, for `status`.

Decides how it is laid out, and how many are shown; programs read all of them. What was measured is the hub's word in the store.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from reconciler.commands import screen
from reconciler.hub.link_table import MeasuredLine

HEADERS: Final = ("link", "rate", "round trip", "transfers", "measured", "last try")
MOST: Final = 30
"""Rows; those in trouble and the slowest come first."""


def rows_of(links: Sequence[MeasuredLine], now: datetime) -> list[tuple[str, ...]]:
    """The rows, in the order of the links' names."""
    first = sorted(links, key=lambda line: (not line.problem, line.bytes_per_second or 0.0))[:MOST]
    return [_row(line, now) for line in sorted(first, key=lambda line: (line.source, line.target))]


def _row(line: MeasuredLine, now: datetime) -> tuple[str, ...]:
    return (
        f"{line.source} → {line.target}",
        screen.NOTHING if line.bytes_per_second is None else _rate(line.bytes_per_second),
        screen.NOTHING if line.rtt_ms is None else f"{line.rtt_ms:.3g} ms",
        str(line.samples) if line.samples else screen.NOTHING,
        screen.NOTHING if line.at is None else f"{screen.since(line.at, now)} ago",
        line.problem or "well",
    )


def _rate(bytes_per_second: float) -> str:
    """As links.yaml has it: decimal bits."""
    bits = bytes_per_second * 8
    return f"{bits / 1e9:.3g} Gbit/s" if bits >= 1e9 else f"{bits / 1e6:.3g} Mbit/s"


def more(links: Sequence[MeasuredLine]) -> list[str]:
    """What is said of the links beyond those that are shown."""
    left = len(links) - MOST
    return [f"and {left} more, quicker ones: `status --json` has all"] if left > 0 else []


def as_value(line: MeasuredLine) -> dict[str, Any]:
    """The JSON form."""
    return {**line.model_dump(mode="json", exclude={"at"}), "at": screen.time_json(line.at)}
