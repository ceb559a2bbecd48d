"""Warming a mirror: what is read, what is tried again, what is told on the way."""

from collections.abc import Iterator

import pytest

from reconciler.adapters.registry import RegistryClient
from reconciler.agent.stage.image import AGAIN_SECONDS, Line, warm
from reconciler.model.image_ref import parse_image
from reconciler.model.progress import Progress
from reconciler.ports import Refused, Transient
from tests.registry_http import INDEX, Reply, SmallRegistry, digest_of, small_registry

REPOSITORY = "team/train"
BLOBS = f"/v2/{REPOSITORY}/blobs/"


class Watched:
    """The line of a transfer: its clock, its pauses, what it was told. `at_pause` is called at each."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.pauses: list[float] = []
        self.told: list[Progress] = []
        self.at_pause = lambda: None
        self.line = Line(self._took, self.told.append, lambda: self.seconds, self._pause)

    def _took(self, size: int) -> None:
        self.seconds += size / 100_000

    def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.seconds += seconds
        self.at_pause()


@pytest.fixture
def registry() -> Iterator[SmallRegistry]:
    with small_registry() as up:
        yield up


def warmed(registry: SmallRegistry, watched: Watched, rest: str = f"{REPOSITORY}:1") -> tuple[int, int, bool | None]:
    found = warm(RegistryClient({}), parse_image(f"{registry.host}/{rest}"), watched.line)
    return found.read_blobs, found.read_size, found.kept


def layer(number: int, size: int) -> str:
    return digest_of(bytes([number]) * size)


def test_every_part_is_read_and_progress_is_told_in_between(registry: SmallRegistry) -> None:
    registry.push(REPOSITORY, "1", (700_000, 900_000))
    watched = Watched()
    assert warmed(registry, watched)[:2] == (3, 1_600_002)
    first, *between, last = watched.told
    assert (first.bytes_done, first.bytes_total, first.objects_total) == (0, 1_600_002, 3)
    assert (last.bytes_done, last.bytes_sent, last.objects_done) == (1_600_002, 1_600_002, 3)
    assert len(between) >= 2
    assert [one.bytes_done for one in watched.told] == sorted(one.bytes_done for one in watched.told)
    assert all(90_000 < one.bytes_per_second < 110_000 for one in between)


def test_a_mirror_that_does_not_say_what_it_keeps_is_asked_a_few_times_only(registry: SmallRegistry) -> None:
    registry.push(REPOSITORY, "1", (100, 100_000))
    watched = Watched()
    assert warmed(registry, watched)[2] is None
    assert sum(watched.pauses) < 15


def test_what_the_mirror_shows_to_have_is_not_read(registry: SmallRegistry) -> None:
    registry.push(REPOSITORY, "1", (100, 300))
    has = layer(2, 300)
    body = registry.blobs[has]
    registry.instead["GET", BLOBS + has] = Reply(200, {"ETag": f'"{has}"', "Cache-Control": "max-age=31536000"}, body)
    watched = Watched()
    assert warmed(registry, watched)[:2] == (2, 102)
    assert watched.told[-1].bytes_done == 402
    assert watched.told[-1].bytes_sent == 102


def test_what_breaks_off_is_tried_again_and_nothing_else_is(registry: SmallRegistry) -> None:
    registry.push(REPOSITORY, "1", (100, 300_000))
    broken = BLOBS + layer(2, 300_000)
    registry.instead["GET", broken] = Reply(200, {}, registry.blobs[layer(2, 300_000)], cut=100_000)
    watched = Watched()
    watched.at_pause = lambda: registry.instead.pop(("GET", broken), None)
    assert warmed(registry, watched)[:2] == (3, 300_102)
    assert watched.pauses[0] == AGAIN_SECONDS[0]
    assert watched.told[-1].bytes_done == 300_102
    assert watched.told[-1].bytes_sent > 300_102


def test_what_breaks_off_again_and_again_is_given_up(registry: SmallRegistry) -> None:
    registry.push(REPOSITORY, "1", (100,))
    registry.instead["GET", BLOBS + layer(1, 100)] = Reply(503)
    watched = Watched()
    with pytest.raises(Transient, match="503"):
        warmed(registry, watched)
    assert tuple(watched.pauses) == AGAIN_SECONDS


REFUSED = {
    "no such image": (f"{REPOSITORY}:none", "has no team/train with none; check"),
    "not for this platform": (f"{REPOSITORY}:arm", "is not there for linux/amd64; it is for linux/arm64"),
}


@pytest.mark.parametrize(("rest", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_warmed_is_told(registry: SmallRegistry, rest: str, words: str) -> None:
    entry = {"digest": registry.push(REPOSITORY, "inner"), "size": 1, "platform": {"os": "linux", "architecture": "arm64"}}
    registry.put(REPOSITORY, "arm", {"schemaVersion": 2, "manifests": [entry]}, INDEX)
    with pytest.raises(Refused, match=words):
        warmed(registry, Watched(), rest)
