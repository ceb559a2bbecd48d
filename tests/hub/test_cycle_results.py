"""Results that are asked for elsewhere: written at home, returned by a task, and the job's result only when all of it is there."""

from pathlib import Path
from typing import Any

import pytest

from reconciler.hub.result_pointer import read_result
from reconciler.model.attempt import Outcome, State
from reconciler.model.names import STAGING_TEAM, JobKey
from reconciler.model.reasons import Why, because
from reconciler.model.record import JobRecord, Phase
from reconciler.model.report import WorkloadReport
from tests.builders import TEAM, TEAMS
from tests.hub.rig import Rig
from tests.hub.words import FILES, failed, region_file, running, succeeded

SPACES = [*TEAMS, STAGING_TEAM]
STORE = "object_store: {url: 's3://bucket-%s', endpoint: 'https://s3.%s.example.com', secret: store-%s}\n"
LINKS = "links: [{source: eu, target: us, gbit_per_second: 10}, {source: us, target: eu, gbit_per_second: 10}]\n"
HOME = "s3://bucket-us/results/llm"


def stored(name: str, *, returns: bool = True) -> str:
    return region_file(
        name, 1.0 if name == "eu" else 20.0, STORE % (name, name, name) + f"returns_results: {str(returns).lower()}\n"
    )


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    made = Rig(tmp_path, files={**FILES, "regions/eu.yaml": stored("eu"), "regions/us.yaml": stored("us"), "links.yaml": LINKS})
    for region in ("eu", "us"):
        made.tell(region, namespaces=SPACES)
    made.settle()
    return made


def job(rig: Rig, *uris: str, **fields: Any) -> None:
    outputs = [{"path": f"/out/{number}", "uri": uri} for number, uri in enumerate(uris)]
    rig.job("llm-a", **{"outputs": outputs, "allowed_regions": ["eu"], **fields})
    rig.settle()


def tasks(rig: Rig) -> list[JobRecord]:
    return [record for record in rig.records().values() if record.stage is not None]


def say(rig: Rig, region: str, *works: WorkloadReport) -> None:
    rig.tell(region, *works, namespaces=SPACES)
    rig.settle()


def of_task(rig: Rig, end: Any) -> WorkloadReport:
    (task,) = tasks(rig)
    assert task.current is not None
    work: WorkloadReport = end(task.current.name)
    return work.model_copy(update={"namespace": STAGING_TEAM})


def result(rig: Rig) -> tuple[str, ...] | None:
    found = read_result(rig.store, JobKey(TEAM, "llm-a"))
    return found.outputs if found is not None else None


def ended(rig: Rig) -> str:
    """The job's program has ended well; its attempt's name."""
    name = rig.attempt().name
    say(rig, "eu", succeeded(name))
    return name


def test_what_was_written_at_home_is_returned_and_is_the_result_then(rig: Rig) -> None:
    job(rig, HOME)
    assert tasks(rig) == []
    name = rig.attempt().name
    written = f"s3://bucket-eu/results/{TEAM}/{name}/1/"
    text = rig.text("region/eu", f"manifests/{TEAM}/{name}.yaml") or ""
    assert f'value: "{written}"' in text
    assert HOME not in text
    ended(rig)
    (task,) = tasks(rig)
    assert task.spec.command[:5] == ("reconciler", "stage", "results", written, f"{HOME}/{name}/")
    assert task.spec.allowed_regions == ("us",)
    assert task.current is not None
    assert rig.granted("us") == [task.current.name]
    (grant,) = rig.grants("us").attempts
    assert grant.bytes_per_second, "it holds bandwidth"
    assert rig.record().phase is Phase.SUCCEEDED, "its GPUs are free"
    assert rig.record().why is not None
    assert rig.record().why.text == "it is done; what it wrote in eu is on its way to us"  # type: ignore[union-attr]
    assert result(rig) is None
    say(rig, "us", of_task(rig, succeeded))
    assert result(rig) == (f"{HOME}/{name}/",)
    assert (rig.record().phase, rig.record().why) == (Phase.SUCCEEDED, because(Why.SUCCEEDED))
    assert rig.record().attempts[-1].returned_at is not None
    assert rig.granted("us") == []
    assert tasks(rig)[0].phase is Phase.SUCCEEDED


def test_what_failed_or_was_stopped_has_nothing_to_return(rig: Rig) -> None:
    job(rig, HOME)
    say(rig, "eu", failed(rig.attempt().name))
    assert rig.record().phase is Phase.FAILED
    assert tasks(rig) == []


