"""The end of a history: everything is mended, time passes until all is done, and what is so then is judged.

Decides what each job's end must be, from what main says, what people did and what the programs dictate; never from what hub or
agent believe. The judgement comes as sentences, one a fault.
"""

from collections.abc import Iterator

from reconciler.model.attempt import Attempt, Outcome
from reconciler.model.names import attempt_name
from reconciler.model.reasons import Why, code_of
from reconciler.model.record import FINISHED, JobRecord, Phase
from reconciler.sim.left_over import alive_in, in_cluster, in_grants, on_branch
from tests.sim.person import REGIONS, Fields, as_file, parsed
from tests.sim.world import World

QUIET_SECONDS = 60.0
PATIENCE_SECONDS = 1200.0
"""How long what is not done may stay quiet: a start that nothing but its time-out ends takes 900 s."""
_TOO_MANY = 20


def mend(world: World) -> None:
    """All faults go away, and people put right what they broke."""
    world.clear_faults()
    for region in world.regions:
        region.return_nodes()
    person = world.person
    files = {path: body for path in person.files if (body := _mended(world, path)) is not None}
    firsts: dict[tuple[str, str], str] = {}
    for path in sorted(path for path in files if path.startswith("jobs/")):
        firsts.setdefault((path.split("/")[1], (parsed(files[path]) or {})["job_id"]), path)
    person.commit({path: body for path, body in files.items() if not path.startswith("jobs/") or path in firsts.values()})


def _mended(world: World, path: str) -> bytes | None:
    body = world.person.files[path]
    if not path.startswith("jobs/") or parsed(body) is not None:
        return body
    earlier = [files[path] for _, files in world.person.history if parsed(files.get(path, b"")) is not None]
    return earlier[-1] if earlier else None


def drain(world: World) -> list[str]:
    """Let time pass until nothing changes any more and all is as it must be, or too long has passed; what is not is returned."""
    last_change = world.time.seconds
    before: object = None
    while True:
        quiet = world.time.seconds - last_change
        if quiet > 5:
            _answer(world)
        running = bool(world.witness.running())
        world.turn(5.0 if running or not quiet else 10.0 if quiet < QUIET_SECONDS else 20.0, world.actors)
        state = tuple(sorted(world.person.heads().items()))
        if state != before or running:
            before, last_change = state, world.time.seconds
        quiet = world.time.seconds - last_change
        if quiet >= QUIET_SECONDS:
            found = faults(world)
            if not found or quiet > PATIENCE_SECONDS:
                return found


def _answer(world: World) -> None:
    """People approve what waits for them, and confirm what the hub doubts."""
    for proposal in world.person.proposals():
        world.person.answer(proposal, yes=True)
    doubt = world.ledger.hub().suspicion
    if doubt is not None:
        commit = {"main": doubt.main or world.person.head("refs/heads/main")}
        world.person.commit({**world.person.files, f"confirmations/{doubt.main[:8]}.yaml": as_file(commit)})


def faults(world: World) -> list[str]:
    """Everything that is not as it must be at the end."""
    found = [*_of_jobs(world), *_left_over(world), *_of_outcomes(world)]
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
            yield from _of_removed(record)
        else:
            yield from _of_wanted(world, record, fields)
    for run in world.witness.running():
        yield f"{run.attempt} still runs in {run.region}"


def _of_removed(record: JobRecord) -> Iterator[str]:
    if record.phase not in FINISHED or record.source is not None:
        yield f"{record.key} is gone from main, and is {record.phase} (source {record.source})"


def _of_wanted(world: World, record: JobRecord, fields: Fields) -> Iterator[str]:
    where = f"{record.key} ({fields}) is {record.phase}: {record.why.text if record.why else ''}"
    if record.source is None:
        yield f"{where}; its record has no source"
    if record.phase in (Phase.SUCCEEDED, Phase.FAILED):
        yield from _of_finished(world, record, fields, where)
    elif fields.get("suspend"):
        if record.phase is not Phase.SUSPENDED:
            yield f"{where}, and suspended on main"
    elif not _held(world, record):
        yield f"{where}; it has not come to its end"
    if record.current is not None and record.phase is not Phase.PROPOSED:
        yield f"{where}; {record.current.name} has not ended"


