"""`reconciler rerun`: a job that has ended runs again: `rerun:` is raised in its file, and nothing else of the file changes."""

from reconciler.adapters.documents import reader
from reconciler.commands import screen
from reconciler.commands.editing import Before, Edit, NothingToDo, commit_on_main
from reconciler.commands.ends import BadInput
from reconciler.commands.field_text import with_field
from reconciler.commands.names import find, no_record, unusable
from reconciler.hub.reading import JobFile
from reconciler.hub.sources import Sources
from reconciler.model.job import JobSpec
from reconciler.model.names import JobKey
from reconciler.model.record import JobRecord, Phase
from reconciler.planning.records import is_stuck


def rerun(url: str, job: str) -> None:
    """Commit the raised number. Raises BadInput where the job is not over, or main does not have its file any more."""
    screen.say(commit_on_main(url, lambda before: _edit(before, job)).said)


def _edit(before: Before, job: str) -> Edit | NothingToDo:
    key = find(job, {*before.look.ledger.records, *before.sources.jobs})
    file, record = _over(before, key)
    if file.spec.rerun > record.rerun:
        return NothingToDo(f"{key} is to run again already; the hub has not taken that in yet")
    number = max(file.spec.rerun, record.rerun) + 1
    body = raised(before.look.git.read(file.blob), file.path, file.spec, number)

    def taken(after: Sources) -> bool:
        return key in after.jobs and after.jobs[key].spec.rerun == number

    said = f"{key} runs again: `rerun: {number}`"
    if file.spec.suspend:
        said = f"{key} stays Suspended, and runs again once `suspend: true` is taken out of {file.path}: `rerun: {number}`"
    return Edit({file.path: body}, f"Run {key} again\n\nrerun is {number} now.\n", taken, said)


def _over(before: Before, key: JobKey) -> tuple[JobFile, JobRecord]:
    file, record = file_and_record(before, key)
    if record.live and record.phase is not Phase.HELD and not is_stuck(record):
        raise BadInput(f"{key} has not ended; it is {record.phase}", f"`reconciler cancel {key}` stops it")
    if file is None:
        raise BadInput(f"main has no sound file of {key}", "submit its file anew: `reconciler submit FILE`")
    return file, record


def file_and_record(before: Before, key: JobKey) -> tuple[JobFile | None, JobRecord]:
    """The job's sound file on main, if there is one, and its record. Raises BadInput where it has no record."""
    record = before.look.ledger.records.get(key)
    if record is None:
        lost = unusable(before.look)
        if key in lost:
            raise no_record(key, lost[key])
        raise BadInput(f"no hub has taken {key} in yet", "wait until it has run, or see `reconciler why`")
    return before.sources.jobs.get(key), record


def raised(body: bytes, path: str, spec: JobSpec, number: int, field: str = "rerun") -> bytes:
    """The file's bytes with `rerun`, or `field`, at that number. Raises BadInput where no place can be found for it."""
    wanted = spec.model_copy(update={field: number})
    return with_field(body, path, field, str(number), lambda text: reader.read_job(text, path) == wanted)
