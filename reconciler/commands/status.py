"""`reconciler status`: all jobs, or one, as the ledger has them; with `--watch`, again whenever something changes.

Decides what a row says; the ledger is the hub's word. JSON (schema_version 1): `main`, `status` (commits), `jobs` (each with
`job`, `team`, `job_id`, `phase`, `region`, `attempt`, `gpus`, `since`, `why`, `result` (of its newest success, by the ledger: as
schemas/result.schema.json, or null), and `conditions`: each with `type`, `code`, `text`, `message`, `since`), `staging` (each
with `job_id`, `task`, `phase`, `attempt`, `progress`, `bytes_per_second`, `why`), `not_taken_in` (paths), `problems`, `troubles`
(each with `subject`, `code`, `what`, `since`), `standstill` (`what`, `since`; or null), `regions` (those that are not Ready: each
with `region`, `state`, `since`, `next_at`, `epoch`, `why`), `links` (as measured: each with `source`, `target`,
`bytes_per_second`, `samples`, `rtt_ms`, `problem`, `at`), `doubt`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from reconciler.commands import links_table, screen
from reconciler.commands.names import job_in, unseen
from reconciler.commands.repository import InStore, Look
from reconciler.hub.branches import beside, suspicious, told
from reconciler.hub.estimates import lately
from reconciler.hub.ledger import RejectedFile, Suspicion, Trouble
from reconciler.hub.link_table import MeasuredLine
from reconciler.hub.repo_files import printable
from reconciler.hub.result_pointer import pointer_to, succeeded
from reconciler.model.attempt import Attempt
from reconciler.model.grants import HubTrouble
from reconciler.model.names import JobKey, record_path
from reconciler.model.problem import Problem
from reconciler.model.record import FINISHED, Condition, JobRecord, Phase
from reconciler.model.region_state import RegionCondition
from reconciler.model.result import ResultPointer
from reconciler.rendering.records import TASK_HEADERS, needs_a_person, task_row, under_way, why_of

REGION_HEADERS = ("region", "state", "since", "next", "why")
HEADERS = ("job", "phase", "region", "attempt", "GPUs", "since", "why")


@dataclass(frozen=True, slots=True)
class Status:
    """What there is to say."""

    main: str | None
    ledger: str | None
    """The commit that the ledger stands at."""
    records: tuple[JobRecord, ...]
    not_taken_in: tuple[str, ...]
    """Job files of main that neither a record nor a refusal is about: the hub has not seen them yet. As they are shown."""
    problems: tuple[RejectedFile, ...]
    doubt: Suspicion | None
    troubles: tuple[Trouble, ...]
    """What the hub asks a person to look at."""
    standstill: HubTrouble | None
    """Why the hub decides nothing at present, as it says in the store."""
    regions: Mapping[str, RegionCondition]
    """Those that are not Ready."""
    links: tuple[MeasuredLine, ...] = ()
    """What the links were measured to do, as the hub says in the store."""
    of_all: bool = True
    """Whether it is of all jobs, and not of one."""


def status_of(look: Look, job: str | None, said: InStore | None = None) -> Status:
    """The status of all jobs, or of the one that is typed. Raises BadInput where there is none of that name."""
    records, problems, troubles = look.ledger.records, look.ledger.rejected.problems, look.ledger.hub.troubles
    regions = look.ledger.hub.regions
    if job is not None:
        key = job_in(look, job)
        troubles = tuple(trouble for trouble in troubles if trouble.subject == record_path(key))
        records = {key: records[key]} if key in records else {}
        paths = {record.source.path for record in records.values() if record.source is not None}
        problems = tuple(each for each in problems if each.path in paths or not records)
        own = {record.current.region for record in records.values() if record.current is not None}
        regions = {name: condition for name, condition in regions.items() if name in own}
    return Status(
        main=look.main,
        ledger=look.status,
        records=tuple(records[key] for key in sorted(records)),
        not_taken_in=tuple(map(printable, unseen(look))) if job is None else (),
        problems=problems,
        doubt=look.ledger.hub.suspicion,
        troubles=troubles,
        standstill=said.standstill if said is not None else None,
        regions=regions,
        links=said.links if said is not None and job is None else (),
        of_all=job is None,
    )


def since_of(record: JobRecord) -> datetime | None:
    """When the job came into its phase, as far as the ledger tells."""
    last = record.last
    match record.phase:
        case Phase.PROPOSED:
            return last.decided_at if last is not None else None
        case Phase.STARTING:
            return (last.granted_at or last.placed_at) if last is not None else None
        case Phase.RUNNING:
            return last.started_at if last is not None else None
        case Phase.STOPPING:
            return last.stopping_at if last is not None else None
        case Phase.PENDING | Phase.IMPOSSIBLE:
            return last.ended_at if record.this_run and last is not None else record.submitted_at
    return last.ended_at if last is not None else None


def shown_attempt(record: JobRecord) -> Attempt | None:
    """The attempt that a job's row is about: the current one, or the last of a job that is over; none of a job that waits."""
    return record.last if record.phase in FINISHED else record.current


def row_of(record: JobRecord, now: datetime) -> tuple[str, ...]:
    """The job's row."""
    last = shown_attempt(record)
    return (
        str(record.key),
        str(record.phase),
        last.region if last is not None else screen.NOTHING,
        f"a{last.number}" if last is not None else screen.NOTHING,
        screen.gpus(record.spec.nodes, record.spec.gpu.count),
        screen.since(since_of(record), now),
        why_of(record),
    )


