"""What went wrong lately, counted, for the report: no error of a store, a cluster or an engine is dropped.

Decides how long a trouble is shown and how many; pure. Invariant: at most MOST troubles are kept; the newest stay.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from reconciler.model.report import Health

MOST: Final = 50
_LONGEST: Final = 500


@dataclass(frozen=True, slots=True)
class Trouble:
    """One kind of failure at one thing: how often since it began, and when last (seconds of the monotonic clock)."""

    count: int
    last: float
    message: str


Troubles = Mapping[tuple[str, str], Trouble]
"""By code, and by what it is about."""


def noted(troubles: Troubles, code: str, about: str, error: Exception, now: float) -> Troubles:
    """The troubles with one more."""
    before = troubles.get((code, about), Trouble(0, now, ""))
    words = f"{about}: {error}" if str(error) else f"{about}: {type(error).__name__}"
    after = replace(before, count=before.count + 1, last=now, message=words[:_LONGEST])
    others = [(key, trouble) for key, trouble in troubles.items() if key != (code, about)]
    return dict([*others, ((code, about), after)][-MOST:])


def recent(troubles: Troubles, now: float, for_seconds: float) -> Troubles:
    """The troubles of the last `for_seconds`."""
    return {key: trouble for key, trouble in troubles.items() if now - trouble.last <= for_seconds}


def shown(troubles: Troubles) -> tuple[Health, ...]:
    """The troubles as a report has them, by code and subject."""
    return tuple(
        Health(code=code, message=trouble.message if trouble.count == 1 else f"{trouble.message} ({trouble.count} times)")
        for (code, _), trouble in sorted(troubles.items())
    )
