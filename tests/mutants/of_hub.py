"""Hubs with one thing made wrong."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

from reconciler.hub import away, losing, watch
from reconciler.hub import decide as deciding
from reconciler.hub.cycle import Hub
from reconciler.hub.granting import Due, Granting
from reconciler.hub.leader import Leadership
from reconciler.hub.leases import Leases, LeaseSeen
from reconciler.hub.regions import Reports
from reconciler.hub.watch import Watch
from reconciler.hub.world import World
from reconciler.model.attempt import Attempt
from reconciler.model.grants import Grants
from reconciler.model.record import JobRecord
from reconciler.planning import observed
from reconciler.planning.observed import Seen
from tests.mutants.mutating import exchanged, mutant


@mutant("a region is given up without its lease being revoked")
@contextmanager
def no_revocation() -> Iterator[None]:
    def revoke(leases: Leases, region: str) -> bool:
        seen = leases.seen[region]
        if seen.lease is None:
            return False
        leases.seen[region] = replace(seen, lease=seen.lease.model_copy(update={"revoked": True, "epoch": seen.lease.epoch + 1}))
        return True

    with exchanged(Leases, "revoke", lambda _: revoke):
        yield


class _Whatever(str):
    """Is every ETag there is."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, _other: object) -> bool:
        return True

    def __ne__(self, _other: object) -> bool:
        return False


@mutant("a lease is revoked by a plain write")
def revoked_without_compare_and_swap() -> AbstractContextManager[None]:
    def made(real: Any) -> Any:
        def write(leases: Leases, region: str, seen: LeaseSeen, lease: Any) -> bool:
            done: bool = real(leases, region, replace(seen, etag=_Whatever()), lease)
            return done

        return write

    return exchanged(Leases, "_write", made)


@mutant("attempts are granted under whatever epoch their region has")
@contextmanager
def attempts_of_any_epoch() -> Iterator[None]:
    def made(real: Any) -> Any:
        def write(granting: Granting, region: str, wanted: Due, *more: Any) -> Grants:
            epoch = granting._epoch(region, None)
            attempts = tuple(grant.model_copy(update={"epoch": epoch}) for grant in wanted.attempts)
            done: Grants = real(granting, region, replace(wanted, attempts=attempts), *more)
            return done

        return write

    with exchanged(Granting, "write", made), exchanged(observed, "_is_lost", made_lost):
        yield


def made_lost(_real: Any) -> Any:
    """Then a revoked lease is the only sign, for as long as it stands."""

    def is_lost(_attempt: Attempt, seen: Seen) -> bool:
        return seen.away is not None and seen.away.given_up_at is not None

    return is_lost


@mutant("a hub of an earlier term goes on to write the ledger")
def ledger_without_a_term() -> AbstractContextManager[None]:
    return exchanged(Hub, "_yield_to", lambda _: lambda *_: None)


@mutant("the grant comes before the ledger's commit")
def grant_before_the_ledger() -> AbstractContextManager[None]:
    def made(real: Any) -> Any:
        def publication(hub: Hub, world: World, seen: Any, outcome: Any, rendered: Any, now: Any) -> Any:
            found = real(hub, world, seen, outcome, rendered, now)
            hub._grant(found[1].records, seen, seen.heads)
            return found

        return publication

    return exchanged(Hub, "_publication", made)


@mutant("a new leader goes on under its predecessor's term")
@contextmanager
def no_new_term() -> Iterator[None]:
    def made(real: Any) -> Any:
        def first(leadership: Leadership, term: int) -> Any:
            return real(leadership, max(term - 1, 1))

        return first

    with exchanged(Leadership, "_first", made), exchanged(Hub, "_yield_to", lambda _: lambda *_: None):
        yield


@mutant("a region's lease may be revoked at the fence: no time to end, no margin")
def no_time_to_end() -> AbstractContextManager[None]:
    def made(_real: Any) -> Any:
        def revocable_in(sight: losing.Sight, now: float) -> float | None:
            lease = sight.lease
            if lease is None or lease.lease is None or lease.revoked:
                return None
            return max(lease.since + lease.lease.self_fence_seconds - now, 0.0)

        return revocable_in

    return exchanged(losing, "revocable_in", made)


@mutant("the clock of a lease goes on through its renewals")
def clock_through_renewals() -> AbstractContextManager[None]:
    def made(real: Any) -> Any:
        def look(leases: Leases, region: str, gap_seconds: float) -> LeaseSeen:
            before = leases.seen.get(region)
            found: LeaseSeen = real(leases, region, gap_seconds)
            return found if before is None else replace(found, since=before.since)

        return look

    return exchanged(Leases, "_look", made)


@mutant("the stretch in which the hub did not see counts as silence")
@contextmanager
def blind_stretches_count() -> Iterator[None]:
    def look(watching: Watch, reports: Reports) -> None:
        watching._blind = frozenset(reports.silent)
        for name in watching._times.keys() - watching._blind:
            since = watching._seen_since.setdefault(name, watching._monotonic())
            watching._looked_at[name] = watching._monotonic()
            watching._heard_at[name] = max(reports.heard_at(name) or since, since)
        watching.leases.look(watching._watched(), float("inf"))

    with exchanged(Watch, "look", lambda _: look):
        yield


@mutant("any number of regions is given up at once")
@contextmanager
def many_at_once() -> Iterator[None]:
    with exchanged(watch, "ONE_A_MINUTE", lambda _: 0.0), exchanged(watch, "doubts_itself", lambda _: lambda *_: False):
        yield


@mutant("a report counts for grants that its region has not acted on")
def any_report_proves_a_stop() -> AbstractContextManager[None]:
    def made(real: Any) -> Any:
        def seen_of(record: JobRecord, world: World) -> Seen:
            found: Seen = real(record, world)
            return replace(found, without_it=True)

        return seen_of

    return exchanged(deciding, "_seen", made)


@mutant("what was being stopped when its region was lost is done again")
def forgets_what_was_being_stopped() -> AbstractContextManager[None]:
    def made(_real: Any) -> Any:
        def same(record: JobRecord, _attempt: Attempt, _seen: Seen) -> JobRecord:
            return record

        return same

    return exchanged(observed, "_lost_while_stopping", made)


@mutant("a word of a region holds of any later silence")
def words_that_never_end() -> AbstractContextManager[None]:
    def made(_real: Any) -> Any:
        def every(words: Any, _notes: Any) -> list[Any]:
            return list(words)

        return every

    return exchanged(away, "holding", made)