@pytest.mark.parametrize(
    ("uri", "files"),
    [
        pytest.param("s3://bucket-eu/results/llm", {}, id="asked for at home"),
        pytest.param("s3://elsewhere/results/llm", {}, id="in no region's store"),
        pytest.param(HOME, {"links.yaml": "links: []\n"}, id="over no link"),
        pytest.param(
            HOME, {"regions/ap.yaml": "name: ap\nobject_store: {url: 's3://bucket-us'}\n"}, id="two buckets of one name"
        ),
        pytest.param(HOME, {"regions/eu.yaml": stored("eu", returns=False)}, id="a region that does not"),
        pytest.param(HOME, {"regions/eu.yaml": region_file("eu", 1.0, "returns_results: true\n")}, id="a region without a store"),
    ],
)
def test_else_the_program_writes_it_where_it_is_asked_for(rig: Rig, uri: str, files: dict[str, str]) -> None:
    rig.put(files)
    job(rig, uri)
    name = ended(rig)
    assert tasks(rig) == []
    assert result(rig) == (f"{uri}/{name}/",)


def test_a_region_without_workers_fetches_nothing(rig: Rig) -> None:
    rig.tell("us", namespaces=TEAMS)
    rig.settle()
    job(rig, HOME)
    ended(rig)
    assert tasks(rig) == []
    assert result(rig) is not None


def test_of_several_outputs_all_must_be_there(rig: Rig) -> None:
    job(rig, HOME, "s3://bucket-eu/logs/", "s3://bucket-us/samples/")
    name = ended(rig)
    one, other = sorted(tasks(rig), key=lambda task: task.spec.command[3])
    assert one.current is not None
    assert other.current is not None
    ends = [succeeded(task.name).model_copy(update={"namespace": STAGING_TEAM}) for task in (one.current, other.current)]
    say(rig, "us", ends[0])
    assert result(rig) is None
    say(rig, "us", *ends)
    assert result(rig) == (f"{HOME}/{name}/", f"s3://bucket-eu/logs/{name}/", f"s3://bucket-us/samples/{name}/")


def test_who_takes_the_file_away_once_it_is_done_has_the_result_all_the_same(rig: Rig) -> None:
    job(rig, HOME)
    ended(rig)
    rig.remove("llm-a")
    rig.settle()
    rig.restart()
    rig.settle()
    say(rig, "us", of_task(rig, succeeded))
    assert result(rig) is not None


def test_a_rerun_takes_nothing_from_what_is_on_its_way(rig: Rig) -> None:
    job(rig, HOME)
    first = ended(rig)
    job(rig, HOME, rerun=1)
    assert rig.attempt().name != first
    say(rig, "us", of_task(rig, succeeded))
    assert result(rig) == (f"{HOME}/{first}/",)
    assert rig.attempt().state is State.GRANTED
    assert rig.record().phase is not Phase.SUCCEEDED


def test_a_task_that_failed_is_begun_anew_after_a_while(rig: Rig) -> None:
    job(rig, HOME)
    ended(rig)
    (task,) = tasks(rig)
    for _ in range(1 + task.spec.retries):
        say(rig, "us", of_task(rig, failed))
    (task,) = tasks(rig)
    assert task.phase is Phase.FAILED
    why = rig.record().why
    assert why is not None
    assert why.text.startswith("it is done; what it wrote in eu could not be returned to us yet: ")
    rig.clock.seconds += 590
    say(rig, "us")
    assert tasks(rig)[0].phase is Phase.FAILED, "not before ten minutes are over"
    rig.clock.seconds += 20
    say(rig, "us")
    assert tasks(rig)[0].current is not None
    say(rig, "us", of_task(rig, running))
    say(rig, "us", of_task(rig, succeeded))
    assert result(rig) is not None


def test_a_region_that_says_so_later_changes_nothing_of_what_runs(rig: Rig) -> None:
    rig.put({"regions/eu.yaml": stored("eu", returns=False)})
    job(rig, HOME)
    before = rig.text("region/eu", f"manifests/{TEAM}/{rig.attempt().name}.yaml")
    rig.put({"regions/eu.yaml": stored("eu")})
    rig.settle()
    assert rig.text("region/eu", f"manifests/{TEAM}/{rig.attempt().name}.yaml") == before
    ended(rig)
    assert tasks(rig) == []
    assert result(rig) is not None


def test_outputs_that_fill_one_folder_together_are_written_there(rig: Rig) -> None:
    """Who returns the second would find the first one's objects in its folder, and refuse that for ever."""
    job(rig, HOME, f"{HOME}/", "s3://bucket-us/logs")
    assert [one.output for one in rig.attempt().returns] == [2]
    name = ended(rig)
    say(rig, "us", of_task(rig, succeeded))
    assert result(rig) == (f"{HOME}/{name}/", f"{HOME}/{name}/", f"s3://bucket-us/logs/{name}/")


