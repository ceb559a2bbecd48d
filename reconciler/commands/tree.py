"""Which jobs repository a path belongs to, by the names of the files and folders around it, so that Git is not needed."""

import os
from pathlib import Path
from typing import Final

from reconciler.hub.repo_files import FOLDERS, SINGLE_FILES, SUFFIX

_SIGNS: Final = frozenset({*FOLDERS, *(stem + SUFFIX for stem in SINGLE_FILES)})
"""What stands at the top of a jobs repository."""


def absolute(path: Path) -> Path:
    """The path from the root; `..` is taken out by its letters, and no link is followed."""
    return Path(os.path.abspath(path))  # noqa: PTH100


def top_of(path: Path) -> Path | None:
    """The top of the jobs repository that a path is, or is in; None where it is in none."""
    place = absolute(path)
    if place.is_dir() and _signs_in(place):
        return place
    if place.name in _SIGNS and not place.is_dir():
        return place.parent
    tops = [folder.parent for folder in (place, *place.parents) if folder.name in FOLDERS and folder.is_dir()]
    # A team may have a folder called `jobs` too, and a person as well: the outermost that looks like a repository is it.
    likely = (top for top in reversed(tops) if len(_signs_in(top)) > 1 or (top / ".git").exists())
    return next(likely, tops[0] if tops else None)


def _signs_in(folder: Path) -> set[str]:
    return {sign for sign in _SIGNS if (folder / sign).exists()}
