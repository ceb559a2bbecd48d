"""Traps at regions and their agents: they are cut off, stand still or die at the worst moment, and people change their minds.

None of these happenings is drawn by itself; scenes.py lays them into histories. Each reads its three numbers as what goes wrong,
how and for how long, and springs once.
"""

from typing import Final

from reconciler.adapters.local.job_controller import orphan
from reconciler.model.names import JobKey
from reconciler.sim.befalling import rest_controllers
from reconciler.sim.happenings import a_region, kind
from reconciler.sim.hubs import HubProgram
from reconciler.sim.regions import Region
from reconciler.sim.springs import shut, watch_grants, withdraw
from reconciler.sim.ways import Armed
from reconciler.sim.world import World

_MANY: Final = 150
"""Reports: more than a region tries to write in the time of a history's scene."""


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
    """A region is cut off right before or after it has read that a new attempt may run there; its manifest is late."""
    world.tell("a region will be cut off as soon as something new is granted there")

    def sprung(_hub: HubProgram, name: str, _key: JobKey, _attempt: str) -> None:
        region = next(one for one in world.regions if one.name == name)
        shut(world, region.git, (230.0, 262.0, 300.0, 420.0, 600.0)[b % 5])
        hears = (0.0, 4.0)[a % 2]
        seconds = (380.0, 420.0, 500.0)[c % 3]
        world.agenda.at(world.agenda.seconds + hears, lambda: shut(world, region.store, seconds))

    watch_grants(world, sprung)


@kind(0)
def request_is_late(world: World, a: int, b: int, c: int) -> None:
    """A release or a lift is under way for long, or its agent stands still before it; meanwhile its job is withdrawn."""
    world.tell("the release or the lift of the next attempt will be under way for long")

    def sprung(_hub: HubProgram, name: str, key: JobKey, _attempt: str) -> None:
        region = next(one for one in world.regions if one.name == name)
        seconds = (11.0, 30.0, 60.0, 110.0)[b % 4]

        def then(_what: str) -> None:
            withdraw(world, key, c)
            if c % 4:
                rest_controllers(world, region, seconds + 30.0)
            for number in range((0, 2, 8)[b // 4 % 3]):
                region.fuse.armed.append(Armed("lose", number, on="patch Pod"))

        on = ("patch Pod", "patch Job")[c // 4 % 2]
        how = ("delay", "delay", "freeze")[a % 3]
        region.fuse.armed.append(Armed(how, 0, seconds=seconds, on=on, then=then))

    watch_grants(world, sprung)


@kind(0)
def killed_at_start(world: World, a: int, b: int, c: int) -> None:
    """An agent dies at its record, its release or its lift; its object may be deleted then, and is made again."""
    world.tell("an agent will die as it starts the next attempt")

    def sprung(_hub: HubProgram, name: str, _key: JobKey, attempt: str) -> None:
        region = next(one for one in world.regions if one.name == name)
        on = ("patch Pod", "patch Job", "write record")[b % 3]

        def then(_what: str) -> None:
            if c % 3:
                world.agenda.at(
                    world.agenda.seconds + (0.1, 2.0)[c % 2], lambda: _delete(world, region, attempt, orphans=c % 7 == 0)
                )

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
