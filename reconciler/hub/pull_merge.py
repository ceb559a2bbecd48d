"""What main would be if a pull request were merged, path by path, without merging anything.

Decides by the common ancestor, as `git merge` does for whole files: what the pull request changed replaces what main has. Two
changes of one file are told, and the pull request's is taken; lines are not merged, for a person has to do that anyway.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.forge_port import PullRepository
from reconciler.hub.repo_files import may_matter
from reconciler.ports import TreeEntry

MOST_CHANGED = 5000
"""Files of one pull request that are looked at."""


@dataclass(frozen=True, slots=True)
class Merged:
    """Main with a pull request merged. Only paths that may mean something are in it."""

    entries: Mapping[str, TreeEntry]
    changed: frozenset[str]
    """Paths that the pull request adds, changes or removes."""
    conflicts: tuple[str, ...]
    """Paths that both sides changed, differently."""


def merged(git: PullRepository, main: str, head: str) -> Merged | str:
    """Main with `head` merged; words where that cannot be told. Raises what the repository raises."""
    ancestor = git.merge_base(main, head)
    if ancestor is None:
        return "it has no history in common with main"
    old, theirs, ours = git.files(ancestor), git.files(head), git.files(main)
    touched = {path for path in old.keys() | theirs.keys() if old.get(path) != theirs.get(path)}
    changed = frozenset(path for path in touched if may_matter(path))
    if len(changed) > MOST_CHANGED:
        return f"it changes {len(changed)} files, more than {MOST_CHANGED}; split it"
    entries = {path: entry for path, entry in ours.items() if path not in changed}
    entries |= {path: theirs[path] for path in changed & theirs.keys()}
    both = (path for path in changed if ours.get(path) not in (old.get(path), theirs.get(path)))
    return Merged(dict(sorted(entries.items(), key=lambda item: _order(item[0]))), changed, tuple(sorted(both)))


def _order(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")
