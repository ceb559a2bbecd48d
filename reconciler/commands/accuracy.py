"""`reconciler accuracy`: how far what was estimated at decisions was from what happened, in a table.

Decides how it is laid out; what counts as an error is for planning/accuracy.py. JSON (schema_version 1): `status` (the ledger's
commit), `since`, and `estimates`: each with `kind` (start, end, transfer, rate), `region`, `link` (`source`, `target`; null as
`region` is in the line that is of all), `unit` (`seconds`, or `share` of the rate that was believed), `rated`, `median` (above 0:
later, longer, quicker), `median_absolute`, `p90_absolute` (null where none is rated), and how many are not rated: `unknown`,
`otherwise`, `shared`, `open`. The table leaves out what transfers to each region did: their links say more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from reconciler.commands import screen
from reconciler.commands.repository import Look
from reconciler.hub.estimates import signed
from reconciler.model.quantity import as_length
from reconciler.planning.accuracy import Fate, Kind, Line, accuracy

HEADERS: Final = (
    "estimate",
    "of",
    "rated",
    "in the median",
    "half within",
    "9 in 10 within",
    "unknown",
    "otherwise",
    "shared",
    "to come",
)
_UNRATED: Final = (Fate.UNKNOWN, Fate.OTHERWISE, Fate.SHARED, Fate.OPEN)
_NAMES: Final = {Kind.START: "start", Kind.END: "end", Kind.TRANSFER: "transfer time", Kind.RATE: "transfer rate"}
_WORDS: Final = {
    Kind.START: ("late", "early"),
    Kind.END: ("late", "early"),
    Kind.TRANSFER: ("longer", "shorter"),
    Kind.RATE: ("quicker", "slower"),
}
_LEGEND: Final = (
    "unknown: nobody could estimate it; otherwise: it was stopped, failed or never started, or too short to be timed",
    "shared: others used the link as well; to come: it has not happened yet",
)


@dataclass(frozen=True, slots=True)
class Accuracy:
    """What there is to say."""

    ledger: str | None
    """The commit that the ledger stands at."""
    since: datetime | None
    lines: tuple[Line, ...]


def accuracy_of(look: Look, since: datetime | None) -> Accuracy:
    """Of everything that the ledger has, or that came out since."""
    return Accuracy(look.status, since, accuracy(look.ledger.records.values(), since))


def rows_of(lines: Sequence[Line]) -> list[tuple[str, ...]]:
    """The rows of the table."""
    transfers = (Kind.TRANSFER, Kind.RATE)
    return [_row(line) for line in lines if line.region is None or line.kind not in transfers]


def _row(line: Line) -> tuple[str, ...]:
    errors, unrated = line.errors, line.unrated or {}
    figures: tuple[str, ...] = ("0", *[screen.NOTHING] * 3)
    if errors is not None:
        sizes = (_size(line.kind, errors.median_absolute), _size(line.kind, errors.p90_absolute))
        figures = (str(errors.count), _median(line.kind, errors.median), *sizes)
    counts = (str(unrated[fate]) if fate in unrated else screen.NOTHING for fate in _UNRATED)
    return (_NAMES[line.kind], _of(line), *figures, *counts)


def _of(line: Line) -> str:
    if line.link is not None:
        return " → ".join(line.link)
    return line.region or "all"


def _median(kind: Kind, error: float) -> str:
    over, under = _WORDS[kind]
    if kind is not Kind.RATE:
        return signed(error, over, under)
    size = _size(kind, error)
    return "as estimated" if size == "0 %" else f"{size} {over if error > 0 else under}"


def _size(kind: Kind, error: float) -> str:
    return f"{abs(error) * 100:.0f} %" if kind is Kind.RATE else as_length(abs(error))


def show(found: Accuracy) -> None:
    """Print it for people."""
    if not found.lines:
        screen.say("there is nothing yet to hold an estimate against")
        return
    screen.show_table(HEADERS, rows_of(found.lines))
    for line in _LEGEND:
        screen.say(line)


def as_value(found: Accuracy) -> dict[str, Any]:
    """The JSON form."""
    return {
        "schema_version": 1,
        "status": found.ledger,
        "since": screen.time_json(found.since),
        "estimates": [_line(line) for line in found.lines],
    }


def _line(line: Line) -> dict[str, Any]:
    errors, unrated = line.errors, line.unrated or {}
    return {
        "kind": str(line.kind),
        "region": line.region,
        "link": {"source": line.link[0], "target": line.link[1]} if line.link is not None else None,
        "unit": "share" if line.kind is Kind.RATE else "seconds",
        "rated": errors.count if errors is not None else 0,
        "median": round(errors.median, 4) if errors is not None else None,
        "median_absolute": round(errors.median_absolute, 4) if errors is not None else None,
        "p90_absolute": round(errors.p90_absolute, 4) if errors is not None else None,
        **{str(fate): unrated.get(fate, 0) for fate in _UNRATED},
    }
