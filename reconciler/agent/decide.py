"""What the agent does next: from a look, the record, the grants and its right, to actions in order and the record before them.

Decides who is released, stopped, freed of its gate or deleted in this region, and nothing else. Pure: time has become `Right`
before it comes here.

Rules for whoever edits this file.
1. Nothing starts but what is granted, under the epoch of a lease that is valid, and bound to one object in the record.
2. An attempt is released once. What was made again, or suspended since, waits for the hub.
3. Whatever of ours runs without that is stopped: first suspended, then its pods deleted. Not knowing the grants stops nothing.
4. The record that is returned is written before any Start is done; a Stop waits for nothing.
5. No gate is lifted of what Kubernetes would not end in time without us, where it is to (deadman.py).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reconciler.agent.actions import (
    Action,
    Activate,
    Admit,
    DeleteObject,
    Enqueue,
    LiftGate,
    Nudge,
    PatchDeadline,
    Release,
    Start,
    Stop,
    Suspend,
    other_gates,
)
from reconciler.agent.changing import changed
from reconciler.agent.deadman import Deadman, ends_at, ends_in_time, first_deadline, next_deadline, unfit_for
from reconciler.agent.pacing import paces
from reconciler.agent.pods import ended_well
from reconciler.agent.queueing import checks_with_ours_ready, is_admissible, is_enqueued, queue_of, waits_for_grant, was_taken_out
from reconciler.agent.reading import (
    Key,
    gates_of,
    generation_of,
    index_of,
    is_closed,
    is_deleting,
    is_held,
    maker_uid,
    makes_jobs,
    makes_no_pods,
    namespace_of,
    owner_uid,
    part,
    ref_of,
    uid_of,
)
from reconciler.agent.record import FULL, Entry, Record, encode
from reconciler.agent.seen import Seen, Standing, changed_since, left_over, maker, settled, standing, unbound_maker
from reconciler.agent.stopping import out_of_queue, stop, stop_strays
from reconciler.agent.unfit import unfit
from reconciler.model.grants import Grant, Grants
from reconciler.model.report import Health
from reconciler.ports import KubeObject, SyncState

_JOB, _POD = "Job", "Pod"
_PUNCTUATION = 24
"""Bytes of an entry in the record beside its names, at most."""


@dataclass(frozen=True, slots=True)
class Right:
    """What the agent's lease allows at this moment."""

    epoch: int
    valid: bool
    """Something may be started."""
    stop_all: bool
    """Nothing may run: the lease has run out, or was revoked."""
    kill_seconds: int
    """Grace for pods at most, when nothing may run."""
    deadman: Deadman | None = None
    """By when Kubernetes must end what runs, if nothing more comes from us; None where the region does not ask for that."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The record to be written first, the actions in order, and what a person should know."""

    record: Record
    actions: tuple[Action, ...]
    notes: tuple[Health, ...]


@dataclass(frozen=True, slots=True)
class _Steps:
    """What one attempt needs."""

    stops: Sequence[Stop] = ()
    starts: Sequence[Start] = ()
    entry: Entry | None = None
    note: Health | None = None


def decide(attempts: Sequence[Seen], record: Record, grants: Grants | None, right: Right, sync: SyncState | None) -> Decision:
    """The next actions. `attempts` were gathered with this record and these grants; None: none were ever read."""
    binds = any(seen.grant is not None and seen.entry is None for seen in attempts)
    room = FULL - len(encode(record)) if binds else FULL  # only what is not bound yet needs any
    entries: dict[Key, Entry] = {}
    stops: list[Action] = []
    starts: list[Action] = []
    notes: list[Health] = []
    for seen in attempts:
        steps = _steps(seen, grants, right, room=room > 0)
        if steps.entry is not None and seen.entry is None:
            room -= len(str(seen.key)) + len(steps.entry.uid) + _PUNCTUATION
        stops += steps.stops
        starts += steps.starts
        notes += [steps.note] if steps.note else []
        entry = _with_done(seen, steps.entry or seen.entry)
        if entry is not None and not _is_over(seen, grants, sync):
            entries[seen.key] = entry
    seen_version = record.seen if grants is None else max(record.seen, (grants.term, grants.version))
    after = changed(record, epoch=max(record.epoch, right.epoch), seen=seen_version, attempts=entries)
    starts.sort(key=_turn)
    actions = (*stops, *starts, *_deletions(attempts, grants, right, sync), *_nudge(grants, sync))
    return Decision(after, actions, tuple(notes))


