"""How far another's clock is before ours, by a time that it told us. Pure."""

from datetime import datetime


def ahead_seconds(told: datetime, before: datetime, after: datetime) -> float:
    """Seconds by which the other's clock is before ours. It told whole seconds, between `before` and `after` of our clock.

    Only what neither rounding nor a slow answer explains counts; 0 where both could.
    """
    early, late = (told - after).total_seconds(), (told - before).total_seconds() + 1.0
    return early if early > 0 else min(late, 0.0)
