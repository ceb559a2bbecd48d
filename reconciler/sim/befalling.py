"""What befalls the remote and the regions: refused branches, late engines, controllers that stop, power that fails, hands."""

from reconciler.adapters.local.job_controller import orphan
from reconciler.sim.happenings import a_region, kind, later
from reconciler.sim.regions import Region
from reconciler.sim.world import World


@kind(2)
def remote_is_moody(world: World, a: int, b: int, c: int) -> None:  # noqa: ARG001
    """The next push meets another writer's lock, or a remote that dies between two branches."""
    world.remote.mood = ("races", "dies")[a % 2]
    if a % 2:
        # What moved of such a push may read like a person's word on a placement.
        world.causes.add("placed")
    world.tell(f"the remote's next push {'meets a lock' if a % 2 == 0 else 'dies between two branches'}")


@kind(1)
def remote_refuses(world: World, a: int, b: int, c: int) -> None:  # noqa: ARG001
    """A hook refuses a branch for a while."""
    branch = ("status", "placements", *(f"region/{region.name}" for region in world.regions))[a % (2 + len(world.regions))]
    seconds = (10.0, 60.0, 200.0)[b % 3]
    world.remote.closed.add(branch)
    world.tell(f"the remote refuses the branch {branch} for {seconds:.0f} s")
    later(world, seconds, f"the remote takes the branch {branch} again", lambda: world.remote.closed.discard(branch))


@kind(2)
def engine_is_late(world: World, a: int, b: int, c: int) -> None:
    """A sync engine does nothing for a while, or applies an older commit of its branch."""
    region = a_region(world, a)
    seconds = (20.0, 90.0, 300.0)[b % 3]
    if c % 2:
        region.stalled = True
        world.tell(f"the sync engine of {region.name} does nothing for {seconds:.0f} s")
    else:
        region.replays = 1 + c % 3
        world.causes.add("an older commit was applied")
        world.judge.befell(region.name)
        world.tell(f"the sync engine of {region.name} sees its branch {region.replays} commits behind for {seconds:.0f} s")
        region.sync_turn.by(world.agenda.seconds)

    def catch_up() -> None:
        region.stalled, region.replays = False, 0

    later(world, seconds, f"the sync engine of {region.name} is well again", catch_up)


# ---- the regions --------------------------------------------------------------------------------------------------


@kind(2)
def controllers_stop(world: World, a: int, b: int, c: int) -> None:  # noqa: ARG001
    """A region's kube-controller-manager stands still for a while."""
    rest_controllers(world, a_region(world, a), (10.0, 60.0, 200.0, 500.0)[b % 4])


def rest_controllers(world: World, region: Region, seconds: float) -> None:
    """Let a region's kube-controller-manager stand still for so long."""
    region.cluster.pause_controllers(paused=True)
    world.tell(f"the controllers of {region.name} stand still for {seconds:.0f} s")

    def go_on() -> None:
        region.cluster.pause_controllers(paused=False)
        region.settle()

    later(world, seconds, f"the controllers of {region.name} go on", go_on)


@kind(2)
def power_fails(world: World, a: int, b: int, c: int) -> None:  # noqa: ARG001
    """A region loses its power: all that runs there ends at once, and it comes back later."""
    region = a_region(world, a)
    if region.is_off:
        return
    seconds = (40.0, 200.0, 400.0, 700.0)[b % 4]
    world.causes.add("a region lost its power")
    world.tell(f"region {region.name} loses its power for {seconds:.0f} s")
    now = world.agenda.seconds
    world.judge.hinder(region.name, now, now + seconds)
    region.power_off()
    later(world, seconds, f"region {region.name} has power again", region.power_on)


@kind(1)
def node_dies(world: World, a: int, b: int, c: int) -> None:
    """A node loses its power, and comes back later."""
    region, node = a_region(world, a), f"a-{1 + b % 2}"
    if region.is_off:
        return
    seconds = (60.0, 400.0)[c % 2]
    world.causes.add("a node was lost")
    world.tell(f"node {node} of {region.name} loses its power for {seconds:.0f} s")
    region.lose_node(node)
    later(world, seconds, f"the nodes of {region.name} are back", region.return_nodes)


@kind(1)
def delete_object(world: World, a: int, b: int, c: int) -> None:
    """A person deletes a Job in a region; its pods with it, or they run on as orphans."""
    region = a_region(world, a)
    with region.cluster.changes() as (objects, now):
        jobs = objects.every("Job")
        if not jobs or region.is_off:
            return
        job = jobs[b % len(jobs)]
        world.causes.add("hands on an object")
        world.judge.befell(region.name)
        world.tell(f"a person deletes {job['metadata']['name']} in {region.name}{', not its pods' if c % 3 == 0 else ''}")
        if c % 3 == 0:
            orphan(objects, job, now)
        else:
            objects.delete(job, now)
    region.settle()


@kind(0.5)
def lose_record(world: World, a: int, b: int, c: int) -> None:  # noqa: ARG001
    """The agent's record is deleted in its region."""
    region = a_region(world, a)
    with region.cluster.changes() as (objects, now):
        record = objects.get("ConfigMap", "gpu-reconciler", "agent-record")
        if record is not None and not region.is_off:
            objects.delete(record, now)
            world.causes.add("an agent's record was lost")
            world.judge.befell(region.name)
            world.tell(f"the record of the agent of {region.name} is deleted")


@kind(0)
def nothing_more(world: World, a: int, b: int, c: int) -> None:
    """The history ends here."""
