"""`reconciler why`: all that is known of one job: its phase, each region, the decision, the attempts, its file's problems.

Decides the order of telling. JSON (schema_version 1): `job`, `record` (as schemas/record.schema.json), `placement` (as
schemas/placement.schema.json, or null), `proposed`, `regions`, `problems`, `newer_file`, `trouble`, `result` (where it is, as
the store says: `attempt`, `number`, `region`, `outputs`, `checkpoint`, `succeeded_at`; null also where the store cannot be read),
`region` (of the attempt, where it is not Ready; as in `reconciler status`).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from reconciler.adapters.documents import reader
from reconciler.app import open_store, settings_at
from reconciler.commands import regions_table, screen
from reconciler.commands.names import job_in, refused_files, unusable
from reconciler.commands.regions_table import RegionRow, refused_rows, rows_of
from reconciler.commands.repository import MAIN, Look
from reconciler.commands.status import problem_line, region_json, result_line
from reconciler.hub.ledger import RejectedFile
from reconciler.hub.result_pointer import read_result
from reconciler.model.attempt import State
from reconciler.model.names import JobKey, placement_path, proposal_branch
from reconciler.model.placement import Placement
from reconciler.model.problem import Invalid
from reconciler.model.quantity import as_length
from reconciler.model.record import JobRecord
from reconciler.model.region_state import NOT_HEARD, RegionCondition
from reconciler.model.result import ResultPointer
from reconciler.planning.records import run_seconds_used
from reconciler.planning.stage_names import written_uris
from reconciler.ports import EntryKind, Refused, Transient

_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
ATTEMPT_HEADERS = ("attempt", "region", "state", "decided", "to grant", "to start", "ran", "exit", "went on from", "why")


@dataclass(frozen=True, slots=True)
class Story:
    """What is known of a job."""

    key: JobKey
    record: JobRecord | None
    """None where its file was never taken."""
    placement: Placement | None
    """The last decision, by the placements branch or its proposal."""
    proposed: bool
    problems: tuple[RejectedFile, ...]
    newer_file: bool
    """Main has another version of its file than the hub has taken in, and no problem of it is known."""
    trouble: str | None
    """Why the hub cannot use the record that stands there, and so decides nothing about the job."""
    result: ResultPointer | None = None
    """Where the job's result is, as the store says; None also where whoever asks cannot read the store."""
    region: tuple[str, RegionCondition] | None = None
    """The region in which it stands, where that is not Ready."""


def story_of(look: Look, typed: str) -> Story:
    """All that the repository says of a job. Raises BadInput where there is none of that name."""
    key = job_in(look, typed)
    record = look.ledger.records.get(key)
    paths = {path for path, named in refused_files(look).items() if named == key}
    if record is not None and record.source is not None:
        paths.add(record.source.path)
    problems = tuple(problem for problem in look.ledger.rejected.problems if problem.path in paths)
    proposed = record is not None and record.current is not None and record.current.state is State.PROPOSED
    placement = _placement(look, key, proposal_branch(key) if proposed else look.branches.placements)
    current = record.current if record is not None else None
    condition = look.ledger.hub.regions.get(current.region) if current is not None else None
    region = (current.region, condition) if current is not None and condition is not None else None
    newer = not problems and _is_newer(look, record)
    return Story(key, record, placement, proposed, problems, newer, unusable(look).get(key), _result(look, key), region)


def _result(look: Look, key: JobKey) -> ResultPointer | None:
    try:
        address = settings_at(look.git, look.heads, MAIN).store
        return read_result(open_store(address, make=False), key) if address is not None else None
    except (Invalid, Refused, Transient):  # the ledger is what was asked for, and it was read
        return None


def _placement(look: Look, key: JobKey, branch: str) -> Placement | None:
    commit = look.heads.get(branch)
    path = placement_path(key)
    entry = look.git.files(commit).get(path) if commit is not None else None
    if entry is None or entry.kind is not EntryKind.FILE:
        return None
    try:
        return reader.read_config(Placement, look.git.read(entry.oid), path)
    except Invalid:
        return None  # a person's edit; the condition PlacementHonoured tells what is wrong with it


def _is_newer(look: Look, record: JobRecord | None) -> bool:
    if record is None or record.source is None or look.main is None:
        return False
    entry = look.git.files(look.main).get(record.source.path)
    return entry is not None and entry.oid != record.source.blob


def rows(story: Story) -> tuple[RegionRow, ...]:
    """The regions of the decision in force; of a job that waits, why each of them does not run it."""
    record = story.record
    if record is not None and record.waits:
        return refused_rows(record.waits)
    return rows_of(story.placement.decision) if story.placement is not None else ()


def show(story: Story, now: datetime) -> None:
    """Print it for people."""
    record = story.record
    if record is None:
        screen.say(f"{story.key} was never taken in: its file was refused")
    else:
        condition = story.region[1] if story.region is not None else None
        for line in (*_head(record, now), *_region(record, condition), *_data(record, story.result)):
            screen.say(screen.one_line(line))
        if story.trouble is not None:
            screen.say(screen.one_line(f"  its record cannot be used, and the hub leaves the job alone: {story.trouble}"))
        _show_regions(story, record)
        if record.attempts:
            screen.say("\nattempts")
            screen.show_table(ATTEMPT_HEADERS, [_attempt(record, at) for at in range(len(record.attempts))])
    if story.problems:
        screen.say("\nproblems of its file")
        for each in story.problems:
            screen.say(problem_line(each))
    if story.newer_file:
        screen.say("\nmain has a newer version of its file, which the hub has not taken in yet")


