"""What the agent does next: from a look, the record, the grants and its right, to actions in order and the record before them.

Decides who is released, stopped, freed of its gate or deleted in this region, and nothing else. Pure: time has become `Right`
before it comes here.

Rules for whoever edits this file.
1. Nothing starts but what is granted, under the epoch of a lease that is valid, and bound to one object in the record.
2. An attempt is released once. What was made again, or suspended since, waits for the hub.
3. Whatever of ours runs without that is stopped: first suspended, then its pods deleted. Not knowing the grants stops nothing.
4. The record that is returned is written before any Start is done; a Stop waits for nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from reconciler.agent.actions import (
    Action,
    ClosePod,
    DeleteObject,
    DeletePod,
    LiftGate,
    Nudge,
    PatchDeadline,
    Release,
    Start,
    Stop,
    Suspend,
    deadline,
    other_gates,
)
from reconciler.agent.pods import ended_well
from reconciler.agent.reading import (
    Key,
    gates_of,
    generation_of,
    has_gate,
    index_of,
    is_active,
    is_closed,
    is_deleting,
    is_held,
    is_suspended,
    maker_uid,
    makes_no_pods,
    namespace_of,
    owner_uid,
    part,
    ref_of,
    uid_of,
)
from reconciler.agent.record import FULL, Entry, Record, encode
from reconciler.agent.seen import Seen, Standing, changed_since, left_over, settled, standing
from reconciler.model.grants import Grants
from reconciler.model.report import Health
from reconciler.ports import KubeObject, SyncState

_JOB, _POD = "Job", "Pod"
_PUNCTUATION = 24
"""Bytes of an entry in the record beside its names, at most."""
_DEFAULT_GRACE = 30
"""Kubernetes' own, where a pod does not say."""


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
    room = FULL - len(encode(record))
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
    after = replace(record, epoch=max(record.epoch, right.epoch), seen=seen_version, attempts=entries)
    starts.sort(key=lambda action: not isinstance(action, LiftGate))  # what was released first is let run first
    actions = (*stops, *starts, *_deletions(attempts, grants, right, sync), *_nudge(grants, sync))
    return Decision(after, actions, tuple(notes))


def _steps(seen: Seen, grants: Grants | None, right: Right, *, room: bool) -> _Steps:
    granted = seen.grant is not None and grants is not None and grants.epoch == right.epoch and not right.stop_all
    if not granted:
        if grants is None and not right.stop_all:
            return _Steps()
        return _Steps(stops=_stop(seen, right.kill_seconds if right.stop_all else None))
    strays = _stop_strays(seen)
    match standing(seen):
        case Standing.RELEASED:
            return _keep(seen, right, strays)
        case Standing.HELD | Standing.BOUND:
            return _start(seen, right, strays, room=room)
        case Standing.LOOSE if seen.named is not None:
            # Its pods are still gated. Suspended again, it can be released as it should be.
            return _Steps(stops=[Suspend(seen.key, ref_of(seen.named, _JOB), close=False), *strays])
        case Standing.CLOSED:
            return _Steps(stops=_stop(seen, None))
        case _:
            return _Steps(stops=strays)


# ---- stopping -----------------------------------------------------------------------------------------------------


def _stop(seen: Seen, grace_limit: int | None) -> list[Stop]:
    """Suspend, then delete what may run, and close what is gated: a lift that is still under way must not reach it."""
    found: list[Stop] = []
    for item in seen.objects:
        bound = seen.entry is not None and uid_of(item) == seen.entry.uid
        if not makes_no_pods(item) and not (is_suspended(item) and (is_closed(item) or not bound)):
            found.append(Suspend(seen.key, ref_of(item, _JOB), close=bound))
    for pod in seen.pods:
        if is_active(pod) and _ends_too_late(pod, grace_limit):
            found.append(DeletePod(seen.key, ref_of(pod, _POD), _grace(pod, grace_limit)))
        elif is_held(pod) and seen.entry is not None and not is_closed(pod) and not is_deleting(pod):
            found.append(ClosePod(seen.key, ref_of(pod, _POD)))
    return found


