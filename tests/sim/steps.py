"""What can happen in a history, one function a kind: what people push, what breaks, what dies, and time.

A step is a name and three numbers; each kind reads the numbers as it likes, always within what there is. So any part of a
history is a history, and a failing one can be made smaller by leaving steps out.
"""

from collections.abc import Callable, Mapping
from random import Random
from typing import NamedTuple

from reconciler.adapters.local.job_controller import orphan
from reconciler.adapters.local.nodes import lose_node, return_node
from reconciler.model.grants import HUB_LEASE_KEY
from reconciler.model.names import LABEL_ATTEMPT, JobKey
from tests.sim.faults import Weather
from tests.sim.person import PROGRAMS, REGIONS, TEAMS, Fields, as_file, parsed
from tests.sim.world import World

MOST_JOBS = 7


class Step(NamedTuple):
    """One thing that happens."""

    kind: str
    a: int = 0
    b: int = 0
    c: int = 0


Kind = Callable[[World, int, int, int], None]
_KINDS: dict[str, tuple[int, Kind]] = {}


def kind(weight: int) -> Callable[[Kind], Kind]:
    """Make a function a kind of step; `weight`: how often it is drawn."""

    def register(function: Kind) -> Kind:
        _KINDS[function.__name__] = weight, function
        return function

    return register


def happen(world: World, step: Step) -> None:
    """Let it happen."""
    _KINDS[step.kind][1](world, step.a, step.b, step.c)


def weights() -> Mapping[str, int]:
    """How often each kind is drawn."""
    return {name: weight for name, (weight, _) in _KINDS.items()}


# ---- time ---------------------------------------------------------------------------------------------------------

SECONDS = (0.0, 0.3, 1.0, 1.0, 2.0, 2.0, 5.0, 5.0, 10.0, 10.0, 20.0, 40.0)


@kind(60)
def turn(world: World, a: int, b: int, c: int) -> None:
    """Time passes, and most programs take a step, in some order."""
    draw = Random(a)
    actors = [actor for actor in world.actors if draw.random() < (0.5, 0.75, 0.9)[c % 3]]
    draw.shuffle(actors)
    world.turn(SECONDS[b % len(SECONDS)], actors)


# ---- people push --------------------------------------------------------------------------------------------------


def _sound(world: World) -> list[str]:
    return [path for path in world.person.jobs() if parsed(world.person.files[path]) is not None]


def _fields(world: World, path: str) -> Fields:
    return parsed(world.person.files[path]) or {}


def _some(world: World, a: int) -> str | None:
    paths = _sound(world)
    return paths[a % len(paths)] if paths else None


def _change(world: World, a: int, **changes: object) -> None:
    path = _some(world, a)
    if path is not None:
        world.person.edit(path, _fields(world, path) | changes)


@kind(14)
def new_job(world: World, a: int, b: int, c: int) -> None:
    jobs = world.person.jobs()
    job_id, team = f"j{a % 12}", TEAMS[b % 2]
    path = f"jobs/{team}/{job_id}.yaml"
    if len(jobs) >= MOST_JOBS or path in jobs:
        return
    program = list(PROGRAMS.values())[c % len(PROGRAMS)]
    fields = {"job_id": job_id, "image": "reg.example.com/train:1", "gpu": {"count": 1}, **program}
    rerun = world.person.reruns[JobKey(team, job_id)]
    world.person.edit(path, fields | ({"rerun": rerun} if rerun else {}))


@kind(6)
def edit_program(world: World, a: int, b: int, c: int) -> None:
    """Another image: it runs anew. Or another program."""
    path = _some(world, a)
    if path is None:
        return
    plain = {"env": {}, "gpu": {"count": 1}, "retries": 0, "nodes": 1, "max_runtime_seconds": None, "on_exit": {}}
    program = plain | list(PROGRAMS.values())[c % len(PROGRAMS)] if b % 3 == 0 else {}
    world.person.edit(path, _fields(world, path) | program | {"image": f"reg.example.com/train:{b}"})


@kind(3)
def edit_priority(world: World, a: int, b: int, c: int) -> None:
    _change(world, a, priority=b % 100, description=f"words {c}")


@kind(3)
def rename(world: World, a: int, b: int, c: int) -> None:
    """The file moves within its team, at times with an edit in the same commit."""
    path = _some(world, a)
    if path is None:
        return
    files = dict(world.person.files)
    fields = _fields(world, path) | ({"image": f"reg.example.com/train:r{c}"} if c % 2 else {})
    del files[path]
    files[f"jobs/{path.split('/')[1]}/moved/{fields['job_id']}-{b % 5}.yaml"] = as_file(fields)
    world.person.commit(files)


@kind(6)
def delete(world: World, a: int, b: int, c: int) -> None:
    path = _some(world, a)
    if path is not None:
        world.person.edit(path, None)


