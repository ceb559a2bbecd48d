"""Data that must come to a region before a job may run there: one task for all who want it, and no GPU is held for it."""

from pathlib import Path
from typing import Any

import pytest

from reconciler.model.attempt import Outcome, State
from reconciler.model.names import STAGING_TEAM
from reconciler.model.reasons import Why, because
from reconciler.model.record import JobRecord, Phase
from reconciler.model.report import WorkloadReport
from reconciler.planning.image_facts import ImageFacts
from tests.builders import IMAGE, TEAM, TEAMS
from tests.hub.rig import Rig
from tests.hub.words import FILES, SETTINGS, failed, region_file, running, stopped, succeeded

SPACES = [*TEAMS, STAGING_TEAM]
STORE = "object_store: {url: 's3://bucket-%s', endpoint: 'https://s3.%s.example.com', secret: store-%s}\n"
CORPUS = "name: corpus\nuri: s3://bucket-ap/datasets/corpus/\nversion: '7'\nsize_gb: 100\nreplicas: [{region: ap}]\n"
LINKS = (
    "links: [{source: ap, target: eu, gbit_per_second: 10, usd_per_gb: 0.01}, {source: ap, target: us, gbit_per_second: 10}]\n"
)
THERE = "s3://bucket-eu/staged/corpus@7/"


def stored(name: str, usd: float) -> str:
    return region_file(name, usd, STORE % (name, name, name))


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    """eu and us have GPUs, ap has none but holds the dataset."""
    files = {
        **FILES,
        "regions/eu.yaml": stored("eu", 1.0),
        "regions/us.yaml": stored("us", 20.0),
        "regions/ap.yaml": "name: ap\n" + STORE % ("ap", "ap", "ap"),
        "datasets/corpus.yaml": CORPUS,
        "links.yaml": LINKS,
    }
    made = Rig(tmp_path, files=files)
    for region in ("eu", "us"):
        made.tell(region, namespaces=SPACES)
    made.tell("ap", nodes=[], namespaces=SPACES)
    made.settle()
    return made


def job(rig: Rig, job_id: str = "llm-a", **fields: Any) -> None:
    rig.job(job_id, dataset={"name": "corpus", "mount_path": "/data"}, **fields)
    rig.settle()


def tasks(rig: Rig) -> list[JobRecord]:
    return [record for record in rig.records().values() if record.stage is not None]


def say(rig: Rig, *works: WorkloadReport, region: str = "eu") -> None:
    rig.tell(region, *works, namespaces=SPACES)
    rig.settle()


def task_work(work: WorkloadReport) -> WorkloadReport:
    return work.model_copy(update={"namespace": STAGING_TEAM})


def done(rig: Rig, region: str = "eu") -> None:
    """The worker has ended well."""
    (task,) = [one for one in tasks(rig) if one.stage is not None and one.stage.region == region]
    assert task.current is not None
    say(rig, task_work(succeeded(task.current.name)), region=region)


def test_the_data_comes_first_and_then_the_job_may_run(rig: Rig) -> None:
    job(rig)
    (task,) = tasks(rig)
    assert task.stage is not None
    assert task.current is not None
    assert (task.stage.subject, task.stage.source_region, task.stage.target_uri) == ("corpus@7", "ap", THERE)
    assert (rig.attempt().state, rig.attempt().stages) == (State.STAGING, (task.job_id,))
    assert rig.record().why is not None
    assert rig.record().why.text == "corpus@7 is being brought to eu first; its GPUs are held when that is there"  # type: ignore[union-attr]
    assert rig.granted("eu") == [task.current.name], "the task may run, the job may not yet"
    assert sorted(rig.manifests("eu")) == sorted([task.current.name, rig.attempt().name])
    done(rig)
    assert rig.record(task.job_id, STAGING_TEAM).phase is Phase.SUCCEEDED
    assert (rig.attempt().state, rig.attempt().dataset_uris) == (State.GRANTED, (THERE,))
    assert rig.granted("eu") == [rig.attempt().name]


