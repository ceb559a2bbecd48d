"""Jobs for which nothing has changed since the last cycle: they need no second look until some moment.

Decides only when a look may be left out. Invariant: leaving it out changes nothing, because `advance` is a pure function of the
record, the file, what is seen of the attempt's region, the policy and the time; time matters only at the moments noted here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from reconciler.hub.reading import JobFile
from reconciler.model.attempt import State
from reconciler.model.names import JobKey
from reconciler.model.policy import Policy
from reconciler.model.record import JobRecord
from reconciler.planning.lifecycle import DEADLINE_SLACK
from reconciler.planning.observed import Seen
from reconciler.planning.records import run_seconds_left


@dataclass(slots=True)
class Steady:
    """What the last cycle found unchanged. May vanish at any time."""

    _policy: Policy | None = None
    _known: dict[JobKey, tuple[JobRecord, JobFile, Seen, datetime | None]] = field(default_factory=dict)

    def under(self, policy: Policy) -> None:
        """Forget everything where the policy is another one."""
        if policy is not self._policy:
            self._known.clear()
            self._policy = policy

    def holds(self, key: JobKey, record: JobRecord, file: JobFile, seen: Seen, now: datetime) -> bool:
        """Whether the job was looked at with just these, and its next moment has not come."""
        known = self._known.get(key)
        if known is None or known[0] is not record or known[1] is not file:
            return False
        was = known[2]
        same = (
            was.workload is seen.workload
            and was.without_it == seen.without_it
            and was.refused == seen.refused
            and was.away == seen.away
            and was.ungranted == seen.ungranted
            and was.epoch == seen.epoch
        )
        return same and (known[3] is None or now < known[3])

    def note(self, record: JobRecord, file: JobFile, seen: Seen, policy: Policy) -> None:
        """The look changed nothing."""
        self._known[record.key] = (record, file, seen, _next_moment(record, policy))

    def keep_only(self, records: Mapping[JobKey, JobRecord]) -> None:
        """Forget jobs that the ledger does not know."""
        if len(self._known) > len(records):
            self._known = {key: known for key, known in self._known.items() if key in records}


def _next_moment(record: JobRecord, policy: Policy) -> datetime | None:
    """When the passing of time alone can change the job; None for never."""
    attempt = record.current
    if attempt is None:
        return None
    moments = []
    if attempt.state is State.GRANTED and attempt.granted_at is not None:
        limit = record.spec.start_timeout_seconds or policy.limits.start_timeout_seconds
        moments.append(attempt.granted_at + timedelta(seconds=limit))
    left = run_seconds_left(record, policy)
    if left is not None and attempt.started_at is not None:
        moments.append(attempt.started_at + timedelta(seconds=left) + DEADLINE_SLACK)
    return min(moments, default=None)
