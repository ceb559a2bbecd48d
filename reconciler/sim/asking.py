"""What people ask for: jobs, edits, cancellations, pauses and reruns, each a push to main."""

from typing import Final

from reconciler.model.names import JobKey
from reconciler.sim.happenings import kind
from reconciler.sim.person import PROGRAMS, Fields, new_job
from reconciler.sim.place import TEAMS
from reconciler.sim.world import World

MOST_JOBS: Final = 6
_NAMES: Final = tuple(PROGRAMS)
_WHEN_LOST: Final = ("rerun",) * 7 + ("hold", "wait", "wait")
"""What jobs say of a lost region."""


def _edit(world: World, a: int, words: str, **changes: object) -> None:
    path = world.person.job(a)
    if path is not None:
        fields: Fields = world.person.fields_at(path)
        world.tell(f"a person {words} {fields['job_id']}")
        world.person.edit(path, fields | changes)


@kind(14)
def submit(world: World, a: int, b: int, c: int) -> None:
    """A new job."""
    number, program, when_lost = a % 8, _NAMES[b % len(_NAMES)], _WHEN_LOST[c % len(_WHEN_LOST)]
    path, fields = new_job(number, program, world.person.reruns(JobKey(TEAMS[number % 2], f"j{number}")))
    if path not in world.person.files and len(world.person.jobs()) < MOST_JOBS:
        said = "" if when_lost == "rerun" else f" (on_region_lost: {when_lost})"
        world.tell(f"a person submits {fields['job_id']}: {program}{said}")
        world.person.edit(path, fields if when_lost == "rerun" else fields | {"on_region_lost": when_lost})


@kind(3)
def edit_program(world: World, a: int, b: int, c: int) -> None:  # noqa: ARG001 - every kind has three numbers
    """Another image: it runs anew."""
    _edit(world, a, "edits", image=f"reg.example.com/train:{2 + b % 3}")


@kind(1)
def edit_words(world: World, a: int, b: int, c: int) -> None:  # noqa: ARG001
    """Another priority: nothing restarts."""
    _edit(world, a, "edits the priority of", priority=b % 100)


@kind(4)
def cancel(world: World, a: int, b: int, c: int) -> None:  # noqa: ARG001
    """The file goes."""
    path = world.person.job(a)
    if path is not None:
        world.tell(f"a person cancels {world.person.fields_at(path)['job_id']}")
        world.person.edit(path, None)


@kind(2)
def add_again(world: World, a: int, b: int, c: int) -> None:  # noqa: ARG001
    """A file comes back as an earlier commit had it."""
    person = world.person
    gone = {path: body for files in person.history for path, body in files.items() if path not in person.files}
    if gone and len(person.jobs()) < MOST_JOBS:
        path = sorted(gone)[a % len(gone)]
        world.tell(f"a person adds {path} again")
        person.commit({**person.files, path: gone[path]})


@kind(2)
def pause(world: World, a: int, b: int, c: int) -> None:  # noqa: ARG001
    """`suspend: true`, or false again."""
    _edit(world, a, "pauses" if b % 2 else "lets go on", suspend=b % 2 == 1)


@kind(4)
def rerun(world: World, a: int, b: int, c: int) -> None:  # noqa: ARG001
    """A job is to run once more."""
    path = world.person.job(a)
    if path is not None:
        fields = world.person.fields_at(path)
        key = JobKey(path.split("/")[1], fields["job_id"])
        world.tell(f"a person asks for another run of {key.job_id}")
        world.person.edit(path, fields | {"rerun": world.person.reruns(key) + 1})