def _is_granted(seen: Seen, grants: Grants | None, right: Right) -> bool:
    if seen.grant is None or grants is None or right.stop_all:
        return False
    return grants.epoch == right.epoch == seen.grant.epoch


def _turn(action: Action) -> int:
    """What was released first is let run first, and what runs is kept running before anything new is released."""
    return 0 if isinstance(action, LiftGate) else 1 if isinstance(action, PatchDeadline) else 2


def _steps(seen: Seen, grants: Grants | None, right: Right, *, room: bool) -> _Steps:
    if not _is_granted(seen, grants, right):
        if grants is None and not right.stop_all:
            return _Steps()
        return _Steps(stops=stop(seen, right.kill_seconds if right.stop_all else None))
    strays = stop_strays(seen)
    match standing(seen):
        case Standing.RELEASED:
            return _keep(seen, right, strays)
        case Standing.HELD | Standing.BOUND:
            return _start(seen, right, strays, room=room)
        case Standing.LOOSE if seen.named is not None and is_enqueued(seen.named):
            return _adopt(seen, seen.named, right, strays, room=room)
        case Standing.LOOSE if seen.named is not None:
            # Its pods are still gated. Suspended again, it can be released as it should be.
            return _Steps(stops=[Suspend(seen.key, ref_of(seen.named, _JOB), close=False), *strays])
        case Standing.CLOSED:
            return _Steps(stops=stop(seen, None))
        case Standing.REPLACED if is_admissible(seen.admission):
            # Kueue has put it out; nothing is resumed, so it shall not hold quota either. It ends when the hub has heard of it.
            return _Steps(stops=[*strays, out_of_queue(seen)])
        case _:
            return _Steps(stops=strays)


# ---- starting -----------------------------------------------------------------------------------------------------


def _start(seen: Seen, right: Right, strays: Sequence[Stop], *, room: bool) -> _Steps:
    item = seen.named if seen.entry is None else seen.bound
    if not right.valid or item is None or seen.grant is None:
        return _Steps(stops=strays)
    fault = unfit(seen, item, right.deadman, room=room)
    if fault is not None:
        code, words = fault
        return _Steps(stops=strays, note=Health(code=code, message=f"{seen.key} is not released: {words}"))
    if right.deadman is not None and right.deadman.is_late:
        return _Steps(stops=strays)  # too little time is left to begin with; the next renewal brings more
    run_seconds = first_deadline(item, seen.grant, right.deadman)
    if queue_of(item) is not None:
        return _start_in_queue(seen, item, seen.grant, strays, run_seconds)
    entry = seen.entry or Entry(uid_of(item), generation_of(item) + 1, seen.grant.nodes)
    return _Steps(strays, [Release(seen.key, ref_of(item, _JOB), run_seconds)], entry)


def _start_in_queue(seen: Seen, item: KubeObject, grant: Grant, strays: Sequence[Stop], run_seconds: int | None) -> _Steps:
    """Into the queue first; then, once it has its quota and waits for us, the release."""
    if not is_enqueued(item):
        queue = queue_of(item) or ""
        return _Steps(strays, [Enqueue(seen.key, ref_of(item, _JOB), queue, run_seconds)] if seen.entry is None else ())
    if seen.admission is not None and was_taken_out(seen.admission):
        return _Steps(strays, [Activate(seen.key, ref_of(seen.admission, "Workload"))])
    if seen.admission is None or not waits_for_grant(seen.admission):
        return _Steps(stops=strays)
    entry = seen.entry or Entry(uid_of(item), generation_of(item) + 1, grant.nodes)
    ready = checks_with_ours_ready(seen.admission)
    return _Steps(strays, [Admit(seen.key, ref_of(seen.admission, "Workload"), ready)], entry)


def _adopt(seen: Seen, item: KubeObject, right: Right, strays: Sequence[Stop], *, room: bool) -> _Steps:
    """Kueue has admitted it without our check. Its pods are gated, so it has not begun: binding it now is its one release."""
    if not right.valid or seen.grant is None or not all(is_held(pod) for pod in seen.pods):
        return _Steps(stops=stop(seen, None))
    fault = unfit(changed(seen, pods=()), item, right.deadman, room=room)
    if fault is not None:
        return _Steps(stops=strays, note=Health(code=fault[0], message=f"{seen.key} is not released: {fault[1]}"))
    return _Steps(strays, (), Entry(uid_of(item), generation_of(item), seen.grant.nodes))


