"""The end of a history: everything is mended, time passes until all is done, and what is so then is judged.

Decides what each job's end must be, from what main says, what people did and what the programs dictate; never from what hub or
agent believe. The judgement comes as sentences, one a fault.
"""

from collections.abc import Iterator
from typing import Final

from reconciler.model.attempt import Attempt, Outcome, State
from reconciler.model.names import JobKey, region_branch
from reconciler.model.reasons import Why, code_of
from reconciler.model.record import FINISHED, JobRecord, Phase
from reconciler.planning.observed import waits_for_region
from reconciler.planning.records import released
from reconciler.sim.judge import spans_within
from reconciler.sim.left_over import alive_in, in_cluster, in_grants, on_branch
from reconciler.sim.person import Fields, as_file
from reconciler.sim.saying import sound_file
from reconciler.sim.world import World

LOOK_SECONDS: Final = 30.0
QUIET_SECONDS: Final = 90.0
PATIENCE_SECONDS: Final = 1500.0
"""How long what is not done may stay quiet: a region that nobody hears of is waited for, a start has its time-out."""
LONGEST_SECONDS: Final = 4 * 3600.0
_TOO_MANY: Final = 20


def mend(world: World) -> None:
    """All faults go away."""
    world.is_mended = True
    for way in world.ways():
        way.mend()
    for hub in world.hubs:
        hub.fuse.armed.clear()
        hub.clock.go_on()
        hub.wake()
    world.remote.closed.clear()
    world.remote.mood = ""
    for region in world.regions:
        region.fuse.armed.clear()
        region.replays, region.stalled = 0, False
        region.cluster.pause_controllers(paused=False)
        region.power_on()
        region.return_nodes()
        region.wake_agent(0.0, 1.0)
    _mend_files(world)
    world.tell("everything is mended")


def _mend_files(world: World) -> None:
    """People put the regions' files in order."""
    files = {path: body for path, body in world.person.files.items() if not path.startswith("regions/")}
    sound = {f"regions/{region.name}.yaml": sound_file(world, region.name) for region in world.regions}
    if {**files, **sound} != world.person.files:
        world.person.commit({**files, **sound})


def drain(world: World) -> list[str]:
    """Let time pass until nothing changes any more and all is as it must be, or too long has passed; what is not is returned."""
    began = last_change = world.agenda.seconds
    before: object = None
    while True:
        world.agenda.run(world.agenda.seconds + LOOK_SECONDS)
        _confirm(world)
        _release(world)
        now = world.agenda.seconds
        state = dict(world.remote.branches)
        if state != before or world.judge.running():
            before, last_change = state, now
        if now - last_change >= QUIET_SECONDS or now - began > LONGEST_SECONDS:
            found = faults(world)
            if not found or now - last_change > PATIENCE_SECONDS or now - began > LONGEST_SECONDS:
                return found


def _confirm(world: World) -> None:
    """People confirm what the hub doubts."""
    doubt = world.ledger.hub().suspicion
    if doubt is not None and doubt.main:
        path = f"confirmations/{doubt.main[:8]}.yaml"
        if path not in world.person.files:
            world.person.commit({**world.person.files, path: as_file({"main": doubt.main})})


def _release(world: World) -> None:
    """People let go on what is held since its region was lost, or waits for it."""
    for path in world.person.jobs():
        fields = world.person.fields_at(path)
        record = world.ledger.records.get(JobKey(path.split("/")[1], fields["job_id"]))
        last = record.last if record is not None else None
        if record is None or last is None or released(record) >= last.number:
            continue
        held = record.phase is Phase.HELD and record.why is not None and record.why.code == code_of(Why.REGION_LOST_HELD)
        if held or waits_for_region(record):
            # One that was written too early counts for nothing, until it was taken out.
            number = last.number if fields.get("release", 0) != last.number or record.spec.release != last.number else 0
            world.tell(f"a person releases {record.job_id} after {last.name}: release {number}")
            world.person.edit(path, fields | {"release": number})


def faults(world: World) -> list[str]:
    """Everything that is not as it must be at the end."""
    found = [
        *_of_jobs(world),
        *_left_over(world),
        *_of_outcomes(world),
        *_of_results(world),
    ]
    if not any(hub.is_quiet for hub in world.hubs):
        found.append(f"no hub is quiet: {[hub.last for hub in world.hubs]}")
    return found


# ---- jobs ---------------------------------------------------------------------------------------------------------


def _of_jobs(world: World) -> Iterator[str]:
    wanted, records = world.person.fields, world.ledger.records
    for key in sorted({*wanted, *records}):
        record, fields = records.get(key), wanted.get(key)
        if record is None:
            yield f"{key} is on main and has no record"
        elif fields is None:
            if record.phase not in FINISHED or record.source is not None:
                yield f"{key} is gone from main, and is {record.phase}"
        else:
            yield from _of_wanted(world, record, fields)
    for run in world.judge.running():
        yield f"{run.attempt} still runs in {run.region}"


