"""What the links do, as the agents at their ends have measured it: one value a directed link.

A rate here is what one transfer was seen to reach while the link had room for it, never a reservation. Who gives a transfer how
much of it is for others to say, and what stands in for a link that is not here.

Both ends of a link measure it, one by writing and one by reading. The end whose transfer is newer is believed, for it has seen
what the other has not yet; but where its newest transfer speaks for the other end's rate and against its own, that one is: an end
that has seen a link fall once stands by its median, and the other may have seen it twice. Of links between others an agent knows
nothing.

Invariant: a rate is above 0 and was measured; what is too old is not here at all, and a try that failed changes no rate.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from reconciler.model.report import LinkProbe

MOST_AGE_SECONDS: Final = 12 * 3600.0
"""What was measured longer ago says nothing of the link any more; how far it is believed until then is for links.py."""
Way: TypeAlias = tuple[str, str]
"""A directed link: (source, target)."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One directed link. `age_seconds`: since its newest transfer ended. `samples`: transfers behind the rate.

    `rtt_ms`: the round trip as the kernel of one end sees it; None where no connection tells.
    """

    bytes_per_second: float
    age_seconds: float
    samples: int
    rtt_ms: float | None = None
    problem: str = ""
    """Why the last try failed, where it did at every end that tells of the link: it may be down."""


@dataclass(frozen=True, slots=True)
class _View:
    """What one end says of a link."""

    rate: float
    newest: float
    age_seconds: float
    samples: int
    rtt_ms: float | None
    problem: str


def measured_links(probes: Mapping[str, Sequence[LinkProbe]], ages: Mapping[str, float | None]) -> dict[Way, Measured]:
    """Every link that was measured of late. `probes`: what each region's newest report says; `ages`: seconds since that came, by
    the hub's own clock, None where it never did."""
    views: dict[Way, list[_View]] = {}
    for region, told in sorted(probes.items()):
        age = ages.get(region)
        for probe in told if age is not None else ():
            view = _view(probe, age or 0.0)
            if view is not None and region in (probe.source, probe.target):
                views.setdefault((probe.source, probe.target), []).append(view)
    return {way: _one(each) for way, each in views.items()}


def _view(probe: LinkProbe, report_age: float) -> _View | None:
    rate = probe.bytes_per_second
    if rate is None or not 0 < rate < math.inf or probe.age_seconds is None:
        return None
    age = probe.age_seconds + report_age
    if not age <= MOST_AGE_SECONDS:
        return None
    newest = probe.newest_bytes_per_second
    return _View(
        rate, newest if newest is not None and 0 < newest < math.inf else rate, age, probe.samples, probe.rtt_ms, probe.problem
    )


def _one(views: Sequence[_View]) -> Measured:
    """Of a link's one or two views."""
    fresh = min(views, key=lambda view: (view.age_seconds, -view.samples, view.rate))
    # The sort is stable: at the same distance the fresher end is believed.
    chosen = min(sorted(views, key=lambda view: view is not fresh), key=lambda view: abs(math.log(view.rate / fresh.newest)))
    rtts = [view.rtt_ms for view in (fresh, chosen, *views) if view.rtt_ms is not None]
    problem = fresh.problem if all(view.problem for view in views) else ""
    return Measured(chosen.rate, fresh.age_seconds, chosen.samples, rtts[0] if rtts else None, problem)
