"""`reconciler validate`: whether files are right, by themselves and in view of the repository that they stand in.

Decides which problems belong to what was asked, and how their files are named. What is wrong with a file is for hub/sources.py,
as for the hub itself; Git is not needed. Exit code 0: nothing is wrong; 1: something is; 2: nothing was checked.
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from reconciler.adapters.documents import reader
from reconciler.adapters.problem_formats import Format, formatted
from reconciler.adapters.work_tree import read_folder
from reconciler.commands.ends import AnswerIsNo
from reconciler.commands.tree import absolute, top_of
from reconciler.hub.repo_files import may_matter
from reconciler.hub.sources import ParseCache, Sources, read_sources
from reconciler.model.problem import Invalid, Problem
from reconciler.ports import Refused


@dataclass(frozen=True, slots=True)
class _Asked:
    """One path to check: the top of its repository (None: a job's file by itself), and the path from there ('' for all)."""

    given: Path
    top: Path | None
    inside: str


def validate(paths: Sequence[Path], form: Format) -> None:
    """Print what is wrong with the files, folders or whole repositories at these paths. Raises AnswerIsNo if anything is."""
    asked = [_asked(path) for path in paths or [Path()]]
    problems: set[Problem] = set()
    read: dict[Path, Sources] = {}
    for each in asked:
        if each.top is None:
            problems.update(_job_alone(each.given))
            continue
        if each.top not in read:
            read[each.top] = sources_of(each.top)
        problems.update(_within(each, read[each.top].problems))
    sys.stdout.write(formatted(problems, form))
    if form == "text":
        sys.stderr.write(_summary(problems, read.values()))
    if problems:
        raise AnswerIsNo


def sources_of(top: Path) -> Sources:
    """What a folder would say if it were committed as it is. Raises Refused, and Transient where a file changes meanwhile."""
    tree = read_folder(top, may_matter)
    return read_sources(tree.entries, tree.read, tree.size, {}, ParseCache(), reader)


def _asked(given: Path) -> _Asked:
    if not given.exists():
        raise Refused(f"there is nothing at {given}; name a file, or the folder of a jobs repository")
    top = top_of(given)
    inside = "" if top is None else absolute(given).relative_to(top).as_posix()
    if top is not None and (given.is_dir() or may_matter(inside)):
        return _Asked(given, top, "" if inside == "." else inside)
    if given.is_dir():
        raise Refused(f"{given} is no jobs repository; name a folder that has jobs/, regions/ or reconciler.yaml in it")
    return _Asked(given, None, "")


def _within(asked: _Asked, problems: Iterable[Problem]) -> list[Problem]:
    """The problems at or below the path, named as the caller named it."""
    below = f"{asked.inside}/"
    wanted = [each for each in problems if asked.inside in {"", each.path} or each.path.startswith(below)]
    return [replace(each, path=(asked.given / each.path.removeprefix(asked.inside).lstrip("/")).as_posix()) for each in wanted]


def _job_alone(path: Path) -> Sequence[Problem]:
    """What is wrong with a job's file that stands in no repository: only what the file says by itself."""
    try:
        reader.read_job(path.read_bytes(), path.as_posix())
    except Invalid as error:
        return error.problems
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}; name a file that can be") from error
    return ()


def _summary(problems: set[Problem], read: Iterable[Sources]) -> str:
    if problems:
        count, files = len(problems), len({problem.path for problem in problems})
        return f"{count} {'problem' if count == 1 else 'problems'} in {files} {'file' if files == 1 else 'files'}\n"
    jobs, regions = sum(len(each.jobs) for each in read), sum(len(each.fleet.regions) for each in read)
    return f"nothing is wrong ({jobs} jobs, {regions} regions)\n" if jobs or regions else "nothing is wrong\n"