def _keep(seen: Seen, right: Right, strays: Sequence[Stop]) -> _Steps:
    """A released attempt: the gates of its pods, and its run time where that is to be another."""
    item, entry, grant = seen.bound, seen.entry, seen.grant
    if not right.valid or item is None or entry is None or grant is None or makes_no_pods(item):
        return _Steps(stops=strays)
    touched = changed_since(seen)
    found = unbound_maker(seen)
    if found is not None:
        entry = changed(entry, maker=uid_of(found), maker_generation=generation_of(found))
    pods_from = maker(changed(seen, entry=entry))
    stay = touched or not ends_in_time(item, seen.pods, right.deadman)
    starts: list[Start] = [] if stay or pods_from is None else _lifts(seen, pods_from)
    starts += paces(seen)
    run_seconds = next_deadline(item, seen.pods, grant, right.deadman)
    if not makes_jobs(item) and part(item, "spec").get("activeDeadlineSeconds") != run_seconds:
        ends = ends_at(item) if right.deadman is not None else None
        starts.append(PatchDeadline(seen.key, ref_of(item, _JOB), run_seconds, ends))
        if not touched:
            entry = changed(entry, generation=generation_of(item) + 1)
    return _Steps(strays, starts, entry, _kept_note(seen, item, right, touched=touched))


def _kept_note(seen: Seen, item: KubeObject, right: Right, *, touched: bool) -> Health | None:
    if touched and any(is_held(pod) for pod in seen.pods):
        words = f"{seen.key}: somebody changed its spec since the release, so its gated pods stay gated: nothing is ever resumed"
        return Health(code="ChangedSinceRelease", message=words)
    fault = None if right.deadman is None else unfit_for(item, right.deadman)
    return None if fault is None else Health(code=fault[0], message=f"{seen.key} was released before: {fault[1]}")


def _lifts(seen: Seen, item: KubeObject) -> list[Start]:
    return [
        LiftGate(seen.key, ref_of(pod, _POD), other_gates(gates_of(pod)))
        for pod in seen.pods
        if is_held(pod)
        and not (is_deleting(pod) or is_closed(pod))
        and owner_uid(pod) == uid_of(item)
        and namespace_of(pod) == namespace_of(item)
    ]


# ---- the record ---------------------------------------------------------------------------------------------------


def _with_done(seen: Seen, entry: Entry | None) -> Entry | None:
    if entry is None:
        return None
    done = entry.done | {index_of(pod) or 0 for pod in seen.pods if maker_uid(pod) == entry.pods_from and ended_well(pod)}
    return entry if done == entry.done else changed(entry, done=done)


def _is_over(seen: Seen, grants: Grants | None, sync: SyncState | None) -> bool:
    """Whether nobody will ask for the attempt any more: nothing of it is there, and the hub has let go of it.

    The hub takes a manifest off the branch only once the attempt's end is in its ledger.
    """
    if seen.grant is not None or seen.objects or seen.pods or grants is None or sync is None or sync.commit is None:
        return False
    return grants.commit in (None, sync.commit) and (seen.key.namespace, seen.key.attempt) not in sync.objects


# ---- the rest -----------------------------------------------------------------------------------------------------


def _deletions(attempts: Iterable[Seen], grants: Grants | None, right: Right, sync: SyncState | None) -> Iterable[DeleteObject]:
    """Objects that the hub wants forgotten, where nothing of them runs, and no branch or no release needs them."""
    if grants is None or grants.epoch != right.epoch:
        return
    names = frozenset(grants.forget)
    for seen in attempts:
        if seen.key.attempt not in names or seen.grant is not None or not settled(seen):
            continue
        gone = seen.objects if standing(seen) is Standing.REPLACED else left_over(seen, sync, grants)
        for item in gone:
            if not is_deleting(item):
                yield DeleteObject(seen.key, ref_of(item, _JOB))


def _nudge(grants: Grants | None, sync: SyncState | None) -> tuple[Nudge, ...]:
    if grants is None or grants.commit is None or sync is None or sync.commit == grants.commit:
        return ()
    return (Nudge(grants.commit),)