def test_what_an_earlier_run_wrote_and_is_on_its_way_is_no_news_of_a_later_one(rig: Rig) -> None:
    job(rig, HOME)
    first = ended(rig)
    job(rig, HOME, rerun=1)
    second = ended(rig)
    going = {task.spec.command[3].split("/")[-3]: task.current for task in tasks(rig) if task.current is not None}
    say(rig, "us", succeeded(going[second].name).model_copy(update={"namespace": STAGING_TEAM}))
    say(rig, "us")
    assert going[first].name in rig.granted("us")
    assert result(rig) == (f"{HOME}/{second}/",)
    assert rig.record().why == because(Why.SUCCEEDED)


def test_a_task_that_was_disrupted_too_often_is_begun_anew_as_one_that_failed(rig: Rig) -> None:
    """Nobody could release it: it has no file."""
    rig.put({"policy.yaml": "thresholds: {reschedules: 1}\n"})
    job(rig, HOME)
    ended(rig)
    for _ in range(2):
        rig.clock.seconds += 901
        say(rig, "us")
        say(rig, "us")
    (task,) = tasks(rig)
    assert [one.outcome for one in task.attempts] == [Outcome.START_TIMEOUT, Outcome.START_TIMEOUT]
    assert task.phase is Phase.FAILED
    assert "release" not in rig.page()
    rig.clock.seconds += 601
    say(rig, "us")
    say(rig, "us", of_task(rig, succeeded))
    assert result(rig) is not None


NOT_ON_ITS_WAY = {
    "us is cordoned": stored("us") + "cordoned: true\n",
    "there is no region us": None,
}


@pytest.mark.parametrize(("why", "file"), NOT_ON_ITS_WAY.items(), ids=NOT_ON_ITS_WAY)
def test_what_waits_for_a_person_is_not_said_to_be_on_its_way(rig: Rig, why: str, file: str | None) -> None:
    job(rig, HOME)
    rig.put({"regions/us.yaml": file})
    rig.settle()
    ended(rig)
    rig.settle()
    said = rig.record().why
    assert said is not None
    assert said.text == f"it is done; what it wrote in eu could not be returned to us yet: {why}"
    rig.put({"regions/us.yaml": stored("us")})
    say(rig, "us")
    rig.clock.seconds += 5
    say(rig, "us", of_task(rig, succeeded))
    assert result(rig) is not None
    assert rig.record().why == because(Why.SUCCEEDED)


def test_a_worker_that_begins_anew_asks_the_store_that_the_program_wrote_to(rig: Rig) -> None:
    """Asked elsewhere it may find nothing, which a result may be, and call that all of it."""
    job(rig, HOME)
    ended(rig)
    (task,) = tasks(rig)
    rig.put({"regions/eu.yaml": None})
    rig.settle()
    for _ in range(1 + task.spec.retries):
        say(rig, "us", of_task(rig, failed))
    rig.clock.seconds += 601
    say(rig, "us")
    (again,) = tasks(rig)
    assert again.current is not None
    assert (again.current.number, again.spec.env, again.spec.secrets) == (5, task.spec.env, task.spec.secrets)


def test_no_worker_is_sent_to_a_store_that_nobody_declares_any_more(rig: Rig) -> None:
    job(rig, HOME)
    name = rig.attempt().name
    rig.put({"regions/eu.yaml": None})
    rig.settle()
    say(rig, "eu", succeeded(name))
    assert rig.attempt().state is State.SUCCEEDED
    assert tasks(rig) == []
    said = rig.record().why
    assert said is not None
    assert said.text.endswith("could not be returned to us yet: there is no region eu")
    rig.put({"regions/eu.yaml": stored("eu").replace("object_store:", "#")})
    rig.settle()
    assert tasks(rig) == []
    rig.put({"regions/eu.yaml": stored("eu")})
    rig.settle()
    say(rig, "us", of_task(rig, succeeded))
    assert result(rig) is not None


def test_what_waits_for_a_link_that_is_no_more_does_not_wait_for_its_turn(rig: Rig) -> None:
    job(rig, HOME)
    rig.put({"links.yaml": "links: []\n"})
    rig.settle()
    ended(rig)
    (task,) = tasks(rig)
    assert task.why == because(Why.LINK_CLOSED, source="eu", target="us")
    rig.put({"links.yaml": LINKS})
    rig.settle()
    say(rig, "us", of_task(rig, succeeded))
    assert result(rig) is not None
