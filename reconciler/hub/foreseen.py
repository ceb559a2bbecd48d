"""Where the jobs of a lost region would go if it were given up now: told to people, and nothing of it is done.

Decides as the pass does, on what that has left. Pure. Only looked at while some region is lost.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from reconciler.hub.index import job_view
from reconciler.hub.world import World
from reconciler.model.attempt import MAY_RUN
from reconciler.model.names import JobKey
from reconciler.model.record import REACHABLE, JobRecord
from reconciler.model.region_state import RegionState
from reconciler.planning.decisions import Decision, Impossible, Place
from reconciler.planning.plan import plan
from reconciler.planning.records import run_limit
from reconciler.planning.snapshot import JobView, Snapshot


def with_foreseen(
    records: Mapping[JobKey, JobRecord], world: World, snapshot: Snapshot, now: datetime, most: int
) -> dict[JobKey, JobRecord]:
    """The records that are to be told where their jobs would go, told so."""
    lost = {name for name, condition in world.conditions.items() if condition.state is RegionState.LOST}
    if not lost:
        return {}
    views = tuple(_view(record, snapshot) for record in records.values() if _would_move(record, lost))
    found = plan(replace(snapshot, pending=views), now, None, most)
    return {decision.key: _told(records[decision.key], _words(decision)) for decision in found}


def _would_move(record: JobRecord, lost: set[str]) -> bool:
    current = record.current
    moves = record.spec.on_region_lost == "rerun" and not record.cancelled and not record.spec.suspend
    return moves and current is not None and current.state in MAY_RUN and current.region in lost


def _view(record: JobRecord, snapshot: Snapshot) -> JobView:
    return job_view(record, run_limit(record.spec, snapshot.policy))


def _words(decision: Decision) -> str:
    if isinstance(decision, Place):
        return f"it would go to {decision.chosen.region}"
    if isinstance(decision, Impossible):
        return f"no other region could run it: {decision.reason.text}"
    return f"it would wait: {decision.reason.text}"


def _told(record: JobRecord, words: str) -> JobRecord:
    told = tuple(one.model_copy(update={"message": words}) if one.type == REACHABLE else one for one in record.conditions)
    return record if told == record.conditions else record.model_copy(update={"conditions": told})
