"""Regions that are being drained, for the cycle: which attempts leave them now. What becomes of each is planning's to say.

A move that a person would have to approve is not made on the hub's own account: such a job stays until the moment itself.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

from reconciler.hub.index import holding_of, job_view
from reconciler.hub.review import approval_needed
from reconciler.model.attempt import Outcome, State
from reconciler.model.names import JobKey
from reconciler.model.policy import Policy
from reconciler.model.reasons import Why, because
from reconciler.model.record import JobRecord
from reconciler.model.region import Region
from reconciler.planning.draining import Exit, Leaving, exits
from reconciler.planning.lifecycle import settle
from reconciler.planning.records import run_limit, withdraw
from reconciler.planning.snapshot import Snapshot


def drained(regions: Mapping[str, Region]) -> frozenset[str]:
    """Those that are being drained."""
    return frozenset(name for name, region in regions.items() if region.drain_by is not None)


def leaving(records: Iterable[JobRecord], regions: frozenset[str], silent: Iterable[str], policy: Policy) -> list[Leaving]:
    """The attempts that stand in these regions. `silent`: regions that are not heard of."""
    found = []
    unheard = frozenset(silent)
    for record in records:
        attempt = record.current
        if attempt is None or attempt.region not in regions or attempt.state is State.PROPOSED:
            continue
        stopping = attempt.state is State.STOPPING
        if stopping and (record.cancelled or record.spec.suspend):
            continue  # it goes nowhere
        holding = holding_of(record, policy)
        found.append(
            Leaving(
                job_view(record, run_limit(record.spec, policy)),
                attempt.region,
                holding.ends_at if holding is not None else None,
                moving=stopping,
                silent=attempt.region in unheard,
            )
        )
    return found


def exits_of(records: Mapping[JobKey, JobRecord], snapshot: Snapshot, silent: Iterable[str], now: datetime) -> tuple[Exit, ...]:
    """What becomes of each attempt in the regions that are being drained. `snapshot`: with everything placed that could be."""
    regions = drained({name: view.region for name, view in snapshot.regions.items()})
    if not regions:
        return ()
    found = exits(leaving(records.values(), regions, silent, snapshot.policy), snapshot, now)
    return tuple(_as_approved(each, records[each.key], snapshot) for each in found)


def _as_approved(leaves: Exit, record: JobRecord, snapshot: Snapshot) -> Exit:
    if leaves.to is None or approval_needed(leaves.key, record, leaves.to, snapshot.policy) is None:
        return leaves
    return Exit(leaves.key, leaves.region, "waits", snapshot.regions[leaves.region].region.drained_at)


def emptied(
    records: Mapping[JobKey, JobRecord], snapshot: Snapshot, silent: Iterable[str], now: datetime
) -> dict[JobKey, JobRecord]:
    """The records that change: what leaves now is being stopped, and what was only proposed there is proposed no more."""
    policy, changed = snapshot.policy, {}
    for each in exits_of(records, snapshot, silent, now):
        if each.reason is not None:
            changed[each.key] = settle(withdraw(records[each.key], Outcome.MOVED, each.reason, now), policy, now)
    regions = drained({name: view.region for name, view in snapshot.regions.items()})
    for key, record in records.items():
        attempt = record.current
        if attempt is not None and attempt.state is State.PROPOSED and attempt.region in regions:
            reason = because(Why.DRAINING, region=attempt.region, by=snapshot.regions[attempt.region].region.drain_by)
            changed[key] = settle(withdraw(record, Outcome.WITHDRAWN, reason, now), policy, now)
    return changed
