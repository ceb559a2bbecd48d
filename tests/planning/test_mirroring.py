"""When a job waits until a region's mirror has its image, and what such a task is not."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from reconciler.model.attempt import Attempt, Outcome, State
from reconciler.model.names import STAGING_TEAM, attempt_name
from reconciler.model.reasons import Why, because
from reconciler.model.record import JobRecord, Phase
from reconciler.model.stage import StageTask
from reconciler.planning.accuracy import rated
from reconciler.planning.copies import copies_of
from reconciler.planning.evicting import to_evict
from reconciler.planning.image_facts import ImageFacts
from reconciler.planning.mirroring import BELIEVED, image_task, once_more
from reconciler.planning.stage_names import key_of
from reconciler.planning.stage_specs import spec_of
from reconciler.planning.staging import (
    AGAIN,
    estimate_of,
    intent_of,
    readiness,
    spent_ahead,
    turned,
    unbrought,
)
from tests.builders import IMAGE, NOW, TEAMS, make_attempt, make_record, make_region, make_snapshot, make_spec
from tests.planning.test_staging import record_of, task_of, waits

ONE, OTHER = f"sha256:{'1' * 64}", f"sha256:{'2' * 64}"
SUBJECT = f"reg.example.com:5000/team/train@{ONE}"
GB = 10**9
FOUND = ImageFacts(digest=ONE, size_bytes=5 * GB)
SPACES = (*TEAMS, STAGING_TEAM)


def asked(
    record: JobRecord | None = None,
    images: Mapping[str, ImageFacts] | None = None,
    tasks: Mapping[Any, JobRecord] | None = None,
    now: datetime = NOW,
    **region: Any,
) -> StageTask | None:
    view = make_region("eu", a100=8, **{"registry_mirror": "mirror.eu:5000", "namespaces": SPACES, **region})
    snapshot = make_snapshot(view, images={IMAGE: FOUND} if images is None else images)
    return image_task(record or make_record(), view, snapshot, tasks or {}, now)


def of_image(subject: str = SUBJECT, region: str = "eu", mirror: str = "mirror.eu:5000") -> StageTask:
    addresses = {"source_uri": f"docker://{subject}", "target_uri": f"docker://{mirror}"}
    return StageTask(kind="image", subject=subject, region=region, size_bytes=5 * GB, **addresses)


def ended(state: State = State.SUCCEEDED) -> Attempt:
    return make_attempt(state=state).model_copy(update={"ended_at": NOW})


def test_the_task_names_the_content_the_registry_and_the_mirror() -> None:
    assert asked() == of_image()


def test_the_later_attempts_of_a_run_wait_for_what_they_keep() -> None:
    kept = f"{IMAGE}@{OTHER}"
    ran = make_attempt(state=State.FAILED).model_copy(update={"image": kept, "granted_at": NOW})
    task = asked(make_record(ran), {IMAGE: FOUND, kept: ImageFacts(digest=OTHER, size_bytes=5 * GB)})
    assert task is not None
    assert task.subject.endswith(OTHER)


def test_a_proposal_waits_for_what_was_proposed() -> None:
    proposed = make_attempt(state=State.PROPOSED).model_copy(update={"image": f"{IMAGE}@{ONE}"})
    assert asked(make_record(proposed)) == of_image()
    assert asked(make_record(proposed), {IMAGE: ImageFacts(digest=OTHER, size_bytes=5 * GB)}) is None, (
        "of its content nobody knows"
    )
    assert asked(make_record(make_attempt(state=State.PROPOSED))) is None, "its pods pull by the tag"


def test_an_image_that_is_named_by_its_digest_is_looked_up_for_its_size() -> None:
    assert asked(make_record(spec=make_spec(image=SUBJECT)), {SUBJECT: FOUND}) == of_image()


def test_what_the_mirror_lacks_counts() -> None:
    assert asked(images={IMAGE: ImageFacts(digest=ONE, size_bytes=5 * GB, there={"eu": 4 * GB})}) is not None
    assert asked(images={IMAGE: ImageFacts(digest=ONE, size_bytes=5 * GB, there={"eu": 4 * GB + 1})}) is None
    assert asked(images={IMAGE: ImageFacts(digest=ONE, size_bytes=5 * GB, there={"us": 5 * GB})}) is not None


NOT: dict[str, dict[str, Any]] = {
    "nothing is known of it": {"images": {}},
    "it has no mirror": {"registry_mirror": None},
    "its mirror is none": {"registry_mirror": "http://mirror.eu, or so"},
    "there is no place for workers": {"namespaces": TEAMS},
    "it was never heard of": {"age": None},
    "it is one of the hub's own jobs": {"record": record_of(task_of(), Phase.PENDING)},
}


@pytest.mark.parametrize("case", NOT.values(), ids=NOT)
def test_nothing_is_waited_for_where(case: dict[str, Any]) -> None:
    assert asked(**case) is None


BEFORE: dict[str, tuple[JobRecord, timedelta, bool]] = {
    "it is on its way": (record_of(of_image(), Phase.RUNNING), timedelta(), True),
    "it was fetched lately": (
        record_of(of_image(), Phase.SUCCEEDED, attempts=(ended(),)),
        BELIEVED - timedelta(seconds=1),
        False,
    ),
    "it was fetched long ago": (record_of(of_image(), Phase.SUCCEEDED, attempts=(ended(),)), BELIEVED, True),
    "another mirror has it": (
        record_of(of_image(mirror="old.eu:5000"), Phase.SUCCEEDED, attempts=(ended(),)),
        timedelta(),
        True,
    ),
    "it failed a short while ago": (record_of(of_image(), Phase.FAILED, attempts=(ended(State.FAILED),)), timedelta(), False),
    "it failed long ago": (record_of(of_image(), Phase.FAILED, attempts=(ended(State.FAILED),)), AGAIN, True),
    "no worker can ever run there": (record_of(of_image(), Phase.IMPOSSIBLE), timedelta(), False),
    "nobody waited for it any more": (
        record_of(of_image(), Phase.CANCELLED, attempts=(ended(State.STOPPED),)),
        timedelta(),
        True,
    ),
}


@pytest.mark.parametrize(("before", "later", "waits"), BEFORE.values(), ids=BEFORE)
def test_what_became_of_the_task_before(before: JobRecord, later: timedelta, waits: bool) -> None:
    assert (asked(tasks={before.key: before}, now=NOW + later) is not None) == waits


def test_a_run_that_has_waited_in_vain_waits_there_no_more() -> None:
    reason = because(Why.STAGING_FAILED, what=of_image().what, region="eu", message="its worker failed")
    let_go = ended(State.STOPPED).model_copy(update={"reason": reason, "outcome": Outcome.DISRUPTED})
    assert asked(make_record(let_go)) is None
    of_data = because(Why.STAGING_FAILED, what="corpus@7", region="eu", message="its worker failed")
    assert asked(make_record(let_go.model_copy(update={"reason": of_data}))) is not None, "it was not the image that did not come"
    assert asked(make_record(let_go.model_copy(update={"region": "us"}))) is not None
    assert asked(make_record(let_go).model_copy(update={"first_attempt": 2})) is not None, "another run may wait"


def test_once_more_is_a_run_of_its_own() -> None:
    before = record_of(of_image(), Phase.SUCCEEDED, attempts=(ended(),))
    later = NOW + BELIEVED
    after = once_more(before, of_image(mirror="new.eu:5000"), later)
    assert (after.phase, after.this_run, after.rerun, after.submitted_at) == (Phase.PENDING, (), 1, later)
    waiting = waits("a", of_image())
    assert waiting.current is not None
    assert readiness(waiting.current, {after.key: after}) == "waiting", "what was there before says nothing"


@pytest.mark.parametrize("name", ["train", "a_b.c--d", "9__x", "x" * 60])
def test_its_name_fits_into_an_attempts(name: str) -> None:
    task = of_image(f"reg.example.com/team/{name}@{ONE}")
    assert len(attempt_name(key_of(task).job_id, "0" * 64, 12345)) <= 52
    assert spec_of(task, {}, 50, "reg.example.com/stage:1").job_id == key_of(task).job_id


def test_a_task_is_known_by_its_content_and_its_region() -> None:
    tasks = [
        of_image(),
        of_image(region="us"),
        of_image(SUBJECT.replace("1" * 64, "2" * 64)),
        of_image(f"other.example.com/a@{ONE}"),
    ]
    assert len({key_of(task) for task in tasks}) == 4
    assert key_of(of_image()) == key_of(of_image(mirror="new.eu:5000"))


def test_people_read_the_first_digits() -> None:
    record = record_of(of_image(), Phase.PENDING)
    assert record.spec.description == "Has the mirror of eu fetch image reg.example.com:5000/team/train@sha256:111111111111."


def test_it_is_no_copy_of_a_dataset() -> None:
    there = record_of(of_image(), Phase.SUCCEEDED, attempts=(ended(),))
    assert copies_of([there]) == {}
    assert to_evict([there], {}, {"eu": 0}) == frozenset()
    assert turned(there, waited_for=False, evict=True) is there
    assert estimate_of(record_of(of_image(), Phase.PENDING)) is None
    assert spent_ahead([record_of(of_image(), Phase.PENDING)], NOW) == (0, 0.0)
    assert list(rated([there])) == []


def test_what_did_not_come_is_told_by_its_short_name() -> None:
    (reason,) = unbrought([record_of(of_image(), Phase.FAILED, attempts=(ended(State.FAILED),))], NOW).values()
    assert (
        reason.text == "image reg.example.com:5000/team/train@sha256:111111111111 could not be brought to eu: its worker failed"
    )


def test_nobody_waits_any_more_and_it_ends() -> None:
    assert intent_of(record_of(of_image(), Phase.RUNNING), None, {}).wanted is None
    assert intent_of(record_of(of_image(), Phase.SUCCEEDED), None, {}).wanted is not None, "one that is done stays so"


WRONG: dict[str, dict[str, str]] = {
    "a dataset from nowhere": {"kind": "dataset", "source_uri": "s3://a/b/", "target_uri": "s3://c/d/"},
    "an image from a region": {"kind": "image", "source_region": "ap", "source_uri": "docker://a", "target_uri": "docker://b"},
    "an image in a store": {"kind": "image", "source_uri": "docker://a", "target_uri": "s3://c/d/"},
    "a dataset in a mirror": {"kind": "dataset", "source_region": "ap", "source_uri": "s3://a/b/", "target_uri": "docker://b"},
}


@pytest.mark.parametrize("said", WRONG.values(), ids=WRONG)
def test_a_task_is_of_one_kind(said: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        StageTask.model_validate({"subject": "x@1", "region": "eu", **said})


def test_tasks_of_older_ledgers_are_read() -> None:
    before = {"subject": "corpus@7", "region": "eu", "source_region": "ap", "source_uri": "s3://a/", "target_uri": "s3://b/"}
    task = StageTask.model_validate(before)
    assert (task.kind, task.what, task.source) == ("dataset", "corpus@7", "ap")
