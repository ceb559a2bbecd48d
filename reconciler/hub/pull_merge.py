"""What main would be if a pull request were merged, path by path, without merging anything.

Decides by the common ancestor, as `git merge` does for whole files: what the pull request changed replaces what main has. Two
changes of one file are told, and the pull request's is taken; lines are not merged, for a person has to do that anyway.

Invariant: what is read of a stranger's commit is bounded, in paths and in bytes, before it is read.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.forge_port import Bounds, Change, PullRepository
from reconciler.hub.reading import LARGEST_BYTES
from reconciler.hub.repo_files import may_matter
from reconciler.model.quantity import as_bytes
from reconciler.ports import EntryKind, TreeEntry

MOST_CHANGED = 5_000
"""Files of one pull request that are looked at."""
MOST_READ = 20_000
"""Entries of its folders that differ from what they were, ours or not."""
MOST_BYTES = 4 << 20
"""Of all files that are read of one: as values they take many times that."""


@dataclass(frozen=True, slots=True)
class Merged:
    """Main with a pull request merged."""

    entries: Mapping[str, TreeEntry]
    changed: frozenset[str]
    """Paths that the pull request adds, changes or removes. Only such as may mean something are in it."""
    conflicts: tuple[str, ...]
    """Paths that both sides changed, differently."""


def merged(git: PullRepository, main: str, head: str) -> Merged | str:
    """Main with `head` merged; words where that cannot be told. Raises what the repository raises."""
    ancestor = git.merge_base(main, head)
    if ancestor is None:
        return "it has no history in common with main"
    changed = git.changes(ancestor, head, Bounds(may_matter, _may_hold, MOST_CHANGED, MOST_READ))
    size = sum(_bytes_read(git, change) for change in changed.values())
    if size > MOST_BYTES:
        return f"the files that it changes have {as_bytes(size)}, more than {as_bytes(MOST_BYTES)}; split it"
    ours = git.files(main)
    entries = {path: entry for path, entry in ours.items() if path not in changed}
    entries |= {path: change.after for path, change in changed.items() if change.after is not None}
    both = (path for path, change in changed.items() if ours.get(path) not in (change.before, change.after))
    ordered = dict(sorted(entries.items(), key=lambda item: _order(item[0])))
    return Merged(ordered, frozenset(changed), tuple(sorted(both)))


def _may_hold(folder: str) -> bool:
    return may_matter(f"{folder}/any.yaml")


def _bytes_read(git: PullRepository, change: Change) -> int:
    """What reading it would take; a larger file is refused by its size alone."""
    if change.after is None or change.after.kind is not EntryKind.FILE:
        return 0
    size = git.size(change.after.oid)
    return size if size <= LARGEST_BYTES else 0


def _order(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")
