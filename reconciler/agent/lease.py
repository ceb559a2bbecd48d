"""The region's lease: taken and renewed by compare-and-swap, counted from the moment its request was sent.

Decides under which epoch the region runs and until when; what is done when the lease is gone is decide.py's.

The epoch rises by one at each revocation: the hub writes `revoked: true` with the new epoch, and the agent takes that epoch
with `revoked: false` once everything of the old one has stopped and it has said so in a report. Where the lease itself was
lost or set back, the agent goes on under its own epoch while its lease is valid (no revocation can have come before that
ends), and else under the next one.

Invariants: a renewal whose outcome is not known extends nothing; the epoch never falls; no epoch but the present one is taken
while anything of an older one may run.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from pydantic import ValidationError

from reconciler.agent.record import Record, Renewal
from reconciler.model.grants import Lease, lease_key
from reconciler.ports import Conflict, ObjectStore

SKEW_SECONDS = 10.0
"""By so much the clocks of a region's machines may differ; the protocol's margin is three times that."""


class LeaseHeld(Exception):
    """Another agent has this region's lease, and this one knows of no epoch of its own: it may stand in another cluster.

    `holding` is what is known now. The lease is taken over only when it has not changed for so long that whoever had it has
    stopped everything: two clusters under one region's name would else run one attempt twice.
    """

    def __init__(self, words: str, holding: "Holding") -> None:
        super().__init__(words)
        self.holding = holding


class LeaseBroken(Exception):
    """What stands in the store is not this region's lease. Nobody but a person can say what it was."""


@dataclass(frozen=True, slots=True)
class Holding:
    """What the agent knows of its lease. Times are seconds of the monotonic clock."""

    epoch: int = 0
    """Under which the region runs; 0 before the first lease."""
    etag: str | None = None
    """Of `lease`; None: it must be read before it is written."""
    lease: Lease | None = None
    renewal: int = 0
    """The highest number of a renewal that was seen or written, so that no body ever comes twice."""
    sent_at: float | None = None
    """When the last renewal that the store acknowledged was sent; None: none since this agent's start."""
    offered: int | None = None
    """A newer epoch, to be taken once everything of the present one has stopped."""
    watched: tuple[str, float] | None = None
    """ETag of another agent's lease, and since when it has not changed."""


@dataclass(frozen=True, slots=True)
class Taking:
    """One try to renew: who, when it is sent, how far the present lease is good, and what is known beside it."""

    region: str
    incarnation: str
    now: float
    valid: bool
    cleared: int | None = None
    """The offered epoch for which everything has stopped and that was reported."""
    is_new_here: bool = False
    """There is no record here and nothing of ours runs: the lease of another agent may be of another cluster."""
    joined: frozenset[str] = frozenset()
    """Agents of this cluster that have tried to take the lease: theirs is no other cluster's."""
    takeover_seconds: float = 300.0
    """How long another agent's lease must not have changed before it may be taken over."""
    granted_epoch: int = 0
    """Of the newest grants: an epoch that the hub has seen. Only counts where there is no other trace of one."""
    self_fence_seconds: float = 240.0
    """What the lease is to say of its holder: how long it lets ours run without a renewal, and ..."""
    fence_kill_seconds: float = 30.0
    """... how long it takes at most to stop it then."""


def is_valid(holding: Holding, now: float, self_fence: float) -> bool:
    """Whether the lease is good at `now`: only then may anything be released."""
    return holding.offered is None and holding.sent_at is not None and holding.sent_at + self_fence > now


def fence_at(holding: Holding, record: Record, inherited: float | None, self_fence: float) -> float:
    """When everything must be stopped unless there is a renewal before: by the newest of this agent's and the record's.

    `inherited` is when the record's renewal was sent, on this agent's clock; None for none. Another of the agent's replicas may
    have renewed under the same epoch while this one was cut off. No renewal at all means: at once.
    """
    known = [holding.sent_at, None if record.fenced else inherited]
    return max((at for at in known if at is not None), default=float("-inf")) + self_fence


def inherited_from(renewal: Renewal | None, boot: str, now: float, wall: datetime) -> float | None:
    """When another agent's renewal was sent, on this agent's clock; None where that cannot be told.

    Within one boot the monotonic clock counts on. Else the wall clocks must do; one from the future is not believed.
    """
    if renewal is None:
        return None
    if boot and renewal.boot == boot and renewal.monotonic <= now:
        return renewal.monotonic
    age = (wall - renewal.sent_at).total_seconds()
    return None if age < -SKEW_SECONDS else now - max(age, 0.0)