def region_rows(status: Status, now: datetime) -> Sequence[tuple[str, ...]]:
    """A row for each region that is not Ready."""
    return [
        (
            name,
            str(one.state),
            screen.since(one.since, now),
            screen.NOTHING if one.next_at is None else screen.ahead(one.next_at, now),
            one.reason.text,
        )
        for name, one in sorted(status.regions.items())
    ]


def notes(status: Status) -> Sequence[str]:
    """What a table of jobs does not show."""
    still = status.standstill
    found = [f"the hub stands still since {still.since:%Y-%m-%d %H:%M} UTC: {still.what}"] if still is not None else []
    found += suspicious(status.doubt)
    found += [f"not taken in by the hub yet: {path}" for path in status.not_taken_in]
    if status.ledger is None:
        found.append("no hub has written a ledger here yet")
    found += [told(trouble) for trouble in beside(status.troubles, status.regions)]
    found += needs_a_person(status.records)
    found += links_table.more(status.links)
    return [screen.one_line(note) for note in (*found, *(problem_line(each) for each in status.problems))]


def result_of(record: JobRecord) -> ResultPointer | None:
    """Where a job's result is, as the ledger has it: the pointer in the store is a copy of that."""
    attempt = succeeded(record)
    return pointer_to(record.key, attempt) if attempt is not None else None


def result_line(result: ResultPointer) -> str:
    """Where the result is, for people."""
    return f"result: {', '.join(result.outputs) or 'no outputs'}, of {result.attempt} ({screen.clock(result.succeeded_at)})"


def problem_line(problem: RejectedFile) -> str:
    """A problem as validate prints it."""
    return str(Problem(problem.path, problem.line, problem.column, problem.code, problem.what, problem.todo))


def show(status: Status, now: datetime) -> None:
    """Print it for people."""
    jobs = [record for record in status.records if record.stage is None]
    if jobs:
        screen.show_table(HEADERS, [row_of(record, now) for record in jobs])
        result = result_of(jobs[0]) if len(jobs) == 1 else None
        if result is not None and result.outputs:
            screen.say(screen.one_line(result_line(result)))
    elif status.ledger is not None and not status.problems:
        screen.say("there are no jobs")
    tasks = under_way(record for record in status.records if record.stage is not None)
    if tasks:
        screen.say("\ndata under way")
        screen.show_table(TASK_HEADERS, [task_row(record) for record in tasks])
        screen.say("")
    if status.regions:
        screen.say("\nregions that are not Ready")
        screen.show_table(REGION_HEADERS, region_rows(status, now))
        screen.say("")
    if status.links:
        screen.say("\nlinks as measured")
        screen.show_table(links_table.HEADERS, links_table.rows_of(status.links, now))
        screen.say("")
    for note in notes(status):
        screen.say(note)
    estimates = lately(status.records, now) if status.of_all else ""
    if estimates:
        screen.say(estimates)


def as_value(status: Status) -> dict[str, Any]:
    """The JSON form."""
    doubt = status.doubt
    return {
        "schema_version": 1,
        "main": status.main,
        "status": status.ledger,
        "jobs": [_job(record) for record in status.records if record.stage is None],
        "staging": [_task(record) for record in status.records if record.stage is not None],
        "not_taken_in": list(status.not_taken_in),
        "problems": [problem.model_dump(mode="json") for problem in status.problems],
        "troubles": [trouble.model_dump(mode="json") for trouble in status.troubles],
        "standstill": status.standstill.model_dump(mode="json") if status.standstill is not None else None,
        "regions": [region_json(name, condition) for name, condition in sorted(status.regions.items())],
        "links": [links_table.as_value(line) for line in status.links],
        "doubt": doubt.model_dump(mode="json") if doubt is not None else None,
    }


def region_json(name: str, condition: RegionCondition) -> dict[str, Any]:
    """A region that is not Ready."""
    return {
        "region": name,
        "state": str(condition.state),
        "since": screen.time_json(condition.since),
        "next_at": screen.time_json(condition.next_at),
        "epoch": condition.epoch,
        "why": screen.reason_json(condition.reason),
    }


def _task(record: JobRecord) -> dict[str, Any]:
    task, last = record.stage, record.last
    return {
        "job_id": record.job_id,
        "task": task.model_dump(mode="json") if task is not None else None,
        "phase": str(record.phase),
        "attempt": last.name if last is not None else None,
        "progress": last.progress.model_dump(mode="json") if last is not None and last.progress is not None else None,
        "bytes_per_second": last.bytes_per_second if last is not None else None,
        "why": screen.reason_json(record.why),
    }


def _job(record: JobRecord) -> dict[str, Any]:
    spec, last, result = record.spec, shown_attempt(record), result_of(record)
    key = JobKey(record.team, record.job_id)
    return {
        "job": str(key),
        "team": key.team,
        "job_id": key.job_id,
        "phase": str(record.phase),
        "region": last.region if last is not None else None,
        "attempt": last.name if last is not None else None,
        "attempt_number": last.number if last is not None else None,
        "gpus": {"nodes": spec.nodes, "per_node": spec.gpu.count, "total": spec.total_gpus},
        "since": screen.time_json(since_of(record)),
        "why": screen.reason_json(record.why),
        "result": result.model_dump(mode="json") if result is not None else None,
        "conditions": [_condition(condition) for condition in record.conditions],
    }


def _condition(condition: Condition) -> dict[str, Any]:
    reason = condition.reason
    return {
        "type": condition.type,
        "code": reason.code if reason is not None else None,
        "text": reason.text if reason is not None else "",
        "message": condition.message,
        "since": screen.time_json(condition.since),
    }
