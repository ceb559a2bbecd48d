"""Why a released workload gets no pods, as the region reports it."""

from collections.abc import Sequence

import pytest

from reconciler.ports import ObjectRef, Refused, Transient
from tests.agent.region import Region, job_of, runs, started

A1 = "train-a1"
QUOTA = 'FailedCreate: Error creating: pods "train-a1-x" is forbidden: exceeded quota: gpus'


class Complaining:
    """A cluster that complains of every workload."""

    def __init__(self, words: Sequence[str] | Exception) -> None:
        self.words = words
        self.asked: list[ObjectRef] = []

    def __call__(self, target: ObjectRef, limit: int) -> Sequence[str]:
        self.asked.append(target)
        if isinstance(self.words, Exception):
            raise self.words
        return self.words[:limit]


def podless(words: Sequence[str] | Exception) -> tuple[Region, Complaining]:
    """A region whose controllers make no pods, and complain."""
    region, complaining = Region(), Complaining(words)
    region.wire.complaints = complaining  # type: ignore[method-assign]
    region.cluster.pause_controllers(paused=True)
    started(region=region)
    return region, complaining


def test_what_is_complained_of_is_reported_as_long_as_there_are_no_pods() -> None:
    region, complaining = podless([QUOTA, "older"])
    assert (region.said(A1).state, region.said(A1).waiting, complaining.asked) == ("Released", None, []), "it may be just slow"
    region.advance(5)
    assert region.said(A1).waiting == QUOTA
    assert complaining.asked[0].uid == region.job(A1)["metadata"]["uid"]
    complaining.words = ["FailedCreate: another"]
    region.advance(6)
    assert region.said(A1).waiting == "FailedCreate: another"
    region.cluster.pause_controllers(paused=False)
    region.advance(3)
    assert (len(region.said(A1).pods), region.said(A1).waiting) == (1, None)


def test_it_is_asked_now_and_then_only() -> None:
    region, complaining = podless([])
    region.advance(30)
    assert 4 <= len(complaining.asked) <= 7
    assert region.said(A1).waiting is None


@pytest.mark.parametrize("error", [Transient("no answer"), Refused("no right to list events")])
def test_complaints_that_cannot_be_read_cost_nothing_else(error: Exception) -> None:
    region, complaining = podless(error)
    region.advance(10)
    assert complaining.asked
    assert (region.said(A1).state, region.said(A1).waiting) == ("Released", None)
    assert "ComplaintsUnreadable" in region.health()
    region.cluster.pause_controllers(paused=False)
    region.advance(3)
    assert region.phases(A1) == ["Running"]


def test_what_is_held_running_or_ended_is_not_asked_about() -> None:
    region, complaining = Region(), Complaining([QUOTA])
    region.wire.complaints = complaining  # type: ignore[method-assign]
    started(region=region, says=runs(20))
    region.render(job_of("other-a1"))
    region.advance(40)
    assert region.said(A1).state == "Ended"
    assert complaining.asked == []
