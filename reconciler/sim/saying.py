"""What people say of regions: cordons, drains, other times, files that go or break, words that one is lost; and of lost jobs.

What is said by force takes a risk that no judge can weigh, so it is said only where it must not count: too early, of a lease that
nobody has taken yet. All region files are sound again at the end.
"""

import json
from datetime import timedelta
from typing import Final

from reconciler.model.names import JobKey
from reconciler.sim.agenda import START
from reconciler.sim.happenings import a_region, kind, later
from reconciler.sim.person import Fields, as_file, region_file
from reconciler.sim.world import World

_BROKEN: Final = (b"{{{", b"", b"name: xx\n", b'{"name": "eu", "loss": {"grace_seconds": 1}}')
_OTHER_TIMES: Final = (
    {"unknown_seconds": 100, "grace_seconds": 130, "margin_seconds": 300},
    {"unknown_seconds": 110, "grace_seconds": 200},
    None,
)
_LONG: Final = (30.0, 120.0, 400.0, 700.0)


def sound_file(world: World, name: str) -> bytes:
    """A region's file as it is at the beginning, and at the end."""
    number = [region.name for region in world.regions].index(name)
    return as_file(region_file(name, 1.0 + number))


def _path(name: str) -> str:
    return f"regions/{name}.yaml"


def _changed(world: World, name: str, words: str, **changes: object) -> None:
    """Edit a region's file, where there is a sound one; a field that is None goes."""
    body = world.person.files.get(_path(name), b"")
    if b'"sync_engine": "local"' not in body:
        return
    fields: Fields = json.loads(body)
    said = {field: value for field, value in (fields | changes).items() if value is not None}
    world.tell(f"a person {words}")
    world.person.commit({**world.person.files, _path(name): as_file(said)})


def _comes_back(world: World, name: str, seconds: float) -> None:
    def put_back() -> None:
        files = {path: body for path, body in world.person.files.items() if path != _path("renamed")}
        world.person.commit({**files, _path(name): sound_file(world, name)})

    later(world, seconds, f"{_path(name)} is as it was", put_back)


@kind(1)
def cordon(world: World, a: int, b: int, c: int) -> None:  # noqa: ARG001 - every kind has three numbers
    """Nothing new goes to a region for a while."""
    name = a_region(world, a).name
    _changed(world, name, f"cordons {name}", cordoned=True)
    later(world, _LONG[b % 3], f"{name} is open again", lambda: _changed(world, name, f"uncordons {name}", cordoned=None))


@kind(4)
def drain(world: World, a: int, b: int, c: int) -> None:
    """A region is to be empty by some moment, and is taken back into use later."""
    name = a_region(world, a).name
    by = START + timedelta(seconds=world.agenda.seconds + (0, 0, 60, 300)[b % 4])
    world.causes.add("placed")
    _changed(world, name, f"drains {name} by {by:%H:%M:%S}", drain_by=f"{by:%Y-%m-%dT%H:%M:%SZ}")
    open_again = lambda: _changed(world, name, f"takes {name} into use again", drain_by=None)  # noqa: E731
    later(world, _LONG[c % 4] + 30.0, f"the drain of {name} is over", open_again)


@kind(2)
def region_file_goes(world: World, a: int, b: int, c: int) -> None:
    """A region's file is removed, or has another name, for a while."""
    name = a_region(world, a).name
    files = dict(world.person.files)
    body = files.pop(_path(name), None)
    if body is None:
        return
    if b % 2 and b'"sync_engine"' in body:
        files[_path("renamed")] = as_file({**json.loads(body), "name": "renamed"})
    world.tell(f"a person {'renames' if b % 2 else 'removes'} {_path(name)}")
    world.person.commit(files)
    _comes_back(world, name, _LONG[c % 4])


@kind(1)
def region_file_breaks(world: World, a: int, b: int, c: int) -> None:
    """A region's file is broken for a while."""
    name = a_region(world, a).name
    if _path(name) in world.person.files:
        world.tell(f"a person breaks {_path(name)}")
        world.person.commit({**world.person.files, _path(name): _BROKEN[b % len(_BROKEN)]})
        _comes_back(world, name, _LONG[c % 3])


@kind(1)
def other_times(world: World, a: int, b: int, c: int) -> None:  # noqa: ARG001
    """Other times after which a region counts as lost."""
    name = a_region(world, a).name
    _changed(world, name, f"changes the times of {name}", loss=_OTHER_TIMES[b % len(_OTHER_TIMES)])


@kind(4)
def word(world: World, a: int, b: int, c: int) -> None:
    """A region is said to be lost, or never to come back: now, or too early, then by force as well."""
    name = a_region(world, a).name
    condition = world.ledger.hub().regions.get(name)
    epoch = condition.epoch if condition is not None and condition.epoch else 1
    says, early = ("lost", "forget", "forget")[b % 3], c % 3 == 0
    said: Fields = {"says": says, "region": name, "epoch": epoch + 1 if early else epoch, "by": "Someone <someone@example.com>"}
    if early and b % 3 == 2:
        said["force"] = True
    world.tell(f"a person says of {name}, epoch {said['epoch']}: {says}{' by force' if 'force' in said else ''}")
    path = f"confirmations/{says}-{name}-{said['epoch']}.yaml"
    world.person.commit({**world.person.files, path: as_file(said)})


@kind(3)
def release(world: World, a: int, b: int, c: int) -> None:  # noqa: ARG001
    """A job is released, whether there is anything to release or not; also ahead."""
    path = world.person.job(a)
    if path is None:
        return
    fields = world.person.fields_at(path)
    record = world.ledger.records.get(JobKey(path.split("/")[1], fields["job_id"]))
    last = record.last.number if record is not None and record.last is not None else 0
    number = max(0, last + (0, 0, -1, 1)[b % 4])
    world.tell(f"a person releases {fields['job_id']} after attempt {number}")
    world.person.edit(path, fields | {"release": number})


@kind(4)
def when_lost(world: World, a: int, b: int, c: int) -> None:  # noqa: ARG001
    """A job says otherwise what is to come of it where its region is lost."""
    path = world.person.job(a)
    if path is not None:
        choice = ("hold", "wait", "hold", "wait", "rerun")[b % 5]
        fields = world.person.fields_at(path)
        world.tell(f"a person lets {fields['job_id']} say on_region_lost: {choice}")
        world.person.edit(path, fields | {"on_region_lost": choice})