@kind(5)
def add_again(world: World, a: int, b: int, c: int) -> None:
    """A file comes back as an earlier commit had it."""
    gone = [
        (path, body)
        for _, files in world.person.history
        for path, body in files.items()
        if path.startswith("jobs/") and path not in world.person.files and parsed(body) is not None
    ]
    if gone and len(world.person.jobs()) < MOST_JOBS:
        path, body = gone[a % len(gone)]
        world.person.commit({**world.person.files, path: body})


@kind(1)
def delete_many(world: World, a: int, b: int, c: int) -> None:
    """All jobs, or all of a team, go in one commit."""
    team = TEAMS[a % 2] if b % 2 else ""
    kept = {path: body for path, body in world.person.files.items() if not path.startswith(f"jobs/{team}")}
    world.person.commit(kept)


@kind(2)
def confirm(world: World, a: int, b: int, c: int) -> None:
    """A person says that what looks like an accident was meant."""
    head = world.person.head("refs/heads/main")
    if head is not None:
        world.person.commit({**world.person.files, f"confirmations/{head[:8]}.yaml": as_file({"main": head})})


@kind(2)
def revert(world: World, a: int, b: int, c: int) -> None:
    """`git revert`: a new commit with the files of an earlier one."""
    world.person.commit(world.person.history[-1 - a % min(4, len(world.person.history))][1])


@kind(2)
def rebase(world: World, a: int, b: int, c: int) -> None:
    """The same files, by commits that have nothing in common with those before."""
    world.person.commit(world.person.files, onto=None, message="rebased")


@kind(1)
def force_back(world: World, a: int, b: int, c: int) -> None:
    world.person.force_back(-1 - a % min(4, len(world.person.history)))


@kind(1)
def drop_main(world: World, a: int, b: int, c: int) -> None:
    world.person.drop_main()


@kind(3)
def break_file(world: World, a: int, b: int, c: int) -> None:
    path = _some(world, a)
    if path is not None:
        fields = _fields(world, path)
        broken = as_file(fields | {"gpu": {"count": "many"}, "image": None}) if b % 2 else b'{\n "gpu": {\n'
        broken = broken.replace(b'"image"', b'"imagine"')
        world.person.commit({**world.person.files, path: broken})


@kind(3)
def mend_file(world: World, a: int, b: int, c: int) -> None:
    """A broken file becomes what it last was, or goes."""
    for path in world.person.jobs():
        if parsed(world.person.files[path]) is None:
            earlier = [files[path] for _, files in world.person.history if parsed(files.get(path, b"")) is not None]
            if earlier and a % 4:
                world.person.commit({**world.person.files, path: earlier[-1]})
            else:
                world.person.edit(path, None)
            return


@kind(2)
def double(world: World, a: int, b: int, c: int) -> None:
    """A second file names the same job, with another program."""
    path = _some(world, a)
    if path is not None:
        team = path.split("/")[1]
        fields = _fields(world, path) | {"image": "reg.example.com/train:copy"}
        world.person.edit(f"jobs/{team}/copy-of-{fields['job_id']}.yaml", fields)


@kind(2)
def undouble(world: World, a: int, b: int, c: int) -> None:
    for path in world.person.jobs():
        if "/copy-of-" in path:
            world.person.edit(path, None)
            return


@kind(4)
def suspend(world: World, a: int, b: int, c: int) -> None:
    _change(world, a, suspend=b % 2 == 0)


@kind(4)
def rerun(world: World, a: int, b: int, c: int) -> None:
    path = _some(world, a)
    if path is not None:
        fields = _fields(world, path)
        key = JobKey(path.split("/")[1], fields["job_id"])
        world.person.edit(path, fields | {"rerun": world.person.reruns[key] + 1})


@kind(5)
def place(world: World, a: int, b: int, c: int) -> None:
    """A person's word on a placement."""
    keys = sorted(world.person.placements())
    if not keys:
        return
    region = REGIONS[c % 2]
    words: list[Callable[[Fields], Fields] | bytes | None] = [
        lambda said: said | {"pin": region},
        lambda said: {name: value for name, value in said.items() if name != "pin"},
        lambda said: said | {"region": region},
        lambda said: said | {"region": "us" if said["region"] == "eu" else "eu"},
        lambda said: said | {"veto": [region]},
        lambda said: said | {"veto": ["all"]},
        lambda said: said | {"veto": []},
        lambda said: said | {"veto": []},
        None,
        b"region: [",
    ]
    world.person.place(keys[a % len(keys)], words[b % len(words)])


@kind(2)
def answer_proposal(world: World, a: int, b: int, c: int) -> None:
    refs = world.person.proposals()
    if refs:
        world.person.answer(refs[a % len(refs)], yes=b % 3 > 0)


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
