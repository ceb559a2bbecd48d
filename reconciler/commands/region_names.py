"""Which region a person means by what they typed, and its file."""

from collections.abc import Iterable
from shlex import quote

from reconciler.commands.editing import Before
from reconciler.commands.ends import BadInput
from reconciler.hub.repo_files import Kind, did_you_mean, path_of
from reconciler.model.region import Region


def region_in(typed: str, known: Iterable[str]) -> str:
    """The region. Raises BadInput where there is none of that name."""
    names = set(known)
    if typed in names:
        return typed
    meant = did_you_mean(typed, names)
    hint = f"did you mean {meant}?" if meant else f"there are: {', '.join(sorted(names)) or 'none'}"
    raise BadInput(f"there is no region {quote(typed)}", hint)


def region_file(before: Before, typed: str) -> tuple[str, bytes, Region]:
    """Path, bytes and content of a region's file on main. Raises BadInput where main has none, or another version is in force."""
    name = region_in(typed, before.sources.fleet.regions)
    path, look = path_of(Kind.REGION, name), before.look
    entry = look.git.files(look.main).get(path) if look.main is not None else None
    if entry is None or entry.oid != before.sources.in_force.get(path):
        raise BadInput(f"{path} on main is broken or gone; an earlier version is in force", "mend or restore it first")
    return path, look.git.read(entry.oid), before.sources.fleet.regions[name]
