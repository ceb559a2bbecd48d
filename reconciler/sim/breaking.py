"""What breaks in programs: they die, stand still, lose an answer at one of their writes; and clocks that stop or jump."""

from typing import Final

from reconciler.sim.happenings import LONG, SHORT, a_hub, a_region, kind, later
from reconciler.sim.hubs import HubProgram
from reconciler.sim.regions import Region
from reconciler.sim.ways import Armed
from reconciler.sim.world import World

_ON: Final = ("", "", "", "put", "push", "patch", "delete", "write record", "put regions/")


def _arm(world: World, a: int, armed: Armed) -> None:
    programs: list[HubProgram | Region] = [*world.hubs, *world.hubs, *world.regions]
    program = programs[a % len(programs)]
    program.fuse.armed.append(armed)
    when = "after" if armed.after else "before"
    on = f" of `{armed.on}`" if armed.on else ""
    world.tell(f"{program.name} will {armed.kind} {when} write {armed.writes_left + 1}{on} from now")


@kind(6)
def kill_at_write(world: World, a: int, b: int, c: int) -> None:
    """A program dies at one of its next writes, before it is done or after."""
    _arm(world, a, Armed("kill", b % 4, after=c % 2 == 1, on=_ON[c % len(_ON)]))


@kind(6)
def freeze_at_write(world: World, a: int, b: int, c: int) -> None:
    """A program stands still at one of its next writes while the world goes on."""
    seconds = (*SHORT, *LONG)[(a + b) % 10]
    _arm(world, a, Armed("freeze", b % 4, after=c % 2 == 1, seconds=seconds, on=_ON[c % len(_ON)]))


@kind(3)
def lose_at_write(world: World, a: int, b: int, c: int) -> None:
    """One of a program's next writes is not done, or done without an answer."""
    _arm(world, a, Armed("lose", b % 4, after=c % 2 == 1, on=_ON[c % len(_ON)]))


@kind(4)
def delay_at_write(world: World, a: int, b: int, c: int) -> None:
    """One of a program's next writes is under way for long: its answer is given up, and then it arrives."""
    seconds = (11.0, 30.0, 90.0, 200.0)[a % 4]
    _arm(world, a, Armed("delay", b % 4, seconds=seconds, on=_ON[c % len(_ON)]))


@kind(2)
def slow_at_write(world: World, a: int, b: int, c: int) -> None:
    """One of a program's next writes takes its time, and is answered."""
    _arm(world, a, Armed("slow", b % 4, after=c % 2 == 1, seconds=1.0 + a % 9, on=_ON[c % len(_ON)]))


@kind(2)
def restart_hub(world: World, a: int, b: int, c: int) -> None:  # noqa: ARG001
    """A hub is started anew between two cycles."""
    hub = a_hub(world, a)
    world.tell(f"{hub.name} is restarted")
    hub.kill((0.0, 5.0, 40.0)[b % 3])


@kind(2)
def restart_agent(world: World, a: int, b: int, c: int) -> None:  # noqa: ARG001
    """An agent dies between two steps, and starts again, or its other replica does."""
    region = a_region(world, a)
    if not region.is_off:
        world.tell(f"the agent of {region.name} dies")
        region.kill_agent((0.5, 20.0, 45.0)[b % 3])


@kind(2)
def hub_clock_stops(world: World, a: int, b: int, c: int) -> None:  # noqa: ARG001
    """A hub's machine is paused: its monotonic clock stands still, and it goes on to think that it leads."""
    hub = a_hub(world, a)
    seconds = SHORT[b % len(SHORT)]
    world.tell(f"the clock of {hub.name} stands still for {seconds:.0f} s")
    hub.clock.stop()
    later(world, seconds, f"the clock of {hub.name} counts on", hub.clock.go_on)


@kind(1)
def wall_clock_jumps(world: World, a: int, b: int, c: int) -> None:
    """A hub's wall clock jumps; a region's, which its machines keep together, by little."""
    if a % 2:
        hub = a_hub(world, b)
        hub.clock.wall_ahead += (-3600.0, -90.0, 90.0, 3600.0)[c % 4]
        world.tell(f"the wall clock of {hub.name} jumps")
    else:
        region = a_region(world, b)
        region.machines[a // 2 % 2].wall_ahead += (-8.0, 8.0)[c % 2]
        world.tell(f"a wall clock in {region.name} jumps by 8 s")
