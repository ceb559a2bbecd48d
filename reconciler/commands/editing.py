"""One commit on top of the remote's main, made through our bare clone: what submit, cancel, rerun and confirm have in common.

Decides that a change is checked in view of the whole repository before it is committed, that it is pushed by compare-and-swap
and made anew on the new main where somebody else was quicker. Invariant: main only ever gets a commit that takes no other
job away; the user's working tree is never touched.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from reconciler.adapters.clock import SystemClock
from reconciler.adapters.documents import reader
from reconciler.commands import user_git
from reconciler.commands.repository import Look, look, opened
from reconciler.hub.sources import ParseCache, Sources, read_sources
from reconciler.model.names import JobKey
from reconciler.model.problem import Invalid, Problem
from reconciler.ports import GitRepository, RefUpdate, Refused, Transient

TRIES = 8
"""Races lost in a row before the caller is told."""
SHOWN = 12
"""Letters of a commit's name that people are shown."""


@dataclass(frozen=True, slots=True)
class Before:
    """The repository that is to be changed."""

    look: Look
    sources: Sources


@dataclass(frozen=True, slots=True)
class Edit:
    """One commit. `changes`: path → new bytes, or None to remove the file."""

    changes: Mapping[str, bytes | None]
    message: str
    wanted: Callable[[Sources], bool]
    """Whether the changed main says what was meant."""
    said: str
    """What the person is told when it is done."""
    about: JobKey | None = None
    removes: JobKey | None = None
    """The job that is to be gone; no other may be."""


@dataclass(frozen=True, slots=True)
class NothingToDo:
    """Main is already as it should be."""

    said: str
    about: JobKey | None = None


@dataclass(frozen=True, slots=True)
class Made:
    """What was done, for the person, and the problems that came with it but refuse nothing."""

    said: str
    about: JobKey | None
    remarks: tuple[Problem, ...] = ()


def commit_on_main(url: str, edit: Callable[[Before], Edit | NothingToDo]) -> Made:
    """Make and push the commit that `edit` asks for. After a lost race `edit` is asked anew, about the new main.

    Raises what `edit` raises; Invalid where the changed files would not be taken; Refused and Transient of the remote.
    """
    identity = user_git.required_identity(Path.cwd())
    cache, clock = ParseCache(), SystemClock()
    with opened(url, identity) as git:
        for _ in range(TRIES):
            before = _before(git, cache)
            asked = edit(before)
            if isinstance(asked, NothingToDo):
                return Made(asked.said, asked.about)
            commit = _commit(git, before.look, asked, clock.now())
            remarks = _checked(git, before, commit, asked, cache)
            if _pushed(git, RefUpdate(before.look.branches.main, before.look.main, commit)):
                return Made(f"{asked.said} (commit {commit[:SHOWN]})", asked.about, remarks)
    raise Transient(f"main moved {TRIES} times while the commit was made")


def _pushed(git: GitRepository, update: RefUpdate) -> bool:
    """Whether the commit is main's now; False where somebody was quicker. Raises Refused and Transient."""
    outcome = git.push([update])
    if outcome.refusals:
        words = "; ".join(" ".join(said.split()) for said in outcome.refusals.values())
        todo = "commit the change to another branch, and open a pull request"
        raise Refused(f"the remote refuses a commit on {update.branch}: {words}; {todo}")
    return outcome.done


def _before(git: GitRepository, cache: ParseCache) -> Before:
    seen = look(git)
    return Before(seen, _sources(git, seen, seen.main, cache))


def _sources(git: GitRepository, seen: Look, commit: str | None, cache: ParseCache) -> Sources:
    entries = git.files(commit) if commit is not None else {}
    return read_sources(entries, git.read, git.size, seen.ledger.in_force, cache, reader)


def _commit(git: GitRepository, seen: Look, edit: Edit, now: datetime) -> str:
    blobs = {path: None if body is None else git.write_blob(body) for path, body in edit.changes.items()}
    parents = [seen.main] if seen.main is not None else []
    return git.commit(git.write_tree(seen.main, blobs), parents, edit.message, now)


def _checked(git: GitRepository, before: Before, commit: str, edit: Edit, cache: ParseCache) -> tuple[Problem, ...]:
    """The new problems, where none of them refuses anything. Raises Invalid where the commit would do harm."""
    after = _sources(git, before.look, commit, cache)
    new = tuple(problem for problem in after.problems if problem not in before.sources.problems)
    lost = before.sources.jobs.keys() - after.jobs.keys() - {edit.removes}
    if not lost and edit.wanted(after):
        return new
    told = [problem for problem in after.problems if problem.path in edit.changes]
    unknown = Problem(next(iter(edit.changes)), 0, 0, "NotTaken", "main would not take this", "look at main, and commit by hand")
    raise Invalid(new or told or [unknown])