def _of_wanted(world: World, record: JobRecord, fields: Fields) -> Iterator[str]:
    where = f"{record.key} is {record.phase} ({record.why.text if record.why else 'without a reason'})"
    if record.phase in (Phase.SUCCEEDED, Phase.FAILED):
        yield from _of_finished(world, record, fields, where)
    elif fields.get("suspend"):
        if record.phase is not Phase.SUSPENDED:
            yield f"{where}, and suspended on main"
    elif not _held(record):
        yield f"{where}; it has not come to its end"
    if record.current is not None:
        yield f"{where}; {record.current.name} has not ended"


def _of_finished(world: World, record: JobRecord, fields: Fields, where: str) -> Iterator[str]:
    last = record.this_run[-1] if record.this_run else None
    if last is None:
        yield f"{where} without an attempt in its run"
        return
    if record.rerun != fields.get("rerun", 0) and fields.get("rerun", 0) == world.person.reruns(record.key):
        yield f"{where}; rerun {fields.get('rerun')} was asked for, {record.rerun} was done"
    edited = len({attempt.run_hash for attempt in record.this_run}) > 1
    counted = sum(attempt.counts_as_failure for attempt in record.this_run)
    used_up = edited and counted > fields.get("retries", 0)
    dictated = _dictated(fields)
    if last.run_hash == record.run_hash and record.phase is not dictated and not (record.phase is Phase.FAILED and used_up):
        yield f"{where}; its program dictates {dictated}"
    if record.phase is Phase.SUCCEEDED and not _ran_well(world, last):
        yield f"{where}, and the pods of {last.name} did not end well"
    out_of_time = record.why is not None and record.why.code == code_of(Why.DEADLINE_EXCEEDED)
    tries = fields.get("retries", 0) + 1
    if record.phase is Phase.FAILED and not (last.final or out_of_time or edited) and counted != tries:
        yield f"{where} after {counted} failures of {tries}"


def _dictated(fields: Fields) -> Phase:
    """The end that the program comes to if nothing else happens."""
    tries = 99 if fields.get("on_exit") else fields.get("retries", 0)
    endless = "SIM_SECONDS" not in fields["env"]
    return Phase.FAILED if endless or int(fields["env"].get("SIM_FAILS", "0")) > tries else Phase.SUCCEEDED


def _ran_well(world: World, attempt: Attempt) -> bool:
    runs = world.judge.runs.get(attempt.name, [])
    return len(runs) == attempt.nodes and all(run.code == 0 for run in runs)


def _held(record: JobRecord) -> bool:
    """Whether too many disruptions keep it from its end."""
    uncounted = sum(not attempt.counts_as_failure for attempt in record.this_run)
    return record.phase is Phase.HELD and uncounted > _TOO_MANY


# ---- what is left over --------------------------------------------------------------------------------------------


def _left_over(world: World) -> Iterator[str]:
    alive = alive_in((region.name for region in world.regions), ((key, one) for (key, _), one in world.ledger.attempts.items()))
    objects = world.remote.objects
    for region in alive:
        head = world.remote.branches.get(region_branch(region))
        paths = objects.below(objects.commits[head].tree, "") if head is not None else {}
        yield from on_branch(region, {path for path in paths if path.startswith("manifests/")}, alive)
    for grants in world.grants():
        yield from in_grants(grants, alive)
    for each in world.regions:
        yield from in_cluster(each.name, each.cluster, alive)


# ---- causes -------------------------------------------------------------------------------------------------------

_CAUSES = {
    Outcome.CANCELLED: "removed",
    Outcome.SUPERSEDED: "edited",
    Outcome.SUSPENDED: "suspended",
    Outcome.MOVED: "placed",
}
_HINDERED_SECONDS = 100.0


def _of_outcomes(world: World) -> Iterator[str]:
    """Nothing is ever stopped without somebody's doing, or something's."""
    for (key, _), attempt in world.ledger.attempts.items():
        cause = _CAUSES.get(attempt.outcome) if attempt.outcome is not None else None
        if cause is not None and cause not in world.person.did[key] | world.causes:
            yield f"{attempt.name} was {attempt.outcome}, and nobody {cause} {key}"
        if attempt.outcome is Outcome.DISRUPTED and not (world.causes or _was_hindered(world, attempt.region)):
            yield f"{attempt.name} was disrupted, and nothing happened to it"
        if attempt.outcome is Outcome.REGION_LOST and attempt.region not in {one.region for one in world.judge.given_up}:
            yield f"{attempt.name} is said to be lost with {attempt.region}, whose lease nobody revoked"


def _was_hindered(world: World, region: str) -> bool:
    spans = world.judge.hindered.get(region, ())
    return max(spans_within(spans, 0.0, world.agenda.seconds), default=0.0) > _HINDERED_SECONDS


def _of_results(world: World) -> Iterator[str]:
    """Each job that ever succeeded has its newest success for its result."""
    for key, record in world.ledger.records.items():
        newest = next((attempt for attempt in reversed(record.attempts) if attempt.state is State.SUCCEEDED), None)
        pointer = world.judge.results.get(key)
        if newest is not None and (pointer is None or pointer.attempt != newest.name):
            yield f"the result of {key} is of {newest.name}, and its pointer says {pointer.attempt if pointer else 'nothing'}"
