"""Which files of a jobs repository mean something, and what: from the path and the kind of tree entry alone.

Decides what is read at all (regular files in the known places), what is refused for its place or name, and what is none of
our business. What is in a file is for sources.py.

Invariant: a name that leaves here (team, region, dataset) is safe as a branch, folder, namespace and label; nothing but
a regular file is ever named for reading.
"""

import difflib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath

from reconciler.model.base import matches_name
from reconciler.model.names import STAGING_TEAM
from reconciler.model.problem import Problem
from reconciler.ports import EntryKind, TreeEntry


class Kind(StrEnum):
    """What a file of the repository is."""

    JOB = "job"
    REGION = "region"
    LINKS = "links"
    DATASET = "dataset"
    TEAM = "team"
    POLICY = "policy"
    SETTINGS = "settings"
    CONFIRMATION = "confirmation"


@dataclass(frozen=True, slots=True)
class Place:
    """What stands at a path. `name`: a job's team, else what the file declares; '' for single files and unusable names."""

    kind: Kind
    name: str
    problem: Problem | None = None
    """Why it is not read."""


FOLDERS = {
    "jobs": Kind.JOB,
    "regions": Kind.REGION,
    "datasets": Kind.DATASET,
    "teams": Kind.TEAM,
    "confirmations": Kind.CONFIRMATION,
}
SINGLE_FILES = {"links": Kind.LINKS, "policy": Kind.POLICY, "reconciler": Kind.SETTINGS}
SUFFIX = ".yaml"
SUFFIXES = (SUFFIX, ".yml", ".json")
"""Ends of a job's file; everything else ends in `.yaml`, so that it can be one file only."""

_NAME_RULE = "use lower-case letters, digits and `-`, at most 63, with a letter or digit at both ends"


def place_of(path: str, entry: TreeEntry) -> Place | None:
    """What the entry at `path` is; None for what is not ours (other folders, hidden files, documents, code)."""
    top, slash, below = path.partition("/")
    kind = FOLDERS.get(top) if slash else SINGLE_FILES.get(PurePosixPath(top).stem)
    if kind is None:
        return _nearly_ours(path, top, below)
    if _hidden(path):
        return None
    if not path.isprintable():
        return _refused(kind, path, "BadPath", "the path holds characters that cannot be shown", "rename it")
    return _place(path, entry, kind)


def path_of(kind: Kind, name: str) -> str:
    """Where the declaration of that kind and name stands."""
    for folder, each in FOLDERS.items():
        if each is kind:
            return f"{folder}/{name}{SUFFIX}"
    return next(stem for stem, each in SINGLE_FILES.items() if each is kind) + SUFFIX


def may_matter(path: str) -> bool:
    """Whether some kind of entry at `path` would be ours: for walking a folder without opening all that is in it."""
    return place_of(path, TreeEntry("", EntryKind.SUBMODULE)) is not None


def _place(path: str, entry: TreeEntry, kind: Kind) -> Place | None:
    if entry.kind is EntryKind.SUBMODULE:
        return _refused(kind, path, "NotAFile", "a submodule is not read", "put its files into this repository")
    name = PurePosixPath(path)
    if name.suffix not in SUFFIXES:
        is_link = entry.kind is EntryKind.LINK and not name.suffix
        return _link(kind, path) if is_link else _nearly_yaml(path, name, kind)
    if entry.kind is EntryKind.LINK:
        return _link(kind, path)
    if kind is not Kind.JOB and name.suffix != SUFFIX:
        return _other_suffix(kind, path, name)
    if kind in SINGLE_FILES.values():
        return Place(kind, "")
    return _job(path) if kind is Kind.JOB else _declaration(path, kind)


def _job(path: str) -> Place:
    folders = path.split("/")[1:-1]
    if not folders:
        todo = f"move it to jobs/<team>/{PurePosixPath(path).name}"
        return _refused(Kind.JOB, path, "Misplaced", "a job stands in the folder of its team", todo)
    if not matches_name(folders[0]):
        what = f"{_shown(folders[0])} cannot be the name of a team"
        return _refused(Kind.JOB, path, "BadName", what, f"rename the folder: {_NAME_RULE}")
    if folders[0] == STAGING_TEAM:
        return _refused(
            Kind.JOB, path, "BadName", f"`{STAGING_TEAM}` is kept for the hub's own jobs", "give the team another name"
        )
    return Place(Kind.JOB, folders[0])


def _declaration(path: str, kind: Kind) -> Place:
    folder, name = path.split("/", 1)
    if "/" in name:
        what = f"{folder}/ has no folders, and a name has no `/`"
        return _refused(kind, path, "Misplaced", what, f"move it to {folder}/, under another name if need be")
    stem = PurePosixPath(name).stem
    if kind is not Kind.CONFIRMATION and not matches_name(stem):
        what = f"{_shown(stem)} cannot be the name of a {kind}"
        return _refused(kind, path, "BadName", what, f"rename it: {_NAME_RULE}")
    if kind is Kind.TEAM and stem == STAGING_TEAM:
        return _reserved(kind, path)
    return Place(kind, stem)


