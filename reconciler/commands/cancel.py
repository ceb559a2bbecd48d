"""`reconciler cancel`: the job's file leaves main; the hub then stops what runs, with time to save a checkpoint."""

from dataclasses import replace

from reconciler.commands import screen
from reconciler.commands.editing import Before, Edit, commit_on_main
from reconciler.commands.ends import BadInput
from reconciler.commands.names import find
from reconciler.hub.intents import renamed_into
from reconciler.hub.repo_files import printable
from reconciler.model.names import JobKey


def cancel(url: str, job: str) -> None:
    """Commit the removal. Raises BadInput where main has no such job, or more than one file of it."""
    screen.say(commit_on_main(url, lambda before: _edit(before, job)).said)


def _edit(before: Before, job: str) -> Edit:
    key = find(job, {*before.look.ledger.records, *before.sources.jobs, *_broken(before).values(), *before.sources.conflicts})
    said = f"{key} cancelled; `reconciler status {key}` shows when it has stopped"
    path = _path(before, key)
    other = _may_be(before, key, path)
    if other is not None:
        said += f"; it may run on until {other} can be read, which may be this job under another name"
    return Edit({path: None}, f"Cancel {key}\n", lambda after: key not in after.jobs, said, removes=key)


def _broken(before: Before) -> dict[str, JobKey]:
    return {path: key for path, key in before.sources.broken.items() if key is not None}


def _may_be(before: Before, key: JobKey, path: str) -> str | None:
    """Another refused file that the hub will take for this job under another name; it then stops nothing."""
    record = before.look.ledger.records.get(key)
    if record is None or not record.live:
        return None
    others = {other: named for other, named in before.sources.broken.items() if other != printable(path)}
    return renamed_into(key, record, replace(before.sources, broken=others), before.look.ledger.rejected)


def _path(before: Before, key: JobKey) -> str:
    both = before.sources.conflicts.get(key)
    if both is not None:
        raise BadInput(f"{' and '.join(both)} both name the job {key}", "remove the one that is not meant, by a commit")
    file = before.sources.jobs.get(key)
    if file is not None:
        return file.path
    broken = [path for path, named in _broken(before).items() if named == key]
    if len(broken) == 1:
        return _standing(before, broken[0])
    record = before.look.ledger.records.get(key)
    phase = f"it is {record.phase}" if record is not None else "no hub knows it"
    raise BadInput(f"main has no file of {key}; {phase}", "`reconciler why` says what becomes of it")


def _standing(before: Before, shown: str) -> str:
    """The path on main of a refused file, which is known as it is shown."""
    look = before.look
    entries = look.git.files(look.main, "jobs") if look.main is not None else {}
    return next((path for path in entries if printable(path) == shown), shown)
