"""How traps are laid: what goes wrong, and the moment of it, which is a certain write of a certain program.

Decides nothing of its own; traps.py and hub_traps.py say what comes together. What is cut here opens again by itself, and nothing
happens after everything was mended, so that every history can be drained.
"""

from collections.abc import Callable
from typing import Final

from reconciler.model.attempt import State
from reconciler.model.grants import Grants, grants_key
from reconciler.model.names import JobKey
from reconciler.sim.happenings import later
from reconciler.sim.hubs import HubProgram
from reconciler.sim.person import Fields
from reconciler.sim.regions import Region
from reconciler.sim.ways import Armed, Way
from reconciler.sim.world import World

_LOOKS: Final = 8
Sprung = Callable[[str], None]
"""Told the write at which a trap springs."""


# ---- what goes wrong ----------------------------------------------------------------------------------------------


def shut(world: World, way: Way, seconds: float) -> None:
    """Cut one way for a while."""
    if not world.is_mended:
        world.tell(f"{way.name}: cut for {seconds:.0f} s")
        way.cut = "asks"
        now = world.agenda.seconds
        for region in world.regions:
            if region.store is way:
                world.judge.hinder(region.name, now, now + seconds)
        later(world, seconds, f"{way.name}: open again", lambda: reopen(world, way))


def reopen(world: World, way: Way) -> None:
    """Open it at once, and let those who wait for it hear of that."""
    way.cut, way.patience = "", 0.0
    for region in world.regions:
        if way in (region.store, region.git):
            region.wake_agent(0.0, 0.5)
        if way is region.git:
            region.sync_turn.by(world.agenda.seconds)
    for hub in world.hubs:
        if way is hub.store:
            world.judge.sees_again(hub.name, world.agenda.seconds)
        if way in (hub.store, hub.git):
            hub.wake()


def come_back(world: World, region: Region, b: int, c: int) -> None:
    """The region's store answers again after some seconds, its Git then or much later."""
    if world.is_mended:
        return
    after = (0.0, 0.5, 3.0, 8.0)[c % 4]
    late = (after, after, 30.0, 200.0)[b % 4]
    for way, seconds in ((region.store, after), (region.git, late)):
        later(world, seconds, f"{way.name}: open again", _opening(world, way))
    now = world.agenda.seconds
    for number in range(_LOOKS):
        # A real agent looks every second; what comes next must not wait for the long rests of these.
        world.agenda.at(now + after + 1.0 + number, lambda: region.wake_agent(0.0, 0.5))


def _opening(world: World, way: Way) -> Callable[[], None]:
    return lambda: reopen(world, way)


def withdraw(world: World, key: JobKey, b: int) -> None:
    """A person cancels, pauses or edits a job."""
    path = next(
        (path for path in world.person.jobs() if path.split("/")[1] == key.team and path.endswith(f"/{key.job_id}.yaml")), ""
    )
    if not path or world.is_mended:
        return
    fields: Fields = world.person.fields_at(path)
    words, changed = (
        ("cancels", None),
        ("pauses", fields | {"suspend": True}),
        ("edits", fields | {"image": f"reg.example.com/train:{5 + b % 3}"}),
    )[b % 3]
    world.tell(f"a person {words} {key.job_id}")
    world.person.edit(path, changed)


# ---- when it does -------------------------------------------------------------------------------------------------


def watch_grants(world: World, sprung: Callable[[HubProgram, str, JobKey, str], None]) -> None:
    """At the first grants of a region, written by any hub, that name an attempt which has just been decided: hub, region, job,
    attempt. Called after the write.
    """
    done: list[str] = []

    def look(hub: HubProgram) -> Sprung:
        def then(what: str) -> None:
            found = _new_grant(world, what)
            if done or world.is_mended:
                return
            if found is None:
                hub.fuse.armed.append(_watching(look(hub)))
            else:
                done.append(what)
                sprung(hub, *found)

        return then

    for hub in world.hubs:
        hub.fuse.armed.append(_watching(look(hub)))


def _watching(then: Sprung) -> Armed:
    return Armed("watch", 0, after=True, on="put regions/", then=then)


def _new_grant(world: World, what: str) -> tuple[str, JobKey, str] | None:
    """Of the grants that were written with that request: an attempt that does not run yet."""
    region = what.split("/")[1]
    stored = world.shelf.objects.get(grants_key(region))
    if stored is None or not what.endswith("grants.json"):
        return None
    for grant in Grants.model_validate_json(stored.body).attempts:
        key = JobKey(grant.team, grant.job_id)
        said = world.judge.published(key, grant.attempt)
        if said is not None and said.state is State.GRANTED and grant.attempt not in world.judge.runs:
            return region, key, grant.attempt
    return None


def at_hubs(world: World, armed: Callable[[HubProgram], Armed]) -> None:
    """The same at whichever hub comes to it first; then no more at the others."""
    laid = [(hub, armed(hub)) for hub in world.hubs]
    for hub, one in laid:
        one.then = _first(laid, one, one.then)
        hub.fuse.armed.append(one)


def _first(laid: list[tuple[HubProgram, Armed]], this: Armed, then: Sprung | None) -> Sprung:
    def sprung(what: str) -> None:
        for hub, other in laid:
            if other is not this and other in hub.fuse.armed:
                hub.fuse.armed.remove(other)
        if then is not None:
            then(what)

    return sprung