def _reserved(kind: Kind, path: str) -> Place:
    return _refused(kind, path, "BadName", f"`{STAGING_TEAM}` is kept for the hub's own jobs", "give the team another name")


def _link(kind: Kind, path: str) -> Place:
    return _refused(kind, path, "NotAFile", "a symbolic link is not read", "put the file itself here")


def _nearly_yaml(path: str, name: PurePosixPath, kind: Kind) -> Place | None:
    """A misspelt ending would else be a file that is passed over in silence."""
    suffix = name.suffix.lower()
    if suffix in SUFFIXES or difflib.get_close_matches(suffix, SUFFIXES[:2], 1, 0.8):
        return _other_suffix(kind, path, name)
    return None


def _other_suffix(kind: Kind, path: str, name: PurePosixPath) -> Place:
    wanted = " or ".join(SUFFIXES) if kind is Kind.JOB else SUFFIX
    return _refused(
        kind, path, "BadPath", f"a file that ends in {_shown(name.suffix)} is not read here", f"end its name in {wanted}"
    )


def _nearly_ours(path: str, top: str, below: str) -> Place | None:
    """A misspelt `Policy.yaml` or `job/` would else be passed over, and the defaults would decide."""
    name = PurePosixPath(path)
    if name.suffix.lower() not in SUFFIXES or _hidden(path):
        return None
    if below:
        meant = next((folder for folder in FOLDERS if top.lower() in (folder, folder.removesuffix("s"))), None)
        right = meant and f"{meant}/{below}"
    else:
        meant = next(iter(difflib.get_close_matches(name.stem.lower(), SINGLE_FILES, 1, 0.85)), None)
        right = meant and f"{meant}.yaml"
    if not meant or not right:
        return None
    kind = FOLDERS.get(meant) or SINGLE_FILES[meant]
    what = f"nothing is read from {_shown(top)}, which looks like {_shown(meant)}"
    return Place(kind, _name_in(right, kind), _problem(path, "Misplaced", what, f"rename it to {printable(right)}"))


def _refused(kind: Kind, path: str, code: str, what: str, todo: str) -> Place:
    return Place(kind, _name_in(path, kind), _problem(path, code, what, todo))


def _problem(path: str, code: str, what: str, todo: str) -> Problem:
    return Problem(printable(path), 0, 0, code, what, todo)


def _name_in(path: str, kind: Kind) -> str:
    """The name that a refused path still gives: whose last good version stays in force, whose job it was."""
    _, *below = path.split("/")
    found = ""
    if kind is Kind.JOB:
        found = below[0] if len(below) > 1 else ""
    elif len(below) == 1 and below[0].endswith(SUFFIXES):
        found = PurePosixPath(below[0]).stem
    return found if matches_name(found) else ""


def _hidden(path: str) -> bool:
    return any(part.startswith(".") and not part.startswith("..") for part in path.split("/"))


def _shown(name: str) -> str:
    return f"`{printable(name if len(name) <= 80 else name[:79] + '…')}`"


def printable(path: str) -> str:
    """The path as one line of valid Unicode; bytes that are no UTF-8 as `\\xff`."""
    if path.isprintable():
        return path
    return "".join(_escaped(letter) for letter in path)


def _escaped(letter: str) -> str:
    if letter.isprintable():
        return letter
    return f"\\x{ord(letter) - 0xDC00:02x}" if "\udc80" <= letter <= "\udcff" else json.dumps(letter)[1:-1]


_NAMED = r"""["']?job_id["']?[ \t]*:[ \t]*["']?([a-z0-9](?:[a-z0-9-]{0,126}[a-z0-9])?)["']?[ \t]*(?=[,}\r\n#]|$)"""
_AT_LINE_START = re.compile(rb"^(?:\xef\xbb\xbf)?" + _NAMED.encode(), re.MULTILINE)
_ANYWHERE = re.compile(rb"(?:^|[{,])[ \t]*" + _NAMED.encode(), re.MULTILINE)


def named_job(body: bytes) -> str | None:
    """The `job_id` that a refused file still names; None where there is none, or more than one."""
    for pattern in (_AT_LINE_START, _ANYWHERE):
        names = set(pattern.findall(body))
        if names:
            return names.pop().decode() if len(names) == 1 else None
    return None


def did_you_mean(name: str, known: Iterable[str], likeness: float = 0.7) -> str | None:
    """The known name that `name` may be a misspelling of; `likeness` from 0 to 1, as difflib counts."""
    return next(iter(difflib.get_close_matches(name, sorted(known), 1, likeness)), None)
