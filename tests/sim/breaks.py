"""Steps that break things: programs that die, stand still or get no answer, and what befalls a region."""

from reconciler.adapters.local.job_controller import orphan
from reconciler.adapters.local.nodes import lose_node, return_node
from reconciler.model.grants import HUB_LEASE_KEY, LEDGER_MARK_KEY, LedgerMark
from reconciler.model.names import LABEL_ATTEMPT
from tests.sim.faults import Weather
from tests.sim.person import REGIONS
from tests.sim.steps import kind, turn
from tests.sim.witness import Violation
from tests.sim.world import World

# ---- programs die, stand still, lose answers ----------------------------------------------------------------------


@kind(6)
def kill_at_write(world: World, a: int, b: int, c: int) -> None:
    """A program dies at one of its next writes, before it is done or after."""
    _arm(world, a, "kill", b, c)


@kind(6)
def pause_at_write(world: World, a: int, b: int, c: int) -> None:
    """A program stands still at one of its next writes while some of the steps to come happen."""
    _arm(world, a, "pause", b, c)


@kind(4)
def lose_at_write(world: World, a: int, b: int, c: int) -> None:
    """One of a program's next writes is not done, or done without an answer."""
    _arm(world, a, "lose", b, c)


@kind(4)
def delay_at_write(world: World, a: int, b: int, c: int) -> None:
    """One of a program's next writes is under way for long: its answer is given up, and then it arrives."""
    _arm(world, a, "delay", b, c)


def _arm(world: World, a: int, what: str, b: int, c: int) -> None:
    actors = (*world.hubs, *world.hubs, *world.agents)
    actors[a % len(actors)].fuse.arm(what, b % 5, after=c % 2 == 1, steps=1 + c % 12)


@kind(4)
def restart(world: World, a: int, b: int, c: int) -> None:
    """A program is started anew between two of its steps."""
    actor = world.actors[a % len(world.actors)]
    if actor.name not in world.busy:
        actor.restart()


@kind(1)
def restart_region(world: World, a: int, b: int, c: int) -> None:
    if not world.busy:
        world.restart_region(a % 2)


@kind(4)
def weather(world: World, a: int, b: int, c: int) -> None:
    """From now on a share of a program's requests fails, or is answered by what was; or none does any more."""
    kinds = (
        Weather(),
        Weather(),
        Weather(fails=0.3),
        Weather(loses=0.4),
        Weather(stale=0.6),
        Weather(0.2, 0.2, 0.2),
        Weather(fails=1.0),
    )
    world.actors[a % len(world.actors)].fuse.weather = kinds[b % len(kinds)]


@kind(3)
def clock_stops(world: World, a: int, b: int, c: int) -> None:
    """A hub's monotonic clock stands still: it goes on to think that it leads. Or it counts on."""
    clock = world.hubs[a % len(world.hubs)].clock
    if b % 2:
        clock.stop()
    else:
        clock.go_on()


@kind(2)
def drop_hub_lease(world: World, a: int, b: int, c: int) -> None:
    world.place.store.delete(HUB_LEASE_KEY)


# ---- the regions --------------------------------------------------------------------------------------------------


@kind(3)
def delete_object(world: World, a: int, b: int, c: int) -> None:
    """A person deletes a Job in a region; its pods with it, or they run on as orphans."""
    region = world.regions[a % 2]
    with region.cluster.changes() as (objects, now):
        jobs = objects.every("Job")
        if not jobs:
            return
        job = jobs[b % len(jobs)]
        world.lay_hands_on(job["metadata"]["labels"][LABEL_ATTEMPT])
        if c % 3 == 0:
            orphan(objects, job, now)
        else:
            objects.delete(job, now)
    region.settle()


@kind(2)
def delete_pod(world: World, a: int, b: int, c: int) -> None:
    region = world.regions[a % 2]
    with region.cluster.changes() as (objects, now):
        # Kubernetes clears away a deleted pod that has no node; a local region does not.
        pods = [pod for pod in objects.every("Pod") if pod["spec"].get("nodeName")]
        if not pods:
            return
        pod = pods[b % len(pods)]
        world.lay_hands_on(pod["metadata"]["labels"][LABEL_ATTEMPT])
        objects.delete(pod, now)
    region.settle()


