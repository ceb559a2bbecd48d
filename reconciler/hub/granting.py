"""The grants: what the published ledger lets run, region by region, written to the store by compare-and-swap.

First the ledger's commit, then the grant. A grant is a pure function of the ledger, so a hub that dies in between is healed by
the next. A new leader writes every region's grants anew under its own term, so that a paused predecessor's late write fails; and
taking a right away writes a new version even where the attempt is absent already (it may be in a write still under way).
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from pydantic import ValidationError

from reconciler.hub.index import Index
from reconciler.hub.regions import RegionSeen
from reconciler.model.grants import Grant, Grants, Lease, grants_key, lease_key
from reconciler.model.names import attempt_at
from reconciler.ports import Conflict, ObjectStore, Refused

_NOT_AS_WRITTEN = frozenset({"GrantsMissing", "GrantsBroken", "GrantsWentBack", "GrantsContradict"})
"""What a region says of grants that are not there as they were written; that it could not read them is no such word."""


@dataclass(frozen=True, slots=True)
class Due:
    """What one region's grants should say."""

    attempts: tuple[Grant, ...]
    stopping: frozenset[str]
    forget: tuple[str, ...]
    strangers: frozenset[str] = frozenset()
    """Attempts whose manifest stands there and which no record knows: what was granted to them before stays granted."""
    revoked: bool = False
    """The region's lease is revoked: nothing may run there."""


def due(
    index: Index,
    regions: Iterable[str],
    seen: Mapping[str, RegionSeen],
    manifests: Mapping[str, frozenset[str]],
    revoked: Collection[str] = (),
) -> dict[str, Due]:
    """What every region's grants should say, from the published ledger. Regions with attempts but no declaration are in it.

    `manifests`: region → paths that stand on its branch; `revoked`: regions that were given up.
    """
    return {
        name: Due(
            index.grants(name),
            index.stopping(name),
            tuple(sorted(_left_over(name, seen.get(name), index))),
            frozenset(attempt_at(path) for path in index.strangers(name, manifests.get(name, frozenset()))),
            name in revoked,
        )
        for name in sorted({*regions, *index.regions()})
    }


def _left_over(name: str, region: RegionSeen | None, index: Index) -> list[str]:
    """Objects of ours that the region's branch does not have any more and the ledger has done with."""
    if region is None:
        return []
    left = [attempt for attempt, work in region.workloads.items() if work.left_over and work.state != "Absent"]
    return [attempt for attempt in left if not index.is_alive(name, attempt)]


class Granting:
    """Writes grants. Remembers what it wrote; a new one reads before it writes, so nothing of this needs to survive."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._written: dict[str, tuple[str, Grants]] = {}
        self._versions: dict[str, int] = {}
        self._term = 0
        self.highest_term = 0
        """Of all grants that were ever seen here."""
        self.withdrawn_at: dict[str, int] = {}
        """Attempt that is being stopped → the first version of its region's grants that is known not to list it."""

    def reset(self) -> None:
        """Forget everything; for a hub that lost the lead."""
        self._written.clear()
        self.withdrawn_at.clear()

    def write(self, region: str, wanted: Due, commit: str | None, term: int, seen: RegionSeen | None) -> Grants:
        """Bring one region's grants up to date. `seen`: its newest report, if there is one.

        Raises Conflict where another hub has written with a later term, Transient, Refused.
        """
        if term != self._term:
            self.reset()
            self._term = term
        if seen is not None and not _NOT_AS_WRITTEN.isdisjoint(seen.health):
            self._written.pop(region, None)  # they are not there as they were written: somebody else had a hand in them
        known = self._written.get(region) or self._read(region)
        before = known[1] if known is not None else None
        self.highest_term = max(self.highest_term, term, before.term if before is not None else 0)
        wanted = _with_strangers(wanted, before)
        # The lease is read only when somebody says that it changed: most cycles ask the store for nothing.
        same_epoch = before is not None and seen is not None and seen.lease_epoch == before.epoch and region in self._written
        epoch = 0 if wanted.revoked else before.epoch if before is not None and same_epoch else self._epoch(region, before)
        if before is not None and before.term > term:
            raise Conflict(f"the grants of {region} are of term {before.term}, ours is {term}: another hub leads")
        fresh = frozenset(wanted.stopping - self.withdrawn_at.keys())
        if any(grant.epoch != epoch for grant in wanted.attempts):
            wanted = replace(wanted, attempts=tuple(grant for grant in wanted.attempts if grant.epoch == epoch))
        if before is not None and region in self._written and not fresh and _same(before, wanted, commit, term, epoch):
            return before
        said = before.version if before is not None else 0, seen.grants_version if seen is not None else 0
        version = max(*said, self._versions.get(region, 0)) + 1
        grants = Grants(
            region=region,
            term=term,
            version=version,
            epoch=epoch,
            commit=commit,
            attempts=wanted.attempts,
            forget=wanted.forget,
        )
        self._put(grants, known[0] if known is not None else None)
        if known is not None:  # else a version was lost that the region may have acted on: only the next one says something
            self.withdrawn_at |= dict.fromkeys(fresh, version)
        return grants

    def without_epoch(self) -> frozenset[str]:
        """Regions whose grants, as they stand, let nothing run: nobody holds a lease there that the hub has seen."""
        return frozenset(name for name, (_, grants) in self._written.items() if grants.epoch == 0)

    def epoch_of(self, region: str) -> int:
        """Of the region's grants as they stand; 0 where they let nothing run, or none were written."""
        known = self._written.get(region)
        return known[1].epoch if known is not None else 0

    def _put(self, grants: Grants, expect: str | None) -> None:
        try:
            etag = self._store.put(grants_key(grants.region), grants.model_dump_json().encode(), expect=expect)
        except Conflict:
            self._written.pop(grants.region, None)
            raise
        self._written[grants.region] = (etag, grants)
        self._versions[grants.region] = grants.version

    def forget_ended(self, alive: frozenset[str]) -> None:
        """Drop what is known of attempts that have ended."""
        for name in [name for name in self.withdrawn_at if name not in alive]:
            del self.withdrawn_at[name]

    def _read(self, region: str) -> tuple[str, Grants] | None:
        stored = self._store.get(grants_key(region))
        if stored is None:
            return None
        try:
            return stored.etag, Grants.model_validate_json(stored.body)
        except ValidationError as error:
            raise Refused(f"{grants_key(region)} in the store cannot be read; look at it, then delete it") from error

    def _epoch(self, region: str, before: Grants | None) -> int:
        """Epoch of the region's lease; 0 where it never had one or it was revoked, and then nothing may run.

        A lease that is gone stops nothing: an agent that still holds it makes it anew under the same epoch, any other under
        the next.
        """
        stored = self._store.get(lease_key(region))
        if stored is None:
            return before.epoch if before is not None else 0
        try:
            lease = Lease.model_validate_json(stored.body)
        except ValidationError as error:
            raise Refused(f"{lease_key(region)} in the store cannot be read; look at it, then delete it") from error
        return 0 if lease.revoked else lease.epoch


def _with_strangers(wanted: Due, before: Grants | None) -> Due:
    if before is None or not wanted.strangers:
        return wanted
    kept = [grant for grant in before.attempts if grant.attempt in wanted.strangers]
    return replace(wanted, attempts=tuple(sorted((*wanted.attempts, *kept), key=lambda grant: grant.attempt))) if kept else wanted


def _same(before: Grants, wanted: Due, commit: str | None, term: int, epoch: int) -> bool:
    said = (before.attempts, before.forget, before.commit, before.term, before.epoch)
    return said == (wanted.attempts, wanted.forget, commit, term, epoch)
