"""How far staging tasks have come: what their workers say of themselves, read from their output for the report.

Decides how often that is read. Nothing is decided by it. Invariant: a renewal does not wait for it.
"""

from collections.abc import Sequence
from dataclasses import replace

from reconciler.agent.memory import Memory, Paced, Site, troubled
from reconciler.agent.pacing import at_work
from reconciler.agent.reading import name_of, namespace_of
from reconciler.agent.seen import Seen
from reconciler.model.names import STAGING_TEAM
from reconciler.model.progress import last_progress
from reconciler.ports import Refused, Transient

_TAIL = 2048
"""Bytes of a worker's output that hold its newest line of progress for certain."""
_MOST = 20
"""Outputs that are read in one pass."""


def with_progress(site: Site, memory: Memory, attempts: Sequence[Seen]) -> Memory:
    """The memory with what running workers say of themselves, asked as often as a report is due. An error costs the answer."""
    now = site.clock.monotonic()
    workers = {seen.key: pods[0] for seen in attempts if seen.key.namespace == STAGING_TEAM and (pods := at_work(seen.pods))}
    known = {key: memory.paced[key] for key in workers.keys() & memory.paced.keys()}
    due = [key for key in workers if key not in known or now >= known[key].at + site.settings.report_seconds]
    for key in due[:_MOST]:
        before = known.get(key, Paced(now))
        known[key] = replace(before, at=now)
        if site.clock.monotonic() >= memory.renew_at:
            break
        pod = workers[key]
        try:
            found = last_progress(site.cluster.log_tail(namespace_of(pod), name_of(pod), _TAIL))
            known[key] = Paced(now, found or before.progress)
        except (Transient, Refused) as error:
            memory = troubled(memory, "OutputUnreadable", f"progress of {key}", error, now)
    return memory if known == memory.paced else replace(memory, paced=known)
