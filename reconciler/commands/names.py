"""Which job a person means by what they typed: `team/job_id`, or the `job_id` alone where one team has it."""

import difflib
from collections.abc import Iterable, Mapping

from reconciler.commands.ends import BadInput
from reconciler.commands.repository import Look
from reconciler.hub.repo_files import named_job
from reconciler.model.names import JobKey
from reconciler.ports import EntryKind, TreeEntry


def find(typed: str, known: Iterable[JobKey]) -> JobKey:
    """The job. Raises BadInput where there is none, or more than one."""
    keys = sorted(set(known))
    team, slash, job_id = typed.rpartition("/")
    fitting = [key for key in keys if key.job_id == job_id and (not slash or key.team == team)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise BadInput(f"{len(fitting)} teams have a job {job_id}", f"say which: {', '.join(map(str, fitting))}")
    close = difflib.get_close_matches(typed, [*map(str, keys), *(key.job_id for key in keys)], n=1, cutoff=0.6)
    hint = f"did you mean {close[0]}?" if close else "`reconciler status` lists all jobs"
    raise BadInput(f"there is no job {typed}", hint)


def known_to(look: Look) -> set[JobKey]:
    """The jobs of the ledger, and those that refused files name."""
    return {*look.ledger.records, *refused_files(look).values()}


def refused_files(look: Look) -> Mapping[str, JobKey]:
    """Path of each refused job file that main still has → the job that it names, where that can be told."""
    entries = look.git.files(look.main) if look.main is not None else {}
    paths = sorted({problem.path for problem in look.ledger.rejected.problems if problem.path in entries})
    found = {path: _named(look, path, entries[path]) for path in paths}
    return {path: key for path, key in found.items() if key is not None}


def _named(look: Look, path: str, entry: TreeEntry) -> JobKey | None:
    folder, _, below = path.partition("/")
    team, slash, _ = below.partition("/")
    if folder != "jobs" or not slash or entry.kind is not EntryKind.FILE:
        return None
    job_id = named_job(look.git.read(entry.oid))
    return JobKey(team, job_id) if job_id is not None else None
