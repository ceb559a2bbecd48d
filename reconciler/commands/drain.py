"""`reconciler drain`: a region is to be empty by some moment: `drain_by:` in its file, and a table of what leaves how.

Decides how the moment is written and what is printed; how each attempt leaves is the hub's own judgement, over what can be seen
of the world from here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from reconciler.adapters.clock import SystemClock
from reconciler.adapters.documents import reader
from reconciler.commands import moments, screen
from reconciler.commands.cordon import read
from reconciler.commands.editing import Before, Edit, NothingToDo, commit_on_main
from reconciler.commands.ends import BadInput
from reconciler.commands.field_text import with_field
from reconciler.commands.plan import reports_of
from reconciler.commands.region_names import region_file, region_in
from reconciler.commands.repository import MAIN, opened
from reconciler.hub.decide import snapshot_of
from reconciler.hub.draining import exits_of
from reconciler.hub.index import Index
from reconciler.hub.ledger import Corrupt
from reconciler.hub.observing import GitEyes, GitSeen
from reconciler.hub.sources import Sources
from reconciler.hub.whatif import imagined_world
from reconciler.model.names import JobKey
from reconciler.model.record import JobRecord
from reconciler.model.region_state import NOT_HEARD
from reconciler.planning.draining import Exit, in_utc
from reconciler.ports import Refused

HEADERS: Final = ("job", "phase", "attempt", "leaves", "at the latest", "to")


def moment(by: str | None, within: str | None, now: datetime) -> datetime | None:
    """The moment that a person means, to the second; None where they gave none. Raises BadInput."""
    if by is not None and within is not None:
        raise BadInput("--by and --in are given", "give one of them")
    if within is not None:
        return (now + moments.span(within)).replace(microsecond=0)
    return None if by is None else _by(by, now)


def _by(typed: str, now: datetime) -> datetime:
    todo = "write it with its offset from UTC, as 2026-05-01T14:00:00Z or 2026-05-01T16:00+02:00; or give --in 2h"
    found = moments.moment(typed, todo)
    if found < now:
        raise BadInput(f"{typed} is over", "to stop at once what runs there: --in 0s")
    return found.replace(microsecond=0)


def drain(url: str, region: str, by: datetime | None, store: str | None, *, dry_run: bool) -> None:
    """Commit the moment, unless it is a dry run or none is given; then show what leaves the region how, and when."""
    if by is not None and not dry_run:
        screen.say(commit_on_main(url, lambda before: _edit(before, region, by)).said)
    show(url, region, by, store)


def _edit(before: Before, typed: str, by: datetime) -> Edit | NothingToDo:
    path, body, region = region_file(before, typed)
    wanted = region.model_copy(update={"drain_by": in_utc(by)})
    if wanted == region:
        return NothingToDo(f"{region.name} is to be empty by {in_utc(by)} already")
    text = with_field(body, path, "drain_by", f'"{in_utc(by)}"', lambda new: read(new, path) == wanted)

    def taken(after: Sources) -> bool:
        return after.fleet.regions.get(wanted.name) == wanted

    message = f"Drain {region.name} by {in_utc(by)}\n\nNothing new goes there; what runs is moved, and stopped by then.\n"
    return Edit({path: text}, message, taken, f"{region.name} is to be empty by {in_utc(by)}")


def show(url: str, typed: str, by: datetime | None, store: str | None) -> None:
    """Print how each attempt leaves. Raises BadInput where no moment is given and none stands in the region's file."""
    now = SystemClock().now()
    with opened(url) as git:
        try:
            seen = GitEyes(git, reader, MAIN).look(git.fetch())
        except Corrupt as error:
            raise Refused(str(error)) from error
    name = region_in(typed, seen.sources.fleet.regions)
    region = seen.sources.fleet.regions[name]
    if by is None and region.drain_by is None:
        todo = f"say by when: `reconciler drain {name} --in 2h`; with --dry-run to see only"
        raise BadInput(f"{name} is not being drained", todo)
    if by is not None:
        drained = {name: region.model_copy(update={"drain_by": in_utc(by)})}
        fleet = replace(seen.sources.fleet, regions={**seen.sources.fleet.regions, **drained})
        seen = replace(seen, sources=replace(seen.sources, fleet=fleet))
    found = [each for each in _exits(seen, store, now) if each.region == name]
    if not found:
        screen.say(f"nothing stands in {name}")
        return
    screen.show_table(HEADERS, _rows(found, seen.ledger.records))


def _exits(seen: GitSeen, store: str | None, now: datetime) -> Sequence[Exit]:
    sources, ledger = seen.sources, seen.ledger
    live = reports_of(sources.fleet.settings, store, frozenset(sources.fleet.regions), now)
    world = imagined_world(sources, ledger, live.seen, live.ages, {}, now)
    index = Index()
    index.update(ledger.records, sources.fleet.policy)
    silent = [name for name, condition in ledger.hub.regions.items() if condition.state in NOT_HEARD]
    return exits_of(ledger.records, snapshot_of(world, index), silent, now)


def _rows(found: Sequence[Exit], records: Mapping[JobKey, JobRecord]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for each in found:
        record = records[each.key]
        number = f"a{record.current.number}" if record.current is not None else screen.NOTHING
        to = each.to.region if each.to is not None else screen.NOTHING
        rows.append((str(each.key), str(record.phase), number, _WORDS[each.how], screen.clock(each.at), to))
    return rows


_WORDS: Final = {
    "ends": "ends by itself before",
    "moves": "is moved now, by its checkpoint",
    "waits": "is moved when there is room elsewhere, else stopped",
    "stops": "is stopped now",
    "is moving": "is being stopped",
}
