"""What main wants of each job, and whether main can be believed.

Mass disappearance is an accident until a person confirms it: a main that is gone, empty or rewound, or more than a few and
more than a share of the live jobs gone in one step, stops nothing. A file that is broken or doubled leaves its job as it is.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from reconciler.hub.ledger import Ledger, Rejected, Suspicion
from reconciler.hub.sources import Sources
from reconciler.model.names import JobKey
from reconciler.model.policy import Thresholds
from reconciler.model.reasons import Reason, Why, because
from reconciler.model.record import JobRecord, Source
from reconciler.planning.lifecycle import Intent, Wanted

NOTHING_REJECTED = Rejected()


@dataclass(frozen=True, slots=True)
class MainSeen:
    """The main branch in this cycle."""

    commit: str | None
    """None where the branch does not exist."""
    rewound: bool
    """It stands at an ancestor of the commit that was taken in last."""
    empty: bool = False
    """It has no file that would be ours: no job, no region, no team."""


def suspicion_of(ledger: Ledger, sources: Sources, main: MainSeen, now: datetime) -> Suspicion | None:
    """Why main is not to be believed; None where it is, or where a person has confirmed what it says."""
    live = [key for key in ledger.records.keys() - sources.jobs.keys() if _counts(ledger.records[key])]
    gone = [key for key in live if surely_gone(key, ledger.records[key], sources, ledger.rejected)]
    if not gone and not main.rewound and main.commit is not None:
        return None
    present = sum(_counts(ledger.records[key]) for key in ledger.records.keys() & sources.jobs.keys())
    kind = _kind(len(gone), _edited(ledger, sources) or _returned(ledger, sources), present + len(live), main, sources)
    if kind is None:
        return None
    before = ledger.hub.suspicion
    if before is not None and before.main in sources.confirmations and len(gone) <= before.gone:
        return None
    if main.commit is not None and main.commit in sources.confirmations:
        return None
    same = before is not None and before.kind == kind and before.gone >= len(gone)
    if before is not None and same:
        return before
    return Suspicion(main=main.commit or "", kind=kind, gone=len(gone), live=present + len(live), since=now)


def _counts(record: JobRecord) -> bool:
    """Whether a missing file would stop something. Tasks of the hub's own have none."""
    return record.live and record.source is not None and record.stage is None


def _edited(ledger: Ledger, sources: Sources) -> bool:
    """Whether main wants to run any live job otherwise than the ledger has it."""
    both = ledger.records.keys() & sources.jobs.keys()
    return any(_counts(ledger.records[key]) and sources.jobs[key].run_hash != ledger.records[key].run_hash for key in both)


def _returned(ledger: Ledger, sources: Sources) -> bool:
    """Whether a job is back whose file had gone: on a rewound main nobody has asked for it."""
    return any(ledger.records[key].source is None for key in ledger.records.keys() & sources.jobs.keys())


Kind = Literal["gone", "unreadable", "rewound"]


def _kind(gone: int, changed: bool, live: int, main: MainSeen, sources: Sources) -> Kind | None:
    if main.commit is None:
        return "unreadable" if live else None
    if (gone > 1 and not sources.jobs) or (gone and main.empty):  # the last job alone may go like any other
        return "unreadable"
    if main.rewound and (gone or changed):
        return "rewound"
    thresholds: Thresholds = sources.fleet.policy.thresholds
    return "gone" if gone > thresholds.disappearance_jobs and gone > thresholds.disappearance_share * live else None


def surely_gone(key: JobKey, record: JobRecord, sources: Sources, rejected: Rejected) -> bool:
    """Whether a job's file is gone for certain: no sound file names it, and no broken one may be it."""
    if key in sources.jobs or key in sources.conflicts:
        return False
    if record.source is not None and record.source.path in sources.broken:
        return False
    return renamed_into(key, record, sources, rejected) is None


def renamed_into(key: JobKey, record: JobRecord, sources: Sources, rejected: Rejected) -> str | None:
    """The broken file that a job's missing file may have been renamed into; None where there is none.

    One that does not say whose it is may be, unless it was broken already before the file went.
    """
    for path, named in sources.broken.items():
        if named == key or (named is None and path.startswith(f"jobs/{key.team}/") and _came_with(path, record, rejected)):
            return path
    return None


def _came_with(path: str, record: JobRecord, rejected: Rejected) -> bool:
    told = [problem.since for problem in rejected.problems if problem.path == path]
    doubted = next((one.since for one in record.conditions if one.type == "SpecAccepted"), None)
    return not told or (doubted is not None and max(told) >= doubted)


def intent_for(
    key: JobKey, record: JobRecord | None, sources: Sources, suspicion: Suspicion | None, rejected: Rejected = NOTHING_REJECTED
) -> Intent:
    """What main wants of one job. `rejected`: the files that were refused before."""
    conflict = sources.conflicts.get(key)
    if conflict is not None:
        return Intent(None, because(Why.DUPLICATE_JOB, paths=" and ".join(conflict)))
    file = sources.jobs.get(key)
    if file is not None:
        if suspicion is not None and suspicion.kind != "gone" and record is not None:
            return Intent(None, _doubt(suspicion))
        return Intent(Wanted(file.spec, Source(path=file.path, blob=file.blob), file.run_hash))
    if record is None or record.source is None:
        return Intent(None)
    if record.source.path in sources.broken:
        return Intent(None, because(Why.SPEC_BROKEN))
    into = renamed_into(key, record, sources, rejected)
    if into is not None:
        return Intent(None, because(Why.PERHAPS_RENAMED, path=into))
    return Intent(None, None if suspicion is None else _doubt(suspicion))


def _doubt(suspicion: Suspicion) -> Reason:
    return because(Why.SOURCE_SUSPICIOUS, what=doubt_in_words(suspicion))


def doubt_in_words(suspicion: Suspicion) -> str:
    """What looks like an accident, by its kind."""
    gone, live = suspicion.gone, suspicion.live
    nothing = "nothing is stopped or changed until that is confirmed"
    match suspicion.kind:
        case "rewound":
            without = f", where {gone} of {live} live jobs are missing" if gone else ""
            return f"the main branch was set back to an earlier commit{without}; {nothing}"
        case "unreadable" if not suspicion.main:
            return "the main branch is gone; nothing is stopped or changed until it is back"
        case "unreadable":
            return f"the main branch has no jobs any more: {gone} of {live} live jobs went in one step; {nothing}"
    return f"{gone} of {live} live jobs went from the main branch in one step; nothing is stopped until that is confirmed"
