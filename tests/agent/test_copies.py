"""A region's state twice: a cluster that was restored from a backup has the original's record, and its agent the same region."""

from collections.abc import Sequence

import pytest

from reconciler.ports import Conflict, Refused, Stored, Transient
from tests.agent.objects import TEAM
from tests.agent.region import Region, job_of, started
from tests.agent.stores import FailingStore

A1, A2 = "train-a1", "other-a1"


class Line(FailingStore):
    """A region's own way to the store that it shares with others; `down` cuts this one alone."""

    def __init__(self, store: FailingStore) -> None:
        super().__init__()
        self.shared = store

    def get(self, key: str) -> Stored | None:
        self._answer()
        return self.shared.get(key)

    def etag(self, key: str) -> str | None:
        self._answer()
        return self.shared.etag(key)

    def put(self, key: str, body: bytes, *, expect: str | None) -> str:
        self._answer()
        return self.shared.put(key, body, expect=expect)


def line_of(region: Region) -> Line:
    assert isinstance(region.store, Line)
    return region.store


def copied(original: Region, record: bytes) -> Region:
    """Another cluster with that record and the branch of the original, and an agent of its own."""
    copy = Region(Line(line_of(original).shared))
    copy.clock.seconds = original.clock.seconds
    copy.agents = 100
    copy.restart()
    copy.version = original.version
    copy.cluster.write_record(record, expect=None)
    copy.render(*(job_of(name) for _, name in original.branch.manifests))
    return copy


def living(seconds: float, *regions: Region) -> None:
    """Let time pass in all of them, the first one first."""
    until = max(region.clock.seconds for region in regions) + seconds
    while regions[0].clock.seconds < until:
        for region in regions:
            region.agent.step()
            region.settle()
            region.pass_time(1.0)


def released(regions: Sequence[Region], attempt: str) -> list[bool]:
    return [attempt in region.runtime.started for region in regions]


def original_and_record() -> tuple[Region, bytes]:
    """A region that has renewed its lease some times since its record was copied."""
    original = started(region=Region(Line(FailingStore())))
    stored = original.cluster.read_record()
    assert stored is not None
    original.advance(100)
    return original, stored.body


def test_a_copy_beside_the_original_starts_nothing_and_takes_nothing_from_it() -> None:
    original, record = original_and_record()
    copy = copied(original, record)
    living(10, copy, original)
    for region in (original, copy):
        region.render(job_of(A2))
    original.grant(A1, A2)
    living(400, copy, original)
    assert released((original, copy), A2) == [True, False]
    assert (original.phases(A1), original.phases(A2)) == (["Running"], ["Running"])
    assert original.lease().incarnation == "incarnation-1"


def test_both_say_that_the_region_is_taken() -> None:
    original, record = original_and_record()
    copy = copied(original, record)
    living(60, copy, original)
    for region in (original, copy):
        codes = {code for code, _ in region.agent.memory.troubles}
        assert "RegionTaken" in codes


def test_what_runs_in_a_copy_is_stopped_as_soon_as_the_original_is_seen_to_live() -> None:
    """A copy to the last byte: the uids are the original's, and Kubernetes runs there what ran."""
    original, _ = original_and_record()
    copy = started(region=Region(Line(FailingStore())))
    assert copy.record().agents == original.record().agents
    copy.store, copy.agents = Line(line_of(original).shared), 100
    copy.clock.seconds = original.clock.seconds
    copy.restart()
    copy.agent.step()
    assert copy.phases(A1) == ["Running"]
    living(45, original, copy)
    assert (original.phases(A1), copy.phases(A1)) == (["Running"], [])
    assert original.lease().incarnation == "incarnation-1"


def test_what_is_not_in_a_copy_is_not_said_to_have_ended() -> None:
    original, record = original_and_record()
    copy = copied(original, record)
    copy.agent.step()
    assert copy.lease().incarnation == "incarnation-101"
    living(5, copy)
    assert copy.report().grants_version == 0
    living(120, original, copy)
    copy.agent.step()
    assert copy.agent.memory.acted is None


def test_restarts_of_the_copy_change_nothing() -> None:
    original, record = original_and_record()
    copy = copied(original, record)
    for region in (original, copy):
        region.render(job_of(A2))
    original.grant(A1, A2)
    for _ in range(8):
        copy.restart()
        living(37, copy, original)
    assert released((original, copy), A2) == [True, False]
    assert original.phases(A1) == ["Running"]


