"""`reconciler plan`: what the hub would decide if this working tree were main. Nothing is written anywhere.

Decides where the picture of the world comes from, and says which parts of it are live: the ledger by the repository's status
branch, the regions by their reports in the store; what cannot be had is taken as declared and empty. JSON (schema_version 1):
`basis`, `problems`, `doubt`, `events`, `jobs` (each with `job`, `phase`, `why`, `region`, `attempt`, `decided_now`, `proposed`,
`strategy`, `regions`, `regions_more`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from reconciler.adapters.clock import SystemClock
from reconciler.adapters.documents import reader
from reconciler.adapters.work_tree import WorkTree, read_folder
from reconciler.app import open_store, store_address
from reconciler.commands import regions_table, screen, user_git
from reconciler.commands.ends import BadInput, in_two
from reconciler.commands.names import find
from reconciler.commands.regions_table import RegionRow, refused_rows, rows_of
from reconciler.commands.repository import MAIN, chosen, opened
from reconciler.commands.tree import top_of
from reconciler.hub.intents import doubt_in_words
from reconciler.hub.ledger import Corrupt
from reconciler.hub.observing import GitEyes, GitSeen
from reconciler.hub.regions import RegionSeen, Reports
from reconciler.hub.repo_files import may_matter
from reconciler.hub.sources import ParseCache, Sources, read_sources
from reconciler.hub.whatif import NO_LEDGER, Imagined, WhatIf, imagined_world, what_if
from reconciler.model.names import JobKey
from reconciler.model.policy import Settings
from reconciler.model.quantity import as_length
from reconciler.ports import GitRepository, Refused, Transient

DECLARED: Final = "as declared, taken as empty"


@dataclass(frozen=True, slots=True)
class Basis:
    """Where the picture of the world came from, in words."""

    ledger: str
    regions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Answer:
    """What would be decided, and from what."""

    sources: Sources
    basis: Basis
    answer: WhatIf
    shown: tuple[JobKey, ...]
    now: datetime


@dataclass(frozen=True, slots=True)
class Live:
    """Reports that could be had, how old they are by their regions' own clocks, and why others could not."""

    seen: Mapping[str, RegionSeen]
    ages: Mapping[str, float]
    missing: str


def plan_of(folder: Path, repo: str | None, store: str | None, job: str | None) -> Answer:
    """The decisions for a working tree. Raises BadInput for a job that it does not have; Refused, Transient."""
    top = top_of(folder)
    if top is None:
        raise BadInput(f"{folder} is no jobs repository", "name a folder that has jobs/, regions/ or reconciler.yaml in it")
    tree = read_folder(top, may_matter)
    seen, ledger_words, git = _ledger(top, repo)
    sources = _sources(tree, seen, git)
    now = SystemClock().now()
    live = reports_of(sources.fleet.settings, store, frozenset(sources.fleet.regions), now)
    ledger, placements = (seen.ledger, seen.placements) if seen is not None else (NO_LEDGER, {})
    answer = what_if(imagined_world(sources, ledger, live.seen, live.ages, placements, now), now)
    regions = {name: _words(name, live) for name in sorted(sources.fleet.regions)}
    return Answer(sources, Basis(ledger_words, regions), answer, _shown(answer, sources, job), now)


def _ledger(top: Path, repo: str | None) -> tuple[GitSeen | None, str, GitRepository | None]:
    """What the repository's other branches say, if they can be had, and from where."""
    own = user_git.top_of(top)
    if repo is None and (own is None or own.resolve() != top.resolve()):
        return None, "none (the folder is not the top of a Git repository, and no --repo is given)", None
    try:
        url = chosen(repo, top)
        with opened(url) as git:
            seen = GitEyes(git, reader, MAIN).look(git.fetch())
    except (Refused, Transient, Corrupt) as error:
        if repo is not None:
            raise Refused(str(error)) from error
        what = str(error) if isinstance(error, Corrupt) else in_two(error)[0]
        return None, f"none ({what})", None
    status = seen.heads.get(seen.branches.status)
    if status is None:
        return seen, "none (no hub has written one yet)", git
    return seen, f"{len(seen.ledger.records)} jobs, by {seen.branches.status} at {status[:12]}", git


def _sources(tree: WorkTree, seen: GitSeen | None, git: GitRepository | None) -> Sources:
    """The working tree as main; what of it is broken stays in force as the ledger has it."""
    in_force = seen.ledger.in_force if seen is not None else {}
    own = {entry.oid for entry in tree.entries.values()}

    def read(oid: str) -> bytes:
        return tree.read(oid) if oid in own or git is None else git.read(oid)

    def size(oid: str) -> int:
        return tree.size(oid) if oid in own or git is None else git.size(oid)

    return read_sources(tree.entries, read, size, in_force, ParseCache(), reader)


