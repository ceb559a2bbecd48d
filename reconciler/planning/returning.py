"""Results: what a job writes for another region's store goes to its own region's store first, and is returned from there. Pure.

A program that writes over a slow link holds its GPUs while it does, and an output that breaks off with the link is lost with the
attempt. So where a region says so (`returns_results`), the attempt's prefix lies in that region's store, and once the attempt has
succeeded a task of the region where the output is asked for fetches it, like a dataset: with a reservation, as often as it takes.

Decides which outputs those are. Invariant: an output that has no task is written where it is asked for, by the program itself.
"""

from collections.abc import Mapping
from datetime import datetime

from reconciler.model.attempt import Attempt
from reconciler.model.names import JobKey
from reconciler.model.record import JobRecord
from reconciler.model.stage import Return, StageTask
from reconciler.planning.compliance import stores_of
from reconciler.planning.copies import is_done
from reconciler.planning.links import usable
from reconciler.planning.snapshot import Snapshot
from reconciler.planning.stage_names import return_key, subject_of_output
from reconciler.planning.staging import can_stage, failed_lately


def returns_of(key: JobKey, attempt: Attempt, snapshot: Snapshot) -> tuple[Return, ...]:
    """The outputs that an attempt writes to its own region's store. `attempt`: with its outputs."""
    region = snapshot.regions[attempt.region].region
    store = region.object_store
    if not attempt.outputs or not region.returns_results or store is None:
        return ()
    stores = stores_of(snapshot.regions)
    found = []
    for number, uri in enumerate(attempt.outputs):
        target = _returned_to(stores.only(uri), region.name, snapshot)
        if target is not None and attempt.outputs.count(uri) == 1:  # a copy has its folder to itself, so two fill none together
            written = f"{store.url.rstrip('/')}/results/{key.team}/{attempt.name}/{number + 1}/"
            found.append(Return(output=number, written_uri=written, region=target))
    return tuple(found)


def _returned_to(target: str | None, region: str, snapshot: Snapshot) -> str | None:
    """`target`, if its worker can fetch what is asked for there; None where the program writes it there itself: it is its own, or
    nobody could, or nobody knows where it is."""
    if target is None or target == region:
        return None
    link = snapshot.links.get((region, target))
    rate = None if link is None else usable(link, snapshot.measured.get((region, target)), snapshot.policy.thresholds)
    return target if rate and can_stage(snapshot.regions[target]) else None


def return_task(attempt: Attempt, one: Return) -> StageTask:
    """The task that fetches an output to where it is asked for."""
    return StageTask(
        kind="results",
        subject=subject_of_output(attempt, one.output),
        region=one.region,
        source_region=attempt.region,
        source_uri=one.written_uri,
        target_uri=attempt.outputs[one.output],
    )


def all_returned(attempt: Attempt, tasks: Mapping[JobKey, JobRecord]) -> bool:
    """Whether everything that an attempt wrote elsewhere is where it was asked for."""
    found = (tasks.get(return_key(attempt, one)) for one in attempt.returns)
    return all(task is not None and is_done(task) for task in found)


def is_return(task: JobRecord) -> bool:
    """Whether a task returns an output."""
    return task.stage is not None and task.stage.kind == "results"


def rests(task: JobRecord, now: datetime) -> bool:
    """Whether a task that returns something has failed, and is not to be tried again yet."""
    return is_return(task) and failed_lately(task, now)
