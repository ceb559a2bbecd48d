"""A record that was lost or cannot be read, made again from what is there.

A region has a record as soon as it has a lease, and the hub grants nothing before. So where there is a lease and no record,
what is granted may have been released already. Decides, attempt by attempt, for the side on which nothing runs twice.

Invariant: after it, no attempt that was granted when the record was lost is ever released. What runs goes on; the others
are reported as replaced or lost, and the hub makes new attempts of them.
"""

from collections.abc import Iterable
from dataclasses import replace

from reconciler.agent.reading import generation_of, is_closed, is_suspended, makes_jobs, uid_of
from reconciler.agent.record import Entry, Record
from reconciler.agent.seen import Seen

_NEVER_MATCHES = 0
"""A generation that no stored object has, so that its object counts as suspended since its release."""


def recovered(attempts: Iterable[Seen], epoch: int) -> Record:
    """A record in which everything that is granted has had its release. `attempts` were gathered with an empty record."""
    entries = {seen.key: _entry(seen, seen.grant.nodes) for seen in attempts if seen.grant is not None}
    return Record(epoch=epoch, attempts=entries)


_NOBODY = "-"
"""The maker of pods that nobody knows."""


def _entry(seen: Seen, nodes: int) -> Entry:
    item = seen.named
    if item is None:
        return Entry("", _NEVER_MATCHES, nodes)
    runs_on = not is_suspended(item) and not is_closed(item)
    entry = Entry(uid_of(item), generation_of(item) if runs_on else _NEVER_MATCHES, nodes)
    # Its pods run on, and no further one is let go: its Job may have been made again since the release.
    return replace(entry, maker=uid_of(seen.makers[0]) if len(seen.makers) == 1 else _NOBODY) if makes_jobs(item) else entry
