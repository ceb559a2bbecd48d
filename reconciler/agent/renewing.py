"""Keeping the lease: when to renew, and what the agent may do by it at a moment.

Decides when the store is asked; which epoch may be taken is lease.py's.
"""

from collections.abc import Sequence

from reconciler.agent.changing import changed
from reconciler.agent.deadman import Deadman
from reconciler.agent.decide import Right
from reconciler.agent.lease import Holding, LeaseBroken, LeaseHeld, Taking, fence_at, inherited_from, is_valid, renew, unread
from reconciler.agent.memory import AT_ONCE, Memory, Site, troubled
from reconciler.agent.reading import is_active, is_suspended, labels_of, makes_no_pods
from reconciler.agent.record import Broken, Record, Renewal, decode, encode, joined, joining, with_agent
from reconciler.model.grants import lease_key
from reconciler.model.names import LABEL_ATTEMPT
from reconciler.ports import Conflict, Refused, Transient

_MARGIN_SECONDS = 30.0
"""For clocks that do not run alike, beyond what a lease says of itself."""


def with_recalled_epoch(site: Site, memory: Memory) -> Memory:
    """At the start: under which epoch the region runs, and since when. The lease is not taken before that was asked."""
    if memory.recalled:
        return memory
    now = site.clock.monotonic()
    try:
        stored = site.cluster.read_record()
        record = decode(stored.body) if stored is not None else Record()
    except Broken:
        record = Record()  # shown and mended by the pass itself, which reads it again
    except (Transient, Refused) as error:
        # Renewed all the same: a region that nobody can stop must not be given up either.
        return troubled(memory, "RecordUnreadable", "the agent's record", error, now)
    memory = by_record(site, changed(memory, recalled=True), record)
    return memory if record.epoch == memory.holding.epoch else _under(memory, record.epoch)


def by_record(site: Site, memory: Memory, record: Record) -> Memory:
    """The memory of an agent that has read the record: what other agents of the region did counts as well.

    Where they went on to another epoch, their last renewal counts until this agent's own, which is due at once.
    """
    if record.seen > memory.seen:
        memory = changed(memory, seen=record.seen)
    if record.renewal != memory.told:
        since = inherited_from(record.renewal, site.settings.boot, site.clock.monotonic(), site.clock.now())
        if since is not None:
            since -= _shorter_by(site, record.renewal)
        memory = changed(memory, told=record.renewal, inherited=since)
    return _under(memory, record.epoch) if record.epoch > memory.holding.epoch else memory


def _shorter_by(site: Site, renewal: Renewal | None) -> float:
    """How much sooner all must be stopped after that renewal than after one of this agent's: the lease told the hub of it."""
    if renewal is None or renewal.lasts_seconds is None:
        return 0.0
    return max(site.settings.lasts_seconds - renewal.lasts_seconds, 0.0)


def _under(memory: Memory, epoch: int) -> Memory:
    return changed(memory, holding=Holding(epoch, renewal=memory.holding.renewal, own=memory.holding.own), renew_at=AT_ONCE)


def with_lease(site: Site, memory: Memory) -> Memory:
    """Renew the lease if that is due, or at once where grants tell of another epoch."""
    now, settings = site.clock.monotonic(), site.settings
    grants, holding = memory.known.grants, memory.holding
    stamp = (0, 0) if grants is None else (grants.term, grants.version)
    told = grants is not None and grants.epoch != holding.epoch and stamp != memory.looked_for
    if now < memory.renew_at and not told:
        return memory
    if holding.epoch == 0 and not memory.known.looked:
        # Without record and lease, only the grants can tell an epoch that there was before.
        return changed(memory, renew_at=now + settings.retry_seconds)
    memory = memory if stamp == memory.looked_for else changed(memory, looked_for=stamp)
    wall = site.clock.now()
    try:
        taking, memory = _taking(site, memory, now)
        after = renew(site.store, holding, taking)
    except LeaseHeld as error:
        memory = changed(memory, holding=unread(error.holding), renew_at=now + settings.retry_seconds)
        until = f"taken over at {site.began.at(error.until):%Y-%m-%d %H:%M:%S} UTC unless it is renewed before"
        return troubled(memory, *_taken(site), Refused(f"{error}; {until}"), now)
    except (Conflict, Transient, Refused, LeaseBroken) as error:
        again = site.clock.monotonic() + settings.retry_seconds
        # A store that does not answer is asked by one write only, which takes least time; if that was done, it says Conflict.
        silent = isinstance(error, Transient)
        memory = changed(memory, holding=holding if silent else unread(holding), renew_at=again, silent=silent)
        return troubled(memory, "LeaseNotRenewed", lease_key(site.region), error, now)
    if after.offered is not None:
        return changed(memory, holding=after, renew_at=now + settings.retry_seconds)
    renewal = Renewal(wall, now, settings.boot, settings.lasts_seconds, after.own)
    others = {about: trouble for about, trouble in memory.troubles.items() if about != _taken(site)}
    memory = changed(memory, troubles=others) if len(others) < len(memory.troubles) else memory
    memory = changed(memory, holding=after, renew_at=now + settings.renew_seconds, renewal=renewal, cleared=None)
    if after.rival is None:
        return memory
    words = "has this region's record and took the lease, which was taken back; end that agent: its cluster or folder is a copy"
    return troubled(memory, "RegionTaken", f"agent {after.rival}", Refused(words), now)


