"""What is known of a job's images, and what follows for its placement."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from reconciler.model.attempt import State
from reconciler.model.policy import Policy
from reconciler.model.record import JobRecord
from reconciler.planning.decisions import Decision, Impossible, Place, Wait
from reconciler.planning.image_facts import ImageFacts
from reconciler.planning.images import HOLD_SECONDS, image_seconds
from reconciler.planning.kept import kept_image, pinned_image, with_inputs
from reconciler.planning.plan import plan
from reconciler.planning.snapshot import JobView, RegionView
from tests.builders import IMAGE, NOW, make_attempt, make_job, make_record, make_region, make_snapshot, make_spec

ONE, OTHER = f"sha256:{'1' * 64}", f"sha256:{'2' * 64}"
GB = 10**9
FOUND = ImageFacts(digest=ONE, size_bytes=10 * GB)
MISSING = ImageFacts(missing="reg.example.com:5000 has no team/train with 1.4")
FORBIDDEN = ImageFacts(forbidden="reg.example.com:5000 does not give it (403)")
UNKNOWN = ImageFacts()


def asked_since(seconds: float) -> ImageFacts:
    return ImageFacts(wanted_since=NOW - timedelta(seconds=seconds))


def decided(
    images: Mapping[str, ImageFacts] | None, *regions: RegionView, asks: bool = True, policy: Policy | None = None, **fields: Any
) -> Decision:
    there = regions or (make_region("eu", a100=8),)
    snapshot = make_snapshot(*there, jobs=[make_job(**fields)], policy=policy)
    seconds = image_seconds(images, {view.region.name: view.region for view in there})
    (decision,) = plan(replace(snapshot, images=images, asks_images=asks, image_seconds=seconds), NOW)
    return decision


def outcome(decision: Decision) -> str:
    return f"in {decision.chosen.region}" if isinstance(decision, Place) else f"{type(decision).__name__} {decision.reason.code}"


AT_MIRROR = make_region("eu", a100=8, registry_mirror="mirror.eu:5000")
WITH_SECRETS = make_region("us", a100=8, profile={"image_pull_secrets": ["pull"]})
PLAIN = make_region("asia", a100=8)

ANSWERS: dict[str, tuple[Mapping[str, ImageFacts] | None, tuple[RegionView, ...], str]] = {
    "nobody asks registries": (None, (), "in eu"),
    "it is there": ({IMAGE: FOUND}, (), "in eu"),
    "its registry does not answer": ({IMAGE: UNKNOWN}, (), "in eu"),
    "it was never asked for": ({}, (), "Wait ImageUnasked"),
    "it was asked for a moment ago": ({IMAGE: asked_since(3)}, (), "Wait ImageUnasked"),
    "the answer takes too long": ({IMAGE: asked_since(HOLD_SECONDS)}, (), "in eu"),
    "there is none": ({IMAGE: MISSING}, (AT_MIRROR, WITH_SECRETS, PLAIN), "Impossible ImageMissing"),
    "it is not for us, and nobody else asks": ({IMAGE: FORBIDDEN}, (PLAIN,), "Impossible ImageForbidden"),
    "a mirror may have a login of its own": ({IMAGE: FORBIDDEN}, (PLAIN, AT_MIRROR), "in eu"),
    "a region may have a login of its own": ({IMAGE: FORBIDDEN}, (PLAIN, WITH_SECRETS), "in us"),
}


@pytest.mark.parametrize(("images", "regions", "expected"), ANSWERS.values(), ids=ANSWERS)
def test_what_a_registry_said(images: Mapping[str, ImageFacts] | None, regions: tuple[RegionView, ...], expected: str) -> None:
    assert outcome(decided(images, *regions)) == expected


def test_a_missing_image_is_told_in_the_registry_s_words() -> None:
    decision = decided({IMAGE: MISSING})
    assert isinstance(decision, Impossible)
    assert decision.reason.text == f"there is no image {IMAGE}: {MISSING.missing}"


def test_where_nobody_asks_no_job_waits_for_an_answer() -> None:
    assert outcome(decided({}, asks=False)) == "in eu"


def test_what_no_region_can_run_is_told_before_its_image_is_looked_up() -> None:
    assert outcome(decided({}, gpus=64)).startswith("Impossible N")


def test_the_image_of_its_step_before_counts_too() -> None:
    prepare = {"command": ["true"], "image": "reg.example.com/prepare:1"}
    assert outcome(decided({IMAGE: FOUND}, prepare=prepare)) == "Wait ImageUnasked"
    both = {IMAGE: FOUND, "reg.example.com/prepare:1": MISSING}
    assert outcome(decided(both, prepare=prepare)) == "Impossible ImageMissing"


def test_jobs_alike_but_for_their_images_are_answered_each() -> None:
    jobs = [make_job("a"), make_job("b", image="reg.example.com/none:1")]
    snapshot = make_snapshot(make_region("eu", a100=16), jobs=jobs)
    images = {IMAGE: FOUND, "reg.example.com/none:1": MISSING}
    found = plan(replace(snapshot, images=images, asks_images=True), NOW)
    assert [outcome(one) for one in found] == ["in eu", "Impossible ImageMissing"]


# ---- how long it takes --------------------------------------------------------------------------------------------

SECONDS: dict[str, tuple[ImageFacts, float | None, float]] = {
    "all of it at the mirror's rate": (FOUND, 1.0, 80.0),
    "what the mirror lacks": (replace(FOUND, there={"eu": 9 * GB}), 1.0, 8.0),
    "nothing of what it has": (replace(FOUND, there={"eu": 10 * GB}), 1.0, 0.0),
    "another region's mirror is another": (replace(FOUND, there={"us": 9 * GB}), 1.0, 80.0),
    "no rate is known": (FOUND, None, 0.0),
    "no size is known": (replace(FOUND, size_bytes=None), 1.0, 0.0),
}


@pytest.mark.parametrize(("facts", "gbit", "seconds"), SECONDS.values(), ids=SECONDS)
def test_the_start_counts_what_fetching_takes(facts: ImageFacts, gbit: float | None, seconds: float) -> None:
    region = make_region("eu", a100=8, registry_mirror="mirror.eu", registry_mirror_gbit_per_second=gbit)
    decision = decided({IMAGE: facts}, region)
    assert isinstance(decision, Place)
    assert decision.chosen.start_at == NOW + timedelta(seconds=seconds)


def test_locality_counts_where_the_policy_says_so() -> None:
    facts = {IMAGE: replace(FOUND, there={"eu": 0, "us": 5 * GB})}
    regions = make_region("eu", a100=8, registry_mirror="a"), make_region("us", a100=8, registry_mirror="b")
    decision = decided(facts, *regions)
    assert isinstance(decision, Place)
    assert decision.chosen.region == "eu"
    assert "image locality" not in [name for name, _, _ in decision.chosen.terms]
    weighed = decided(facts, *regions, policy=Policy.model_validate({"weights": {"image_locality": 0.5}}))
    assert isinstance(weighed, Place)
    assert weighed.chosen.region == "us"
    assert ("image locality", 0.5, 0.5) in weighed.chosen.terms


def test_a_share_that_nobody_knows_scores_nothing() -> None:
    weighed = decided({IMAGE: FOUND}, policy=Policy.model_validate({"weights": {"image_locality": 0.5}}))
    assert isinstance(weighed, Place)
    assert ("image locality", 0.0, 0.5) in weighed.chosen.terms


# ---- which content ------------------------------------------------------------------------------------------------


def a_record(*images: str | None, granted: bool = True, **fields: Any) -> JobRecord:
    spec = make_spec(**fields)
    attempts = [
        make_attempt(number, State.FAILED, spec=spec, granted_at=NOW if granted else None, image=image)
        for number, image in enumerate(images, 1)
    ]
    return make_record(*attempts, spec=spec)


PINNED = f"{IMAGE}@{ONE}"

PINS: dict[str, tuple[JobRecord, Mapping[str, ImageFacts] | None, str | None]] = {
    "the first attempt has what was found": (a_record(), {IMAGE: FOUND}, PINNED),
    "what nobody found is as the spec says": (a_record(), {IMAGE: UNKNOWN}, None),
    "nobody asks": (a_record(), None, None),
    "a later one keeps it though the tag has moved": (a_record(PINNED), {IMAGE: replace(FOUND, digest=OTHER)}, PINNED),
    "and though nobody asks any more": (a_record(PINNED), None, PINNED),
    "one that never ran settles nothing": (
        a_record(PINNED, granted=False),
        {IMAGE: replace(FOUND, digest=OTHER)},
        f"{IMAGE}@{OTHER}",
    ),
    "the newest that ran counts": (a_record(f"{IMAGE}@{OTHER}", PINNED), None, PINNED),
    "another tag is another image": (
        a_record(PINNED, image="reg.example.com:5000/team/train:1.5"),
        {"reg.example.com:5000/team/train:1.5": replace(FOUND, digest=OTHER)},
        f"reg.example.com:5000/team/train:1.5@{OTHER}",
    ),
    "a short name is kept in full": (
        a_record(f"docker.io/library/train@{ONE}", image="train"),
        {"train": replace(FOUND, digest=OTHER)},
        f"docker.io/library/train@{ONE}",
    ),
    "a digest of the spec's own is a person's word": (
        a_record(f"reg.example.com/a@{OTHER}", image=f"reg.example.com/a@{ONE}"),
        None,
        None,
    ),
}


@pytest.mark.parametrize(("record", "images", "expected"), PINS.values(), ids=PINS)
def test_the_image_of_the_next_attempt(record: JobRecord, images: Mapping[str, ImageFacts] | None, expected: str | None) -> None:
    assert pinned_image(record, images) == expected
    attempt = with_inputs(make_attempt(9, spec=record.spec), record, {}, images)
    assert attempt.image == expected


def test_what_is_kept_is_what_is_asked_for() -> None:
    job = replace(make_job(), kept_image=kept_image(a_record(PINNED)))
    assert isinstance(job, JobView)
    snapshot = make_snapshot(make_region("eu", a100=8), jobs=[job])
    (waits,) = plan(replace(snapshot, images={IMAGE: FOUND}, asks_images=True), NOW)
    (goes,) = plan(replace(snapshot, images={PINNED: FOUND, IMAGE: MISSING}, asks_images=True), NOW)
    assert (outcome(waits), outcome(goes)) == ("Wait ImageUnasked", "in eu")
    assert isinstance(waits, Wait)