def _of_finished(world: World, record: JobRecord, fields: Fields, where: str) -> Iterator[str]:
    last = record.this_run[-1] if record.this_run else None
    if last is None:
        yield f"{where} without an attempt in its run"
        return
    if record.rerun != fields.get("rerun", 0) and fields.get("rerun", 0) == world.person.reruns[record.key]:
        yield f"{where}; rerun {fields.get('rerun')} was asked for, {record.rerun} was done"
    if record.phase is Phase.FAILED and last.run_hash != record.run_hash:
        yield f"{where}, and its new spec was never tried"
    counted = sum(attempt.counts_as_failure for attempt in record.this_run)
    # What failed before an edit counts in the same run.
    edited = len({attempt.run_hash for attempt in record.this_run}) > 1
    used_up = edited and counted > fields.get("retries", 0)
    if (
        last.run_hash == record.run_hash
        and record.phase is not _dictated(fields)
        and not (record.phase is Phase.FAILED and used_up)
    ):
        yield f"{where}; its program dictates {_dictated(fields)}"
    if record.phase is Phase.SUCCEEDED and not _ran_well(world, last):
        yield f"{where}; the runs of {last.name}: {world.witness.of_attempt(last.name)}"
    out_of_time = record.why is not None and record.why.code == code_of(Why.DEADLINE_EXCEEDED)
    if (
        record.phase is Phase.FAILED
        and not last.final
        and not out_of_time
        and counted != fields.get("retries", 0) + 1
        and not edited
    ):
        yield f"{where} after {counted} failures"


def _dictated(fields: Fields) -> Phase:
    """The end that the program comes to if nothing else happens."""
    tries = 99 if fields.get("on_exit") else fields.get("retries", 0)
    endless = "SIM_SECONDS" not in fields["env"]
    return Phase.FAILED if endless or int(fields["env"].get("SIM_FAILS", "0")) > tries else Phase.SUCCEEDED


def _ran_well(world: World, attempt: Attempt) -> bool:
    runs = world.witness.of_attempt(attempt.name)
    return len(runs) == attempt.nodes and all(run.code == 0 for run in runs)


def _held(world: World, record: JobRecord) -> bool:
    """Whether a person's word keeps it from its end: a veto, a hold, a declined proposal; or too many faults did."""
    placement = record.placement
    vetoed = set(placement.veto)
    if "all" in vetoed or placement.declined == record.run_hash:
        return record.phase is Phase.HELD
    if vetoed >= set(REGIONS) or (placement.pin is not None and placement.pin in vetoed):
        return record.phase in (Phase.PENDING, Phase.IMPOSSIBLE)
    uncounted = sum(not attempt.counts_as_failure for attempt in record.this_run)
    return record.phase is Phase.HELD and uncounted > _TOO_MANY


# ---- what is left over --------------------------------------------------------------------------------------------


def _left_over(world: World) -> Iterator[str]:
    alive = alive_in(REGIONS, world.ledger.attempts())
    git = world.hubs[0].hub._git
    heads = git.fetch()
    for region in alive:
        yield from on_branch(region, set(git.files(heads[f"region/{region}"], "manifests")), alive)
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


def _of_outcomes(world: World) -> Iterator[str]:
    """Nothing is ever stopped without somebody's doing."""
    for key, attempt in world.ledger.attempts():
        cause = _CAUSES.get(attempt.outcome) if attempt.outcome is not None else None
        if cause is not None and cause not in world.person.did[key]:
            yield f"{attempt.name} was {attempt.outcome}, and nobody {cause} {key}"
        if attempt.outcome is Outcome.DISRUPTED and not _explained(world, attempt):
            yield f"{attempt.name} was disrupted, and nothing happened to it: {attempt.reason}"
        if attempt.name != attempt_name(key.job_id, attempt.run_hash, attempt.number):
            yield f"{attempt.name} is no name for attempt {attempt.number} of {key}"


def _explained(world: World, attempt: Attempt) -> bool:
    return f"hands on {attempt.name}" in world.causes or any(not cause.startswith("hands on") for cause in world.causes)
