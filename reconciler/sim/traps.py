"""Happenings that wait for their moment: at a certain write of a certain program several things go wrong together.

None of them is drawn by itself; scenes.py lays them into histories. Each reads its three numbers as what goes wrong, how and for
how long, and springs once. What is cut opens again by itself, so that every history can be drained.
"""

from collections.abc import Callable
from typing import Final

from reconciler.adapters.local.job_controller import orphan
from reconciler.model.attempt import State
from reconciler.model.grants import Grants, grants_key
from reconciler.model.names import JobKey
from reconciler.sim.happenings import a_region, kind, later
from reconciler.sim.hubs import HubProgram
from reconciler.sim.person import Fields
from reconciler.sim.regions import Region
from reconciler.sim.ways import Armed, Way
from reconciler.sim.world import World

Sprung = Callable[[str], None]
_MANY: Final = 150
"""Reports: more than a region tries to write in the time of a history's scene."""


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
            region.sync_turn.by(world.agenda.seconds)
    for hub in world.hubs:
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


def _opening(world: World, way: Way) -> Callable[[], None]:
    return lambda: reopen(world, way)


def withdraw(world: World, key: JobKey, b: int) -> None:
    """A person cancels, pauses or edits a job."""
    path = next((path for path in world.person.jobs() if path.split("/")[1] == key.team and path.endswith(f"/{key.job_id}.yaml")), "")
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


def _at_hubs(world: World, armed: Callable[[HubProgram], Armed]) -> None:
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


@kind(0)
def cut_for(world: World, a: int, b: int, c: int) -> None:  # noqa: ARG001 - every kind has three numbers
    """A region loses the store and Git for just so many seconds."""
    region = a_region(world, a)
    for way in (region.store, region.git):
        shut(world, way, float(b))


@kind(0)
def reports_fail(world: World, a: int, b: int, c: int) -> None:  # noqa: ARG001
    """A region's reports do not get through for long, and its renewals do."""
    region = a_region(world, a)
    world.tell(f"the reports of {region.name} do not get through from now")
    region.fuse.armed += [Armed("lose", 0, on=f"put regions/{region.name}/report") for _ in range(_MANY)]


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


# ---- the traps ----------------------------------------------------------------------------------------------------


@kind(0)
def answer_of_renewal_is_late(world: World, a: int, b: int, c: int) -> None:
    """An agent stands still right after its renewal was done, before it has the answer; then its region is cut off for long."""
    region = a_region(world, a)
    seconds = (38.0, 90.0, 130.0, 180.0)[b % 4]
    world.tell(f"the agent of {region.name} will stand still for {seconds:.0f} s right after its next renewal, and be cut off")

    def then(_what: str) -> None:
        for way in (region.store, region.git):
            shut(world, way, (400.0, 450.0, 500.0)[c % 3])

    armed = Armed("freeze", 0, after=True, seconds=seconds, on=f"put regions/{region.name}/lease", then=then)
    region.fuse.armed.append(armed)


@kind(0)
def cut_at_grant(world: World, a: int, b: int, c: int) -> None:
    """A region is cut off right before or after it has read that a new attempt may run there; its manifest comes late or never."""
    world.tell("a region will be cut off as soon as something new is granted there")

    def sprung(_hub: HubProgram, name: str, _key: JobKey, _attempt: str) -> None:
        region = next(one for one in world.regions if one.name == name)
        shut(world, region.git, (230.0, 262.0, 300.0, 420.0, 600.0)[b % 5])
        hears = (0.0, 4.0)[a % 2]
        seconds = (380.0, 420.0, 500.0)[c % 3]
        world.agenda.at(world.agenda.seconds + hears, lambda: shut(world, region.store, seconds))

    watch_grants(world, sprung)


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

    _at_hubs(world, armed)


