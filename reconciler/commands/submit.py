"""`reconciler submit`: a job's file becomes a commit on main; with `--wait`, to the job's end.

Decides whose job it is and where its file stands there: where the job's file stands already, else where the file stands in its
own working tree, else `jobs/<team>/<job_id>.yaml`.
"""

from dataclasses import dataclass
from pathlib import Path

from reconciler.adapters.documents import reader
from reconciler.commands import screen, user_git
from reconciler.commands.editing import Before, Edit, NothingToDo, commit_on_main
from reconciler.commands.ends import BadInput
from reconciler.commands.watching import wait_for_end
from reconciler.hub.sources import Sources
from reconciler.model.base import matches_name
from reconciler.model.names import JobKey
from reconciler.ports import Refused


@dataclass(frozen=True, slots=True)
class _File:
    """The file as it lies on this machine. `inside`: its path in its own working tree, where it is in one."""

    body: bytes
    suffix: str
    inside: str | None
    job_id: str

    @property
    def team(self) -> str | None:
        """The team whose folder it lies in."""
        parts = (self.inside or "").split("/")
        return parts[1] if parts[0] == "jobs" and len(parts) > 2 else None


def submit(url: str, path: Path, team: str | None, *, wait: bool) -> None:
    """Commit the file to main, unless it stands there just so. Raises BadInput, Invalid, Refused, Transient."""
    if team is not None and not matches_name(team):
        raise BadInput(f"{team!r} is no name of a team", "name one of the folders of jobs/")
    file = _read(path)
    made = commit_on_main(url, lambda before: _edit(before, JobKey(team or file.team or _only_team(before), file.job_id), file))
    for problem in made.remarks:
        screen.warn(str(problem))
    screen.say(made.said)
    if wait and made.about is not None:
        wait_for_end(url, made.about)


def _read(path: Path) -> _File:
    try:
        body = path.read_bytes()
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}; name the file of a job") from error
    spec = reader.read_job(body, path.as_posix())
    top = user_git.top_of(path.absolute().parent)
    inside = path.resolve().relative_to(top.resolve()).as_posix() if top is not None else None
    return _File(body, path.suffix if path.suffix in (".yaml", ".yml", ".json") else ".yaml", inside, spec.job_id)


def _only_team(before: Before) -> str:
    teams = sorted(before.sources.fleet.teams)
    if len(teams) == 1:
        return teams[0]
    known = f"teams are {', '.join(teams)}" if teams else "no team is declared yet"
    raise BadInput("whose job is it? the file does not lie in a team's folder", f"say --team TEAM; {known}")


def _edit(before: Before, key: JobKey, file: _File) -> Edit | NothingToDo:
    there = before.sources.jobs.get(key)
    own = file.inside if file.team == key.team else None
    git, main = before.look.git, before.look.main
    entries = git.files(main) if main is not None else {}
    # Of a path that cannot be shown only its shown form is known; such a file can be taken away, not mended.
    broken = [path for path, named in before.sources.broken.items() if named == key and path in entries]
    path = there.path if there is not None else broken[0] if broken else own or f"jobs/{key.team}/{key.job_id}{file.suffix}"
    entry = entries.get(path)
    if entry is not None and git.read(entry.oid) == file.body:
        return NothingToDo(f"{key}: main has this very file already", key)
    blob = git.write_blob(file.body)

    def taken(after: Sources) -> bool:
        found = after.jobs.get(key)
        return found is not None and (found.path, found.blob) == (path, blob)

    done, said = ("Change", "changed") if there is not None else ("Submit", "submitted")
    return Edit({path: file.body}, f"{done} {key}\n", taken, f"{key} {said}", about=key)
