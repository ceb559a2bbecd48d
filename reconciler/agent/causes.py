"""What is asked of the cluster for the report alone: what a failed program wrote last, and why a released workload gets no pods.

Decides for which attempts it is asked, how often, and for how long; how it is told is workloads.py's. Nothing is decided by it.

Invariant: a renewal and a report do not wait for it. A kubelet that does not answer costs one request, and is left for a while.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from reconciler.agent.memory import Asked, Memory, Site, troubled
from reconciler.agent.pods import first_failed
from reconciler.agent.progress import with_progress
from reconciler.agent.reading import Key, makes_no_pods, name_of, namespace_of, ref_of, uid_of
from reconciler.agent.seen import Seen, Standing, standing
from reconciler.agent.workloads import LONGEST_TAIL, Cause, job_of
from reconciler.ports import KubeObject, Refused, Transient

_MOST = 20
"""Of each, asked in one pass, ..."""
_SECONDS = 3.0
"""... and no more of them once so long was spent: the report of what is known is not to wait."""
_LATER_SECONDS = 30.0
"""Until an output that did not come is asked for again."""
_COMPLAINTS = 1
"""What is told of one workload: the last one says it."""


def with_causes(site: Site, memory: Memory, attempts: Sequence[Seen]) -> Memory:
    """The memory with what could be asked. An error costs the answer, and is noted."""
    return with_progress(site, _with_complaints(site, _with_tails(site, memory, attempts), attempts), attempts)


def causes(memory: Memory) -> dict[Key, Cause]:
    """What is known for the report, by attempt."""
    tails = {key: Cause(tail=text) for key, (_, text) in memory.tails.items()}
    waits = {key: Cause(waiting=asked.words) for key, asked in memory.podless.items() if asked.words}
    copying = {key: Cause(progress=paced.progress) for key, paced in memory.paced.items() if paced.progress is not None}
    return copying | tails | waits  # what has no pods has no failed one, and what has failed does not run


def _with_tails(site: Site, memory: Memory, attempts: Sequence[Seen]) -> Memory:
    """The memory with the last output of each attempt's first failed pod, read once."""
    began = site.clock.monotonic()
    keys = {seen.key for seen in attempts}
    tails = {key: tail for key, tail in memory.tails.items() if key in keys}
    unanswered = {key: at for key, at in memory.unanswered.items() if key in keys and began < at + _LATER_SECONDS}
    failed = [(seen.key, pod) for seen in attempts if (pod := first_failed(seen.pods)) is not None]
    unread = [(key, pod) for key, pod in failed if key not in unanswered and tails.get(key, ("", ""))[0] != uid_of(pod)]
    for key, pod in unread[:_MOST]:
        if _is_pressed(site, memory, began):
            break
        try:
            tails[key] = uid_of(pod), site.cluster.log_tail(namespace_of(pod), name_of(pod), LONGEST_TAIL)
        except (Transient, Refused) as error:
            about = f"output of {key}"
            memory = troubled(memory, "OutputUnreadable", about, error, site.clock.monotonic())
            if isinstance(error, Refused):
                tails[key] = uid_of(pod), ""  # asking again would not help
            else:
                unanswered[key] = site.clock.monotonic()
    if (tails, unanswered) == (memory.tails, memory.unanswered):
        return memory
    return replace(memory, tails=tails, unanswered=unanswered)


def _is_pressed(site: Site, memory: Memory, began: float) -> bool:
    """Whether something more important is due."""
    now = site.clock.monotonic()
    return now >= memory.renew_at or now >= began + _SECONDS


@dataclass(frozen=True, slots=True)
class _Podless:
    """A workload that was released, has no pods, and should have."""

    key: Key
    item: KubeObject


def _with_complaints(site: Site, memory: Memory, attempts: Sequence[Seen]) -> Memory:
    """The memory with what is complained of: quota, an admission refusal, a missing account stand in no pod and in no status."""
    now = site.clock.monotonic()
    found = [_Podless(seen.key, item) for seen in attempts if (item := _without_pods(seen)) is not None]
    podless = {one.key: memory.podless.get(one.key, Asked(now)) for one in found}
    due = [one for one in found if now >= podless[one.key].at + site.settings.complaint_seconds]
    for one in due[:_MOST]:
        if _is_pressed(site, memory, now):
            break
        try:
            words = next(iter(site.cluster.complaints(ref_of(one.item, "Job"), _COMPLAINTS)), None)
            podless[one.key] = Asked(now, words)
        except (Transient, Refused) as error:
            podless[one.key] = replace(podless[one.key], at=now)
            memory = troubled(memory, "ComplaintsUnreadable", f"events of {one.key}", error, now)
    return memory if podless == memory.podless else replace(memory, podless=podless)


def _without_pods(seen: Seen) -> KubeObject | None:
    if seen.pods or seen.bound is None or standing(seen) is not Standing.RELEASED or makes_no_pods(seen.bound):
        return None
    return job_of(seen, seen.bound)