def _head(record: JobRecord, now: datetime) -> Iterator[str]:
    last, spec = record.last, record.spec
    where = f" in {last.region} as {last.name}" if record.current is not None and last is not None else ""
    yield f"{record.key} is {record.phase}{where}"
    if record.why is not None:
        yield f"  why: {record.why.text}"
    models = f" of {' or '.join(spec.gpu.models)}" if spec.gpu.models else ""
    asked = f"{screen.gpus(spec.nodes, spec.gpu.count)} GPUs{models}" if spec.total_gpus else f"{spec.nodes} nodes, no GPUs"
    yield f"  asks for {asked}; submitted {screen.clock(record.submitted_at)} ({screen.since(record.submitted_at, now)} ago)"
    yield f"  file: {record.source.path if record.source is not None else 'gone from main'}"
    yield from (f"  {line}" for line in _approvals(record))
    used = run_seconds_used(record)
    if used:
        yield f"  run time used by ended attempts: {as_length(used)}"
    for condition in record.conditions:
        said = [condition.reason.text if condition.reason is not None else "", condition.message]
        yield f"  {condition.type} is {condition.status} since {screen.clock(condition.since)}: {'; '.join(filter(None, said))}"


def _data(record: JobRecord, result: ResultPointer | None) -> Iterator[str]:
    """What its newest attempt is made from and writes, and where the result is."""
    last = record.last
    inputs = last.inputs if last is not None else None
    if last is not None and inputs is not None:
        if last.image is not None:
            yield f"  image: {last.image}"
        for dataset in inputs.datasets:
            version = f"version {dataset.version}" if dataset.version else "of which no version is declared"
            yield f"  reads {dataset.name}, {version}"
        if inputs.code is not None:
            known = "" if _COMMIT.fullmatch(inputs.code.ref) else " (what a branch or tag named then is not known)"
            yield f"  code: {inputs.code.git} at {inputs.code.ref}{known}"
        yield from (f"  {last.name} writes {uri}" for uri in written_uris(last) if result is None or last.name != result.attempt)
    if result is not None:
        yield f"  {result_line(result)}"


_ON_LOST: Final = {
    "rerun": "starts elsewhere, from its last checkpoint",
    "wait": "waits for that region to come back, or for `reconciler release`",
    "hold": "is held for a person, who says `reconciler release`",
}


def _region(record: JobRecord, condition: RegionCondition | None) -> Iterator[str]:
    if condition is not None and condition.state not in NOT_HEARD:  # else it is among the conditions of the job
        yield f"  its region is {condition.state} since {screen.clock(condition.since)}: {condition.reason.text}"
    choice = record.spec.on_region_lost
    if condition is not None or choice != "rerun":
        yield f"  if its region is given up as lost it {_ON_LOST[choice]} (`on_region_lost: {choice}`)"


def _approvals(record: JobRecord) -> Iterator[str]:
    for attempt in record.attempts:
        if attempt.approved_by:
            number = f" in pull request {attempt.approved_in}" if attempt.approved_in is not None else ""
            yield f"{attempt.name} was approved by {', '.join(attempt.approved_by)}{number}"


def _show_regions(story: Story, record: JobRecord) -> None:
    found = rows(story)
    if not found:
        return
    if record.waits:
        screen.say("\nwhy no region runs it at present")
        shown = [(row.region, row.verdict, row.why.text) for row in found]
        screen.show_table(("region", "verdict", "why"), shown)
        counts = record.waits_more
    else:
        placement = story.placement
        if placement is None:
            return
        title = "proposed" if story.proposed else "decided"
        by = f"by {placement.decision.strategy}, for {placement.attempt}"
        screen.say(f"\n{title} {screen.clock(placement.decided_at)} {by}; times count from then")
        screen.show_table(regions_table.HEADERS, [regions_table.cells(row, placement.decided_at) for row in found])
        counts = placement.decision.refused_more
    for line in regions_table.more(counts):
        screen.say(line)


def _attempt(record: JobRecord, at: int) -> tuple[str, ...]:
    attempt = record.attempts[at]
    return (
        attempt.name,
        attempt.region,
        screen.attempt_state(attempt),
        screen.clock(attempt.decided_at),
        screen.between(attempt.decided_at, attempt.granted_at),
        screen.between(attempt.granted_at, attempt.started_at),
        screen.between(attempt.started_at, attempt.ended_at),
        screen.NOTHING if attempt.exit_code is None else str(attempt.exit_code),
        attempt.seeded_from.rstrip("/").rpartition("/")[2] if attempt.seeded_from is not None else screen.NOTHING,
        attempt.reason.text if attempt.reason is not None else "",
    )


def as_value(story: Story) -> dict[str, Any]:
    """The JSON form."""
    return {
        "schema_version": 1,
        "job": str(story.key),
        "record": story.record.model_dump(mode="json") if story.record is not None else None,
        "placement": story.placement.model_dump(mode="json") if story.placement is not None else None,
        "proposed": story.proposed,
        "regions": [regions_table.as_value(row) for row in rows(story)],
        "problems": [problem.model_dump(mode="json") for problem in story.problems],
        "newer_file": story.newer_file,
        "trouble": story.trouble,
        "result": story.result.model_dump(mode="json") if story.result is not None else None,
        "region": region_json(*story.region) if story.region is not None else None,
    }