@kind(1)
def resume_object(world: World, a: int, b: int, c: int) -> None:
    """A person suspends a Job in a region, or un-suspends one."""
    region = world.regions[a % 2]
    with region.cluster.changes() as (objects, _):
        jobs = objects.every("Job")
        if not jobs:
            return
        job = jobs[b % len(jobs)]
        world.lay_hands_on(job["metadata"]["labels"][LABEL_ATTEMPT])
        target = job
    region.patch(target, {"spec": {"suspend": c % 2 == 0}})


@kind(2)
def lose_a_node(world: World, a: int, b: int, c: int) -> None:
    """A node is not heard any more, and what it runs runs on; or it is heard again."""
    region = world.regions[a % 2]
    name = f"a-{1 + b % 2}"
    world.cause("a node was lost")
    with region.cluster.changes() as (objects, now):
        if c % 3:
            return_node(objects, name, now)
        else:
            lose_node(objects, name, now)
    region.settle()


@kind(2)
def controllers_stop(world: World, a: int, b: int, c: int) -> None:
    """A region's kube-controller-manager stands still, or goes on."""
    world.regions[a % 2].cluster.pause_controllers(paused=b % 2 == 0)


@kind(3)
def force_region_branch(world: World, a: int, b: int, c: int) -> None:
    """A region's branch is forced back along its history, or deleted."""
    if world.person.force_branch(f"region/{REGIONS[a % 2]}", -1 if b % 6 == 0 else 1 + b % 4):
        world.cause("a region's branch was rewritten")


@kind(3)
def lose_ledger(world: World, a: int, b: int, c: int) -> None:
    """The status branch is forced back or deleted; no hub writes to it until somebody has put it back."""
    head = world.person.head("refs/heads/status")
    if world.busy or head is None or _noted(world) != head:
        return  # what nobody has looked at yet, nobody can miss
    world.person.force_branch("status", -1 if b % 3 == 0 else 1 + b % 4)
    lost = world.person.head("refs/heads/status")
    if lost == head:
        return  # it has no commit before this one
    _meanwhile(world, a, b, c)
    if world.person.head("refs/heads/status") == lost:  # no hub had what was lost
        world.person.put_back("status", head)
    elif not world.person.contains("refs/heads/status", head):
        raise Violation("a hub went on from a ledger that had been set back")


def _noted(world: World) -> str | None:
    found = world.place.store.get(LEDGER_MARK_KEY)
    return LedgerMark.model_validate_json(found.body).commit if found is not None else None


def _meanwhile(world: World, a: int, b: int, c: int) -> None:
    """A few turns, and nothing else: two accidents at once may leave nothing to know the first by."""
    later, world.later = world.later, lambda _: None
    for number in range(1 + c % 3):
        turn(world, a + number, b, c)
    world.later = later


@kind(3)
def lose_a_record(world: World, a: int, b: int, c: int) -> None:
    """Somebody removes a job's record, or sets it back to what it was before; later it is put back as it was."""
    head = world.person.head("refs/heads/status")
    if world.busy or head is None or _noted(world) != head:
        return
    found = world.person.branch_files("status")
    paths = [path for path in found if path.startswith("jobs/")]
    if not paths:
        return
    path = sorted(paths)[a % len(paths)]
    earlier = world.person.versions("status", path)
    worse = earlier[-1] if b % 2 and len(earlier) > 1 else None
    world.person.change_branch("status", {path: worse})
    with world.ledger.disbelieving(path):
        _meanwhile(world, a, b, c)
        left = world.person.branch_files("status").get(path)
        if left == worse:
            world.person.change_branch("status", {path: found[path]})
        elif worse is None:
            raise Violation(f"{path} was taken away, and a new record was begun")


@kind(2)
def lose_region(world: World, a: int, b: int, c: int) -> None:
    """A region is cut off for longer than its lease is good; then its lease is revoked, as whoever gives it up must do it."""
    if not world.busy:
        world.lose_region(a % 2, back_after=(0, 10, 100)[b % 3])


@kind(1)
def lose_record(world: World, a: int, b: int, c: int) -> None:
    """The agent's record is deleted in its region."""
    region = world.regions[a % 2]
    with region.cluster.changes() as (objects, now):
        record = objects.get("ConfigMap", "gpu-reconciler", "agent-record")
        if record is not None:
            objects.delete(record, now)
            world.cause("an agent's record was lost")