def renew(store: ObjectStore, holding: Holding, taking: Taking) -> Holding:
    """One renewal, with one more look at the lease where somebody else wrote it. Raises Transient, Refused or LeaseBroken.

    After Transient the caller goes on with the holding it had, after any other error with `unread(holding)`.
    """
    if holding.etag is None:
        holding = _read(store, holding, taking.region)
    try:
        return _write(store, holding, taking)
    except Conflict:
        return _write(store, _read(store, holding, taking.region), taking)


def unread(holding: Holding) -> Holding:
    """What is left where the store's lease is not the one that is known: it must be read before the next try."""
    return replace(holding, etag=None, lease=None)


def _read(store: ObjectStore, holding: Holding, region: str) -> Holding:
    stored = store.get(lease_key(region))
    if stored is None:
        return replace(holding, etag=None, lease=None)
    try:
        lease = Lease.model_validate_json(stored.body)
    except ValidationError as error:
        words = "is not a lease, so it cannot be renewed, and all of ours is stopped when the last renewal is too old; delete it"
        raise LeaseBroken(f"{lease_key(region)} {words}") from error
    if lease.region != region:
        raise LeaseBroken(f"{lease_key(region)} is the lease of {lease.region}; give each region a store prefix of its own")
    return replace(holding, etag=stored.etag, lease=lease, renewal=max(lease.renewal, holding.renewal))


def _write(store: ObjectStore, holding: Holding, taking: Taking) -> Holding:
    """Write the lease, if its epoch is one that may be taken; else note the epoch that is offered."""
    found = holding.lease
    ours = taking.joined | {taking.incarnation}
    stranger = taking.is_new_here and found is not None and not found.revoked and found.incarnation not in ours
    if found is not None and stranger:
        return _take_over(store, holding, found, taking)
    epoch, at_once = next_epoch(found, holding.epoch, valid=taking.valid, granted_epoch=taking.granted_epoch)
    if not at_once and taking.cleared != epoch:
        return replace(holding, offered=epoch)
    return _put(store, holding, taking, epoch)


def _take_over(store: ObjectStore, holding: Holding, found: Lease, taking: Taking) -> Holding:
    """Take another agent's lease under the next epoch, once it is certain that whoever had it runs nothing. Raises LeaseHeld."""
    etag = holding.etag or ""
    since = holding.watched[1] if holding.watched is not None and holding.watched[0] == etag else taking.now
    lasts = found.self_fence_seconds + found.fence_kill_seconds - taking.self_fence_seconds - taking.fence_kill_seconds
    left = since + taking.takeover_seconds + max(lasts, 0.0) - taking.now
    if left > 0:
        words = (
            f"{lease_key(taking.region)} is another agent's ({found.incarnation}); taken over if unchanged for {left:.0f} s more"
        )
        raise LeaseHeld(words, replace(holding, watched=(etag, since)))
    return _put(store, holding, taking, found.epoch + 1)


def _put(store: ObjectStore, holding: Holding, taking: Taking, epoch: int) -> Holding:
    lease = Lease(
        region=taking.region,
        epoch=epoch,
        incarnation=taking.incarnation,
        renewal=holding.renewal + 1,
        self_fence_seconds=taking.self_fence_seconds,
        fence_kill_seconds=taking.fence_kill_seconds,
    )
    etag = store.put(lease_key(taking.region), lease.model_dump_json().encode(), expect=holding.etag)
    return Holding(epoch, etag, lease, lease.renewal, sent_at=taking.now)


def next_epoch(found: Lease | None, own: int, *, valid: bool, granted_epoch: int) -> tuple[int, bool]:
    """The epoch that the agent may take, and whether at once or only after everything has stopped. Pure.

    `own` is the epoch it runs under (0: it knows of none), `valid` whether its lease is still good.
    """
    if found is not None and found.revoked:
        return max(found.epoch, own + 1), False
    if found is not None and found.epoch >= own:
        # A higher one was taken by another replica, or by this agent just before it stopped.
        return found.epoch, own in (0, found.epoch)
    if own == 0:
        return granted_epoch + 1, True
    return (own, True) if valid else (own + 1, False)
