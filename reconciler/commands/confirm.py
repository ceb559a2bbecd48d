"""`reconciler confirm`: a person's word that a change of main which looks like an accident was meant."""

import re
from shlex import quote

from reconciler.commands import screen
from reconciler.commands.editing import SHOWN, Before, Edit, NothingToDo, commit_on_main
from reconciler.commands.ends import BadInput


def confirm(url: str, sha: str) -> None:
    """Commit the confirmation of the commit that the hub doubts. Raises BadInput where it doubts none, or another."""
    screen.say(commit_on_main(url, lambda before: _edit(before, sha.lower())).said)


def _edit(before: Before, sha: str) -> Edit | NothingToDo:
    commit = _doubted(before, sha)
    short = commit[:SHOWN]
    if commit in before.sources.confirmations:
        return NothingToDo(f"{short} is confirmed already")
    message = f"Confirm {short}\n\nWhat went from main with it was meant to go.\n"
    changes = {f"confirmations/{short}.yaml": f'main: "{commit}"\n'.encode()}
    return Edit(changes, message, lambda after: commit in after.confirmations, f"{short} confirmed; the hub goes on with it")


def _doubted(before: Before, sha: str) -> str:
    doubt = before.look.ledger.hub.suspicion
    if not re.fullmatch(r"[0-9a-f]{4,40}", sha):
        raise BadInput(f"{quote(sha)} is no commit", "give its name in hexadecimal, as `reconciler status` shows it")
    if doubt is None or not doubt.main:
        raise BadInput("the hub doubts no commit of main", "there is nothing to confirm")
    if not doubt.main.startswith(sha):
        raise BadInput(f"the hub does not doubt {sha}", f"it asks for `reconciler confirm {doubt.main[:SHOWN]}`")
    return doubt.main
