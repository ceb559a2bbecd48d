"""`reconciler lost` and `reconciler forget`: a person's word of a region that is not heard of, as a small file on main.

Decides what may be said of which region. A word names the last lease that was held there, so that it says nothing of a later
silence; what it is worth is the hub's to judge, by what it sees itself.
"""

import sys
from pathlib import Path
from typing import Literal

from reconciler.commands import screen, user_git
from reconciler.commands.editing import Before, Edit, NothingToDo, commit_on_main
from reconciler.commands.ends import BadInput
from reconciler.commands.region_names import region_in
from reconciler.commands.repository import Look
from reconciler.hub.fleet import Word
from reconciler.hub.sources import Sources
from reconciler.model.attempt import State
from reconciler.model.region_state import NOT_HEARD, RegionCondition, RegionState
from reconciler.rendering.quoting import block


def lost(url: str, region: str) -> None:
    """Commit the word that a silent region really is down. Raises BadInput where it is not silent, or is given up already."""
    screen.say(commit_on_main(url, lambda before: _lost(before, region)).said)


def _lost(before: Before, name: str) -> Edit | NothingToDo:
    condition = _silent(before, name)
    if condition.state is RegionState.REVOKED:
        return NothingToDo(f"{name} was given up already: {condition.reason.text}")
    said = f"{name} is said to be lost: the hub does not doubt it any more, and waits for its lease no less than before"
    return _word(before, Word("", "lost", name, condition.epoch or 0), f"{name} is lost, and not the hub blind", said)


def forget(url: str, region: str, *, force: bool, yes: bool) -> None:
    """Commit the word that a region never comes back. Raises BadInput where something may run there still, without `force`."""
    if force and not yes:
        _ask(region)
    screen.say(commit_on_main(url, lambda before: _forget(before, region, force=force)).said)


def _ask(region: str) -> None:
    screen.warn(f"If anything of {region} still runs, two copies of its jobs may run at once, and nothing can be told of it.")
    screen.warn(f"Type the region's name to go on ({region}): ")
    if sys.stdin.readline().strip() != region:
        raise BadInput("that is not the region's name, so nothing was done", "with --yes nobody is asked")


def _forget(before: Before, name: str, *, force: bool) -> Edit | NothingToDo:
    condition = _silent(before, name)
    stand = _standing(before.look, name)
    given_up = condition.state is RegionState.REVOKED
    if not given_up and stand and not force:
        when = f"; its lease is revoked at {screen.clock(condition.next_at)} UTC" if condition.next_at is not None else ""
        todo = f"wait for that{when}, or look there yourself, and take the risk: `reconciler forget {name} --force`"
        raise BadInput(
            f"nobody knows yet that nothing runs in {name}, where {stand} attempts stand: {condition.reason.text}", todo
        )
    if force and condition.state is RegionState.UNKNOWN:
        when = f" at {screen.clock(condition.next_at)} UTC" if condition.next_at is not None else ""
        raise BadInput(f"{name} does not count as lost yet: {condition.reason.text}", f"wait until it does{when}, and look there")
    word = Word("", "forget", name, condition.epoch or 0, force and not given_up)
    risk = " The risk that something of it still runs is taken." if word.force else ""
    said = f"{name} is forgotten: {stand} attempts there end as lost{_then(before, name)}"
    return _word(before, word, f"{name} never comes back.{risk}", said)


def _then(before: Before, name: str) -> str:
    return f"; take regions/{name}.yaml out as well" if name in before.sources.fleet.regions else ""


def _word(before: Before, word: Word, why: str, said: str) -> Edit | NothingToDo:
    same = (word.says, word.region, word.epoch, word.force)
    if any((one.says, one.region, one.epoch, one.force) == same for one in before.sources.words):
        return NothingToDo(f"that is said of {word.region} already; `reconciler status` shows what comes of it")
    by = "{} <{}>".format(*user_git.required_identity(Path.cwd()))
    content: dict[str, str | int | bool] = {"says": word.says, "region": word.region, "epoch": word.epoch}
    content |= {"force": True} if word.force else {}
    body = str(block({**content, "by": by}, 0)).lstrip("\n") + "\n"
    path = f"confirmations/{word.says}-{word.region}-{word.epoch}.yaml"

    def taken(after: Sources) -> bool:
        return any((one.says, one.region, one.epoch, one.force) == same for one in after.words)

    return Edit({path: body.encode()}, f"{_title(word.says)} {word.region}\n\n{why}\n{by} says so.\n", taken, said)


def _title(says: Literal["lost", "forget"]) -> str:
    return "Call lost" if says == "lost" else "Forget"


def _silent(before: Before, name: str) -> RegionCondition:
    """What the ledger says of a region that is silent. Raises BadInput where there is none of that name, or it is heard of."""
    known = before.look.ledger.hub.regions
    region_in(name, {*before.sources.fleet.regions, *known, *_all_standing(before.look)})
    condition = known.get(name)
    if condition is not None and condition.state is RegionState.AWAITED:
        raise BadInput(
            f"no agent of {name} has reported yet: nothing of ours runs there", f"take regions/{name}.yaml out instead"
        )
    if condition is None or condition.state not in NOT_HEARD:
        state = condition.state if condition is not None else RegionState.READY
        raise BadInput(f"{name} is heard of: it is {state}", f"a region that answers is emptied by `reconciler drain {name}`")
    if condition.epoch is None:
        raise BadInput(f"the hub has not looked at the lease of {name} yet", "wait for its next word in `reconciler status`")
    return condition


def _all_standing(look: Look) -> set[str]:
    return {record.current.region for record in look.ledger.records.values() if record.current is not None}


def _standing(look: Look, name: str) -> int:
    """How many attempts that may run stand in the region."""
    current = (record.current for record in look.ledger.records.values())
    return sum(one is not None and one.region == name and one.state is not State.PROPOSED for one in current)
