"""Large images that a region's mirror is to have before a job's GPUs are held there."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.model.attempt import Outcome, State
from reconciler.model.names import STAGING_TEAM
from reconciler.model.record import JobRecord, Phase
from reconciler.model.report import WorkloadReport
from reconciler.planning.image_facts import ImageFacts
from reconciler.planning.mirroring import BELIEVED
from reconciler.planning.staging import AGAIN
from reconciler.rendering.records import task_row
from tests.builders import IMAGE, TEAMS
from tests.hub.rig import Rig
from tests.hub.words import FILES, SETTINGS, failed, region_file, running, stopped, succeeded

SPACES = [*TEAMS, STAGING_TEAM]
DIGEST = f"sha256:{'1' * 64}"
SUBJECT = f"reg.example.com:5000/team/train@{DIGEST}"
SHORT = "image reg.example.com:5000/team/train@sha256:111111111111"
LARGE = ImageFacts(digest=DIGEST, size_bytes=5 * 10**9)


class Mirrors(Rig):
    """Two regions with mirrors, at rest, and what is known of images."""

    def __init__(self, folder: Path) -> None:
        mirrors = {f"regions/{name}.yaml": mirrored(name, usd) for name, usd in (("eu", 1.0), ("us", 20.0))}
        super().__init__(folder, files={**FILES, **mirrors, "reconciler.yaml": SETTINGS + "images: {resolve: true}\n"})
        for region in ("eu", "us"):
            self.tell(region, namespaces=SPACES)
        self.settle()
        self.know(LARGE)

    def know(self, facts: ImageFacts) -> None:
        self.hub.board.images.say({IMAGE: facts, "reg.example.com/stage:1": ImageFacts()}, ())

    def want(self, *job_ids: str, **fields: Any) -> None:
        self.jobs(*(job_ids or ("llm-a",)), **fields)
        self.settle()

    def tasks(self, region: str = "eu") -> list[JobRecord]:
        return [one for one in self.records().values() if one.stage is not None and one.stage.region == region]

    def task(self, region: str = "eu") -> JobRecord:
        (found,) = self.tasks(region)
        return found

    def say(self, *works: WorkloadReport, region: str = "eu") -> None:
        self.tell(region, *works, namespaces=SPACES)
        self.settle()

    def end_task(self, how: Any = succeeded, region: str = "eu") -> None:
        current = self.task(region).current
        assert current is not None
        self.say(how(current.name).model_copy(update={"namespace": STAGING_TEAM}), region=region)

    def fail_task(self, region: str = "eu") -> None:
        """All that the task may try ends badly."""
        while self.task(region).current is not None:
            self.end_task(failed, region)

    def finish(self, job_id: str = "llm-a") -> None:
        self.say(succeeded(self.attempt(job_id).name))

    def pass_by(self, seconds: float) -> None:
        self.clock.seconds += seconds
        for region in ("eu", "us"):
            self.tell_again(region)
        self.settle()


def mirrored(name: str, usd: float) -> str:
    return region_file(name, usd, f"registry_mirror: mirror.{name}:5000\n")


@pytest.fixture
def rig(tmp_path: Path) -> Mirrors:
    return Mirrors(tmp_path)


def test_the_image_comes_first_and_then_the_job_may_run(rig: Mirrors) -> None:
    rig.want()
    task = rig.task()
    assert task.stage is not None
    assert task.current is not None
    assert (task.stage.kind, task.stage.subject, task.stage.source_region) == ("image", SUBJECT, "")
    assert (rig.attempt().state, rig.attempt().stages) == (State.STAGING, (task.job_id,))
    why = rig.record().why
    assert why is not None
    assert why.text == f"{SHORT} is being brought to eu first; its GPUs are held when that is there"
    assert rig.granted("eu") == [task.current.name]
    rig.end_task()
    assert rig.granted("eu") == [rig.attempt().name]
    assert rig.attempt().image == f"{IMAGE}@{DIGEST}"


def test_the_worker_asks_the_mirror_and_holds_no_link(rig: Mirrors) -> None:
    rig.want()
    task = rig.task()
    assert task.spec.command == ("reconciler", "stage", "image", SUBJECT, "--mirror", "mirror.eu:5000")
    assert (task.spec.env, task.spec.secrets, task.spec.allowed_regions) == ({}, (), ("eu",))
    (grant,) = rig.grants("eu").attempts
    assert grant.bytes_per_second is None
    assert task.current is not None
    text = rig.text("region/eu", f"manifests/{STAGING_TEAM}/{task.current.name}.yaml") or ""
    assert "kind: Job" in text


OPENS = """profile:
  pod:
    containers:
      - env:
          - {name: RECONCILER_REGISTRY_PLAIN_HTTP, value: "mirror.eu:5000"}
          - {name: RECONCILER_REGISTRY_HOST, value: "mirror.eu:5000"}
          - {name: RECONCILER_REGISTRY_USER, value: puller}
          - name: RECONCILER_REGISTRY_PASSWORD
            valueFrom: {secretKeyRef: {name: mirror-login, key: password, optional: true}}
