"""One pass over the region: look, recall, decide, write the record, act, look again, note what is so.

Decides the order and what a failure costs: only the thing that failed. What is to be done is decide.py's.

Invariants: the record is read after the cluster, so whatever was released when the cluster was read stands in it; nothing is
started unless the record was written and the lease is valid at that very moment; grants count as acted upon, and anything as
stopped, only by a look that was made after everything had been asked for.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from reconciler.agent.actions import (
    Action,
    Close,
    Deactivate,
    DeleteObject,
    DeletePod,
    Nudge,
    PatchDeadline,
    Start,
    Stop,
    Suspend,
    perform,
)
from reconciler.agent.causes import causes, with_causes
from reconciler.agent.changing import changed
from reconciler.agent.decide import Decision, Right, decide
from reconciler.agent.memory import Memory, Site, troubled
from reconciler.agent.reading import Key
from reconciler.agent.record import ANYBODY, LARGEST, Broken, Record, decode, encode, joined, newer, with_agent
from reconciler.agent.recovery import recovered
from reconciler.agent.renewing import by_record, may_start, right_now
from reconciler.agent.report import Look, Telling, compose
from reconciler.agent.seen import Seen, all_settled, gather
from reconciler.model.grants import Grants
from reconciler.ports import Conflict, Refused, Stored, Transient

_STOPS = (Suspend, DeletePod, Close, Deactivate)


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What became of a decision."""

    asked: bool
    """Something was requested, with whatever result."""
    moved: bool
    """Something was done, or had changed since the look: another look soon shows something new."""
    complete: bool
    """Nothing was put off."""


def worked(site: Site, memory: Memory) -> Memory:
    """The memory after one pass. An error of the cluster ends the pass and is noted; what was requested stays requested."""
    try:
        look, memory = _look(site, changed(memory, busy=False) if memory.busy else memory)
        stored = site.cluster.read_record()
    except (Transient, Refused) as error:
        return _unreachable(site, memory, error)
    record, memory = _recall(site, stored, look, changed(memory, notes=()) if memory.notes else memory)
    if record is None:
        return _without_record(site, memory, look)
    return _acted_upon(site, by_record(site, memory, record), look, record, stored)


def _acted_upon(site: Site, memory: Memory, look: Look, record: Record, stored: Stored | None) -> Memory:
    right = right_now(site, memory, record)
    fenced = not right.valid and (record.fenced or (right.stop_all and memory.holding.offered is None))
    base = _brought_up(site, memory, record, fenced=fenced)
    grants = _not_outdated(memory)
    decision = _decided(site, look, base, grants, right)
    memory = changed(memory, notes=(*memory.notes, *decision.notes)) if decision.notes else memory
    recorded, memory = _remember(site, memory, decision.record, stored)
    outcome, memory = _carry_out(site, memory, decision.actions, recorded=recorded, everything=right.stop_all)
    busy = outcome.moved or not outcome.complete
    if (memory.busy, memory.fenced) != (busy, right.stop_all):
        memory = changed(memory, busy=busy, fenced=right.stop_all)
    if outcome.asked or _says_else(decision.record, record):
        try:
            look, memory = _look(site, memory)
        except (Transient, Refused) as error:
            return _unreachable(site, memory, error)
    # What is not here may run where the one with the lease is.
    stands_back = memory.holding.watched is not None or memory.holding.is_on_trial
    acted = grants if recorded and outcome.complete and grants is not None else memory.acted
    acted = None if stands_back else acted
    return _noted(site, memory, acted, decision.record if recorded else record, look)


def _decided(site: Site, look: Look, record: Record, grants: Grants | None, right: Right) -> Decision:
    """What is to be done. That hangs on no renewal, so the newest, which is in every record, makes no new question."""
    attempts, bare = _gathered(site, look, record, grants), changed(record, renewal=None)
    decision = site.kept.decided.of("now", decide, attempts, bare, grants, right, look.sync)
    return changed(decision, record=changed(decision.record, renewal=record.renewal))