def _ends_too_late(pod: KubeObject, grace_limit: int | None) -> bool:
    if not is_deleting(pod):
        return True
    return grace_limit is not None and int(part(pod, "metadata").get("deletionGracePeriodSeconds") or 0) > grace_limit


def _grace(pod: KubeObject, limit: int | None) -> int | None:
    if limit is None:
        return None
    own = part(pod, "spec").get("terminationGracePeriodSeconds")
    return min(limit, _DEFAULT_GRACE if own is None else int(own))


def _stop_strays(seen: Seen) -> list[Stop]:
    """What runs under a granted attempt's name without being of its one object."""
    own = seen.named if seen.entry is None else seen.bound
    found: list[Stop] = [
        Suspend(seen.key, ref_of(item, _JOB), close=False)
        for item in seen.objects
        if item is not own and not is_suspended(item) and not makes_no_pods(item)
    ]
    found += [
        DeletePod(seen.key, ref_of(pod, _POD), None)
        for pod in seen.pods
        if is_active(pod) and not is_deleting(pod) and (seen.entry is None or maker_uid(pod) != seen.entry.uid)
    ]
    return found


# ---- starting -----------------------------------------------------------------------------------------------------


def _start(seen: Seen, right: Right, strays: Sequence[Stop], *, room: bool) -> _Steps:
    item = seen.named if seen.entry is None else seen.bound
    if not right.valid or item is None or seen.grant is None:
        return _Steps(stops=strays)
    fault = _unfit(seen, item, room=room)
    if fault is not None:
        code, words = fault
        return _Steps(stops=strays, note=Health(code=code, message=f"{seen.key} is not released: {words}"))
    entry = seen.entry or Entry(uid_of(item), generation_of(item) + 1, seen.grant.nodes)
    return _Steps(strays, [Release(seen.key, ref_of(item, _JOB), seen.grant.run_seconds)], entry)


def _unfit(seen: Seen, item: KubeObject, *, room: bool) -> tuple[str, str] | None:
    """Why an object is not one that may be released, as a code and in words."""
    if len(seen.objects) > 1:
        return "TwoObjects", f"{len(seen.objects)} workloads carry its label; delete the copies"
    if ref_of(item, _JOB).kind != _JOB:
        return "KindUnknown", f"this agent knows no {ref_of(item, _JOB).kind}"
    if is_deleting(item):
        return "ObjectLeaving", "its object is being deleted"
    if not has_gate(item):
        return "GateMissing", "its pods would be born without our scheduling gate"
    if generation_of(item) == 0:
        return "GenerationMissing", "its object has no metadata.generation, so a second release could not be ruled out"
    if seen.pods:
        return "PodsBeforeStart", f"there are {len(seen.pods)} pods with its label already; delete them"
    if seen.entry is None and not room:
        return "RecordFull", f"the record is full ({FULL} bytes); remove ended attempts from the branch"
    return None


def _keep(seen: Seen, right: Right, strays: Sequence[Stop]) -> _Steps:
    """A released attempt: the gates of its pods, and its run time where the grant has another."""
    item, entry, grant = seen.bound, seen.entry, seen.grant
    if not right.valid or item is None or entry is None or grant is None or makes_no_pods(item):
        return _Steps(stops=strays)
    touched = changed_since(seen)
    starts: list[Start] = [] if touched else _lifts(seen, item)
    if part(item, "spec").get("activeDeadlineSeconds") != deadline(grant.run_seconds):
        starts.append(PatchDeadline(seen.key, ref_of(item, _JOB), grant.run_seconds))
        if not touched:
            entry = replace(entry, generation=generation_of(item) + 1)
    note = None
    if touched and any(is_held(pod) for pod in seen.pods):
        words = f"{seen.key}: somebody changed its spec since the release, so its gated pods stay gated: nothing is ever resumed"
        note = Health(code="ChangedSinceRelease", message=words)
    return _Steps(strays, starts, entry, note)


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
    done = entry.done | {index_of(pod) or 0 for pod in seen.pods if maker_uid(pod) == entry.uid and ended_well(pod)}
    return entry if done == entry.done else replace(entry, done=done)


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
