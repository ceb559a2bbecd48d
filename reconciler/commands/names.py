"""Which job a person means by what they typed: `team/job_id`, or the `job_id` alone where one team has it.

Decides also what there is to say of a job that has no record: none yet, or none that can be used.
"""

import difflib
from collections.abc import Iterable, Mapping
from shlex import quote

from reconciler.commands.ends import BadInput
from reconciler.commands.repository import Look
from reconciler.hub.branches import told
from reconciler.hub.reading import LARGEST_BYTES
from reconciler.hub.repo_files import Kind, named_job, place_of, printable
from reconciler.hub.troubles import RECORD_UNUSABLE
from reconciler.model.names import JobKey, job_at
from reconciler.ports import EntryKind, TreeEntry


def find(typed: str, known: Iterable[JobKey]) -> JobKey:
    """The job. Raises BadInput where there is none, or more than one."""
    keys = sorted(set(known))
    job_id = typed.rpartition("/")[2]
    fitting = _fitting(typed, keys)
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise BadInput(f"{len(fitting)} teams have a job {job_id}", f"say which: {', '.join(map(str, fitting))}")
    close = difflib.get_close_matches(typed, [*map(str, keys), *(key.job_id for key in keys)], n=1, cutoff=0.6)
    hint = f"did you mean {close[0]}?" if close else "`reconciler status` lists all jobs"
    raise BadInput(f"there is no job {quote(typed)}", hint)


def _fitting(typed: str, keys: Iterable[JobKey]) -> list[JobKey]:
    team, slash, job_id = typed.rpartition("/")
    return [key for key in keys if key.job_id == job_id and (not slash or key.team == team)]


def job_in(look: Look, typed: str) -> JobKey:
    """A job that has a record, or whose file was refused. Raises BadInput where there is none: also why there is none."""
    known, lost = known_to(look), {key: words for key, words in unusable(look).items() if key not in look.ledger.records}
    waiting = {} if _fitting(typed, known | lost.keys()) else _waiting(look)
    key = find(typed, known | lost.keys() | waiting.keys())
    if key in lost:
        raise no_record(key, lost[key])
    if key in waiting:
        todo = f"main has it as {waiting[key]}; `reconciler status` shows when the hub has"
        raise BadInput(f"the hub has not taken {key} in yet", todo)
    return key


def no_record(key: JobKey, words: str) -> BadInput:
    """What to say of a job whose record cannot be used. `words`: why."""
    return BadInput(
        f"{key} has no record that can be used: {words}",
        "restore it from the history of the status branch; until then the hub leaves the job alone",
    )


def unusable(look: Look) -> Mapping[JobKey, str]:
    """Jobs whose record is missing or cannot be used, by the hub or by what stands there, and why."""
    ledger = look.ledger
    words = dict(ledger.corrupt)
    words |= {trouble.subject: told(trouble) for trouble in ledger.hub.troubles if trouble.code == RECORD_UNUSABLE}
    return {key: said for path, said in words.items() if (key := job_at(path)) is not None}


def unseen(look: Look) -> tuple[str, ...]:
    """Job files of main that neither a record nor a refusal is about: the hub has not seen them yet."""
    entries = look.git.files(look.main, "jobs") if look.main is not None else {}
    seen = {(record.source.path, record.source.blob) for record in look.ledger.records.values() if record.source is not None}
    refused = {problem.path for problem in look.ledger.rejected.problems}
    return tuple(
        path
        for path, entry in entries.items()
        if place_of(path, entry) is not None and (path, entry.oid) not in seen and printable(path) not in refused
    )


def _waiting(look: Look) -> Mapping[JobKey, str]:
    """The jobs of files that the hub has not seen yet, and those files."""
    entries = look.git.files(look.main, "jobs") if look.main is not None else {}
    named = ((path, _named(look, path, entries[path])) for path in unseen(look))
    return {key: printable(path) for path, key in named if key is not None}


def known_to(look: Look) -> set[JobKey]:
    """The jobs of the ledger, and those that refused files name."""
    return {*look.ledger.records, *refused_files(look).values()}


def refused_files(look: Look) -> Mapping[str, JobKey]:
    """Path, as it is shown, of each refused job file that main still has → the job that it names, where that can be told."""
    entries = look.git.files(look.main) if look.main is not None else {}
    stand = {printable(path): path for path in entries if path.startswith("jobs/")}
    paths = sorted({problem.path for problem in look.ledger.rejected.problems if problem.path in stand})
    found = {path: _named(look, stand[path], entries[stand[path]]) for path in paths}
    return {path: key for path, key in found.items() if key is not None}


def _named(look: Look, path: str, entry: TreeEntry) -> JobKey | None:
    place = place_of(path, entry)
    if place is None or place.kind is not Kind.JOB or not place.name or entry.kind is not EntryKind.FILE:
        return None
    job_id = named_job(look.git.read(entry.oid)) if look.git.size(entry.oid) <= LARGEST_BYTES else None
    return JobKey(place.name, job_id) if job_id is not None else None