def test_the_worker_knows_both_stores_and_their_secrets(rig: Rig) -> None:
    job(rig)
    (task,) = tasks(rig)
    assert task.spec.command[:5] == ("reconciler", "stage", "dataset", "s3://bucket-ap/datasets/corpus/", THERE)
    assert task.spec.env == {
        "SOURCE_AWS_ENDPOINT_URL_S3": "https://s3.ap.example.com",
        "TARGET_AWS_ENDPOINT_URL_S3": "https://s3.eu.example.com",
    }
    assert {(one.name, one.key, one.env) for one in task.spec.secrets} == {
        ("store-ap", "AWS_ACCESS_KEY_ID", "SOURCE_AWS_ACCESS_KEY_ID"),
        ("store-ap", "AWS_SECRET_ACCESS_KEY", "SOURCE_AWS_SECRET_ACCESS_KEY"),
        ("store-eu", "AWS_ACCESS_KEY_ID", "TARGET_AWS_ACCESS_KEY_ID"),
        ("store-eu", "AWS_SECRET_ACCESS_KEY", "TARGET_AWS_SECRET_ACCESS_KEY"),
    }
    assert task.current is not None
    text = rig.text("region/eu", f"manifests/{STAGING_TEAM}/{task.current.name}.yaml") or ""
    assert "kind: Job" in text
    assert "nvidia.com/gpu" not in text
    assert "downwardAPI" in text


def test_one_task_for_all_jobs_that_want_it(rig: Rig) -> None:
    job(rig, "llm-a")
    job(rig, "llm-b", priority="critical", allowed_regions=["eu"])
    (task,) = tasks(rig)
    assert rig.attempt("llm-a").stages == rig.attempt("llm-b").stages == (task.job_id,)
    assert task.spec.priority_value == 90, "as urgent as the most urgent job that waits for it"
    done(rig)
    assert len(rig.granted("eu")) == 2
    assert len(tasks(rig)) == 1


def test_a_job_that_comes_later_finds_the_copy(rig: Rig) -> None:
    job(rig, "llm-a")
    done(rig)
    job(rig, "llm-b", allowed_regions=["eu"])
    assert (rig.attempt("llm-b").state, rig.attempt("llm-b").dataset_uris) == (State.GRANTED, (THERE,))
    assert len(tasks(rig)) == 1


def test_a_task_that_nobody_waits_for_is_ended(rig: Rig) -> None:
    job(rig)
    (task,) = tasks(rig)
    assert task.current is not None
    say(rig, task_work(running(task.current.name)))
    rig.remove("llm-a")
    rig.settle()
    assert rig.granted("eu") == []
    say(rig, task_work(stopped(task.current.name)))
    ended = rig.record(task.job_id, STAGING_TEAM)
    assert (ended.phase, ended.why) == (Phase.CANCELLED, because(Why.NOT_WANTED)), "it has no file that was removed"
    job(rig, "llm-c")
    again = rig.record(task.job_id, STAGING_TEAM).current
    assert again is not None
    assert again.number == 2, "taken up again for who comes later"


def test_one_of_two_that_wait_may_go(rig: Rig) -> None:
    job(rig, "llm-a")
    job(rig, "llm-b", allowed_regions=["eu"])
    rig.remove("llm-a")
    rig.settle()
    (task,) = tasks(rig)
    assert task.current is not None
    assert rig.granted("eu") == [task.current.name]


def test_data_that_cannot_be_brought_lets_the_job_go_elsewhere(rig: Rig) -> None:
    job(rig)
    (task,) = tasks(rig)
    for _ in range(1 + task.spec.retries):
        current = rig.record(task.job_id, STAGING_TEAM).current
        assert current is not None
        say(rig, task_work(failed(current.name, log_tail="bringing\nthere is nothing below s3://x/\n\n")))
    first, second = rig.record().attempts
    assert (first.state, first.outcome, first.region) == (State.STOPPED, Outcome.DISRUPTED, "eu")
    assert first.reason is not None
    assert first.reason.text.startswith("corpus@7 could not be brought to eu: ")
    assert first.reason.text.endswith("; the last said: there is nothing below s3://x/")
    assert (second.region, second.state) == ("us", State.STAGING)


