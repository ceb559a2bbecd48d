"""Steps that people take: pushes to main, good ones and bad ones, and words on placements."""

from collections.abc import Callable

from reconciler.model.names import JobKey
from tests.sim.person import PROGRAMS, REGIONS, TEAMS, Fields, as_file, parsed
from tests.sim.steps import kind, turn
from tests.sim.world import World

MOST_JOBS = 7


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


# ---- just then ----------------------------------------------------------------------------------------------------


def _change_of_mind(world: World, path: str, b: int) -> None:
    """The file goes, changes or is suspended; or goes and comes back at once."""
    if path not in _sound(world):
        return  # somebody was paused, and it has gone meanwhile
    fields, body = _fields(world, path), world.person.files[path]
    match b % 4:
        case 0:
            world.person.edit(path, None)
        case 1:
            world.person.edit(path, fields | {"image": f"reg.example.com/train:m{b}"})
        case 2:
            world.person.edit(path, fields | {"suspend": True})
        case _:
            world.person.edit(path, None)
            world.turn(0.3, world.hubs)
            world.person.commit({**world.person.files, path: body})


@kind(7)
def hasty(world: World, a: int, b: int, c: int) -> None:
    """A job is pushed, and another word on it follows while it is about to start."""
    before = set(world.person.jobs())
    new_job(world, a, b, c)
    for path in set(world.person.jobs()) - before:
        turn(world, a, 3, c)
        turn(world, b, c % 4, 2)
        _change_of_mind(world, path, b)
        turn(world, c, a % 4, b)


@kind(5)
def at_its_end(world: World, a: int, b: int, c: int) -> None:
    """A word on a job comes just before or after its program has ended, and before anybody may have heard of that."""
    runs = [run for run in world.witness.running() if run.ends is not None]
    if not runs:
        return
    run = runs[a % len(runs)]
    left = ((run.ends or 0) - world.witness.moments[run.region]()) / 1000
    world.pass_time(max(left + (-0.5, 0.0, 0.2)[c % 3], 0.0))
    named = f'"job_id": "{run.key.job_id}"'.encode()
    paths = [path for path in _sound(world) if path.startswith(f"jobs/{run.key.team}/") and named in world.person.files[path]]
    if paths:
        _change_of_mind(world, paths[0], b)
        turn(world, c, a % 4, b)
