"""`reconciler release`: a job that is held, or waits for its lost region, goes on: `release:` in its file names its last attempt.

Decides where there is something to release; what was released before says nothing of later attempts.
"""

from reconciler.commands import screen
from reconciler.commands.editing import Before, Edit, NothingToDo, commit_on_main
from reconciler.commands.ends import BadInput
from reconciler.commands.names import find
from reconciler.commands.rerun import file_and_record, raised
from reconciler.hub.sources import Sources
from reconciler.model.attempt import Attempt
from reconciler.model.names import JobKey
from reconciler.model.reasons import Why, code_of
from reconciler.model.record import REACHABLE, RELEASE_HONOURED, JobRecord, Phase
from reconciler.planning.observed import waits_for_region
from reconciler.planning.records import released

_HELD = frozenset(code_of(why) for why in (Why.REGION_LOST_HELD, Why.TOO_MANY_DISRUPTIONS))


def release(url: str, job: str) -> None:
    """Commit the number of the last attempt. Raises BadInput where there is nothing to release."""
    screen.say(commit_on_main(url, lambda before: _edit(before, job)).said)


def _edit(before: Before, job: str) -> Edit | NothingToDo:
    key = find(job, {*before.look.ledger.records, *before.sources.jobs})
    file, record = file_and_record(before, key)
    last = _to_release(key, record)
    if file is None:
        raise BadInput(f"main has no sound file of {key}", "mend or restore its file first; `reconciler why` says what is wrong")
    if released(record) < file.spec.release == record.spec.release:
        said = next(one.reason.text for one in record.conditions if one.type == RELEASE_HONOURED and one.reason is not None)
        raise BadInput(f"{key} was released too early: {said}", f"commit {file.path} without that line first")
    if file.spec.release >= last.number:
        return NothingToDo(f"{key} is released already; the hub has not taken that in yet")
    body = raised(before.look.git.read(file.blob), file.path, file.spec, last.number, "release")

    def taken(after: Sources) -> bool:
        return key in after.jobs and after.jobs[key].spec.release == last.number

    where = f"; what of {last.name} in {last.region} comes back runs no more" if record.current is not None else ""
    message = f"Release {key}\n\nIt goes on after attempt {last.number} in {last.region}: {_why(record)}.\n"
    return Edit({file.path: body}, message, taken, f"{key} is released, and goes on where it can{where}")


def _why(record: JobRecord) -> str:
    return record.why.text if record.why is not None else str(record.phase)


def _to_release(key: JobKey, record: JobRecord) -> Attempt:
    """The attempt after which it is to go on. Raises BadInput where it is not held for that, and does not wait for its region."""
    last, why = record.last, record.why
    held = record.phase is Phase.HELD and why is not None and why.code in _HELD
    if last is not None and (held or waits_for_region(record)):
        return last
    nothing = f"there is nothing to release: {key} is {record.phase}"
    if record.phase is Phase.HELD:
        raise BadInput(f"{nothing}, for another reason: {_why(record)}", "change that, as it says")
    silent = next((one for one in record.conditions if one.type == REACHABLE), None)
    if silent is not None:
        said = silent.reason.text if silent.reason is not None else "its region is not heard of"
        todo = "until its region is given up it may still run there; then: `on_region_lost: rerun` in its file, or release it"
        raise BadInput(f"{nothing}, and its region is not given up: {said}", todo)
    raise BadInput(nothing, f"`reconciler why {key}` says what it waits for")
