"""Moments and spans of time as people type them. Raises BadInput, with what to write, for what can be read in two ways."""

import re
from datetime import UTC, date, datetime, timedelta
from shlex import quote
from typing import Final

from reconciler.commands.ends import BadInput

_LONGEST: Final = 40
"""Characters of what was typed that are repeated."""
_PART: Final = re.compile(r"(\d+)\s*(d|h|min|m|s)")
_SECONDS: Final = {"d": 86400, "h": 3600, "min": 60, "m": 60, "s": 1}
_SPANS: Final = "write it as 90min, 2h, 1h30m or 1d"


def after(typed: str, now: datetime) -> datetime:
    """The moment that lies a span of time ahead, to the second. Raises BadInput."""
    return _away(typed, now, 1)


def _away(typed: str, now: datetime, direction: int) -> datetime:
    if not _is_span(typed):
        raise BadInput(f"{quote(typed)} is no span of time", _SPANS)
    try:
        seconds = sum(int(count) * _SECONDS[unit] for count, unit in _PART.findall(typed))
        return (now + direction * timedelta(seconds=seconds)).replace(microsecond=0)
    except (OverflowError, ValueError):  # of dates, and of digits that one number may have
        raise BadInput(f"{_short(typed)} is longer than any calendar", _SPANS) from None


def _is_span(typed: str) -> bool:
    return re.fullmatch(rf"(\s*{_PART.pattern})+\s*", typed) is not None


def moment(typed: str, todo: str) -> datetime:
    """A moment with its offset from UTC, in UTC, to the second. Raises BadInput. `todo`: what to write instead."""
    try:
        found = datetime.fromisoformat(typed)
    except ValueError:
        raise BadInput(f"{quote(typed)} is no moment", todo) from None
    if found.tzinfo is None:
        raise BadInput(f"{typed} may be in any time zone", todo)
    try:
        return found.astimezone(UTC).replace(microsecond=0)
    except OverflowError:
        raise BadInput(f"{typed} is beyond the last day of the calendar in UTC", todo) from None


def since(typed: str, now: datetime) -> datetime:
    """From when on: a span back from now, a day in UTC, or a moment. Raises BadInput."""
    todo = "write it as 7d or 12h, as a day in UTC such as 2026-05-01, or as 2026-05-01T14:00:00Z"
    if _is_span(typed):
        return _away(typed, now, -1)
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", typed):
        try:
            day = date.fromisoformat(typed)
        except ValueError:
            raise BadInput(f"{typed} is no day", todo) from None
        return datetime(day.year, day.month, day.day, tzinfo=UTC)
    return moment(typed, todo)


def _short(typed: str) -> str:
    return quote(typed) if len(typed) <= _LONGEST else f"{quote(typed[:_LONGEST])}…"
