"""One attempt as a look at the cluster shows it, beside what is recorded and granted; and what that amounts to.

Decides the attempt's standing, and whether the look proves that nothing of it runs (rule 5 of the protocol); what to do about
it is decide.py's, what to say of it workloads.py's. Pure.

Rule for whoever edits this file: an attempt is found by its label and by the objects that made its pods, never by one of the
two alone. A Job goes at once while its pods end for minutes, and an orphaned pod has no owner.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from reconciler.agent.queueing import is_admissible, is_enqueued
from reconciler.agent.reading import (
    Key,
    attempt_label,
    generation_of,
    is_active,
    is_closed,
    is_complete,
    is_deleting,
    is_held,
    is_suspended,
    is_true,
    maker_uid,
    makes_jobs,
    makes_no_pods,
    name_of,
    namespace_of,
    owner_uid,
    uid_of,
)
from reconciler.agent.record import Entry, Record
from reconciler.model.grants import Grant, Grants
from reconciler.ports import ClusterState, KubeObject, SyncState


@dataclass(frozen=True, slots=True)
class Seen:
    """One attempt: all objects and pods that are its own, its entry in the record, its grant."""

    key: Key
    objects: tuple[KubeObject, ...]
    """One, unless somebody made copies."""
    pods: tuple[KubeObject, ...]
    entry: Entry | None
    grant: Grant | None
    admission: KubeObject | None = None
    """Kueue's Workload of its object, where it is in a queue."""
    has_kueue: bool = False
    """Whether the region has Kueue at all."""
    makers: tuple[KubeObject, ...] = ()
    """Jobs that its objects have made, where those make Jobs that make the pods."""

    @property
    def bound(self) -> KubeObject | None:
        """The object that the attempt is bound to, if it is still there."""
        return None if self.entry is None else next((one for one in self.objects if uid_of(one) == self.entry.uid), None)

    @property
    def named(self) -> KubeObject | None:
        """The object that bears the attempt's name."""
        return next((one for one in self.objects if name_of(one) == self.key.attempt), None)

    @property
    def active(self) -> bool:
        """Whether any of its pods runs, or may begin to without us."""
        return any(is_active(pod) for pod in self.pods)


class Standing(Enum):
    """What there is of an attempt. The value says it in words."""

    ABSENT = "no object, and none was ever bound"
    HELD = "suspended and never released"
    LOOSE = "un-suspended by somebody else before its release"
    BOUND = "its release was recorded and has not reached its object"
    RELEASED = "released"
    FINISHED = "its object says that it has ended"
    CLOSED = "ended by the agent, for good"
    REPLACED = "its object was made again, or suspended since, by somebody else"
    LOST = "the object that was released is gone"


SPENT = frozenset({Standing.FINISHED, Standing.CLOSED, Standing.REPLACED, Standing.LOST})
"""What has had its one release, or can have none: nothing of it will be started by us."""


def gather(state: ClusterState, record: Record, grants: Grants | None) -> tuple[Seen, ...]:
    """Every attempt that has an object, a pod, an entry or a grant, by namespace and name."""
    objects: dict[Key, list[KubeObject]] = defaultdict(list)
    makers = {entry.uid: key for key, entry in record.attempts.items() if entry.uid}
    for item in state.workloads:
        key = Key(namespace_of(item), attempt_label(item) or name_of(item))
        objects[key].append(item)
        makers[uid_of(item)] = key
    made: dict[Key, list[KubeObject]] = defaultdict(list)
    for job in state.makers:
        key_of_owner = makers.get(owner_uid(job) or "")
        if key_of_owner is not None:
            made[key_of_owner].append(job)
            makers[uid_of(job)] = key_of_owner
    pods: dict[Key, list[KubeObject]] = defaultdict(list)
    for pod in state.pods:
        found = _attempt_of(pod, makers)
        if found is not None:
            pods[found].append(pod)
    granted = {} if grants is None else {Key(grant.team, grant.attempt): grant for grant in grants.attempts}
    admissions = {owner_uid(admission): admission for admission in state.admissions or ()}
    return tuple(
        Seen(
            key,
            tuple(sorted(objects.get(key, ()), key=name_of)),
            tuple(sorted(pods.get(key, ()), key=name_of)),
            record.attempts.get(key),
            granted.get(key),
            next((admissions[uid] for uid in map(uid_of, objects.get(key, ())) if uid in admissions), None),
            state.admissions is not None,
            tuple(sorted(made.get(key, ()), key=name_of)),
        )
        for key in sorted(objects.keys() | pods.keys() | record.attempts.keys() | granted.keys())
    )


