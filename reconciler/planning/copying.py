"""Copying data to a free region against waiting for a busy one that has it: one comparison.

Copying wins where the job starts sooner by it and the time won is worth the price; a deadline that only copying meets is worth
any. When a busy region will be free, and which regions are free, is for others to say.
"""

from datetime import datetime, timedelta
from typing import NamedTuple

from reconciler.model.policy import Thresholds
from reconciler.model.reasons import Reason, Why, because
from reconciler.planning.decisions import Wait
from reconciler.planning.filters import GIB
from reconciler.planning.snapshot import JobView
from reconciler.planning.transfer import Move


class Start(NamedTuple):
    """Where the job could start, and when."""

    at: datetime
    region: str
    move_usd: float | None = 0.0
    """Price of what must be copied there first; None where it is not known."""


def copy_or_wait(job: JobView, waiting: Start, copying: Start, move: Move, thresholds: Thresholds) -> Wait | Reason | None:
    """To wait; or to copy, with a reason where something must be said about it."""
    late = _deadline_missed(job, min(waiting.at, copying.at))
    if late is not None:
        numbers = {
            "region": waiting.region,
            "free_at": _time(waiting.at),
            "other": copying.region,
            "copied_at": _time(copying.at),
        }
        reason = because(Why.DEADLINE_OUT_OF_REACH, **numbers, deadline=late)
        return Wait(job.key, reason, {}) if waiting.at <= copying.at else reason
    cause = _not_worth_it(job, waiting, copying, thresholds.copy_urgency_usd_per_hour)
    if cause is None:
        return None
    gib = round((move.move_bytes or 0) / GIB, 1)
    numbers = {"region": waiting.region, "free_at": _time(waiting.at), "other": copying.region, "cause": cause}
    return Wait(job.key, because(Why.WAIT_NOT_COPY, **numbers, gib=gib), {})


def _not_worth_it(job: JobView, waiting: Start, copying: Start, usd_per_hour: float) -> str | None:
    """Why waiting is better than copying; None where copying is. `usd_per_hour`: what an hour sooner is worth at priority 50."""
    if waiting.at <= copying.at:
        return f"takes until {_time(copying.at)}"
    if _deadline_missed(job, waiting.at) is not None:
        return None
    if copying.move_usd is None:
        return "has no known price"
    more_usd = copying.move_usd - (waiting.move_usd or 0.0)
    hours = (waiting.at - copying.at).total_seconds() / 3600
    worth = hours * usd_per_hour * job.spec.priority_value / 50
    return f"costs {more_usd:.2f} USD for {hours:.1f} h" if worth < more_usd else None


def _deadline_missed(job: JobView, start: datetime) -> str | None:
    """The deadline, if a start at `start` would miss it."""
    if job.spec.deadline is None:
        return None
    end = start + timedelta(seconds=job.run_seconds or 0)
    return job.spec.deadline if end > datetime.fromisoformat(job.spec.deadline) else None


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
