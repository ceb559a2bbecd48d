"""The verbs that only read the repository: `status`, `why`, `accuracy`, `logs`. One fetch, then words."""

import threading
from pathlib import Path
from typing import Final

from reconciler.adapters.clock import SystemClock
from reconciler.commands import screen
from reconciler.commands.ends import BadInput
from reconciler.commands.repository import Look, chosen, in_store, look, opened

_LOOK_SECONDS: Final = 1.0


def _looked(repo: str | None) -> Look:
    with opened(chosen(repo)) as git:
        return look(git)


def status(repo: str | None, job: str | None, *, json: bool) -> None:
    """Show the status once."""
    from reconciler.commands import status as verb

    seen = _looked(repo)
    found = verb.status_of(seen, job, in_store(seen))
    if json:
        screen.say_json(verb.as_value(found))
    else:
        verb.show(found, SystemClock().now())


def watch(repo: str | None, job: str | None, *, json: bool) -> None:
    """Show it again and again."""
    from reconciler.commands import watching

    if json:
        raise BadInput("--watch prints lines, not JSON", "ask for `status --json` as often as you like")
    watching.watch(chosen(repo), job)


def why(repo: str | None, job: str, *, json: bool) -> None:
    """Explain a job."""
    from reconciler.commands import why as verb

    story = verb.story_of(_looked(repo), job)
    if json:
        screen.say_json(verb.as_value(story))
    else:
        verb.show(story, SystemClock().now())


def accuracy(repo: str | None, typed: str | None, *, json: bool) -> None:
    """Hold estimates against what happened."""
    from reconciler.commands import accuracy as verb
    from reconciler.commands import moments

    since = None if typed is None else moments.since(typed, SystemClock().now())
    found = verb.accuracy_of(_looked(repo), since)
    if json:
        screen.say_json(verb.as_value(found))
    else:
        verb.show(found)


def logs(repo: str | None, job: str, number: int | None, folder: Path | None, *, follow: bool) -> None:
    """Print a log: whole from a region on this machine, else the tail that the ledger has."""
    from reconciler.commands import logs as verb

    if follow and folder is None:
        raise BadInput("only a log on this machine can be followed", "give --folder, the folder of its region or of the demo")
    attempt = verb.attempt_of(_looked(repo), job, number)
    if folder is None:
        screen.say(verb.kept_tail(attempt).rstrip("\n"))
        return
    found = verb.logs_in(folder, attempt.name)
    while follow and not found.logs and not attempt.ended:
        threading.Event().wait(_LOOK_SECONDS)
        attempt = verb.attempt_of(_looked(repo), job, attempt.number)
        found = verb.logs_in(folder, attempt.name)
    if not found.logs:
        screen.say(verb.kept_tail(attempt).rstrip("\n"))
        return
    said = False
    for line in verb.stream(lambda: verb.logs_in(folder, attempt.name), follow=follow):
        said = True
        screen.say(line)
    if not said:
        screen.warn(f"the program of {attempt.name} has printed nothing")