@pytest.mark.parametrize("cordoned", [True, False], ids=["the region is cordoned", "its namespace for workers is gone"])
def test_nobody_waits_where_no_worker_is_let_in_any_more(rig: Rig, *, cordoned: bool) -> None:
    job(rig)
    (task,) = tasks(rig)
    assert task.current is not None
    if cordoned:
        rig.put({"regions/eu.yaml": stored("eu", 1.0) + "cordoned: true\n"})
    spaces = SPACES if cordoned else TEAMS
    rig.tell("eu", task_work(running(task.current.name)), namespaces=spaces)
    rig.settle()
    assert rig.attempt().state is State.STAGING, "the worker goes on"
    rig.tell("eu", task_work(failed(task.current.name)), namespaces=spaces)
    rig.settle()
    first, second = rig.record().attempts
    assert (first.state, first.outcome, first.region, second.region) == (State.STOPPED, Outcome.DISRUPTED, "eu", "us")
    assert first.reason is not None
    assert first.reason.text.endswith("eu is cordoned" if cordoned else "eu has no namespace gpu-staging")


def test_nobody_is_sent_to_wait_for_what_no_worker_can_bring(rig: Rig) -> None:
    rig.put({"reconciler.yaml": SETTINGS + "images: {resolve: true}\n"})
    missing = ImageFacts(missing="reg.example.com has no stage with 1")
    rig.hub.board.images.say({IMAGE: ImageFacts(), "reg.example.com/stage:1": missing}, ())
    job(rig, allowed_regions=["eu"])
    assert [(one.state, one.outcome) for one in rig.record().attempts] == [(State.STOPPED, Outcome.DISRUPTED)]
    assert rig.record().waits["eu"].code == "StagingFailed"
    assert tasks(rig)[0].phase is Phase.IMPOSSIBLE
    rig.hub.board.images.say({IMAGE: ImageFacts(), "reg.example.com/stage:1": ImageFacts()}, ())
    say(rig)
    assert tasks(rig)[0].phase is not Phase.IMPOSSIBLE, "a worker that nobody waits for any more may stop again"
    say(rig)
    assert rig.attempt().state is State.STAGING
    done(rig)
    assert rig.granted("eu") == [rig.attempt().name]


def test_a_worker_that_dies_is_followed_by_another(rig: Rig) -> None:
    job(rig)
    (task,) = tasks(rig)
    assert task.current is not None
    say(rig, task_work(failed(task.current.name)))
    again = rig.record(task.job_id, STAGING_TEAM)
    assert again.current is not None
    assert again.current.number == 2
    assert rig.granted("eu") == [again.current.name]
    assert rig.attempt().state is State.STAGING, "the job still waits for it"


def test_without_a_namespace_for_workers_the_pod_fetches_itself(rig: Rig) -> None:
    rig.tell("eu")
    rig.settle()
    job(rig)
    assert tasks(rig) == []
    assert (rig.attempt().state, rig.attempt().dataset_uris) == (State.GRANTED, ("s3://bucket-ap/datasets/corpus/",))


def test_approval_comes_before_anything_is_brought(rig: Rig) -> None:
    rig.put({"policy.yaml": "approval: {always: true}\n"})
    job(rig)
    assert tasks(rig) == []
    assert rig.record().phase is Phase.PROPOSED
    rig.merge_proposal()
    rig.settle()
    (task,) = tasks(rig)
    assert task.current is not None, "nobody is asked about the task itself"
    assert (rig.attempt().state, rig.attempt().region) == (State.STAGING, "eu")
    done(rig)
    assert rig.attempt().state is State.GRANTED


def test_a_hub_that_starts_anew_goes_on_with_it(rig: Rig) -> None:
    job(rig)
    rig.restart()
    rig.settle()
    (task,) = tasks(rig)
    assert rig.attempt().state is State.STAGING
    done(rig)
    assert rig.granted("eu") == [rig.attempt().name]
    assert rig.record(task.job_id, STAGING_TEAM).attempts[-1].number == 1


