"""What breaks on the ways between programs and places: cut for a while, slow, answering badly, or with what was."""

from reconciler.sim.happenings import LONG, SHORT, a_hub, a_region, kind, later
from reconciler.sim.ways import PATIENCE, Way
from reconciler.sim.world import World


def _cut(world: World, ways: list[Way], seconds: float, b: int, c: int) -> None:
    """Cut some ways for a while; at times only the answers are lost, at times a request waits before it fails."""
    how = "answers" if c % 5 == 0 else "asks"
    for way in ways:
        way.cut, way.patience = how, PATIENCE if b % 3 == 0 else 0.0
        world.tell(f"{way.name}: {'answers are lost' if how == 'answers' else 'cut'} for {seconds:.0f} s")
    now = world.agenda.seconds
    for hub in world.hubs:
        if hub.store in ways:
            world.judge.blind.setdefault(hub.name, []).append((now, now + seconds))
    for region in world.regions:
        if region.store in ways:
            world.judge.hinder(region.name, now, now + seconds)
    later(world, seconds, f"{ways[0].name}: open again", lambda: _heal(world, ways))


def _heal(world: World, ways: list[Way]) -> None:
    for way in ways:
        way.cut, way.patience = "", 0.0
    for program in world.hubs:
        if program.store in ways:
            world.judge.sees_again(program.name, world.agenda.seconds)
        program.wake()
    for region in world.regions:
        region.wake_agent(0.0, 1.5)


@kind(6)
def cut_one(world: World, a: int, b: int, c: int) -> None:
    """One program loses one place for a short time."""
    ways = [way for way in world.ways() if "Kubernetes" not in way.name]
    _cut(world, [ways[a % len(ways)]], SHORT[b % len(SHORT)], b, c)


@kind(8)
def cut_region(world: World, a: int, b: int, c: int) -> None:
    """A region loses the store, and often Git, for longer than its lease is good, or nearly."""
    region = a_region(world, a)
    _cut(world, [region.store, region.git] if c % 3 else [region.store], LONG[b % len(LONG)], b, c)


@kind(1)
def cut_all_regions(world: World, a: int, b: int, c: int) -> None:  # noqa: ARG001
    """The store is gone for every region at once."""
    _cut(world, [region.store for region in world.regions], (20.0, 100.0, 350.0)[b % 3], b, 1)


@kind(2)
def cut_hub(world: World, a: int, b: int, c: int) -> None:
    """A hub sees nothing for a while."""
    hub = a_hub(world, a)
    _cut(world, [hub.store, hub.git] if c % 2 else [hub.store], (15.0, 60.0, 200.0, 400.0)[b % 4], b, c)


@kind(4)
def weather(world: World, a: int, b: int, c: int) -> None:
    """A share of one program's requests fails, is not answered, is answered by what was, or is slow."""
    ways = [way for way in world.ways() if "Kubernetes" not in way.name or b % 6 < 2]
    way = ways[a % len(ways)]
    way.fails, way.loses, way.stale, way.slow = (
        (0.3, 0.0, 0.0, 0.0),
        (0.0, 0.4, 0.0, 0.0),
        (0.0, 0.0, 0.6, 0.0),
        (0.1, 0.1, 0.3, 0.05),
        (0.0, 0.0, 0.3, 0.2),
        (0.2, 0.2, 0.0, 0.0),
    )[b % 6]
    seconds = (30.0, 120.0, 400.0)[c % 3]
    words = f"{way.fails:.0%} fail, {way.loses:.0%} unanswered, {way.stale:.0%} old, {way.slow:.0%} slow"
    world.tell(f"{way.name}: bad weather for {seconds:.0f} s ({words})")

    def clear() -> None:
        way.fails = way.loses = way.stale = way.slow = 0.0

    later(world, seconds, f"{way.name}: fair weather", clear)