def _taken(site: Site) -> tuple[str, str]:
    return "RegionTaken", lease_key(site.region)


def _taking(site: Site, memory: Memory, now: float) -> tuple[Taking, Memory]:
    """What is known for one try. Raises Conflict, Transient or Refused where there is no record and it cannot be begun."""
    holding, grants, settings = memory.holding, memory.known.grants, site.settings
    is_new_here = holding.epoch == 0 and memory.recalled and _is_empty(site)
    if memory.recalled and not memory.joined:
        try:
            _join(site)
            memory = changed(memory, joined=True)
        except (Conflict, Transient, Refused) as error:
            # Whoever changed the record meanwhile is alive: an agent that has led nothing yet looks again first.
            if is_new_here or (isinstance(error, Conflict) and not holding.own):
                raise
            memory = troubled(memory, "RecordNotWritten", "the agent's record", error, now)
    taking = Taking(
        site.region,
        site.incarnation,
        now,
        valid=is_valid(holding, now, settings.self_fence_seconds),
        cleared=memory.cleared,
        is_new_here=is_new_here,
        known=lambda: _agents(site, is_new_here=is_new_here) if memory.recalled else None,
        counted=None if memory.told is None else memory.told.number,
        takeover_seconds=settings.lasts_seconds + _MARGIN_SECONDS,
        granted_epoch=0 if grants is None else grants.epoch,
        self_fence_seconds=settings.self_fence_seconds,
        fence_kill_seconds=settings.fence_kill_seconds,
    )
    return taking, memory


def fence_is_near(site: Site, memory: Memory) -> bool:
    """Whether a request to the store that is begun now could keep the fence waiting."""
    return site.clock.monotonic() + site.settings.request_seconds > fence_of(site, memory)


def fence_is_due(site: Site, memory: Memory) -> bool:
    """Whether everything is to be stopped before anything is asked of the store."""
    return site.clock.monotonic() >= fence_of(site, memory)


def fence_of(site: Site, memory: Memory) -> float:
    """When the fence is due by what this run knows; never before the first try to renew, which must come first."""
    known = [at for at in (memory.holding.sent_at, memory.inherited) if at is not None]
    untried = memory.renew_at == AT_ONCE
    return float("inf") if untried or not known else max(known) + site.settings.self_fence_seconds


def _join(site: Site) -> None:
    """Write this agent down among those of its cluster before it takes the lease: killed after that, its successor must know
    that lease for its own. Raises Conflict, Transient or Refused."""
    stored = site.cluster.read_record()
    before = () if stored is None else joined(stored.body)
    if before is not None:
        body = joining(with_agent(before, site.incarnation))
    elif stored is not None and (record := _decoded(stored.body)) is not None:
        body = encode(changed(record, agents=with_agent(record.agents, site.incarnation)))
    else:
        return  # a record that cannot be read; what it said is for the pass to find out
    if stored is None or body != stored.body:
        site.cluster.write_record(body, expect=None if stored is None else stored.etag)


def _agents(site: Site, *, is_new_here: bool) -> Sequence[str] | None:
    """The agents of this cluster; None where that is not known. Without a record only one that has nothing of ours tells."""
    try:
        stored = site.cluster.read_record()
    except (Transient, Refused):
        return None
    before = () if stored is None else joined(stored.body)
    if before is not None or stored is None:
        return before if is_new_here else None
    record = _decoded(stored.body)
    return None if record is None else record.agents


def _decoded(body: bytes) -> Record | None:
    try:
        return decode(body)
    except Broken:
        return None


def _is_empty(site: Site) -> bool:
    """Whether nothing of ours runs in the cluster, or may; not knowing is no."""
    try:
        state = site.cluster.read()
    except (Transient, Refused):
        return False
    pods = any(LABEL_ATTEMPT in labels_of(pod) and is_active(pod) for pod in state.pods)
    return not pods and all(is_suspended(item) or makes_no_pods(item) for item in state.workloads)


def may_start(site: Site, memory: Memory) -> bool:
    """Whether something may be started at this very moment."""
    return is_valid(memory.holding, site.clock.monotonic(), site.settings.self_fence_seconds)


def right_now(site: Site, memory: Memory, record: Record) -> Right:
    """What the lease allows at this moment."""
    now, fence = site.clock.monotonic(), site.settings.self_fence_seconds
    valid = is_valid(memory.holding, now, fence)
    overdue = not valid and now >= fence_at(memory.holding, record, memory.inherited, fence)
    epoch = max(memory.holding.epoch, record.epoch)
    stop_all = memory.holding.offered is not None or overdue or memory.holding.is_ousted
    deadman = _deadman(site, memory, record) if valid and site.settings.deadman else None
    return Right(epoch, valid=valid, stop_all=stop_all, kill_seconds=site.settings.fence_kill_seconds, deadman=deadman)


def _deadman(site: Site, memory: Memory, record: Record) -> Deadman:
    """What the newest renewal leaves. It may be another replica's: what that has put off is not to be brought forward."""
    now, settings = site.clock.monotonic(), site.settings
    sent_at = fence_at(memory.holding, record, memory.inherited, 0.0)
    return Deadman(
        now=site.began.at(now),
        latest=site.began.at(sent_at + settings.lasts_seconds),
        self_fence_seconds=settings.self_fence_seconds,
        fence_kill_seconds=settings.fence_kill_seconds,
        is_late=now >= sent_at + settings.renew_seconds + settings.request_seconds,
    )