def test_nobody_may_call_a_team_like_the_hubs_own(rig: Rig) -> None:
    rig.job("sneaky", team=STAGING_TEAM)
    rig.settle()
    assert [one["code"] for one in rig.rejected()] == ["BadName"]
    assert tasks(rig) == []
    assert rig.records() == {}


def test_progress_is_told_in_steps(rig: Rig) -> None:
    job(rig)
    (task,) = tasks(rig)
    assert task.current is not None
    seen = []
    for done_bytes in (0, 4, 9, 15, 55, 100):
        progress = {"objects_done": 1, "objects_total": 10, "bytes_done": done_bytes, "bytes_total": 100}
        say(rig, task_work(running(task.current.name, progress=progress)))
        current = rig.record(task.job_id, STAGING_TEAM).current
        assert current is not None
        assert current.progress is not None
        seen.append(current.progress.bytes_done)
    assert seen == [0, 0, 0, 15, 55, 100]


def limit(rig: Rig, size: str) -> None:
    rig.put({"regions/eu.yaml": stored("eu", 1.0) + f"staged_limit: {size}\n"})
    rig.settle()


def finish(rig: Rig, job_id: str) -> None:
    say(rig, succeeded(rig.attempt(job_id).name))


def test_a_copy_that_is_too_much_goes_once_nobody_reads_it(rig: Rig) -> None:
    job(rig, allowed_regions=["eu"])
    done(rig)
    limit(rig, "50G")
    (task,) = tasks(rig)
    assert task.phase is Phase.SUCCEEDED, "it is in use"
    finish(rig, "llm-a")
    (task,) = tasks(rig)
    assert task.current is not None
    assert task.spec.command == ("reconciler", "stage", "evict", THERE)
    assert rig.granted("eu") == [task.current.name]
    say(rig, task_work(succeeded(task.current.name)))
    (task,) = tasks(rig)
    assert task.phase is Phase.SUCCEEDED
    assert rig.granted("eu") == [], "it is gone, and stays so"


def test_what_was_removed_is_brought_again(rig: Rig) -> None:
    job(rig, allowed_regions=["eu"])
    done(rig)
    limit(rig, "50G")
    finish(rig, "llm-a")
    job(rig, "llm-b", allowed_regions=["eu"])
    removing = tasks(rig)[0].current
    assert removing is not None
    assert rig.attempt("llm-b").state is State.STAGING, "what is being removed is not read"
    say(rig, task_work(succeeded(removing.name)))
    (task,) = tasks(rig)
    assert task.current is not None
    assert task.spec.command[2] == "dataset"
    done(rig)
    assert rig.granted("eu") == [rig.attempt("llm-b").name]


def test_below_the_limit_nothing_goes(rig: Rig) -> None:
    job(rig, allowed_regions=["eu"])
    done(rig)
    limit(rig, "100G")
    finish(rig, "llm-a")
    assert rig.granted("eu") == []


GBIT = 125_000_000
USABLE = int(10 * GBIT * 0.5 * 0.8)
"""Of a link of 10 Gbit/s that is only declared: half of it is believed, four fifths of that may be held."""


def other_dataset(rig: Rig, name: str, gb: int) -> None:
    text = f"name: {name}\nuri: s3://bucket-ap/datasets/{name}/\nversion: '1'\nsize_gb: {gb}\nreplicas: [{{region: ap}}]\n"
    rig.put({f"datasets/{name}.yaml": text})


def paces(rig: Rig) -> dict[str, int | None]:
    """Subject → what its task may use now; None for one that has not begun."""
    found = {}
    for task in tasks(rig):
        assert task.stage is not None
        found[task.stage.subject] = task.current.bytes_per_second if task.current is not None else None
    return found


def test_a_task_holds_bandwidth_and_its_region_is_told_so(rig: Rig) -> None:
    job(rig)
    (grant,) = rig.grants("eu").attempts
    assert grant.bytes_per_second == USABLE
    assert paces(rig) == {"corpus@7": USABLE}