def reports_of(settings: Settings, url: str | None, regions: frozenset[str], now: datetime) -> Live:
    """The regions' reports. Raises Refused and Transient where a store is named and cannot be read."""
    address = store_address(url, settings)
    if address is None:
        return Live({}, {}, "no store is named")
    try:
        reports = Reports(open_store(address, make=False), SystemClock().monotonic)
        reports.look(regions)
    except (Refused, Transient) as error:
        if url is not None:
            raise
        return Live({}, {}, in_two(error)[0])
    seen = {name: reports.seen[name] for name in regions & reports.seen.keys()}
    # One look cannot see a report rise, so its age here is by its region's clock; the hub counts by its own.
    ages = {name: max(0.0, (now - one.summary.last_heartbeat).total_seconds()) for name, one in seen.items()}
    troubles = "; ".join(f"{name}: {words}" for name, words in sorted(reports.troubles.items()))
    return Live(seen, ages, troubles or f"no report in {address.url}")


def _words(region: str, live: Live) -> str:
    if region in live.seen:
        return f"live, reported {as_length(live.ages[region])} ago"
    return f"{DECLARED} ({live.missing})"


def _shown(answer: WhatIf, sources: Sources, job: str | None) -> tuple[JobKey, ...]:
    """The job that is typed; else all that are not over, or that the tree would change."""
    if job is None:
        return tuple(key for key, each in answer.jobs.items() if each.after.live or each.after != each.before)
    named = {key for key in sources.broken.values() if key is not None}
    key = find(job, {*answer.jobs, *named, *sources.conflicts})
    if key not in answer.jobs:
        problems = [problem for problem in sources.problems if sources.broken.get(problem.path) == key]
        raise BadInput(f"{key} cannot be planned for: {problems[0] if problems else 'its file is refused'}", "mend its file")
    return (key,)


def rows(job: Imagined) -> tuple[RegionRow, ...]:
    """Each region's part in the decision."""
    if job.decided is not None:
        return rows_of(job.decided.decision)
    return refused_rows(job.after.waits)


def show(answer: Answer) -> None:
    """Print it for people."""
    screen.say(f"ledger: {answer.basis.ledger}")
    for region, words in answer.basis.regions.items():
        screen.say(f"region {region}: {words}")
    for problem in answer.sources.problems:
        screen.say(str(problem))
    if answer.answer.doubt is not None:
        screen.say(f"the hub would doubt this: {doubt_in_words(answer.answer.doubt)}")
    for key in answer.shown:
        _show_job(answer.answer.jobs[key], answer.now)
    if not answer.shown:
        screen.say("\nnothing would be decided: no job of this tree is waiting or running")


def _show_job(job: Imagined, now: datetime) -> None:
    record = job.after
    screen.say(f"\n{headline(job)}")
    found = rows(job)
    if not found:
        return
    if job.decided is None:
        screen.show_table(("region", "verdict", "why"), [(row.region, row.verdict, row.why.text) for row in found])
        counts = record.waits_more
    else:
        screen.show_table(regions_table.HEADERS, [regions_table.cells(row, now) for row in found])
        counts = job.decided.decision.refused_more
    for line in regions_table.more(counts):
        screen.say(line)


def headline(job: Imagined) -> str:
    """What would become of the job, in one line."""
    record = job.after
    spec, last = record.spec, record.last
    gpus = screen.gpus(spec.nodes, spec.gpu.count)
    asks = f"{record.key} ({gpus} GPUs)" if spec.total_gpus else f"{record.key} (no GPUs)"
    if job.decided is not None:
        verb = "would be proposed in" if job.proposed else "would start in"
        return f"{asks} {verb} {job.decided.region}"
    where = f" in {last.region} as {last.name}" if record.current is not None and last is not None else ""
    same = job.before is not None and job.before.phase is record.phase
    why = f": {record.why.text}" if record.why is not None else ""
    return f"{asks} {'stays' if same else 'would be'} {record.phase}{where}{why}"


def as_value(answer: Answer) -> dict[str, Any]:
    """The JSON form."""
    return {
        "schema_version": 1,
        "basis": {"ledger": answer.basis.ledger, "regions": dict(answer.basis.regions)},
        "problems": [
            {"path": each.path, "line": each.line, "column": each.column, "code": each.code, "what": each.what, "todo": each.todo}
            for each in answer.sources.problems
        ],
        "doubt": answer.answer.doubt.model_dump(mode="json") if answer.answer.doubt is not None else None,
        "events": list(answer.answer.events),
        "jobs": [_job_value(answer.answer.jobs[key]) for key in answer.shown],
    }


def _job_value(job: Imagined) -> dict[str, Any]:
    record, decided = job.after, job.decided
    last = record.last
    return {
        "job": str(record.key),
        "phase": str(record.phase),
        "why": screen.reason_json(decided.decision.reason if decided is not None else record.why),
        "region": last.region if last is not None else None,
        "attempt": last.name if last is not None else None,
        "decided_now": decided is not None,
        "proposed": job.proposed,
        "strategy": decided.decision.strategy if decided is not None else None,
        "regions": [regions_table.as_value(row) for row in rows(job)],
        "regions_more": decided.decision.refused_more if decided is not None else record.waits_more,
    }
