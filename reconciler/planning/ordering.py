"""Who goes first: the higher priority; then the team furthest below its fair share; then the job that has waited longest.

A team's share is the GPUs it holds over its weight, and it grows as its jobs are placed in the pass. The last comparator is
the job's identity: arbitrary, but the same every time.
"""

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Mapping

from reconciler.model.fleet import Team
from reconciler.planning.snapshot import JobView


class Order:
    """The queue of one pass. Iterate it; tell it of every placement before asking for the next job."""

    def __init__(self, pending: Iterable[JobView], used_gpus: Mapping[str, int], teams: Mapping[str, Team]) -> None:
        self._used = dict(used_gpus)
        self._weight = {name: team.weight for name, team in teams.items()}
        self._levels: dict[int, dict[str, deque[JobView]]] = {}
        for job in sorted(pending, key=lambda job: (job.submitted_at, job.key)):
            teams_of = self._levels.setdefault(job.spec.priority_value, {})
            teams_of.setdefault(job.key.team, deque()).append(job)

    def share(self, team: str) -> float:
        """GPUs held over weight."""
        return self._used.get(team, 0) / self._weight.get(team, 1.0)

    def placed(self, job: JobView) -> None:
        """The job was given its GPUs."""
        self._used[job.key.team] = self._used.get(job.key.team, 0) + job.spec.total_gpus

    def __iter__(self) -> Iterator[JobView]:
        for priority in sorted(self._levels, reverse=True):
            waiting = self._levels[priority]
            heap = [(self.share(team), jobs[0].submitted_at, team) for team, jobs in waiting.items()]
            heapq.heapify(heap)
            while heap:
                noted, submitted_at, team = heapq.heappop(heap)
                if noted != self.share(team):
                    heapq.heappush(heap, (self.share(team), submitted_at, team))
                    continue
                yield waiting[team].popleft()
                if waiting[team]:
                    heapq.heappush(heap, (self.share(team), waiting[team][0].submitted_at, team))