"""
"""As docs/images.md says it."""


def test_what_opens_the_mirror_comes_from_the_region(rig: Mirrors) -> None:
    rig.put({"regions/eu.yaml": mirrored("eu", 1.0) + OPENS})
    rig.want()
    current = rig.task().current
    assert current is not None
    (job,) = yaml.safe_load_all(rig.text("region/eu", f"manifests/{STAGING_TEAM}/{current.name}.yaml") or "")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    said = {one["name"]: one.get("value", one.get("valueFrom")) for one in container["env"]}
    assert said["RECONCILER_REGISTRY_PLAIN_HTTP"] == "mirror.eu:5000"
    assert said["RECONCILER_REGISTRY_PASSWORD"] == {"secretKeyRef": {"name": "mirror-login", "key": "password", "optional": True}}


def test_it_is_shown_as_an_image_under_way(rig: Mirrors) -> None:
    rig.want()
    assert task_row(rig.task())[:4] == (SHORT, "eu", "reg.example.com:5000", "Starting")
    assert f"| {SHORT} | eu | reg.example.com:5000 | Starting |" in rig.page()


def test_one_task_for_all_jobs_that_want_it(rig: Mirrors) -> None:
    rig.want("llm-a", "llm-b", allowed_regions=["eu"])
    assert rig.attempt("llm-a").stages == rig.attempt("llm-b").stages == (rig.task().job_id,)
    rig.end_task()
    assert len(rig.granted("eu")) == 2


NONE: dict[str, ImageFacts] = {
    "it is small": ImageFacts(digest=DIGEST, size_bytes=10**9 - 1),
    "nobody knows what its name stands for": ImageFacts(),
    "nobody knows how large it is": ImageFacts(digest=DIGEST),
    "the mirror is known to have it": ImageFacts(digest=DIGEST, size_bytes=5 * 10**9, there={"eu": 5 * 10**9, "us": 0}),
}


@pytest.mark.parametrize("facts", NONE.values(), ids=NONE)
def test_nothing_is_waited_for_where(rig: Mirrors, facts: ImageFacts) -> None:
    rig.know(facts)
    rig.want()
    assert rig.tasks() == []
    assert rig.granted("eu") == [rig.attempt().name]


def test_how_large_is_for_the_policy_to_say(rig: Mirrors) -> None:
    rig.put({"policy.yaml": "thresholds: {stage_images_from: 6G}\n"})
    rig.want()
    assert rig.tasks() == []


def test_nobody_waits_where_registries_are_not_asked(rig: Mirrors) -> None:
    rig.put({"reconciler.yaml": SETTINGS})
    rig.want()
    assert rig.tasks() == []
    assert rig.granted("eu") == [rig.attempt().name]


def test_a_region_without_a_mirror_has_nothing_fetched(rig: Mirrors) -> None:
    rig.put({"regions/eu.yaml": region_file("eu", 1.0)})
    rig.want()
    assert rig.tasks() == []
    assert rig.granted("eu") == [rig.attempt().name]


def test_nor_has_one_without_a_place_for_workers(rig: Mirrors) -> None:
    rig.tell("eu")
    rig.want()
    assert rig.tasks() == []
    assert rig.granted("eu") == [rig.attempt().name]


def test_what_was_fetched_lately_is_believed(rig: Mirrors) -> None:
    rig.want()
    rig.end_task()
    rig.finish()
    rig.pass_by(BELIEVED.total_seconds() - 1)
    rig.want("llm-b")
    assert rig.granted("eu") == [rig.attempt("llm-b").name]
    assert len(rig.task().attempts) == 1


def test_what_was_fetched_long_ago_is_fetched_again(rig: Mirrors) -> None:
    rig.want()
    rig.end_task()
    rig.finish()
    rig.pass_by(BELIEVED.total_seconds())
    rig.want("llm-b", "llm-c", allowed_regions=["eu"])
    task = rig.task()
    assert task.current is not None
    assert (task.current.number, rig.attempt("llm-b").state) == (2, State.STAGING)
    assert rig.granted("eu") == [task.current.name]
    rig.end_task()
    assert sorted(rig.granted("eu")) == sorted([rig.attempt("llm-b").name, rig.attempt("llm-c").name])


def test_another_mirror_has_to_fetch_it_too(rig: Mirrors) -> None:
    rig.want()
    rig.end_task()
    rig.finish()
    rig.put({"regions/eu.yaml": region_file("eu", 1.0, "registry_mirror: other.eu:5000\n")})
    rig.want("llm-b")
    assert rig.attempt("llm-b").state is State.STAGING
    assert rig.task().spec.command[-1] == "other.eu:5000"


def test_a_worker_that_dies_is_followed_by_another(rig: Mirrors) -> None:
    rig.want()
    rig.end_task(failed)
    current = rig.task().current
    assert current is not None
    assert current.number == 2
    assert rig.granted("eu") == [current.name]
    assert rig.attempt().state is State.STAGING


def test_an_image_that_does_not_come_lets_the_job_go_elsewhere(rig: Mirrors) -> None:
    rig.want()
    rig.fail_task()
    first, second = rig.record().attempts
    assert (first.state, first.outcome, first.region) == (State.STOPPED, Outcome.DISRUPTED, "eu")
    assert first.reason is not None
    assert first.reason.text.startswith(f"{SHORT} could not be brought to eu: 4 attempts failed")
    assert (second.region, second.state) == ("us", State.STAGING)
    assert len(rig.tasks("us")) == 1


def test_where_there_is_no_other_region_it_starts_without(rig: Mirrors) -> None:
    rig.want(allowed_regions=["eu"])
    rig.fail_task()
    assert [one.state for one in rig.record().attempts] == [State.STOPPED, State.GRANTED]
    assert rig.attempt().stages == ()
    assert rig.granted("eu") == [rig.attempt().name]


def test_nor_does_it_wait_for_ever_where_no_worker_can_run(rig: Mirrors) -> None:
    nowhere = ImageFacts(missing="reg.example.com has no stage with 1")
    rig.hub.board.images.say({IMAGE: LARGE, "reg.example.com/stage:1": nowhere}, ())
    rig.want(allowed_regions=["eu"])
    rig.settle()
    assert [one.state for one in rig.record().attempts] == [State.STOPPED, State.GRANTED]
    assert rig.granted("eu") == [rig.attempt().name]


def test_nor_where_the_namespace_for_workers_is_gone(rig: Mirrors) -> None:
    rig.want(allowed_regions=["eu"])
    current = rig.task().current
    assert current is not None
    rig.tell("eu", failed(current.name).model_copy(update={"namespace": STAGING_TEAM}))
    rig.settle()
    assert [one.state for one in rig.record().attempts] == [State.STOPPED, State.GRANTED]
    assert rig.granted("eu") == [rig.attempt().name]


def test_the_region_is_not_asked_for_it_again_at_once(rig: Mirrors) -> None:
    rig.want(allowed_regions=["eu"])
    rig.fail_task()
    rig.finish()
    rig.pass_by(AGAIN.total_seconds() - 10)
    rig.want("llm-b", allowed_regions=["eu"])
    assert rig.attempt("llm-b").state is State.GRANTED
    rig.finish("llm-b")
    rig.pass_by(10)
    rig.want("llm-c", allowed_regions=["eu"])
    current = rig.task().current
    assert current is not None
    assert (current.number, rig.attempt("llm-c").state) == (5, State.STAGING)
    rig.end_task()
    assert rig.granted("eu") == [rig.attempt("llm-c").name]


def test_a_task_that_nobody_waits_for_is_ended_and_taken_up_again(rig: Mirrors) -> None:
    rig.want()
    rig.end_task(running)
    rig.remove("llm-a")
    rig.settle()
    assert rig.granted("eu") == []
    rig.end_task(stopped)
    assert rig.task().phase is Phase.CANCELLED
    rig.want("llm-b")
    current = rig.task().current
    assert current is not None
    assert current.number == 2


def test_an_image_is_no_copy_that_takes_room(rig: Mirrors) -> None:
    more = "registry_mirror: mirror.eu:5000\nobject_store: {url: 's3://bucket-eu'}\nstaged_limit: '1'\n"
    rig.put({"regions/eu.yaml": region_file("eu", 1.0, more)})
    rig.want()
    rig.end_task()
    rig.finish()
    assert rig.granted("eu") == []
    task = rig.task()
    assert task.stage is not None
    assert (task.stage.kind, task.phase) == ("image", Phase.SUCCEEDED)


def test_the_hub_s_own_jobs_wait_for_no_image(rig: Mirrors) -> None:
    rig.hub.board.images.say({IMAGE: LARGE, "reg.example.com/stage:1": LARGE}, ())
    rig.want()
    assert len(rig.tasks()) == 1
    assert len(rig.granted("eu")) == 1


def test_data_and_image_are_both_waited_for(rig: Mirrors) -> None:
    store = "registry_mirror: mirror.eu:5000\nobject_store: {url: 's3://bucket-eu'}\n"
    rig.put(
        {
            "regions/eu.yaml": region_file("eu", 1.0, store),
            "regions/ap.yaml": "name: ap\nobject_store: {url: 's3://bucket-ap'}\n",
            "datasets/corpus.yaml": "name: corpus\nuri: s3://bucket-ap/c/\nversion: '7'\nsize_gb: 9\nreplicas: [{region: ap}]\n",
            "links.yaml": "links: [{source: ap, target: eu, gbit_per_second: 10, usd_per_gb: 0}]\n",
        }
    )
    rig.want(dataset={"name": "corpus", "mount_path": "/data"}, allowed_regions=["eu"])
    assert len(rig.attempt().stages) == 2
    why = rig.record().why
    assert why is not None
    assert why.text.startswith(f"corpus@7 and {SHORT} is being brought to eu first")
    ends = [task.current.name for task in rig.tasks() if task.current is not None]
    works = [succeeded(name).model_copy(update={"namespace": STAGING_TEAM}) for name in ends]
    rig.say(works[0])
    assert rig.attempt().state is State.STAGING
    rig.say(*works)
    assert rig.granted("eu") == [rig.attempt().name]
