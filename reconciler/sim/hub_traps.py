"""Traps at hubs: what happens to them between two writes, while a region comes back or another hub takes over.

None of these happenings is drawn by itself; scenes.py lays them into histories. Each reads its three numbers as what goes wrong,
how and for how long, and springs once.
"""

from reconciler.model.attempt import State
from reconciler.model.names import JobKey
from reconciler.sim.happenings import a_region, kind, later
from reconciler.sim.hubs import HubProgram
from reconciler.sim.springs import at_hubs, come_back, reopen, shut, withdraw
from reconciler.sim.ways import Armed
from reconciler.sim.world import World


@kind(0)
def old_answers(world: World, a: int, b: int, c: int) -> None:  # noqa: ARG001
    """Half of what the hubs read in the store is as it was before, for a while."""
    if b % 2:
        return
    world.tell("half of what the hubs read is old for 150 s")
    for hub in world.hubs:
        hub.store.stale = 0.5

    def well() -> None:
        for hub in world.hubs:
            hub.store.stale = 0.0

    later(world, 150.0, "what the hubs read is new again", well)


@kind(0)
def back_at_revocation(world: World, a: int, b: int, c: int) -> None:
    """The very write by which a hub takes a region's lease away is late, unanswered or the hub's last; and the region is back."""
    region = a_region(world, a)
    world.tell(f"{region.name} will be back at the moment at which its lease is revoked")
    seconds = (11.0, 25.0, 60.0, 8.0)[b % 4]
    what = ("freeze", "delay", "kill", "lose", "slow")[c % 5]

    def armed(_hub: HubProgram) -> Armed:
        on = f"put regions/{region.name}/lease"
        return Armed(what, 0, after=b % 2 == 1, seconds=seconds, on=on, then=lambda _: come_back(world, region, b, c))

    at_hubs(world, armed)


@kind(0)
def back_after_revocation(world: World, a: int, b: int, c: int) -> None:
    """A region's lease is revoked, and it is back at once; what the hub does next dies, is late, or is not answered."""
    region = a_region(world, a)
    world.tell(f"{region.name} will be back as soon as its lease is revoked")
    on = ("push", f"put regions/{region.name}/grants", "put regions/", "push")[b % 4]
    how = ("kill", "delay", "delay", "freeze", "lose")[c % 5]

    def armed(hub: HubProgram) -> Armed:
        def next_write(_what: str) -> None:
            hub.fuse.armed.append(
                Armed(how, 0, after=a // 10 % 2 == 1, seconds=(11.0, 30.0, 60.0, 90.0)[(b + c) % 4], on=on, then=pushed)
            )
            if c // 5 % 2:
                shut(world, region.git, 240.0)  # so that it does not see what is pushed now
            come_back(world, region, b // 4, c // 5)

        return Armed("watch", 0, after=True, on=f"put regions/{region.name}/lease", then=next_write)

    def pushed(_what: str) -> None:
        if on == "push" and how == "delay":
            # Whatever else is pushed before it arrives would make it fail.
            seconds = (11.0, 30.0, 60.0, 90.0)[(b + c) % 4] - 0.5
            world.remote.closed.add("status")
            world.tell(f"the remote refuses the branch status for {seconds:.0f} s")
            later(world, seconds, "the remote takes the branch status again", lambda: world.remote.closed.discard("status"))

    at_hubs(world, armed)


@kind(0)
def two_leaders(world: World, a: int, b: int, c: int) -> None:  # noqa: ARG001
    """The hub that leads loses Git, and its clock stands still: another takes over while it goes on to believe that it leads. The
    other rests between the commit of its first start and the grant; then the one is back, and the job is withdrawn.
    """
    first = next((hub for hub in world.hubs if hub.hub.leads), world.hubs[0])
    first.clock.stop()
    world.tell(f"the clock of {first.name} stands still")
    later(world, 300.0, f"the clock of {first.name} counts on", first.clock.go_on)
    shut(world, first.git, 130.0)
    for hub in world.hubs:
        if hub is not first:
            hub.fuse.armed.append(_rest_before_grant(world, hub, first, (b, c)))


def _rest_before_grant(world: World, hub: HubProgram, other: HubProgram, how: tuple[int, int]) -> Armed:
    b, c = how

    def then(_what: str) -> None:
        key = _granted_now(world)
        if world.is_mended:
            return
        if key is None:
            hub.fuse.armed.append(_rest_before_grant(world, hub, other, how))
            return
        reopen(world, other.git)
        region = next(one.name for one in world.regions if key in _standing_in(world, one.name))
        # It is not to see at once that its grant was late.
        armed = Armed(("freeze", "kill")[b // 2 % 2], 0, after=True, seconds=20.0, on=f"put regions/{region}/grants")
        hub.fuse.armed.append(armed)
        world.agenda.at(world.agenda.seconds + (0.5, 2.0)[b % 2], lambda: withdraw(world, key, c))
        hub.stand_still((20.0, 45.0, 90.0)[c % 3])

    return Armed("watch", 0, after=True, on="push", then=then)


def _standing_in(world: World, region: str) -> set[JobKey]:
    currents = ((key, record.current) for key, record in world.ledger.records.items())
    return {key for key, attempt in currents if attempt is not None and attempt.region == region}


def _granted_now(world: World) -> JobKey | None:
    """A job whose start stands in the ledger, and that is granted nowhere yet."""
    granted = {grant.attempt for grants in world.grants() for grant in grants.attempts}
    for key, record in world.ledger.records.items():
        attempt = record.current
        if attempt is not None and attempt.state is State.GRANTED and attempt.name not in granted:
            return key
    return None


@kind(0)
def rests_after_push(world: World, a: int, b: int, c: int) -> None:
    """A hub stands still at one of its next pushes, for long enough that another takes over."""
    seconds = (70.0, 130.0, 250.0)[b % 3]

    def armed(_hub: HubProgram) -> Armed:
        return Armed("freeze", a % 3, after=c % 2 == 0, seconds=seconds, on="push")

    world.tell(f"a hub will stand still for {seconds:.0f} s at a push")
    at_hubs(world, armed)