@kind(0)
def back_after_revocation(world: World, a: int, b: int, c: int) -> None:
    """A region's lease is revoked, and it is back at once; what the hub does next dies, is late, or is not answered."""
    region = a_region(world, a)
    world.tell(f"{region.name} will be back as soon as its lease is revoked")
    on = ("push", f"put regions/{region.name}/grants", "put regions/", "push")[b % 4]
    how = ("kill", "delay", "delay", "freeze", "lose")[c % 5]

    def armed(hub: HubProgram) -> Armed:
        def next_write(_what: str) -> None:
            hub.fuse.armed.append(Armed(how, 0, after=a % 2 == 1, seconds=(11.0, 30.0, 60.0, 90.0)[(b + c) % 4], on=on, then=pushed))
            come_back(world, region, b // 4, c // 5)

        return Armed("watch", 0, after=True, on=f"put regions/{region.name}/lease", then=next_write)

    def pushed(_what: str) -> None:
        if on == "push" and how == "delay":
            # Whatever else is pushed before it arrives would make it fail.
            seconds = (11.0, 30.0, 60.0, 90.0)[(b + c) % 4] - 0.5
            world.remote.closed.add("status")
            world.tell(f"the remote refuses the branch status for {seconds:.0f} s")
            later(world, seconds, "the remote takes the branch status again", lambda: world.remote.closed.discard("status"))

    _at_hubs(world, armed)


@kind(0)
def request_is_late(world: World, a: int, b: int, c: int) -> None:
    """A release or a lift is under way for long, or its agent stands still before it; meanwhile a person wants the job no more."""
    world.tell("the release or the lift of the next attempt will be under way for long")

    def sprung(_hub: HubProgram, name: str, key: JobKey, _attempt: str) -> None:
        region = next(one for one in world.regions if one.name == name)
        seconds = (11.0, 30.0, 60.0, 110.0)[b % 4]

        def then(_what: str) -> None:
            withdraw(world, key, c)
            if c % 4:
                _controllers_rest(world, region, seconds + 30.0)
            for number in range(b // 4 % 3):
                region.fuse.armed.append(Armed("lose", number, on="patch Pod"))

        on = ("patch Pod", "patch Job")[c // 4 % 2]
        how = ("delay", "delay", "freeze")[a % 3]
        region.fuse.armed.append(Armed(how, 0, seconds=seconds, on=on, then=then))

    watch_grants(world, sprung)


def _controllers_rest(world: World, region: Region, seconds: float) -> None:
    region.cluster.pause_controllers(paused=True)
    world.tell(f"the controllers of {region.name} stand still for {seconds:.0f} s")

    def go_on() -> None:
        region.cluster.pause_controllers(paused=False)
        region.settle()

    later(world, seconds, f"the controllers of {region.name} go on", go_on)


@kind(0)
def killed_at_start(world: World, a: int, b: int, c: int) -> None:
    """An agent dies at its record, its release or its lift; its object may be deleted then, and is made again."""
    world.tell("an agent will die as it starts the next attempt")

    def sprung(_hub: HubProgram, name: str, _key: JobKey, attempt: str) -> None:
        region = next(one for one in world.regions if one.name == name)
        on = ("patch Pod", "patch Job", "write record")[b % 3]

        def then(_what: str) -> None:
            if c % 3:
                world.agenda.at(world.agenda.seconds + (0.1, 2.0)[c % 2], lambda: _delete(world, region, attempt, orphans=c % 7 == 0))

        region.fuse.armed.append(Armed("kill", 0, after=a % 3 > 0, on=on, then=then))

    watch_grants(world, sprung)


def _delete(world: World, region: Region, attempt: str, *, orphans: bool) -> None:
    """A person deletes an attempt's object; the sync engine makes it again."""
    with region.cluster.changes() as (objects, now):
        job = next((job for job in objects.every("Job") if job["metadata"]["name"] == attempt), None)
        if job is None or region.is_off or world.is_mended:
            return
        world.causes.add("hands on an object")
        world.judge.befell(region.name)
        world.tell(f"a person deletes {attempt} in {region.name}{', not its pods' if orphans else ''}")
        if orphans:
            orphan(objects, job, now)
        else:
            objects.delete(job, now)
    region.settle()


@kind(0)
def orphaned(world: World, a: int, b: int, c: int) -> None:  # noqa: ARG001
    """A person deletes the object of the next attempt some time after its start, and leaves its pods."""

    def sprung(_hub: HubProgram, name: str, _key: JobKey, attempt: str) -> None:
        region = next(one for one in world.regions if one.name == name)
        world.agenda.at(world.agenda.seconds + (4.0, 12.0, 40.0)[b % 3], lambda: _delete(world, region, attempt, orphans=True))

    watch_grants(world, sprung)


@kind(0)
def withdrawn_unheard(world: World, a: int, b: int, c: int) -> None:
    """A job is withdrawn as soon as its region has read that it may run, and is cut off from the store; its object comes then."""
    world.tell("the next job that is granted will be withdrawn at once, and its region not hear of it")

    def sprung(_hub: HubProgram, name: str, key: JobKey, _attempt: str) -> None:
        region = next(one for one in world.regions if one.name == name)
        if b % 3:
            shut(world, region.git, (5.0, 20.0, 50.0)[a % 3])

        def then(_what: str) -> None:
            shut(world, region.store, (40.0, 90.0, 150.0)[c % 3])
            world.agenda.at(world.agenda.seconds + 0.5, lambda: withdraw(world, key, c))

        region.fuse.armed.append(Armed("watch", b % 2, on=f"put regions/{name}/report", then=then))

    watch_grants(world, sprung)


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
        world.agenda.at(world.agenda.seconds + (0.5, 2.0)[b % 2], lambda: withdraw(world, key, c))
        hub.stand_still((20.0, 45.0, 90.0)[c % 3])

    return Armed("watch", 0, after=True, on="push", then=then)


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
    """A hub stands still, or dies, between the commit of a start and its grant, for long enough that another takes over."""
    seconds = (70.0, 130.0, 250.0)[b % 3]

    def armed(hub: HubProgram) -> Armed:
        return Armed("freeze", a % 3, after=c % 2 == 0, seconds=seconds, on="push")

    world.tell(f"a hub will stand still for {seconds:.0f} s at a push")
    _at_hubs(world, armed)
