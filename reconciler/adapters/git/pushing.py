"""One atomic push: its arguments, and what became of it.

Decides whether a push was done, lost a race or was refused. Error texts alone never decide that: the remote's branches,
read again after the push, come first. Running git and reading the branches is left to `clone`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pygit2

from reconciler.adapters.git.command import REMOTE, Answer, shorten
from reconciler.ports import PushOutcome, RefUpdate, Refused

HEADS: Final = "refs/heads/"
DONE: Final = PushOutcome(done=True, raced=False, refusals={})
RACED: Final = PushOutcome(done=False, raced=True, refusals={})

_LONGEST_NAME: Final = 250
"""Bytes between two "/" of a branch's name: the usual file system's 255, less ".lock"."""
_LOST: Final = re.compile(r"stale info|fetch first|cannot lock ref|failed to lock")
_REMOTE_LOCK: Final = re.compile(r"(?m)^remote: error: (cannot lock ref|Unable to create .*\.lock)")
_NO_REPORT: Final = "remote failed to report status"
_NOT_ITS_OWN_FAULT: Final = re.compile(r"atomic|transaction")


@dataclass(frozen=True, slots=True)
class Verdict:
    """One branch's line of `git push --porcelain`: the flag (`!` is a refusal) and the reason given."""

    flag: str
    reason: str


def arguments(updates: Sequence[RefUpdate]) -> list[str]:
    """Arguments for git. Raises Refused for a branch that git refuses, ValueError for one named twice or a bad id."""
    if len({update.branch for update in updates}) != len(updates):
        raise ValueError("a branch is named twice in one push")
    for update in updates:
        _check_name(update.branch)
        for oid in (update.old, update.new):
            if oid is not None and not re.fullmatch(r"[0-9a-f]{40}", oid):
                raise ValueError(f"{oid!r} is no full object id")
    leases = [f"--force-with-lease={HEADS}{update.branch}:{update.old or ''}" for update in updates]
    moves = [f"{update.new or ''}:{HEADS}{update.branch}" for update in updates]
    options = ["--porcelain", "--atomic", "--progress", "--no-verify", "--recurse-submodules=no", "--no-signed"]
    return ["push", *options, *leases, REMOTE, *moves]


def verdicts(answer: Answer) -> Mapping[str, Verdict]:
    """The answer's lines by short branch name; none where git never got as far as the branches."""
    found = {}
    for line in answer.out.decode("utf-8", "surrogateescape").split("\n"):
        flag, _, rest = line.partition("\t")
        moved, tab, summary = rest.partition("\t")
        if tab and len(flag) == 1:
            reason = re.search(r"\((.*)\)$", summary)
            branch = moved.rpartition(":")[2].removeprefix(HEADS)
            found[branch] = Verdict(flag, reason.group(1) if reason else summary)
    return found


def is_told(said: Mapping[str, Verdict]) -> bool:
    """Whether the remote itself said no to some branch; a line that broke off shows as a failure of every branch, too."""
    return any(verdict.flag == "!" and verdict.reason != _NO_REPORT for verdict in said.values())


def is_done(updates: Sequence[RefUpdate], tips: Mapping[str, str]) -> bool:
    """Whether every branch is where the push would have moved it."""
    return all(tips.get(update.branch) == update.new for update in updates)


def judge(updates: Sequence[RefUpdate], answer: Answer, said: Mapping[str, Verdict], tips: Mapping[str, str]) -> PushOutcome:
    """What became of a push in which at least one branch was rejected; `tips` were read after it."""
    if is_done(updates, tips):
        return DONE
    clashes = _clashes(updates, tips)
    if clashes:
        return PushOutcome(done=False, raced=False, refusals=clashes)
    if any(tips.get(update.branch) != update.old for update in updates):
        return RACED
    rejected = {branch: verdict.reason for branch, verdict in said.items() if verdict.flag == "!"}
    own = {branch: reason for branch, reason in rejected.items() if not _NOT_ITS_OWN_FAULT.search(reason)} or rejected
    declined = any("declined" in reason for reason in own.values())
    # The tips are as they were: somebody holds a lock, or moved a branch there and back. A hook may use these words too.
    if any(_LOST.search(reason) for reason in own.values()) or (not declined and _REMOTE_LOCK.search(answer.words)):
        return RACED
    return PushOutcome(done=False, raced=False, refusals=_refusals(own, answer.words))


def _refusals(rejected: Mapping[str, str], words: str) -> Mapping[str, str]:
    """Branch → reason and the remote's own lines; only the branches that those lines name, where they name any."""
    told = "\n".join(line.removeprefix("remote:").strip() for line in words.splitlines() if line.startswith("remote:"))
    named = [branch for branch in rejected if _names(told, branch)]
    return {branch: shorten(f"{rejected[branch]}: {told}" if told else rejected[branch]) for branch in named or rejected}


def _names(told: str, branch: str) -> bool:
    """Whether a text means this branch. A name such as `main` is a common word too: it counts with refs/heads/ only."""
    start = f"(?:{HEADS})?" if "/" in branch else HEADS
    return re.search(rf"(?<![\w/.-]){start}{re.escape(branch)}(?![\w/-])", told) is not None


def _clashes(updates: Sequence[RefUpdate], tips: Mapping[str, str]) -> Mapping[str, str]:
    """New branches for which Git has no room: `eu/west` cannot stand beside `eu`, whatever else moves."""
    gone = {update.branch for update in updates if update.new is None}
    staying = set(tips) - gone | {update.branch for update in updates if update.new is not None}
    found = {}
    for update in updates:
        if update.new is None or update.branch in tips:
            continue
        for other in sorted(staying):
            if update.branch.startswith(f"{other}/") or other.startswith(f"{update.branch}/"):
                found[update.branch] = f"there cannot be a branch {update.branch!r} beside {other!r}; rename or delete one"
    return found


def _check_name(branch: str) -> None:
    fits = all(len(part.encode("utf-8", "surrogateescape")) <= _LONGEST_NAME for part in branch.split("/"))
    sound = branch != "HEAD" and not branch.startswith("-") and branch.isprintable()
    if not (fits and sound and pygit2.reference_is_valid_name(HEADS + branch)):
        raise Refused(f"git has no branch named {branch[:80]!r}; use letters, digits, '-' and '/'")
