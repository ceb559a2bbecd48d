"""What follows from all records together, kept up to date from one cycle to the next instead of being worked out anew.

Decides nothing. A record is a frozen value, so a record that is the very same object says the very same things. Throwing an index
away costs time and changes nothing; a test holds it against one made from nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache

from reconciler.hub.review import approved_region
from reconciler.model.attempt import HOLDS_GPUS, MAY_RUN, RENDERED, Attempt, State
from reconciler.model.grants import Grant
from reconciler.model.names import JobKey, attempt_at, manifest_path, stem_of
from reconciler.model.policy import Policy
from reconciler.model.reasons import Why, code_of
from reconciler.model.record import JobRecord, Phase
from reconciler.planning.kept import kept_datasets, kept_image
from reconciler.planning.lifecycle import avoided_regions
from reconciler.planning.records import run_limit, run_seconds_left, run_seconds_used
from reconciler.planning.snapshot import Holding, JobView


@dataclass(frozen=True, slots=True)
class _Said:
    """What one record says."""

    record: JobRecord
    region: str | None = None
    """Of its current attempt."""
    holding: Holding | None = None
    grant: Grant | None = None
    stopping: str | None = None
    manifest: str | None = None
    ended: tuple[tuple[str, str], ...] = ()
    """(region, path) of manifests that may leave their branch."""
    view: JobView | None = None
    """The job as the pass sees it, where it wants an attempt."""


@dataclass(slots=True)
class _Region:
    """What stands in one region."""

    holdings: dict[JobKey, Holding] = field(default_factory=dict)
    grants: dict[JobKey, Grant] = field(default_factory=dict)
    stopping: dict[JobKey, str] = field(default_factory=dict)
    manifests: dict[str, JobKey] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    held: tuple[Holding, ...] | None = None
    granted: tuple[Grant, ...] | None = None


class Index:
    """Made for one policy; `update` it with all records of a moment, then ask."""

    def __init__(self) -> None:
        self._begin(None)

    def _begin(self, policy: Policy | None) -> None:
        self._policy = policy
        self._said: dict[JobKey, _Said] = {}
        self._regions: dict[str, _Region] = {}
        self.pending: dict[JobKey, JobView] = {}
        self.used_gpus: dict[str, int] = {}

    def update(self, records: Mapping[JobKey, JobRecord], policy: Policy) -> None:
        """Take in what is not the same as at the last update."""
        if policy is not self._policy:
            self._begin(policy)
        for key, record in records.items():
            old = self._said.get(key)
            if old is None or old.record is not record:
                self._forget(key, old)
                self._take(key, said_by(record, policy))
        if len(self._said) > len(records):
            for key in self._said.keys() - records.keys():
                self._forget(key, self._said.pop(key))

    def regions(self) -> Iterable[str]:
        """Regions in which any attempt stands."""
        return [name for name, region in self._regions.items() if region.manifests]

    def holdings(self, region: str) -> tuple[Holding, ...]:
        """What attempts hold there, in the order of their names; the same object until one of them changes."""
        found = self._regions.get(region)
        if found is None:
            return ()
        if found.held is None:
            found.held = tuple(sorted(found.holdings.values(), key=lambda holding: holding.attempt))
        return found.held

    def grants(self, region: str) -> tuple[Grant, ...]:
        """What may run there, in the order of the attempts' names."""
        found = self._regions.get(region)
        if found is None:
            return ()
        if found.granted is None:
            found.granted = tuple(sorted(found.grants.values(), key=lambda grant: grant.attempt))
        return found.granted

    def stopping(self, region: str) -> frozenset[str]:
        """Attempts that are being stopped there."""
        found = self._regions.get(region)
        return frozenset(found.stopping.values()) if found is not None else frozenset()

    def manifests(self, region: str) -> Mapping[str, JobKey]:
        """Path → job of the manifests that must stand on the region's branch."""
        found = self._regions.get(region)
        return found.manifests if found is not None else {}

    def may_leave(self, region: str, path: str) -> bool:
        """Whether a manifest's attempt has ended in the ledger."""
        found = self._regions.get(region)
        return found is not None and path in found.ended

    def strangers(self, region: str, present: frozenset[str]) -> list[str]:
        """Those of the manifests on the region's branch that are an attempt's by their name, and of no attempt that is known."""
        found = present - self.manifests(region).keys()
        return sorted(path for path in found if not self.may_leave(region, path) and _is_attempts(path))

    def is_alive(self, region: str, attempt: str) -> bool:
        """Whether an attempt of that name stands in the region and has not ended."""
        found = self._regions.get(region)
        return found is not None and any(path.endswith(f"/{attempt}.yaml") for path in found.manifests)

    def _take(self, key: JobKey, said: _Said) -> None:
        self._said[key] = said
        if said.view is not None:
            self.pending[key] = said.view
        for name, path in said.ended:
            self._region(name).ended.add(path)
        if said.region is None:
            return
        region = self._region(said.region)
        if said.holding is not None:
            region.holdings[key] = said.holding
            region.held = None
            self._use(key.team, said.holding.nodes * said.holding.needs.gpus)
        if said.grant is not None:
            region.grants[key] = said.grant
            region.granted = None
        if said.stopping is not None:
            region.stopping[key] = said.stopping
        if said.manifest is not None:
            region.manifests[said.manifest] = key

    def _forget(self, key: JobKey, said: _Said | None) -> None:
        if said is None:
            return
        self.pending.pop(key, None)
        for name, path in said.ended:
            self._region(name).ended.discard(path)
        if said.region is None:
            return
        region = self._region(said.region)
        if said.holding is not None:
            del region.holdings[key]
            region.held = None
            self._use(key.team, -said.holding.nodes * said.holding.needs.gpus)
        if region.grants.pop(key, None) is not None:
            region.granted = None
        region.stopping.pop(key, None)
        if said.manifest is not None:
            del region.manifests[said.manifest]

    def _region(self, name: str) -> _Region:
        return self._regions.setdefault(name, _Region())

    def _use(self, team: str, gpus: int) -> None:
        self.used_gpus[team] = self.used_gpus.get(team, 0) + gpus