def _attempt_of(pod: KubeObject, makers: Mapping[str, Key]) -> Key | None:
    label = attempt_label(pod)
    made_by = makers.get(maker_uid(pod) or "")
    return made_by or (Key(namespace_of(pod), label) if label else None)


def standing(seen: Seen) -> Standing:
    """What there is of the attempt."""
    if seen.entry is None:
        return _never_released(seen)
    item = seen.bound
    if item is None:
        return Standing.REPLACED if seen.objects else Standing.LOST
    if _has_ended(seen, item):
        return Standing.FINISHED
    if is_closed(item):
        return Standing.CLOSED
    if not is_suspended(item):
        return Standing.RELEASED
    # Only if its spec is untouched since it was bound, no release can have reached it: one would have counted it up.
    return Standing.BOUND if generation_of(item) == seen.entry.generation - 1 else Standing.REPLACED


def _never_released(seen: Seen) -> Standing:
    item = seen.named
    if item is None:
        return Standing.ABSENT
    if _has_ended(seen, item):
        return Standing.FINISHED
    if is_closed(item):
        return Standing.CLOSED
    return Standing.HELD if is_suspended(item) else Standing.LOOSE


def _has_ended(seen: Seen, item: KubeObject) -> bool:
    # FailureTarget with no live pod is an end: `Failed` never comes while a Job is suspended.
    return is_complete(item) or is_true(item, "Failed") or (makes_no_pods(item) and not seen.active)


def changed_since(seen: Seen) -> bool:
    """Whether somebody else has written the spec of the released object, or of the Job that it made, or made that again.

    It may have been suspended and resumed.
    """
    if seen.entry is None or seen.bound is None:
        return False
    return generation_of(seen.bound) > seen.entry.generation or (bool(seen.entry.maker) and maker(seen) is None)


def maker(seen: Seen) -> KubeObject | None:
    """What makes the pods of a released attempt: its object, or the Job that this has made; None where that is not yet there, or
    not as it was when it was bound.
    """
    entry, item = seen.entry, seen.bound
    if entry is None or item is None or not makes_jobs(item):
        return item
    own = [job for job in seen.makers if owner_uid(job) == entry.uid]
    if len(own) != 1:
        return None
    return own[0] if (entry.maker, entry.maker_generation) == (uid_of(own[0]), generation_of(own[0])) else None


def unbound_maker(seen: Seen) -> KubeObject | None:
    """The Job that a released object has made and that is not bound yet, once it makes pods: all of these are held."""
    if seen.entry is None or seen.entry.maker or seen.bound is None or not makes_jobs(seen.bound):
        return None
    own = [job for job in seen.makers if owner_uid(job) == seen.entry.uid]
    return own[0] if len(own) == 1 and not is_suspended(own[0]) and not is_deleting(own[0]) else None


def settled(seen: Seen) -> bool:
    """Whether this look proves that nothing of the attempt runs, and that no request of ours under way can change that.

    Requests carry the version that their sender had read. So a release still under way, of this agent, an earlier one or
    another replica, fails once the object was closed, and a lift once its pod was closed or deleted.
    """
    if seen.active:
        return False
    if seen.entry is not None and any(is_held(pod) and not (is_closed(pod) or is_deleting(pod)) for pod in seen.pods):
        return False
    return all(_is_shut(item, seen) for item in seen.objects)


def _is_shut(item: KubeObject, seen: Seen) -> bool:
    if makes_no_pods(item):
        return True
    if is_enqueued(item) and is_admissible(seen.admission):
        return False
    releasable = seen.entry is not None and uid_of(item) == seen.entry.uid
    return is_suspended(item) and (is_closed(item) or not releasable)


def stopped(seen: Seen) -> bool:
    """Whether the attempt has stopped, by rule 5: it is settled, and it is not granted or can have no release any more."""
    return settled(seen) and (seen.grant is None or standing(seen) in SPENT)


def left_over(seen: Seen, sync: SyncState | None, grants: Grants | None) -> tuple[KubeObject, ...]:
    """Its objects that the branch has no more. Judged only where the engine has applied the commit that the hub named."""
    if sync is None or sync.commit is None or grants is None or sync.commit != grants.commit:
        return ()
    return tuple(item for item in seen.objects if (namespace_of(item), name_of(item)) not in sync.objects)


def all_settled(attempts: Iterable[Seen]) -> bool:
    """Whether nothing of ours runs in the region."""
    return all(settled(seen) for seen in attempts)