def _brought_up(site: Site, memory: Memory, record: Record, *, fenced: bool) -> Record:
    """The record with the newest renewal, fence and agent in it; itself where nothing is new."""
    renewal, agents = newer(memory.renewal, record.renewal), record.agents
    if memory.renewal is not None:
        # The lease is this agent's: whoever was before an older record had an end.
        agents = with_agent((name for name in agents if name != ANYBODY), site.incarnation)
    if (renewal, fenced, agents) == (record.renewal, record.fenced, record.agents):
        return record
    return changed(record, renewal=renewal, fenced=fenced, agents=agents)


def _says_else(after: Record, before: Record) -> bool:
    """Whether a record says anything else than when the lease was renewed last."""
    return (after.epoch, after.fenced, after.seen, after.attempts) != (before.epoch, before.fenced, before.seen, before.attempts)


def _gathered(site: Site, look: Look, record: Record, grants: Grants | None) -> tuple[Seen, ...]:
    """All attempts, by that look. Of the record only its attempts matter, and those change seldom."""
    attempts_alone = Record(attempts=record.attempts)
    return site.kept.gathered.of("", gather, look.state, attempts_alone, grants)


def _not_outdated(memory: Memory) -> Grants | None:
    """The grants, unless the record tells that newer ones were acted upon: then these are not known."""
    grants = memory.known.grants
    return None if grants is None or (grants.term, grants.version) < memory.seen else grants


def _look(site: Site, memory: Memory) -> tuple[Look, Memory]:
    """The cluster, then the engine: an object that the engine has just made is then in what it says it has applied."""
    state = site.cluster.read()
    try:
        sync = site.engine.state()
    except (Transient, Refused) as error:
        memory = changed(memory, reachable=True)
        memory = troubled(memory, "SyncEngineUnreachable", "the sync engine", error, site.clock.monotonic())
        return Look(state, memory.sync), memory
    if not memory.reachable or memory.sync != sync:
        memory = changed(memory, reachable=True, sync=sync)
    return Look(state, sync), memory


def _unreachable(site: Site, memory: Memory, error: Exception) -> Memory:
    memory = changed(memory, reachable=False)
    return troubled(memory, "ClusterUnreachable", "the region's Kubernetes", error, site.clock.monotonic())


# ---- the record ---------------------------------------------------------------------------------------------------


def _recall(site: Site, stored: Stored | None, look: Look, memory: Memory) -> tuple[Record | None, Memory]:
    """The record, made again where it is lost; None as long as that cannot be done, for the grants are not known."""
    known, lost = memory.known, Broken("it is not there; what was granted and held is not released")
    is_record = False
    if stored is not None:
        try:
            return site.kept.decoded.of("", decode, stored.body), memory
        except Broken as error:
            is_record = joined(stored.body) is None
            lost = error if is_record else lost
    if is_record or (known.grants is not None and known.grants.epoch > 0):  # else the region is new: nothing was ever granted
        memory = troubled(memory, "RecordLost", "the record of what was released", lost, site.clock.monotonic())
    can_tell = known.looked and (known.grants is not None or known.etag is None)
    has_lease = memory.holding.epoch > 0 or memory.holding.offered is not None
    if not (has_lease and can_tell):
        return None, memory
    record = recovered(gather(look.state, Record(), known.grants), memory.holding.epoch)
    named = None if stored is None else joined(stored.body)
    return record if named is None else changed(record, agents=named), memory


def _without_record(site: Site, memory: Memory, look: Look) -> Memory:
    """What can be done without knowing what was released: stop, if nothing may run; and say what is seen, by no grants."""
    record = Record(epoch=memory.holding.epoch)
    right = right_now(site, memory, record)
    memory = changed(memory, fenced=right.stop_all)
    if right.stop_all:
        decision = decide(gather(look.state, record, memory.known.grants), record, memory.known.grants, right, look.sync)
        outcome, memory = _carry_out(site, memory, decision.actions, recorded=False, everything=True)
        memory = changed(memory, busy=outcome.moved)
    return changed(_noted(site, memory, memory.acted, record, look), settled_for=None)


