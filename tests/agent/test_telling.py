"""What an agent's own log says: what begins, and what is over, and nothing in between."""

from typing import Any

from reconciler.app_troubles import tell, troubles_of
from reconciler.ports import Transient
from tests.agent.region import Region, started
from tests.agent.stores import FailingStore


class Log:
    """What was logged."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def warning(self, event: str, **more: Any) -> None:
        self.lines.append((event, more["code"]))

    def info(self, event: str, **more: Any) -> None:
        self.lines.append((event, more["code"]))


def told(region: Region, log: Log, before: frozenset[tuple[str, str]], seconds: int) -> frozenset[tuple[str, str]]:
    """What is told after so many seconds, asked each second."""
    for _ in range(seconds):
        region.advance(1)
        before = tell(log, troubles_of(region.agent, region.clock.monotonic()), before)
    return before


def test_an_agent_that_is_cut_off_says_so_once_and_that_it_stops_everything_and_when_it_is_over() -> None:
    region, log = started(), Log()
    before = told(region, log, frozenset(), 5)
    assert log.lines == []
    assert isinstance(region.store, FailingStore)
    region.store.down = True
    before = told(region, log, before, 300)
    warned = [code for event, code in log.lines if event == "trouble"]
    assert warned.count("LeaseNotRenewed") == warned.count("LeaseLate") == warned.count("Fenced") == 1
    assert warned.index("LeaseNotRenewed") < warned.index("LeaseLate") < warned.index("Fenced")
    region.store.down = False
    told(region, log, before, 60)
    assert {code for event, code in log.lines if event == "over"} >= {"LeaseNotRenewed", "LeaseLate", "Fenced"}
    assert len(log.lines) < 20


def test_an_api_server_that_is_silent_is_told_once() -> None:
    region, log = started(), Log()
    region.wire.fails = Transient("the API server does not answer")
    told(region, log, frozenset(), 100)
    assert log.lines == [("trouble", "ClusterUnreachable")]
