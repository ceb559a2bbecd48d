"""The regions' leases as the hub sees them: for how long each has not changed, by the hub's own clock; and their revocation.

A lease stands since its ETag was first seen, counted from the moment the answer came: no later than the renewal that wrote it was
sent. A stretch in which the hub did not look, or got no answer, counts for nothing: then all of it begins anew.

Invariant: a lease is revoked only by a compare-and-swap on the very ETag that was watched. Answers that are old can delay
that, and make it fail; they cannot make it wrong.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pydantic import ValidationError

from reconciler.model.grants import Lease, lease_key
from reconciler.ports import Conflict, ObjectStore, Refused, Transient


@dataclass(frozen=True, slots=True)
class LeaseSeen:
    """A region's lease. Times are seconds of the hub's monotonic clock."""

    etag: str | None
    """None: there is none in the store."""
    lease: Lease | None
    """None: there is none, or what stands there is none."""
    since: float
    """From when it is known to have been just this."""
    looked_at: float

    @property
    def revoked(self) -> bool:
        """Whether the region has no right to run anything."""
        return self.lease is not None and self.lease.revoked


class Leases:
    """The leases of the regions that are watched."""

    def __init__(self, store: ObjectStore, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._monotonic = monotonic
        self.seen: dict[str, LeaseSeen] = {}
        self.unseen: dict[str, str] = {}
        """Region → why its lease could not be looked at."""

    def look(self, regions: Iterable[str], gap_seconds: float) -> None:
        """Look at these leases; the others are forgotten. `gap_seconds`: looks farther apart are no watching."""
        watched = sorted(regions)
        self.seen = {name: seen for name, seen in self.seen.items() if name in watched}
        self.unseen = {}
        for name in watched:
            try:
                self.seen[name] = self._look(name, gap_seconds)
            except (Transient, Refused) as error:
                self.unseen[name] = str(error)

    def _look(self, region: str, gap_seconds: float) -> LeaseSeen:
        before, key = self.seen.get(region), lease_key(region)
        etag = self._store.etag(key)
        now = self._monotonic()
        if before is not None and etag == before.etag:
            since = before.since if now - before.looked_at <= gap_seconds else now
            return LeaseSeen(etag, before.lease, since, now)
        stored = self._store.get(key)
        now = self._monotonic()
        if stored is None:
            return LeaseSeen(None, None, now, now)
        return LeaseSeen(stored.etag, _parsed(stored.body, region), now, now)

    def revoke(self, region: str) -> bool:
        """Take the region's right away, under the next epoch; False where its lease is not what was watched: it is alive.

        Raises Transient and Refused.
        """
        seen = self.seen[region]
        if seen.lease is None:
            return False
        return self._write(region, seen, seen.lease.model_copy(update={"revoked": True, "epoch": seen.lease.epoch + 1}))

    def reserve(self, region: str, epoch: int) -> bool:
        """For a region without a lease that can be read: make one, revoked. False where its agent was quicker.

        Raises Transient and Refused.
        """
        return self._write(region, self.seen[region], Lease(region=region, epoch=epoch, incarnation="", renewal=0, revoked=True))

    def _write(self, region: str, seen: LeaseSeen, lease: Lease) -> bool:
        lease = lease.model_copy(update={"renewal": lease.renewal + 1})
        try:
            etag = self._store.put(lease_key(region), lease.model_dump_json().encode(), expect=seen.etag)
        except Conflict:
            del self.seen[region]  # somebody renewed it: it is looked at anew
            return False
        now = self._monotonic()
        self.seen[region] = LeaseSeen(etag, lease, now, now)
        return True


def _parsed(body: bytes, region: str) -> Lease | None:
    try:
        lease = Lease.model_validate_json(body)
    except ValidationError:
        return None  # its agent says so as well, and cannot renew it
    return lease if lease.region == region else None
