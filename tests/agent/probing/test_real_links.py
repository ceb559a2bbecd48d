"""Two regions' links on real connections: a server for each region's store, and a way between whose bandwidth the test sets.

When links are measured goes by a clock moved by hand; what they do is measured in earnest.
"""

import time
import uuid
from collections.abc import Iterator
from random import Random

import pytest

from reconciler.adapters.link_probe import Links
from reconciler.agent.probing.prober import Prober
from reconciler.agent.probing.schedule import Rules
from reconciler.model.link_table import LinkTable
from reconciler.model.region import StoreAddress
from reconciler.model.report import LinkProbe
from reconciler.probe_port import Transferred
from tests.adapters.s3_server import make_bucket, moto_app, serving
from tests.adapters.throttle import Throttle, throttled
from tests.agent.probing.pretend import line, publish
from tests.agent.region import HandClock
from tests.agent.stores import FailingStore

KIB = 1024
RULES = Rules(sizes=(128 * KIB, 512 * KIB), quick_seconds=0.02, quick_round_trips=0, rest_seconds=1.0)
RATE = 1e6
Way = tuple[str, str]
WAYS: tuple[Way, Way] = (("eu", "us"), ("us", "eu"))


class Counted(Links):
    """The real transfers, counted."""

    made: dict[Way, int]

    def read(self, region: str, address: StoreAddress, size: int, most_seconds: float) -> Transferred:
        self.made["us", "eu"] += 1
        return super().read(region, address, size, most_seconds)

    def write(self, region: str, address: StoreAddress, size: int, most_seconds: float) -> Transferred:
        self.made["eu", "us"] += 1
        return super().write(region, address, size, most_seconds)


class Rig:
    """The prober of eu, with the bucket of us behind a way that can be narrowed."""

    def __init__(self, way: Throttle, bucket: str, direct: str) -> None:
        self.way, self.clock = way, HandClock()
        store, environment = FailingStore(), {}
        for region in ("EU", "US"):
            environment |= {f"RECONCILER_STORE_{region}_AWS_{name}": "test" for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY")}
            environment[f"RECONCILER_STORE_{region}_AWS_REGION"] = "us-east-1"
        near, far = (
            StoreAddress(url=f"s3://{bucket}/eu", endpoint=direct),
            StoreAddress(url=f"s3://{bucket}/us", endpoint=way.url),
        )
        lines = (line("eu", "us", RATE * 8 / 1e9), line("us", "eu", RATE * 8 / 1e9))
        publish(store, LinkTable(stores={"eu": near, "us": far}, links=lines))
        Links("us", environment, time.monotonic).keep("us", far.model_copy(update={"endpoint": direct}), 512 * KIB)
        self.links = Counted("eu", environment, time.monotonic)
        self.links.made = dict.fromkeys(WAYS, 0)
        self.prober = Prober("eu", store, self.links, self.clock, Random(1), RULES)

    def probes(self, each: int) -> dict[Way, LinkProbe]:
        """What is known after so many more probes of each of the two links."""
        before = dict(self.links.made)
        while any(self.links.made[way] - before[way] < each for way in before):
            self.clock.seconds += self.prober.step()
        return {(one.source, one.target): one for one in self.prober.probes()}


@pytest.fixture
def rig() -> Iterator[Rig]:
    with serving(moto_app()) as url, throttled(url) as way:
        name = f"b-{uuid.uuid4().hex}"
        make_bucket(url, name)
        yield Rig(way, name, url)


@pytest.mark.slow
def test_a_way_that_falls_to_a_third_shows_within_two_probes_though_it_connects_as_ever(rig: Rig) -> None:
    rig.way.bytes_per_second = RATE
    before = rig.probes(5)
    for way in WAYS:
        assert before[way].problem == ""
        assert 0.4 * RATE < (before[way].bytes_per_second or 0) < 2 * RATE
    rig.way.bytes_per_second = RATE / 3
    after = rig.probes(2)
    for way in WAYS:
        assert (after[way].bytes_per_second or 0) < 0.6 * (before[way].bytes_per_second or 0)
        assert (after[way].rtt_ms or 0) < 1000 * 512 * KIB / RATE, "a round trip says nothing of it"
        assert after[way].retransmitted in (None, 0.0)


@pytest.mark.slow
def test_one_slow_transfer_is_no_congestion(rig: Rig) -> None:
    rig.way.bytes_per_second = RATE
    before = rig.probes(5)
    rig.way.bytes_per_second = RATE / 4
    between = rig.probes(1)
    for way in WAYS:
        assert (between[way].newest_bytes_per_second or 0) < 0.6 * (before[way].bytes_per_second or 0)
        assert (between[way].bytes_per_second or 0) > 1.5 * (between[way].newest_bytes_per_second or 0)


def test_a_way_that_breaks_is_told_in_words_and_what_was_known_stays(rig: Rig) -> None:
    rig.way.bytes_per_second = None
    rates = {way: one.bytes_per_second for way, one in rig.probes(2).items()}
    rig.way.close()
    for way, one in rig.probes(1).items():
        assert one.problem != ""
        assert one.bytes_per_second == pytest.approx(rates[way])
