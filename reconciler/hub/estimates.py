"""How far estimates were off lately, in one line: for the page of the status branch and for `reconciler status` alike.

What counts as an error is for planning/accuracy.py; here it becomes words.
"""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Final

from reconciler.model.quantity import as_length
from reconciler.model.record import JobRecord
from reconciler.planning.accuracy import Errors, recent_starts, recent_transfers

LATELY: Final = timedelta(days=7)


def lately(records: Collection[JobRecord], now: datetime) -> str:
    """Starts and transfers of the last days; "" where none can be held against an estimate."""
    parts = [
        _half("starts", recent_starts(records, now - LATELY), "late", "early"),
        _half("transfers", recent_transfers(records, now - LATELY), "longer", "shorter"),
    ]
    said = ", ".join(filter(None, parts))
    return f"estimates of the last {LATELY.days} days, in the median: {said}" if said else ""


def _half(what: str, errors: Errors | None, over: str, under: str) -> str:
    return f"{what} {signed(errors.median, over, under)} (of {errors.count})" if errors is not None else ""


def signed(seconds: float, over: str, under: str) -> str:
    """An error in seconds, for people. `over`, `under`: the words for more and for less than was estimated."""
    size = as_length(abs(seconds))
    return "as estimated" if size == "0 s" else f"{size} {over if seconds > 0 else under}"
