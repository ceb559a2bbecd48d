"""The agent is killed at every single request it makes, before it is done and after; another takes its place."""

import pytest

from tests.agent.objects import make_grant
from tests.agent.region import Killed, Region, job_of, runs

A1 = "train-a1"


def play(region: Region) -> None:
    """From nothing to a running gang, a new deadline, and back to nothing."""
    region.grant(make_grant(A1, nodes=2, run_seconds=600))
    region.advance(4)
    region.grant(make_grant(A1, nodes=2, run_seconds=900))
    region.advance(3)
    region.grant()
    region.advance(8)


def fresh() -> Region:
    region = Region()
    region.turn()
    region.render(job_of(A1, size=2, says=runs(stop=2)))
    region.turn()
    region.wire.requests.clear()
    return region


def requests_of_a_whole_life() -> list[str]:
    region = fresh()
    play(region)
    assert region.runtime.started == [A1, A1]
    return list(region.wire.requests)


WHOLE = requests_of_a_whole_life()


def killed_at(region: Region, number: int, *, after: bool) -> list[str]:
    """Play with an agent that is killed at that request, and with its successor from then on; returns what was reached."""
    region.wire.kill_at, region.wire.kill_after = number, after
    reached: list[str] = []
    step = region.agent.step

    def stepped() -> float:
        nonlocal step
        try:
            return step()
        except Killed as killed:
            reached.append(str(killed))
            region.restart()
            step = region.agent.step
            region.agent = Proxy()  # type: ignore[assignment]
            return 0.2

    class Proxy:
        """Stands for whichever agent is at work."""

        def step(self) -> float:
            return stepped()

    region.agent = Proxy()  # type: ignore[assignment]
    play(region)
    return reached


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("number", range(len(WHOLE)), ids=[f"{number}-{what}" for number, what in enumerate(WHOLE)])
def test_exactly_one_run(number: int, after: bool) -> None:
    region = fresh()
    reached = killed_at(region, number, after=after)
    if WHOLE[number] != "log_tail" or not after:
        assert reached == [WHOLE[number]]
    assert region.runtime.started == [A1, A1]
    said = region.said(A1)
    assert (said.stopped, said.replaced, region.report().grants_version) == (True, False, 3)
    assert region.phases(A1) == []


def test_the_life_has_every_kind_of_request() -> None:
    assert {"read", "read_record", "write_record", "patch Job", "patch Pod", "delete Pod None"} <= set(WHOLE)