@lru_cache(maxsize=65536)
def _is_attempts(path: str) -> bool:
    """Whether a manifest is an attempt's, by its name."""
    return stem_of(attempt_at(path)) is not None


def said_by(record: JobRecord, policy: Policy) -> _Said:
    """What one record says."""
    attempt = record.current
    ended = tuple(
        (old.region, manifest_path(record.team, old.name)) for old in record.attempts if old.ended and old.placed_at is not None
    )
    view = job_view(record, run_limit(record.spec, policy)) if wants_attempt(record) else None
    if attempt is None:
        return _Said(record, ended=ended, view=view)
    return _Said(
        record,
        attempt.region,
        holding_of(record, policy) if attempt.state in HOLDS_GPUS else None,
        grant_of(record, policy) if attempt.state in MAY_RUN else None,
        attempt.name if attempt.state is State.STOPPING else None,
        manifest_path(record.team, attempt.name) if attempt.state in RENDERED else None,
        ended,
        view,
    )


def wants_attempt(record: JobRecord) -> bool:
    """Whether the pass is to place it: it waits, or a person has approved its proposal."""
    current = record.current
    if current is None:
        return record.phase in (Phase.PENDING, Phase.IMPOSSIBLE)
    return current.state is State.PROPOSED and approved_region(record) == current.region


def holding_of(record: JobRecord, policy: Policy) -> Holding | None:
    """What the current attempt holds, and until when as far as anybody knows."""
    attempt = record.current
    if attempt is None:
        return None
    expected = _expected_seconds(record, run_limit(record.spec, policy))
    since = attempt.started_at or attempt.granted_at or _planned_start(attempt)
    ends = since + timedelta(seconds=expected) if since is not None and expected is not None else None
    return Holding(attempt.name, attempt.nodes, attempt.needs, attempt.gpu_model, ends)


def _planned_start(attempt: Attempt) -> datetime | None:
    """Of an attempt that has not begun: its data may have to come first."""
    moments = [moment for moment in (attempt.placed_at, attempt.estimated_start_at) if moment is not None]
    return max(moments, default=None)


def grant_of(record: JobRecord, policy: Policy) -> Grant | None:
    """The current attempt's grant."""
    attempt = record.current
    if attempt is None:
        return None
    left = run_seconds_left(record, policy)
    return Grant(
        attempt=attempt.name,
        team=record.team,
        job_id=record.job_id,
        nodes=attempt.nodes,
        epoch=attempt.epoch,
        run_seconds=left,
        bytes_per_second=attempt.bytes_per_second,
    )


def job_view(record: JobRecord, limit: int | None) -> JobView:
    """The job as the pass sees it. `limit`: its run time over all attempts, in seconds."""
    return JobView(
        key=record.key,
        spec=record.spec,
        submitted_at=record.submitted_at,
        pin=approved_region(record),
        veto=frozenset(record.placement.veto),
        avoid=avoided_regions(record),
        run_seconds=_expected_seconds(record, limit),
        unrendered=_refused_there(record),
        kept=kept_datasets(record),
        kept_image=kept_image(record),
    )


def _refused_there(record: JobRecord) -> tuple[tuple[str, str], ...]:
    """Regions whose sync engines refused this very spec in this run, and their words."""
    refused = code_of(Why.NOT_SYNCED)
    found = {
        attempt.region: f"{attempt.reason.text}; once that is mended, `reconciler rerun` asks again"
        for attempt in record.this_run
        if attempt.reason is not None and attempt.reason.code == refused and attempt.run_hash == record.run_hash
    }
    return tuple(sorted(found.items()))


def _expected_seconds(record: JobRecord, limit: int | None) -> int | None:
    whole = record.spec.expected_runtime_seconds or limit
    return None if whole is None else max(0, whole - int(run_seconds_used(record)))
