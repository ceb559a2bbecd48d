"""The region's lease: taken and renewed by compare-and-swap, counted from the moment its request was sent.

Decides under which epoch the region runs and until when; what is done when the lease is gone is decide.py's.

The epoch rises by one at each revocation: the hub writes `revoked: true` with the new epoch, and the agent takes that epoch
with `revoked: false` once everything of the old one has stopped and it has said so in a report. Where the lease itself was
lost or set back, the agent goes on under its own epoch while its lease is valid (no revocation can have come before that
ends), and else under the next one.

Another agent's lease is its predecessor's, a successor's, or that of an agent which has a copy of this region's record: a
cluster restored from a backup beside the original, say. The record names the agents of its own cluster. Nobody takes the lease
back from a successor, or takes it from a stranger, before it has not changed for so long that whoever had it runs nothing. Who
takes it from a predecessor that has renewed it more often than the record tells starts nothing until it has renewed it
`TRIAL_RENEWALS` times more: if that predecessor is alive, it takes the lease back meanwhile, and the newcomer waits.

Invariants: a renewal whose outcome is not known extends nothing; the epoch never falls; no epoch but the present one is taken
while anything of an older one may run.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from pydantic import ValidationError

from reconciler.agent.record import ANYBODY, Record, Renewal
from reconciler.model.grants import Lease, lease_key
from reconciler.ports import Conflict, ObjectStore

TRIAL_RENEWALS = 2
"""Whoever may be a copy's agent starts nothing before so many more renewals, and it is taken back from within so many only: by
number, not by any clock, so that the two are never wrong about each other."""
SKEW_SECONDS = 10.0
"""By so much the clocks of a region's machines may differ; the protocol's margin is three times that."""


class LeaseHeld(Exception):
    """Another agent has this region's lease, and it may be one of another cluster.

    `holding` is what is known now, `until` when the lease is taken over if it does not change before: only when whoever had it
    has stopped everything. Two clusters under one region's name would else run one attempt twice.
    """

    def __init__(self, words: str, holding: "Holding", until: float) -> None:
        super().__init__(words)
        self.holding = holding
        self.until = until


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
    own: int = 0
    """The number of that renewal; 0: none since this agent's start."""
    trial: int = 0
    """Nothing is started before the renewal of that number; 0: no such thing."""
    offered: int | None = None
    """A newer epoch, to be taken once everything of the present one has stopped."""
    watched: tuple[str, float] | None = None
    """ETag of another agent's lease that is waited for, and since when it has not changed."""
    rival: str | None = None
    """The agent with a copy of this region's record from which the lease was just taken back."""

    @property
    def is_on_trial(self) -> bool:
        """Whether another agent may still show that it is alive, and take the lease back."""
        return self.own < self.trial

    @property
    def is_ousted(self) -> bool:
        """Whether it has done so: what runs here as well is a second copy."""
        return self.is_on_trial and self.watched is not None


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
    known: Callable[[], Sequence[str] | None] = lambda: None
    """Asks for the agents of this cluster, as its record names them, the newest last: their lease is no other cluster's.
    None: not known."""
    counted: int | None = None
    """The number of the last renewal that the record tells of."""
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
    return _is_kept(holding, now, self_fence) and not holding.is_on_trial


def _is_kept(holding: Holding, now: float, self_fence: float) -> bool:
    if holding.offered is not None or holding.watched is not None:
        return False
    return holding.sent_at is not None and holding.sent_at + self_fence > now


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
    another = found is not None and not found.revoked and found.incarnation != taking.incarnation
    known = taking.known() if another else None
    if another and found is not None and _must_wait(found, known, holding, taking):
        return _take_over(store, holding, found, taking)
    epoch, at_once = next_epoch(found, holding.epoch, valid=taking.valid, granted_epoch=taking.granted_epoch)
    if not at_once and taking.cleared != epoch:
        return replace(holding, offered=epoch, watched=None)
    if not another or found is None:
        return _put(store, holding, taking, epoch)
    if holding.own:
        return replace(_put(store, holding, taking, epoch), rival=found.incarnation if found.renewal > holding.own else None)
    trial = found.renewal + 1 + TRIAL_RENEWALS if _is_another_alive(found, known or (), taking) else 0
    return _put(store, replace(holding, trial=trial), taking, epoch)


def _is_another_alive(found: Lease, known: Sequence[str], taking: Taking) -> bool:
    """Whether a predecessor's lease was renewed since the record was written, and not just by one that was killed between."""
    if taking.counted is None or found.renewal <= taking.counted:
        return False
    before = [name for name in known if name != taking.incarnation]
    return found.renewal > taking.counted + 1 or found.incarnation not in before[-1:]


def _must_wait(found: Lease, known: Sequence[str] | None, holding: Holding, taking: Taking) -> bool:
    """Whether another agent's lease is not to be taken now, because it may run something under it.

    One of a lower epoch or an earlier renewal than is known here is no news: the store was set back.
    """
    last = holding.own or (taking.counted or 0) - 1
    if not taking.is_new_here and (found.epoch < holding.epoch or found.renewal <= last):
        return False
    if not holding.own:
        return taking.is_new_here if known is None else found.incarnation not in known and ANYBODY not in known
    is_successor = known is None or found.incarnation in known
    # Within its trial a copy's agent has started nothing; and one that is on trial itself has nothing to take back.
    is_late = found.renewal > holding.own + TRIAL_RENEWALS or found.epoch != holding.epoch
    return is_successor or is_late or holding.is_on_trial


def _take_over(store: ObjectStore, holding: Holding, found: Lease, taking: Taking) -> Holding:
    """Take another agent's lease under the next epoch, once it is certain that whoever had it runs nothing. Raises LeaseHeld."""
    etag = holding.etag or ""
    since = holding.watched[1] if holding.watched is not None and holding.watched[0] == etag else taking.now
    lasts = found.self_fence_seconds + found.fence_kill_seconds - taking.self_fence_seconds - taking.fence_kill_seconds
    until = since + taking.takeover_seconds + max(lasts, 0.0)
    if until > taking.now:
        words = f"it is another agent's ({found.incarnation})"
        raise LeaseHeld(words, replace(holding, watched=(etag, since), offered=None), until)
    if not taking.is_new_here and taking.cleared != found.epoch + 1:
        return replace(holding, offered=found.epoch + 1)  # by now the fence has stopped everything, if it could
    return _put(store, replace(holding, trial=0), taking, found.epoch + 1)


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
    return Holding(epoch, etag, lease, lease.renewal, sent_at=taking.now, own=lease.renewal, trial=holding.trial)


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
