"""Moments and spans of time as people type them. Raises BadInput, with what to write, for what can be read in two ways."""

import re
from datetime import UTC, date, datetime, timedelta
from shlex import quote
from typing import Final

from reconciler.commands.ends import BadInput

_PART: Final = re.compile(r"(\d+)\s*(d|h|min|m|s)")
_SECONDS: Final = {"d": 86400, "h": 3600, "min": 60, "m": 60, "s": 1}
_MOST_SECONDS: Final = 100 * 31_536_000
"""Beyond lie years that no calendar here has."""
_LONGEST: Final = 40
"""Characters of what was typed that are repeated."""


def is_span(typed: str) -> bool:
    """Whether it is a span of time, such as `1h30m`."""
    return re.fullmatch(rf"(\s*{_PART.pattern})+\s*", typed) is not None


def span(typed: str) -> timedelta:
    """A span of time. Raises BadInput."""
    todo = "write it as 90min, 2h, 1h30m or 1d"
    if not is_span(typed):
        raise BadInput(f"{quote(typed)} is no span of time", todo)
    try:
        seconds = sum(int(count) * _SECONDS[unit] for count, unit in _PART.findall(typed))
    except ValueError:  # more digits than one number may have
        seconds = _MOST_SECONDS + 1
    if seconds > _MOST_SECONDS:
        raise BadInput(f"{_short(typed)} is longer than any calendar", todo)
    return timedelta(seconds=seconds)


def moment(typed: str, todo: str) -> datetime:
    """A moment with its offset from UTC, in UTC. Raises BadInput. `todo`: what to write instead."""
    try:
        found = datetime.fromisoformat(typed)
    except ValueError:
        raise BadInput(f"{quote(typed)} is no moment", todo) from None
    if found.tzinfo is None:
        raise BadInput(f"{typed} may be in any time zone", todo)
    try:
        return found.astimezone(UTC)
    except OverflowError:
        raise BadInput(f"{typed} is beyond the calendar in UTC", todo) from None


def _short(typed: str) -> str:
    return quote(typed) if len(typed) <= _LONGEST else f"{quote(typed[:_LONGEST])}…"


def since(typed: str, now: datetime) -> datetime:
    """From when on: a span back from now, a day in UTC, or a moment. Raises BadInput."""
    todo = "write it as 7d or 12h, as a day in UTC such as 2026-05-01, or as 2026-05-01T14:00:00Z"
    if is_span(typed):
        return now - span(typed)
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", typed):
        try:
            day = date.fromisoformat(typed)
        except ValueError:
            raise BadInput(f"{typed} is no day", todo) from None
        return datetime(day.year, day.month, day.day, tzinfo=UTC)
    return moment(typed, todo)
