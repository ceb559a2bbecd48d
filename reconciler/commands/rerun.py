"""`reconciler rerun`: a job that has ended runs again: `rerun:` is raised in its file, and nothing else of the file changes.

A text has many places where `rerun:` may stand, and many where a line may be added. Each is tried, and that one is taken after
which the file says just what it said before, with the number raised: so the text's syntax need not be understood here.
"""

import re
from collections.abc import Iterator
from typing import Final

from reconciler.adapters.documents import reader
from reconciler.commands import screen
from reconciler.commands.editing import Before, Edit, NothingToDo, commit_on_main
from reconciler.commands.ends import BadInput
from reconciler.commands.names import find, no_record, unusable
from reconciler.hub.reading import JobFile
from reconciler.hub.sources import Sources
from reconciler.model.job import JobSpec
from reconciler.model.names import JobKey
from reconciler.model.problem import Invalid
from reconciler.model.record import JobRecord, Phase
from reconciler.planning.records import is_stuck

_NUMBER: Final = re.compile(rb"""((?:^(?:\xef\xbb\xbf)?|[\s,{])(["']?)rerun\2[ \t]*:\s*)(\d+)(?=$|[\s,}#])""", re.MULTILINE)
_JOB_ID: Final = re.compile(rb"^(?:\xef\xbb\xbf)?job_id:[^\r\n]*(\r\n|\r|\n)", re.MULTILINE)
_FIRST: Final = re.compile(rb"\{\s*")


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
    record = before.look.ledger.records.get(key)
    if record is None:
        lost = unusable(before.look)
        if key in lost:
            raise no_record(key, lost[key])
        raise BadInput(f"no hub has taken {key} in yet", "wait until it has run, or see `reconciler why`")
    if record.live and record.phase is not Phase.HELD and not is_stuck(record):
        raise BadInput(f"{key} has not ended; it is {record.phase}", f"`reconciler cancel {key}` stops it")
    file = before.sources.jobs.get(key)
    if file is None:
        raise BadInput(f"main has no sound file of {key}", "submit its file anew: `reconciler submit FILE`")
    return file, record


def raised(body: bytes, path: str, spec: JobSpec, number: int) -> bytes:
    """The file's bytes with `rerun` at that number. Raises BadInput where no place in the text can be found for it."""
    wanted = spec.model_copy(update={"rerun": number})
    for text in _candidates(body, path, str(number).encode()):
        try:
            if reader.read_job(text, path) == wanted:
                return text
        except Invalid:
            continue
    raise BadInput(f"no place for `rerun: {number}` was found in {path}", "write that into it by hand, and commit it")


def _candidates(body: bytes, path: str, number: bytes) -> Iterator[bytes]:
    for match in _NUMBER.finditer(body):
        yield body[: match.start(3)] + number + body[match.end(3) :]
    line_end = b"\r\n" if b"\r\n" in body else b"\n"
    yield body + (b"" if body.endswith((b"\n", b"\r")) else line_end) + b"rerun: " + number + line_end
    for match in _JOB_ID.finditer(body):
        yield body[: match.end()] + b"rerun: " + number + match[1] + body[match.end() :]
    name = b'"rerun": ' if path.endswith(".json") else b"rerun: "
    for match in _FIRST.finditer(body):
        yield body[: match.end()] + name + number + b", " + body[match.end() :]