def test_a_restored_cluster_whose_original_is_gone_goes_on_after_two_renewals() -> None:
    original, record = original_and_record()
    copy = copied(original, record)
    copy.render(job_of(A2))
    copy.grant(A1, A2)
    living(30, copy)
    assert released((copy,), A2) == [False]
    living(15, copy)
    assert released((copy,), A2) == [True]


def test_an_original_that_was_cut_off_meanwhile_stands_back_and_starts_nothing() -> None:
    original, record = original_and_record()
    line_of(original).down = True
    copy = copied(original, record)
    for region in (original, copy):
        region.render(job_of(A2))
    living(60, copy, original)
    copy.grant(A1, A2)
    living(30, copy, original)
    line_of(original).down = False
    living(100, copy, original)
    assert released((original, copy), A2) == [False, True]
    assert ("RegionTaken", "regions/eu/lease.json") in original.agent.memory.troubles
    living(100, copy, original)
    assert (original.phases(A1), copy.lease().incarnation) == ([], "incarnation-101")


def test_another_replica_of_the_same_cluster_goes_on_at_once() -> None:
    region = started()
    region.advance(100)
    region.restart()
    region.render(job_of(A2))
    region.grant(A1, A2)
    region.turn(3)
    assert region.phases(A2) == ["Running"]


def test_another_replica_after_the_api_server_was_silent_for_long_stops_nothing() -> None:
    """The first one renewed all the while, and could not write it down."""
    region = started()
    region.wire.fails = Transient("the API server does not answer")
    region.advance(600)
    region.restart()
    region.render(job_of(A2))
    region.grant(A1, A2)
    region.advance(60)
    assert (region.phases(A1), region.phases(A2)) == (["Running"], ["Running"])
    assert region.runtime.started.count(A1) == 1


def test_a_replica_that_cannot_write_itself_down_renews_all_the_same() -> None:
    region = started()
    region.restart()
    written = region.wire.write_record

    def full(body: bytes, *, expect: str | None) -> str:
        raise Refused("no room")

    region.wire.write_record = full  # type: ignore[method-assign]
    region.advance(300)
    assert region.phases(A1) == ["Running"]
    assert region.lease().incarnation == "incarnation-2"
    region.wire.write_record = written  # type: ignore[method-assign]


def test_a_replica_that_was_passed_while_it_wrote_itself_down_does_not_take_the_lease_at_that() -> None:
    """It may have stood still in that write, and another one leads since: it would be taken for that one's successor, and then end."""
    region = started()
    region.restart()
    written = region.wire.write_record

    def passed(body: bytes, *, expect: str | None) -> str:
        raise Conflict("the record has changed")

    region.wire.write_record = passed  # type: ignore[method-assign]
    before = region.lease()
    region.turn()
    assert region.lease() == before
    region.wire.write_record = written  # type: ignore[method-assign]
    region.advance(60)
    assert region.lease().incarnation == "incarnation-2"
    assert region.phases(A1) == ["Running"]


@pytest.mark.parametrize("restarts", [1, 3, 60])
def test_agents_that_were_killed_between_the_lease_and_the_record_leave_it_to_the_next(restarts: int) -> None:
    region = started()
    for _ in range(restarts):
        region.restart()
        region.turn()
    region.advance(2)
    assert region.lease().incarnation == region.agent.incarnation
    assert region.record().agents[-1] == region.agent.incarnation
    assert len(region.record().agents) <= 40
    assert region.find("Job", A1)["metadata"]["namespace"] == TEAM  # type: ignore[index]
    assert region.phases(A1) == ["Running"]


def test_the_words_of_a_lease_that_is_waited_for_say_when_it_is_taken_and_go_when_it_is() -> None:
    region = started()
    region.cluster.write_record(b"", expect=region.cluster.read_record().etag)  # type: ignore[union-attr]
    other = Region(region.store)
    other.agents = 100
    other.restart()
    living(60, other)
    words = [trouble.message for (code, _), trouble in other.agent.memory.troubles.items() if code == "RegionTaken"]
    assert len(words) == 1
    assert "taken over at 2026-05-01 10:05:00 UTC unless" in words[0]
    living(280, other)
    assert "RegionTaken" not in {code for code, _ in other.agent.memory.troubles}
    assert "RegionTaken" not in other.health()
