"""How what may not run is stopped: the workload first, so that it makes no more pods, then what it has made.

Decides which requests that takes; when it must be done is decide.py's. Pure. Invariant: after these requests no release and no
lift that was formed before them can succeed, so that a later look can prove that the attempt has stopped (seen.py, `settled`).
"""

from reconciler.agent.actions import Close, Deactivate, DeletePod, Stop, Suspend
from reconciler.agent.queueing import is_admissible, is_enqueued
from reconciler.agent.reading import (
    grace_of,
    is_active,
    is_closed,
    is_deleting,
    is_held,
    is_suspended,
    maker_uid,
    makes_no_pods,
    part,
    ref_of,
    uid_of,
)
from reconciler.agent.seen import Seen
from reconciler.ports import KubeObject

_JOB, _POD = "Job", "Pod"


def stop(seen: Seen, grace_limit: int | None) -> list[Stop]:
    """Suspend, then delete what may run, and close what is gated: a lift that is still under way must not reach it.

    `grace_limit`: seconds that pods get at most; None leaves them their own.
    """
    found: list[Stop] = []
    for item in seen.objects:
        if not makes_no_pods(item):
            bound = seen.entry is not None and uid_of(item) == seen.entry.uid
            found += _suspended_by_kueue(seen, item, bound=bound) if is_enqueued(item) else _suspended(seen, item, bound=bound)
    for pod in seen.pods:
        if is_active(pod) and _ends_too_late(pod, grace_limit):
            found.append(DeletePod(seen.key, ref_of(pod, _POD), _grace(pod, grace_limit)))
        elif is_held(pod) and seen.entry is not None and not is_closed(pod) and not is_deleting(pod):
            found.append(Close(seen.key, ref_of(pod, _POD)))
    return found


def _suspended(seen: Seen, item: KubeObject, *, bound: bool) -> list[Stop]:
    if is_suspended(item) and (is_closed(item) or not bound):
        return []
    return [Suspend(seen.key, ref_of(item, _JOB), close=bound)]


def out_of_queue(seen: Seen) -> Deactivate:
    """Let Kueue suspend it and admit it no more. Kueue must know of it."""
    return Deactivate(seen.key, ref_of(seen.admission or {}, "Workload"))


def _suspended_by_kueue(seen: Seen, item: KubeObject, *, bound: bool) -> list[Stop]:
    """Kueue puts `suspend` back to what it wants within 40 ms; it obeys its own Workload's `active`.

    Where it does not obey at once it may be down, and what is out of its queue it does not start again.
    """
    if is_admissible(seen.admission):
        found: list[Stop] = [out_of_queue(seen)]
    elif not is_suspended(item):
        return [Suspend(seen.key, ref_of(item, _JOB), close=bound)]
    else:
        found = []
    if bound and not is_closed(item):
        found.append(Close(seen.key, ref_of(item, _JOB)))
    return found


def _ends_too_late(pod: KubeObject, grace_limit: int | None) -> bool:
    if not is_deleting(pod):
        return True
    return grace_limit is not None and int(part(pod, "metadata").get("deletionGracePeriodSeconds") or 0) > grace_limit


def _grace(pod: KubeObject, limit: int | None) -> int | None:
    return None if limit is None else min(limit, grace_of(pod))


def stop_strays(seen: Seen) -> list[Stop]:
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
        if is_active(pod) and not is_deleting(pod) and (seen.entry is None or maker_uid(pod) != seen.entry.pods_from)
    ]
    return found
