"""What a directed link is believed to give, how much of that our transfers may hold, and when it is full.

Numbers are bytes a second. A measured rate goes before a declared one, less a margin that widens with its age; of a capacity that
is only declared the widest margin is taken off. A declared capacity is never exceeded, whatever was measured: it may be all that
is paid for. What nobody knows stays unknown (None), and 0 is 0: such a link carries nothing. Who gets how much is for
reservations.py to say.

Invariant: usable ≤ `link_share` × believed, less what is held; never below 0.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from reconciler.model.fleet import Link
from reconciler.model.policy import Thresholds
from reconciler.model.reasons import Reason, Why, because
from reconciler.planning.measured import Measured

LinkKey = tuple[str, str]
"""(source, target), the names of two regions."""

BYTES_PER_GBIT = 125e6
HOUR = 3600.0
MB = 1e6


def margin(measured: Measured | None, thresholds: Thresholds) -> float:
    """The share of the rate that is not believed: 0 of a new measurement, `declared_margin` of an old one or of none."""
    if measured is None:
        return thresholds.declared_margin
    age = measured.age_seconds / (thresholds.measured_for_hours * HOUR)
    return thresholds.declared_margin * min(1.0, max(0.0, age))


def believed(link: Link, measured: Measured | None, thresholds: Thresholds) -> float | None:
    """What the link is believed to give, in bytes a second; None where nobody has measured or declared it."""
    declared = None if link.gbit_per_second is None else link.gbit_per_second * BYTES_PER_GBIT
    sure = 1.0 - margin(measured, thresholds)
    if measured is None:
        return None if declared is None else declared * sure
    rate = measured.bytes_per_second * sure
    return rate if declared is None else min(rate, declared)


def usable(link: Link, measured: Measured | None, thresholds: Thresholds, held: int = 0) -> int | None:
    """What transfers may hold of the link beside what others hold already, in bytes a second; None where unknown."""
    rate = believed(link, measured, thresholds)
    return None if rate is None else max(0, int(rate * thresholds.link_share) - held)


def usable_rates(
    links: Mapping[LinkKey, Link], measured: Mapping[LinkKey, Measured], thresholds: Thresholds
) -> dict[LinkKey, int]:
    """What our transfers together may hold of each link, in bytes a second; a link of unknown rate is left out."""
    rates = {key: usable(link, measured.get(key), thresholds) for key, link in links.items()}
    return {key: rate for key, rate in rates.items() if rate is not None}


def crowded_since(
    held: Mapping[LinkKey, int],
    rates: Mapping[LinkKey, int],
    before: Mapping[LinkKey, datetime],
    now: datetime,
) -> dict[LinkKey, datetime]:
    """Links of which more is held than may be, and since when without a break. `rates`: see `usable_rates`; `before`: what this
    returned last.

    Reservations are cut in the same cycle in which a link worsens; what is held stays above for longer only where transfers
    cannot be told so, or where the link gets ever worse.
    """
    return {key: before.get(key, now) for key, amount in sorted(held.items()) if key in rates and amount > rates[key]}


def full_links(
    since: Mapping[LinkKey, datetime],
    held: Mapping[LinkKey, int],
    rates: Mapping[LinkKey, int],
    now: datetime,
    thresholds: Thresholds,
) -> dict[LinkKey, Reason]:
    """Links that were crowded for so long that no transfer may begin on them. `since`: from `crowded_since`."""
    patience = timedelta(minutes=thresholds.link_full_minutes)
    return {key: _full(key, began, held, rates) for key, began in sorted(since.items()) if now - began >= patience}


def _full(key: LinkKey, began: datetime, held: Mapping[LinkKey, int], rates: Mapping[LinkKey, int]) -> Reason:
    source, target = key
    amounts = {"held_mb": round(held.get(key, 0) / MB, 1), "usable_mb": round(rates.get(key, 0) / MB, 1)}
    return because(Why.LINK_FULL, source=source, target=target, since=began.strftime("%Y-%m-%dT%H:%M:%SZ"), **amounts)