def _remember(site: Site, memory: Memory, record: Record, stored: Stored | None) -> tuple[bool, Memory]:
    """Write the record if it differs from the stored one; whether it now stands there."""
    body = site.kept.encoded.of("", encode, record)
    if stored is not None and stored.body == body:
        return True, memory
    try:
        if len(body) <= LARGEST:
            site.cluster.write_record(body, expect=None if stored is None else stored.etag)
            return True, memory
        error: Exception = Refused(f"it would have {len(body)} bytes of {LARGEST}; remove ended attempts from the branch")
    except (Conflict, Transient, Refused) as failed:
        error = failed
    return False, troubled(memory, "RecordNotWritten", "the agent's record", error, site.clock.monotonic())


# ---- acting -------------------------------------------------------------------------------------------------------


def _carry_out(
    site: Site, memory: Memory, actions: Sequence[Action], *, recorded: bool, everything: bool
) -> tuple[_Outcome, Memory]:
    """Make the requests one by one; a failure costs its own attempt at most. `everything`: no renewal goes before them."""
    asked, moved, outdated = False, False, set[Key]()
    for action in actions:
        if asked and not everything and site.clock.monotonic() >= memory.renew_at:
            return _Outcome(asked, moved, complete=False), memory
        if isinstance(action, Nudge):
            memory = _nudged(site, memory, action)
            continue
        if not isinstance(action, _STOPS) and not (recorded and may_start(site, memory)):
            continue
        if isinstance(action, DeletePod) and action.grace_seconds is None and action.key in outdated:
            continue  # its workload is to be suspended first, and has changed since the look
        asked = True
        try:
            perform(action, site.cluster, site.engine)
            moved = True
        except Conflict:
            moved = True
            outdated.add(action.key)  # seen again in the next pass, as it is then
        except (Transient, Refused) as error:
            code, about = _failure(action)
            memory = troubled(memory, code, about, error, site.clock.monotonic())
    return _Outcome(asked, moved, complete=True), memory


def _failure(action: Stop | Start | DeleteObject) -> tuple[str, str]:
    """Code and subject of a request that failed."""
    if isinstance(action, PatchDeadline) and action.ends_at is not None:
        return "EndNotPutOff", f"{action.key}, which Kubernetes ends at {action.ends_at:%Y-%m-%d %H:%M:%S} UTC if this stays"
    return "RequestFailed", f"{type(action).__name__} of {action.key}"


def _nudged(site: Site, memory: Memory, action: Nudge) -> Memory:
    now = site.clock.monotonic()
    commit, at = memory.nudged
    if commit == action.commit and now < at + site.settings.nudge_seconds:
        return memory
    memory = changed(memory, nudged=(action.commit, now))
    try:
        perform(action, site.cluster, site.engine)
    except (Conflict, Transient, Refused) as error:
        return troubled(memory, "SyncEngineNotNudged", "the sync engine", error, now)
    return memory


# ---- noting -------------------------------------------------------------------------------------------------------


def _noted(site: Site, memory: Memory, acted: Grants | None, record: Record, look: Look) -> Memory:
    """What the last look shows, for the report. `acted`: the grants of which everything was asked for before it."""
    attempts = _gathered(site, look, record, acted)
    memory = with_causes(site, memory, attempts)
    telling = Telling(site.settings.nodes, causes(memory), site.kept.pages)
    content = site.kept.composed.of("", compose, look, attempts, acted, memory.holding.epoch, telling)
    quiet = memory.holding.offered is not None and all_settled(attempts)
    settled_for = memory.holding.offered if quiet else None
    if memory.acted is acted and memory.content is content and memory.settled_for == settled_for:
        return memory
    return changed(memory, acted=acted, content=content, settled_for=settled_for)
