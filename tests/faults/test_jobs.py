"""A job's life where Kubernetes or the sync engine does what it does by itself: cleans up, makes again, refuses, ends in steps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from reconciler.adapters.local.objects import ref_of
from reconciler.agent.reading import Key
from reconciler.agent.record import Entry, Record
from reconciler.agent.seen import gather
from reconciler.agent.workloads import report_attempt
from reconciler.model.attempt import Outcome, State
from reconciler.model.policy import Policy
from reconciler.model.record import JobRecord, Phase
from reconciler.model.report import WorkloadReport
from reconciler.planning.lifecycle import Intent, Wanted, advance
from reconciler.planning.observed import Seen
from tests.agent.objects import Raw, ended_pod, make_grant, make_grants, make_job, make_state, running_pod
from tests.builders import NOW, TEAM, make_attempt, make_record, make_spec
from tests.hub.live import Live, runs
from tests.hub.rig import Rig

# ---- JL-1 ---------------------------------------------------------------------------------------------------------


def object_of(region: Live, attempt: str) -> Raw | None:
    found = [item for item in region.cluster.read().workloads if item["metadata"]["name"] == attempt]
    return dict(found[0]) if found else None


def test_a_finished_job_that_is_cleaned_up_and_made_again_and_again_runs_once(tmp_path: Path) -> None:
    """A time-to-live deletes the object; the engine finds it missing and makes it anew, while the hub is away and the branch
    still has the manifest."""
    rig = Rig(tmp_path)
    (eu,) = rig.alive("eu")
    eu.programs["llm-a"] = runs(10)
    rig.run(2)
    rig.job()
    rig.run_until(eu.running)
    attempt = rig.attempt().name
    rig.run(12, hub=False)
    uids = []
    for _ in range(4):
        item = object_of(eu, attempt)
        assert item is not None, "the engine has made it again"
        uids.append(item["metadata"]["uid"])
        eu.cluster.delete(ref_of(item), 0)
        rig.run(300, tick=10, hub=False)  # so often that the agent keeps its lease, and may start what is granted
        assert eu.running() == []
    assert len(set(uids)) == 4
    assert rig.granted("eu") == [attempt], "nobody has taken its grant away"
    rig.restart()
    rig.run(60, tick=5)
    assert (rig.record().phase, rig.attempt().number, eu.runtime.started) == (Phase.SUCCEEDED, 1, [attempt])
    assert rig.manifests("eu") == rig.granted("eu") == []
    assert object_of(eu, attempt) is None


# ---- JL-3 ---------------------------------------------------------------------------------------------------------


def test_an_edit_of_what_runs_never_stops_the_engine_for_the_others(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    (eu,) = rig.alive("eu")
    rig.run(2)
    rig.job(gpus=4, checkpoint_path="s3://c/llm-a/")
    rig.run_until(lambda: rig.attempt().state is State.RUNNING)
    first = rig.attempt()
    made = object_of(eu, first.name)
    rig.job(gpus=4, checkpoint_path="s3://c/llm-a/", image="reg.example.com:5000/team/train:1.5")
    rig.job("next", gpus=4)
    errors: list[Mapping[str, str]] = []

    def both_run() -> bool:
        errors.append(eu.sync.state().errors)
        return eu.running() == sorted([rig.attempt().name, rig.attempt("next").name]) and rig.attempt().number == 2

    rig.run_until(both_run)
    assert [one for one in errors if one] == [], "no `field is immutable`, nor anything else"
    assert (rig.record().attempts[0].outcome, rig.attempt().seeded_from) == (Outcome.SUPERSEDED, first.checkpoint)
    assert eu.runtime.started.count(first.name) == 1
    now = object_of(eu, rig.attempt().name)
    assert made is not None
    assert now is not None
    assert now["metadata"]["uid"] != made["metadata"]["uid"], "another object, not the old one forced"


# ---- JL-7 ---------------------------------------------------------------------------------------------------------

SPEC = make_spec()


@dataclass(frozen=True)
class Moment:
    """What Kubernetes shows of the Job and its pods, what the region says of that, and what becomes of the attempt."""

    conditions: Mapping[str, str]
    pods: Sequence[Raw]
    state: str
    attempt: State
    status: Mapping[str, int] = field(default_factory=dict)
    suspend: bool = False
    generation: int = 2
    """2 since its release, 1 before."""


HALF_FAILED = (ended_pod("a", code=1, index=0), running_pod("b", index=1, deleting=True))
ALL_FAILED = (ended_pod("a", code=1, index=0), ended_pod("b", code=143, index=1, deleting=True))
HALF_DONE = (ended_pod("a", index=0), running_pod("b", index=1, deleting=True))
ALL_DONE = (ended_pod("a", index=0), ended_pod("b", index=1))
FAILING = {"FailureTarget": "BackoffLimitExceeded"}
SUSPENDED = {"Suspended": "JobSuspended"}
SUCCEEDING = {"SuccessCriteriaMet": "CompletionsReached"}

COURSES: dict[str, tuple[Moment, ...]] = {
    "it fails": (
        Moment({}, (running_pod("a", index=0), running_pod("b", index=1)), "Released", State.RUNNING),
        Moment(FAILING, HALF_FAILED, "Released", State.RUNNING, {"terminating": 2}),
        Moment(FAILING | {"Failed": "BackoffLimitExceeded"}, ALL_FAILED, "Ended", State.FAILED, {"terminating": 0}),
    ),
    "it fails, and an older Kubernetes says so while a pod still ends": (
        Moment(FAILING | {"Failed": "BackoffLimitExceeded"}, HALF_FAILED, "Released", State.RUNNING),
        Moment(FAILING | {"Failed": "BackoffLimitExceeded"}, ALL_FAILED, "Ended", State.FAILED),
    ),
    "it succeeds": (
        Moment(SUCCEEDING, HALF_DONE, "Released", State.RUNNING, {"terminating": 1}),
        Moment(SUCCEEDING | {"Complete": "CompletionsReached"}, ALL_DONE, "Ended", State.SUCCEEDED),
    ),
    # Nothing is resumed: the hub asks for its end, and holds its GPUs until that is proved.
    "somebody suspends it": (
        Moment(SUSPENDED, (running_pod("a", index=0, deleting=True),), "Released", State.STOPPING, suspend=True),
        Moment(SUSPENDED, (), "Held", State.STOPPING, suspend=True),
    ),
    "it is suspended, as it was born": (Moment(SUSPENDED, (), "Held", State.GRANTED, suspend=True, generation=1),),
}


def reported(moment: Moment, attempt: str) -> WorkloadReport:
    job = make_job(
        attempt,
        attempt=attempt,
        suspend=moment.suspend,
        generation=moment.generation,
        conditions=moment.conditions,
        status=moment.status,
    )
    key = Key(TEAM, attempt)
    pods = [{**pod, "metadata": {**pod["metadata"], "labels": dict(job["metadata"]["labels"])}} for pod in moment.pods]
    released = {key: Entry("uid-1", generation=2, nodes=2)}
    record = Record(attempts=released if moment.generation > 1 else {})
    (seen,) = gather(make_state(jobs=[job], pods=pods), record, make_grants(make_grant(attempt, nodes=2)))
    return report_attempt(seen, is_left_over=False)


def after(record: JobRecord, workload: WorkloadReport) -> JobRecord:
    assert record.source is not None
    intent = Intent(Wanted(record.spec, record.source, record.run_hash))
    return advance(record, intent, Seen(workload, without_it=False), Policy(), NOW)


@pytest.mark.parametrize("course", COURSES)
def test_an_attempt_ends_when_the_job_has_ended_and_its_pods_too(course: str) -> None:
    begun = State.GRANTED if COURSES[course][0].generation == 1 else State.RUNNING
    record = make_record(make_attempt(1, begun, spec=SPEC, nodes=2), spec=SPEC, phase=Phase.RUNNING)
    (attempt,) = record.attempts
    for number, moment in enumerate(COURSES[course]):
        workload = reported(moment, attempt.name)
        record = after(record, workload)
        assert workload.state == moment.state, f"moment {number}"
        assert [one.state for one in record.attempts] == [moment.attempt], f"moment {number}: no new attempt meanwhile"
        assert (record.current is None) == record.attempts[0].ended, "until then its GPUs are held"
