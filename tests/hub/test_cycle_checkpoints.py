"""A job that goes on beside another region's store: its checkpoint is copied there, by that region's worker, before GPUs are held."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.hub.result_pointer import read_result
from reconciler.model.attempt import State
from reconciler.model.names import STAGING_TEAM, JobKey
from reconciler.model.record import JobRecord, Phase
from reconciler.model.region_state import RegionState
from reconciler.model.report import WorkloadReport
from reconciler.planning.seeding import NO_WORKER
from reconciler.rendering.records import task_row
from tests.builders import TEAM, TEAMS
from tests.hub.rig import Rig
from tests.hub.silence import pass_time, state
from tests.hub.words import FILES, failed, region_file, running, stopped, succeeded

SPACES = [*TEAMS, STAGING_TEAM]
STORE = "object_store: {url: 's3://bucket-%s', endpoint: 'https://s3.%s.example.com', secret: store-%s}\n"
US = "https://s3.us.example.com"
ELSEWHERE = "s3://bucket-us/checkpoints/llm/"


def stored(name: str, more: str = "") -> str:
    return region_file(name, 1.0 if name == "eu" else 20.0, STORE % (name, name, name) + more)


class Stores(Rig):
    """Two regions with stores, at rest; the job's checkpoints are in the store of us, and it runs in eu."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, files={**FILES, "regions/eu.yaml": stored("eu"), "regions/us.yaml": stored("us")})
        for region in ("eu", "us"):
            self.tell(region, namespaces=SPACES)
        self.settle()

    def want(self, **fields: Any) -> None:
        self.job("llm-a", **{"checkpoint_path": ELSEWHERE, "allowed_regions": ["eu"], **fields})
        self.settle()

    def paused(self, **fields: Any) -> str:
        """It has begun and was suspended; its first attempt's name."""
        self.want(**fields)
        first = self.attempt().name
        self.say(running(first))
        self.want(suspend=True, **fields)
        self.say(stopped(first))
        assert self.record().phase is Phase.SUSPENDED
        return first

    def say(self, *works: WorkloadReport, region: str = "eu") -> None:
        self.tell(region, *works, namespaces=SPACES)
        self.settle()

    def tasks(self) -> list[JobRecord]:
        return [one for one in self.records().values() if one.stage is not None]

    def task(self) -> JobRecord:
        (found,) = self.tasks()
        return found

    def end_task(self, how: Any = succeeded) -> None:
        current = self.task().current
        assert current is not None
        self.say(how(current.name).model_copy(update={"namespace": STAGING_TEAM}), region="us")

    def pass_by(self, seconds: float) -> None:
        self.clock.seconds += seconds
        for region in ("eu", "us"):
            self.tell_again(region)
        self.settle()

    def runs_without(self, *, knows_where: bool = True) -> None:
        """The job has the right to run, and its pod copies what it goes on from, which lies in the store of us."""
        assert self.granted("eu") == [self.attempt().name]
        assert self.attempt().seeded_from is not None
        (job,) = yaml.safe_load_all(self.text("region/eu", f"manifests/{TEAM}/{self.attempt().name}.yaml") or "")
        (step,) = job["spec"]["template"]["spec"]["initContainers"]
        said = {one["name"]: one["value"] for one in step["env"]}
        assert (step["name"], said) == ("seed-checkpoint", {"AWS_ENDPOINT_URL_S3": US} if knows_where else {})


@pytest.fixture
def rig(tmp_path: Path) -> Stores:
    return Stores(tmp_path)


def test_the_checkpoint_comes_first_and_then_the_job_goes_on(rig: Stores) -> None:
    first = rig.paused()
    rig.want()
    task, second = rig.task(), rig.attempt()
    assert task.stage is not None
    assert task.current is not None
    assert (task.stage.kind, task.stage.subject, task.stage.region) == ("checkpoint", f"{second.name}@checkpoint", "us")
    assert (task.stage.source_uri, task.stage.target_uri) == (f"{ELSEWHERE}{first}/", f"{ELSEWHERE}{second.name}/")
    assert (second.state, second.stages, second.seeded_from) == (State.STAGING, (task.job_id,), f"{ELSEWHERE}{first}/")
    what = f"the checkpoint that {second.name} goes on from"
    why = rig.record().why
    assert why is not None
    assert why.text == f"{what} is being brought to eu first; its GPUs are held when that is there"
    assert (rig.granted("eu"), rig.granted("us")) == ([], [task.current.name])
    assert task_row(task)[:4] == (what, "us", "us", "Starting")
    rig.end_task()
    rig.runs_without()
    assert (rig.task().phase, rig.granted("us")) == (Phase.SUCCEEDED, [])


def test_the_worker_opens_the_store_of_its_own_region_and_holds_no_link(rig: Stores) -> None:
    first = rig.paused()
    rig.want()
    task = rig.task()
    assert task.spec.command == (
        *("reconciler", "stage", "checkpoint"),
        *(f"{ELSEWHERE}{first}/", f"{ELSEWHERE}{rig.attempt().name}/"),
    )
    assert task.spec.env == {"AWS_ENDPOINT_URL_S3": US}
    assert [(one.name, one.env) for one in task.spec.secrets] == [
        ("store-us", "AWS_ACCESS_KEY_ID"),
        ("store-us", "AWS_SECRET_ACCESS_KEY"),
    ]
    assert task.spec.allowed_regions == ("us",)
    (grant,) = rig.grants("us").attempts
    assert grant.bytes_per_second is None


