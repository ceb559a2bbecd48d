"""Files that people read: placements as YAML, and the pages of the status branch. Prints; judges nothing."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from heapq import nlargest, nsmallest
from typing import Any

from reconciler.model.attempt import Attempt
from reconciler.model.names import JobKey
from reconciler.model.placement import Placement
from reconciler.model.progress import Progress
from reconciler.model.reasons import Why, code_of
from reconciler.model.record import FINISHED, REACHABLE, JobRecord, Phase
from reconciler.model.region_state import RegionCondition
from reconciler.rendering.quoting import block

NO_REGIONS: Mapping[str, RegionCondition] = {}

_HEAD = """\
# Where this job runs, and why. Written by the reconciler; a person may change it, by a commit or a pull request:
#   region: another region          moves the job there (once)
#   pin: a region                   keeps it there for all attempts
#   veto: [a region], or [all]      keeps it out of there, or holds it
"""


PLACEMENTS_README = b"""# Placements

`<team>/<job_id>.yaml` says where each job runs and why. The reconciler writes them; people may change them, by a commit or a pull
request: the head of each file says how. Decisions that need approval come as branches `proposals/<team>/<job_id>`: merging one
into this branch approves it, deleting it declines it.
"""


def placement_file(placement: Placement) -> bytes:
    """placements/<team>/<job_id>.yaml: every string quoted, so that no reader takes one for something else."""
    content: dict[str, Any] = placement.model_dump(mode="json", exclude_none=True)
    ordered = {name: content.pop(name) for name in ("team", "job_id", "region", "attempt", "decided_at")} | content
    return (_HEAD + str(block(ordered, 0)).lstrip("\n") + "\n").encode()


def status_page(
    records: Mapping[JobKey, JobRecord],
    problems: Sequence[str],
    notices: Iterable[str],
    regions: Mapping[str, RegionCondition] = NO_REGIONS,
    estimates: str = "",
    most: int = 100,
) -> bytes:
    """README.md of the status branch: counts, regions that are not Ready, what needs a person, and the jobs that are not over.

    `estimates`: in a line, how far off they were; "" where nobody can say.
    """
    tasks, records = _apart(records)
    counts = Counter(record.phase for record in records.values())
    lines = ["# Status", ""]
    lines += [line for notice in notices for line in (f"> {' '.join(notice.split())}", ">")][:-1]
    lines += ["", "| phase | jobs |", "| --- | --- |"]
    lines += [f"| {phase.value} | {counts[phase]} |" for phase in Phase if counts[phase]]
    lines += ["", f"{estimates[0].upper()}{estimates[1:]}."] if estimates else []
    lines += _regions(regions)
    lines += _tasks(tasks, most)
    asking = needs_a_person([*records.values(), *tasks], most)
    lines += ["", "## Needs a person", "", *(f"- {_cell(line)}" for line in asking)] if asking else []
    alive = sum(number for phase, number in counts.items() if phase not in FINISHED)
    if alive:
        waiting = (key for key, record in records.items() if record.live)
        live = nsmallest(most, waiting, lambda key: (records[key].submitted_at, key))
        lines += [
            "",
            "## Jobs that are not over",
            "",
            "| job | phase | region | attempt | GPUs | why |",
            "| --- | --- | --- | --- | --- | --- |",
        ]
        lines += [_row(records[key]) for key in live]
        lines += [f"\n… and {alive - most} more; see `jobs/`"] if alive > most else []
    lines += _ended_last(records)
    lines += _refused(problems, most)
    return ("\n".join(lines) + "\n").encode()


def _ended_last(records: Mapping[JobKey, JobRecord]) -> list[str]:
    ended = nlargest(20, (key for key, record in records.items() if not record.live), lambda key: _ended(records[key]))
    if not ended:
        return []
    head = ["", "## Ended last", "", "| job | phase | region | attempts | why |", "| --- | --- | --- | --- | --- |"]
    return [*head, *(_ended_row(records[key]) for key in ended)]


def _refused(problems: Sequence[str], most: int) -> list[str]:
    if not problems:
        return []
    more = [f"- … and {len(problems) - most} more; see `rejected.json`"] if len(problems) > most else []
    return ["", "## Refused files", "", *(f"- `{_cell(problem)}`" for problem in problems[:most]), *more]


def _apart(records: Mapping[JobKey, JobRecord]) -> tuple[list[JobRecord], Mapping[JobKey, JobRecord]]:
    """Staging tasks, and the jobs of people."""
    tasks = [record for record in records.values() if record.stage is not None]
    return tasks, {key: record for key, record in records.items() if record.stage is None} if tasks else records


def _regions(regions: Mapping[str, RegionCondition]) -> list[str]:
    if not regions:
        return []
    rows = [
        f"| {name} | {one.state.value} | {_moment(one.since)} | {_moment(one.next_at)} | {_cell(one.reason.text)} |"
        for name, one in sorted(regions.items())
    ]
    head = ["", "## Regions that are not Ready", "", "| region | state | since | next at | why, and what comes next |"]
    return [*head, "| --- | --- | --- | --- | --- |", *rows]


TASK_HEADERS = ("what", "to", "from", "phase", "there", "why")


def task_row(record: JobRecord) -> tuple[str, ...]:
    """Of a staging task: what it brings where, and how far it has come."""
    task, last = record.stage, record.last
    if task is None:
        return ()
    return (
        task.what,
        task.region,
        task.source,
        record.phase.value,
        _share(record.phase, last.progress if last is not None else None),
        why_of(record),
    )


def _share(phase: Phase, progress: Progress | None) -> str:
    if phase is Phase.SUCCEEDED:
        return "100 %"
    if progress is None or not progress.bytes_total:
        return ""
    return f"{100 * progress.bytes_done // progress.bytes_total} %"


def under_way(tasks: Iterable[JobRecord]) -> list[JobRecord]:
    """The staging tasks that are not over, or have failed, in order."""
    shown = [record for record in tasks if record.live or record.phase is Phase.FAILED]
    return sorted(shown, key=lambda record: record.key)


def _tasks(tasks: Iterable[JobRecord], most: int) -> list[str]:
    found = under_way(tasks)
    if not found:
        return []
    head = ["", "## Data under way", "", f"| {' | '.join(TASK_HEADERS)} |", "| --- | --- | --- | --- | --- | --- |"]
    rows = [f"| {' | '.join(_cell(cell) for cell in task_row(record))} |" for record in found[:most]]
    return [*head, *rows, *([f"\n… and {len(found) - most} more"] if len(found) > most else [])]


def _moment(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}"


def why_of(record: JobRecord) -> str:
    """The one sentence behind the phase; where its region is not heard of, that as well."""
    found = [record.why.text if record.why is not None else ""]
    for one in record.conditions:
        if one.type == REACHABLE:
            found += [one.reason.text if one.reason is not None else "", one.message]
    return "; ".join(filter(None, found))


def needs_a_person(records: Iterable[JobRecord], most: int = 100) -> list[str]:
    """A line for each job that is held and for each condition of a job, by job; at most so many, the rest is counted.

    What is doubted of main as a whole comes last: it holds of every job, and says nothing of any.
    """
    found = sorted((line for record in records for line in _asking(record)), key=lambda line: line[:2])
    lines = [text for _, _, text in found[:most]]
    return [*lines, f"… and {len(found) - most} more"] if len(found) > most else lines


def _asking(record: JobRecord) -> Iterator[tuple[bool, JobKey, str]]:
    if record.phase is Phase.HELD:
        yield False, record.key, f"{record.key}: Held: {record.why.text if record.why is not None else 'a person has to say'}"
    for condition in record.conditions:
        if condition.type == REACHABLE:
            continue  # of the region, not of the job: it is told once, with the regions
        reason = condition.reason
        said = (reason.text if reason is not None else "", " ".join(condition.message.split()))
        is_of_main = reason is not None and reason.code == code_of(Why.SOURCE_SUSPICIOUS)
        yield is_of_main, record.key, f"{record.key}: {condition.type}: {'; '.join(filter(None, said))}"


def _ended(record: JobRecord) -> tuple[str, JobKey]:
    last = record.last
    moment = last.ended_at if last is not None and last.ended_at is not None else record.submitted_at
    return moment.isoformat(), record.key


def _row(record: JobRecord) -> str:
    current = record.current
    region = current.region if current is not None else ""
    number = f"a{current.number}" if current is not None else ""
    gpus = _gpus(record, current)
    return f"| {record.key} | {record.phase.value} | {region} | {number} | {gpus} | {_cell(why_of(record))} |"


def _gpus(record: JobRecord, attempt: Attempt | None) -> str:
    spec = record.spec
    total = f"{spec.total_gpus}" if spec.nodes == 1 else f"{spec.total_gpus} ({spec.nodes} × {spec.gpu.count})"
    model = attempt.gpu_model if attempt is not None else None
    return f"{total} {model}" if model else total


def _ended_row(record: JobRecord) -> str:
    last = record.last
    region = last.region if last is not None else ""
    why = _cell(why_of(record))
    return f"| {record.key} | {record.phase.value} | {region} | {len(record.attempts)} | {why} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("`", "'")