def test_two_over_one_link_never_hold_more_than_may_be_used(rig: Rig) -> None:
    other_dataset(rig, "small", 20)
    job(rig, "llm-a", allowed_regions=["eu"])
    rig.job("llm-b", dataset={"name": "small", "mount_path": "/data"}, allowed_regions=["eu"])
    rig.settle()
    rates = [rate or 0 for rate in paces(rig).values()]
    assert len(rates) == 2
    assert sum(rates) <= USABLE
    assert max(rates) > 0.9 * USABLE, "one after the other, not both at half the speed"


def test_bandwidth_is_free_again_once_a_task_is_over(rig: Rig) -> None:
    other_dataset(rig, "small", 20)
    job(rig, "llm-a", allowed_regions=["eu"])
    rig.job("llm-b", dataset={"name": "small", "mount_path": "/data"}, allowed_regions=["eu"])
    rig.settle()
    works = [task_work(running(task.current.name)) for task in tasks(rig) if task.current is not None]
    say(rig, *works)
    first = max(tasks(rig), key=lambda task: (task.current.bytes_per_second or 0) if task.current is not None else 0)
    assert first.current is not None
    say(rig, task_work(succeeded(first.current.name)), *(one for one in works if one.attempt != first.current.name))
    left = [task.current.bytes_per_second for task in tasks(rig) if task.current is not None]
    assert left == [USABLE]
    granted = [grant.bytes_per_second for grant in rig.grants("eu").attempts if grant.team == STAGING_TEAM]
    assert granted == [USABLE], "and the region is told so"


def test_what_is_being_stopped_counts_until_it_has(rig: Rig) -> None:
    job(rig, "llm-a", allowed_regions=["eu"])
    rig.remove("llm-a")
    rig.settle()
    job(rig, "llm-b", allowed_regions=["eu"])
    assert sum(rate or 0 for rate in paces(rig).values()) <= USABLE


def fail(rig: Rig, job_id: str) -> None:
    """All that the task may try ends badly."""
    while (current := rig.record(job_id, STAGING_TEAM).current) is not None:
        say(rig, task_work(failed(current.name, log_tail="the bucket does not let us in")))


def test_what_could_not_be_brought_is_not_tried_again_at_once(rig: Rig) -> None:
    job(rig, allowed_regions=["eu"])
    (task,) = tasks(rig)
    fail(rig, task.job_id)
    assert [one.state for one in rig.record().attempts] == [State.STOPPED]
    assert rig.record().phase is Phase.PENDING
    assert rig.record().waits["eu"].text.startswith("corpus@7 could not be brought to eu: 4 attempts failed")
    rig.clock.seconds += 590
    rig.tell_again("eu")
    rig.settle()
    assert rig.granted("eu") == []
    rig.clock.seconds += 20
    rig.tell_again("eu")
    rig.settle()
    again = rig.record(task.job_id, STAGING_TEAM).current
    assert again is not None
    assert again.number == 5
    done(rig)
    assert rig.granted("eu") == [rig.attempt().name]


def full(rig: Rig) -> None:
    """All of eu is taken, for an hour."""
    rig.jobs("busy-a", "busy-b", allowed_regions=["eu"], expected_runtime_seconds=3600)
    rig.settle()
    rig.tell_running("eu", namespaces=SPACES)
    rig.settle()


def test_what_several_will_want_is_brought_before_a_gpu_is_free(rig: Rig) -> None:
    full(rig)
    job(rig, "llm-a", allowed_regions=["eu"])
    assert tasks(rig) == [], "one alone waits"
    job(rig, "llm-b", allowed_regions=["eu"])
    (task,) = tasks(rig)
    assert task.stage is not None
    assert task.stage.ahead_for == (f"{TEAM}/llm-a", f"{TEAM}/llm-b")
    assert task.current is not None
    assert task.current.name in rig.granted("eu")


def test_what_nobody_will_want_any_more_is_ended(rig: Rig) -> None:
    full(rig)
    job(rig, "llm-a", allowed_regions=["eu"])
    job(rig, "llm-b", allowed_regions=["eu"])
    rig.remove("llm-a", "llm-b")
    rig.settle()
    (task,) = tasks(rig)
    assert task.current is not None
    assert task.current.name not in rig.granted("eu")