NONE: dict[str, dict[str, Any]] = {
    "the store is the region's own": {"checkpoint_path": "s3://bucket-eu/llm/"},
    "nobody's region has the store": {"checkpoint_path": "s3://elsewhere/llm/"},
    "it keeps no checkpoints": {"checkpoint_path": None},
}


@pytest.mark.parametrize("fields", NONE.values(), ids=NONE)
def test_nothing_is_waited_for_where(rig: Stores, fields: dict[str, Any]) -> None:
    rig.paused(**fields)
    rig.want(**fields)
    assert rig.tasks() == []
    assert rig.granted("eu") == [rig.attempt().name]


def test_nor_by_a_first_attempt(rig: Stores) -> None:
    rig.want()
    assert rig.tasks() == []
    assert rig.granted("eu") == [rig.attempt().name]


CANNOT = {
    "is cordoned": ("us", stored("us", "cordoned: true\n")),
    "is being emptied": ("us", stored("us", "drain_by: '2031-01-01T00:00:00Z'\n")),
    "has a bucket that another has too": ("ap", stored("ap").replace("s3://bucket-ap", "s3://bucket-us")),
}


@pytest.mark.parametrize("file", CANNOT.values(), ids=CANNOT)
def test_a_region_is_not_waited_for_that(rig: Stores, file: tuple[str, str]) -> None:
    rig.paused()
    rig.put({f"regions/{file[0]}.yaml": file[1]})
    rig.settle()
    rig.want()
    assert rig.tasks() == []
    rig.runs_without(knows_where=file[0] == "us")


def test_nor_one_without_a_place_for_workers(rig: Stores) -> None:
    rig.paused()
    rig.tell("us", namespaces=TEAMS)
    rig.want()
    assert rig.tasks() == []
    rig.runs_without()


def test_a_copy_that_fails_for_good_is_left_to_the_pod_and_not_tried_again_in_the_run(rig: Stores) -> None:
    first = rig.paused()
    rig.want()
    waited = rig.attempt().name
    while rig.task().current is not None:
        rig.end_task(failed)
    rig.settle()
    third = rig.attempt()
    assert third.name != waited
    assert (third.seeded_from, third.stages) == (f"{ELSEWHERE}{first}/", ())
    rig.runs_without()
    rig.say(running(third.name))
    rig.want(suspend=True)
    rig.say(stopped(third.name))
    rig.want()
    assert rig.attempt().seeded_from == third.checkpoint
    rig.runs_without()


def test_a_worker_that_finds_no_room_is_waited_for_a_while(rig: Stores) -> None:
    rig.paused()
    rig.tell("us", namespaces=SPACES, nodes=[])
    rig.want()
    assert (rig.attempt().state, rig.task().current) == (State.STAGING, None)
    rig.pass_by(NO_WORKER.total_seconds() - 60)
    assert rig.attempt().state is State.STAGING
    waited = rig.attempt().name
    rig.pass_by(61)
    assert rig.attempt().name != waited
    rig.runs_without()
    assert rig.task().phase is Phase.CANCELLED


def test_a_region_that_is_cordoned_meanwhile_is_waited_for_no_longer(rig: Stores) -> None:
    rig.paused()
    rig.tell("us", namespaces=SPACES, nodes=[])
    rig.want()
    rig.put({"regions/us.yaml": CANNOT["is cordoned"][1]})
    rig.settle()
    rig.runs_without()


def test_nor_is_one_that_falls_silent_while_its_worker_runs(rig: Stores) -> None:
    rig.paused()
    rig.want()
    current = rig.task().current
    assert current is not None
    rig.say(running(current.name).model_copy(update={"namespace": STAGING_TEAM}), region="us")
    pass_time(rig, 60, heard=("eu",))
    assert state(rig, "us") is RegionState.UNKNOWN
    rig.runs_without()


def test_a_job_that_is_withdrawn_meanwhile_ends_the_copy(rig: Stores) -> None:
    rig.paused()
    rig.want()
    current = rig.task().current
    assert current is not None
    rig.want(suspend=True)
    rig.say(stopped(current.name).model_copy(update={"namespace": STAGING_TEAM}), region="us")
    assert (rig.task().phase, rig.record().phase, rig.granted("us")) == (Phase.CANCELLED, Phase.SUSPENDED, [])
    rig.want()
    (new,) = [one for one in rig.tasks() if one.current is not None]
    assert (rig.attempt().state, rig.attempt().stages) == (State.STAGING, (new.job_id,))


def test_what_was_approved_waits_for_its_checkpoint_too(rig: Stores) -> None:
    rig.paused()
    rig.put({"policy.yaml": "approval: {always: true}\n"})
    rig.want()
    assert (rig.attempt().state, rig.tasks()) == (State.PROPOSED, [])
    proposed = rig.attempt()
    rig.merge_proposal()
    rig.settle()
    task = rig.task().stage
    assert task is not None
    assert (task.target_uri, rig.attempt().state, rig.attempt().name) == (proposed.checkpoint, State.STAGING, proposed.name)
    rig.end_task()
    rig.runs_without()


def test_its_result_names_the_checkpoint_as_ever(rig: Stores) -> None:
    rig.paused()
    rig.want()
    rig.end_task()
    rig.say(succeeded(rig.attempt().name))
    found = read_result(rig.store, JobKey(TEAM, "llm-a"))
    assert found is not None
    assert found.checkpoint == rig.attempt().checkpoint
    assert (rig.record().phase, rig.granted("us")) == (Phase.SUCCEEDED, [])
