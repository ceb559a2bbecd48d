"""`reconciler cordon` and `uncordon`: `cordoned:` in a region's file, and nothing else of the file changes."""

from reconciler.adapters.documents import reader
from reconciler.commands import screen
from reconciler.commands.editing import Before, Edit, NothingToDo, commit_on_main
from reconciler.commands.field_text import with_field, without_field
from reconciler.commands.region_names import region_file
from reconciler.hub.sources import Sources
from reconciler.model.region import Region


def cordon(url: str, region: str) -> None:
    """Commit that nothing new goes there; what runs goes on. Raises BadInput where main has no such region."""
    screen.say(commit_on_main(url, lambda before: _cordon(before, region)).said)


def uncordon(url: str, region: str) -> None:
    """Commit that new jobs may go there again; where it was being drained, that it is no more."""
    screen.say(commit_on_main(url, lambda before: _uncordon(before, region)).said)


def _cordon(before: Before, typed: str) -> Edit | NothingToDo:
    path, body, region = region_file(before, typed)
    if region.cordoned:
        return NothingToDo(f"{region.name} is cordoned already")
    wanted = region.model_copy(update={"cordoned": True})
    text = with_field(body, path, "cordoned", "true", lambda new: read(new, path) == wanted)
    return _edit(path, text, wanted, f"Cordon {region.name}\n\nNothing new goes there; what runs goes on.\n", "is cordoned")


def _uncordon(before: Before, typed: str) -> Edit | NothingToDo:
    path, text, region = region_file(before, typed)
    if not region.cordoned and region.drain_by is None:
        return NothingToDo(f"{region.name} takes new jobs already")
    wanted = region
    if region.cordoned:
        wanted = _without_cordon = region.model_copy(update={"cordoned": False})
        text = without_field(text, path, "cordoned", "false", lambda new: read(new, path) == _without_cordon)
    if region.drain_by is not None:
        wanted = _whole = wanted.model_copy(update={"drain_by": None})
        text = without_field(text, path, "drain_by", "null", lambda new: read(new, path) == _whole)
    return _edit(path, text, wanted, f"Uncordon {region.name}\n\nNew jobs may go there again.\n", "takes new jobs again")


def read(body: bytes, path: str) -> Region:
    """The region that the text declares. Raises Invalid."""
    return reader.read_config(Region, body, path)


def _edit(path: str, body: bytes, wanted: Region, message: str, said: str) -> Edit:
    def taken(after: Sources) -> bool:
        return after.fleet.regions.get(wanted.name) == wanted

    return Edit({path: body}, message, taken, f"{wanted.name} {said}")
