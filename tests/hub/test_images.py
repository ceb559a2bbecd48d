"""Images from a job's file to its manifest: looked up beside the cycle, found missing before placement, pinned for a whole run."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.adapters.registry import RegistryClient
from reconciler.hub.image_loop import AGAIN_SECONDS, MISSING_AGAIN_SECONDS, ImageLoop
from reconciler.hub.loop import HubLoop
from reconciler.hub.results import Ended
from reconciler.model.record import Phase
from reconciler.ports import Refused
from reconciler.registry_port import Registry
from tests.builders import TEAM
from tests.hub.rig import Rig, two_regions
from tests.hub.words import SETTINGS, failed, region_file
from tests.registry_http import Reply, SmallRegistry, small_registry
from tests.waiting import until

ON = SETTINGS + "images: {resolve: true}\n"
WITH_MIRRORS = SETTINGS + "images: {resolve: true, mirrors: true}\n"


@pytest.fixture
def registry() -> Iterator[SmallRegistry]:
    with small_registry() as up:
        yield up


class Looks:
    """A hub at rest, and its loop for images, turned by hand."""

    def __init__(self, folder: Path, settings: str = ON) -> None:
        self.rig = two_regions(folder)
        self.rig.put({"reconciler.yaml": settings})
        self.rig.settle()
        self.loop = ImageLoop(self.rig.hub.board.images, self._open, self.rig.clock)
        self.refuses = ""

    def _open(self) -> Registry:
        if self.refuses:
            raise Refused(self.refuses)
        return RegistryClient({})

    def look(self) -> None:
        """The loop asks until nothing is due, and the hub decides."""
        for _ in range(20):
            if self.loop.turn() > 0:
                break
        self.rig.settle()

    def both(self) -> None:
        """The hub decides, the loop asks, the hub decides."""
        self.rig.settle()
        self.look()

    def why(self, job_id: str = "llm-a") -> str:
        why = self.rig.record(job_id).why
        return why.code if why is not None else ""

    def troubles(self) -> dict[str, str]:
        """Those that have stood for long enough to be told."""
        self.rig.clock.seconds += 11
        for name in ("eu", "us"):
            self.rig.tell_again(name)
        self.rig.settle()
        return {one.subject: one.code for one in self.rig.hub_file().troubles}


@pytest.fixture
def looks(tmp_path: Path) -> Looks:
    return Looks(tmp_path)


def image_in_manifest(rig: Rig, region: str = "eu", job_id: str = "llm-a") -> str:
    text = rig.text(f"region/{region}", f"manifests/{TEAM}/{rig.attempt(job_id).name}.yaml") or ""
    return next(line.split("image:")[1].strip().strip("'\"") for line in text.splitlines() if " image:" in line)


def test_a_tag_is_looked_up_before_the_job_is_placed_and_runs_as_its_digest(looks: Looks, registry: SmallRegistry) -> None:
    digest = registry.push("team/train", "1.4")
    image = f"{registry.host}/team/train:1.4"
    looks.rig.job(image=image)
    looks.rig.cycle(Ended.PUBLISHED)
    assert (looks.why(), looks.rig.granted("eu")) == ("ImageUnasked", [])
    looks.both()
    attempt = looks.rig.attempt()
    assert attempt.image == f"{image}@{digest}"
    assert image_in_manifest(looks.rig) == f"{registry.host}/team/train@{digest}"
    assert looks.rig.granted("eu") == [attempt.name]


def test_what_is_pinned_goes_through_the_mirror_of_its_region(looks: Looks, registry: SmallRegistry) -> None:
    digest = registry.push("team/train", "1")
    looks.rig.put({"regions/eu.yaml": region_file("eu", 1.0, "registry_mirror: mirror.eu:5000\n")})
    looks.rig.job(image=f"{registry.host}/team/train:1")
    looks.both()
    assert image_in_manifest(looks.rig) == f"mirror.eu:5000/team/train@{digest}"


def test_a_missing_image_is_found_before_placement_and_placed_once_it_is_pushed(looks: Looks, registry: SmallRegistry) -> None:
    looks.rig.job(image=f"{registry.host}/team/train:typo")
    looks.both()
    assert (looks.rig.record().phase, looks.why()) == (Phase.IMPOSSIBLE, "ImageMissing")
    assert f"{registry.host} has no team/train with typo" in looks.rig.page()
    digest = registry.push("team/train", "typo")
    looks.look()
    assert looks.why() == "ImageMissing"
    looks.rig.clock.seconds += MISSING_AGAIN_SECONDS
    for name in ("eu", "us"):
        looks.rig.tell_again(name)
    looks.look()
    assert looks.rig.attempt().image == f"{registry.host}/team/train:typo@{digest}"


def test_a_registry_that_is_down_holds_up_nothing_and_is_told(looks: Looks, registry: SmallRegistry) -> None:
    registry.stop()
    image = f"{registry.host}/team/train:1"
    looks.rig.job(image=image)
    looks.both()
    assert (looks.rig.attempt().image, image_in_manifest(looks.rig)) == (None, image)
    looks.rig.job("waits", image=image, gpus=8, nodes=4, allowed_regions=["eu"])  # which keeps the image wanted
    looks.both()
    assert looks.troubles().get(registry.host) == "ImagesUnresolved"


def test_one_silence_is_enough_for_all_images_of_a_registry(looks: Looks, registry: SmallRegistry) -> None:
    registry.instead["GET", "/v2/team/a/manifests/1"] = registry.instead["GET", "/v2/team/b/manifests/1"] = Reply(503)
    looks.rig.job("a", gpus=1, image=f"{registry.host}/team/a:1")
    looks.rig.job("b", gpus=1, image=f"{registry.host}/team/b:1")
    looks.both()
    assert [looks.rig.attempt(name).image for name in ("a", "b")] == [None, None]
    assert registry.count("/manifests/") == 1


def test_what_was_missing_stays_so_while_its_registry_is_down(looks: Looks, registry: SmallRegistry) -> None:
    looks.rig.job(image=f"{registry.host}/team/train:typo")
    looks.both()
    registry.stop()
    for _ in range(3):
        looks.rig.clock.seconds += MISSING_AGAIN_SECONDS
        for name in ("eu", "us"):
            looks.rig.tell_again(name)
        looks.look()
        assert looks.why() == "ImageMissing"
    registry.start()
    registry.push("team/train", "typo")
    looks.rig.clock.seconds += AGAIN_SECONDS
    for name in ("eu", "us"):
        looks.rig.tell_again(name)
    looks.look()
    assert looks.rig.granted("eu") == [looks.rig.attempt().name]


def test_an_answer_that_does_not_come_is_waited_for_only_so_long(looks: Looks, registry: SmallRegistry) -> None:
    looks.rig.job(image=f"{registry.host}/team/train:1")
    looks.rig.settle()
    assert looks.why() == "ImageUnasked"
    looks.rig.clock.seconds += 31
    looks.rig.tell_again("eu")
    looks.rig.settle()
    assert looks.rig.attempt().image is None


def test_the_attempts_of_a_run_have_one_content_whatever_becomes_of_the_tag(looks: Looks, registry: SmallRegistry) -> None:
    first = registry.push("team/train", "1")
    image = f"{registry.host}/team/train:1"
    looks.rig.job(image=image, retries=1)
    looks.both()
    looks.rig.tell_running("eu")
    looks.rig.settle()
    moved = registry.push("team/train", "1", (7,))
    looks.rig.tell("eu", failed(looks.rig.attempt().name))
    looks.both()
    again = looks.rig.attempt()
    assert (again.number, again.image) == (2, f"{image}@{first}")
    looks.rig.tell("eu", failed(again.name))
    looks.rig.settle()
    looks.rig.job(image=image, retries=1, rerun=1)
    looks.both()
    anew = looks.rig.attempt()
    assert (anew.number, anew.image) == (3, f"{image}@{moved}")


def test_what_only_a_login_could_tell_stops_nothing_and_is_told(looks: Looks, registry: SmallRegistry) -> None:
    registry.logins = {"puller": "word"}
    image = f"{registry.host}/team/secret:1"
    looks.rig.job("waits", image=image, nodes=4, allowed_regions=["us"])
    looks.rig.job(image=image)
    looks.both()
    assert looks.rig.attempt().image is None
    assert looks.troubles().get(registry.host) == "RegistryLoginMissing"


def test_logins_that_cannot_be_used_are_told_and_hold_up_nothing(looks: Looks, registry: SmallRegistry) -> None:
    looks.refuses = "config.json cannot be read; mend it"
    registry.push("team/train", "1")
    looks.rig.job(image=f"{registry.host}/team/train:1")
    looks.both()
    assert looks.rig.attempt().image is None
    assert registry.asked == []


def test_off_means_that_nobody_is_asked_and_nobody_waits(tmp_path: Path, registry: SmallRegistry) -> None:
    looks = Looks(tmp_path, SETTINGS)
    registry.push("team/train", "1")
    looks.rig.job(image=f"{registry.host}/team/train:1")
    looks.rig.cycle(Ended.PUBLISHED)
    assert looks.rig.granted("eu") == [looks.rig.attempt().name]
    looks.look()
    assert registry.asked == []


def test_what_a_mirror_has_is_asked_where_the_settings_say_so(tmp_path: Path, registry: SmallRegistry) -> None:
    looks = Looks(tmp_path, WITH_MIRRORS)
    with small_registry() as mirror:
        registry.push("team/train", "1", (100, 300))
        mirror.push("team/train", "1", (100,))
        looks.rig.put({"regions/eu.yaml": region_file("eu", 1.0, f"registry_mirror: {mirror.host}\n")})
        looks.rig.put({"policy.yaml": "weights: {image_locality: 1}\n"})
        looks.rig.job(image=f"{registry.host}/team/train:1")
        looks.both()
        terms: list[dict[str, Any]] = looks.rig.placement()["decision"]["chosen"]["terms"]
        assert {"name": "image locality", "value": round(102 / 402, 4), "weight": 1.0} in terms
        assert {one.method for one in mirror.asked} == {"HEAD"}


def test_an_idle_hub_asks_no_registry(looks: Looks, registry: SmallRegistry) -> None:
    registry.push("team/train", "1")
    looks.rig.job(image=f"{registry.host}/team/train:1")
    looks.both()
    before = len(registry.asked)
    looks.rig.clock.seconds += 2 * AGAIN_SECONDS
    for name in ("eu", "us"):
        looks.rig.tell_again(name)
    looks.both()
    assert len(registry.asked) == before


def test_it_runs_beside_the_hub_and_wakes_it(looks: Looks, registry: SmallRegistry) -> None:
    registry.push("team/train", "1")
    hub = HubLoop(looks.rig.hub, looks.rig.clock, lambda: None, [looks.loop])
    looks.rig.hub.board.images.on_heard = hub.wakeups.wake
    looks.loop.start()
    try:
        looks.rig.job(image=f"{registry.host}/team/train:1")
        hub.wakeups.wait(0)
        hub.turn()
        assert looks.why() == "ImageUnasked"
        until(lambda: looks.rig.hub.board.images.heard)
        hub.wakeups.wait(10)
        hub.turn()
        assert looks.rig.attempt().image is not None
    finally:
        looks.loop.stop()
