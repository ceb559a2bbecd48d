"""Two replicas and one Lease on a real API server; their clocks are moved by hand, each on its own."""

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from reconciler.adapters.clock import SystemClock
from reconciler.adapters.kube import AgentReplica, Leadership
from reconciler.adapters.kube.connection import Connection
from reconciler.ports import Refused, Transient
from tests.e2e.control_plane import ControlPlane
from tests.e2e.world import access_of
from tests.waiting import until

OWN = "gpu-reconciler"
LEASE = ("lease", "agent", "-n", OWN)


class Hand:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return SystemClock().now() + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return 1000.0 + self.seconds


class Replica(Leadership):
    def __init__(self, plane: ControlPlane, identity: str) -> None:
        self.clock = Hand()
        self.connection = Connection(access_of(plane), SystemClock(), 2.0)
        super().__init__(self.connection, self.clock, AgentReplica(identity, OWN))

    def leads(self, after: float = 0.0) -> bool:
        """Whether it leads after so many seconds of its own."""
        self.clock.seconds += after
        led = self.try_lead()
        assert self.may_act() is led
        return led


@pytest.fixture
def two(plane: ControlPlane) -> Iterator[tuple[Replica, Replica]]:
    plane.kubectl("delete", *LEASE, "--ignore-not-found")
    yield Replica(plane, "one"), Replica(plane, "two")
    plane.kubectl("delete", *LEASE, "--ignore-not-found")


def test_one_leads_as_long_as_it_renews(plane: ControlPlane, two: tuple[Replica, Replica]) -> None:
    one, other = two
    assert one.leads()
    for _ in range(10):
        assert not other.leads(after=14)
        assert one.leads(after=2)
    spec = plane.get("lease", "agent", OWN)["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("one", 15, 0)


def test_another_leads_when_it_has_seen_no_renewal_for_long_and_the_first_has_stopped_by_then(
    plane: ControlPlane, two: tuple[Replica, Replica]
) -> None:
    one, other = two
    assert one.leads()
    assert not other.leads()
    for clock in (one.clock, other.clock):
        clock.seconds += 10
    assert (one.may_act(), other.leads()) == (False, False)
    assert other.leads(after=5)
    assert not one.leads()
    spec = plane.get("lease", "agent", OWN)["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("two", 1)
    assert spec["acquireTime"] == spec["renewTime"]


def test_a_lease_that_was_found_old_is_waited_for_all_the_same(two: tuple[Replica, Replica]) -> None:
    one, other = two
    assert one.leads()
    other.clock.seconds += 1_000_000  # its clock tells nothing of the other's
    assert not other.leads()
    assert not other.leads(after=14)
    assert other.leads(after=1)


def test_a_leader_that_resigns_is_followed_at_once(two: tuple[Replica, Replica]) -> None:
    one, other = two
    assert one.leads()
    assert not other.leads()
    one.resign()
    assert not one.may_act()
    assert other.leads()
    one.resign()
    assert other.leads(after=2)


def test_of_many_that_begin_together_one_leads(plane: ControlPlane, two: tuple[Replica, Replica]) -> None:
    assert two[0].connection is not two[1].connection
    for _ in range(5):
        plane.kubectl("delete", *LEASE, "--ignore-not-found")
        replicas = [Replica(plane, f"r{number}") for number in range(6)]
        with ThreadPoolExecutor(len(replicas)) as pool:
            assert sum(pool.map(Replica.leads, replicas)) == 1
        for replica in replicas:
            replica.connection.close()


def test_a_person_may_touch_or_delete_it(plane: ControlPlane, two: tuple[Replica, Replica]) -> None:
    one, other = two
    assert one.leads()
    plane.kubectl("annotate", *LEASE, "a=b")
    assert one.leads(after=2)
    plane.kubectl("delete", *LEASE)
    assert one.leads(after=2)
    plane.kubectl("delete", *LEASE)
    assert other.leads()
    assert not one.leads(after=2)
    assert not one.may_act()


def test_a_leader_before_a_silent_server_stops_in_time(plane: ControlPlane, two: tuple[Replica, Replica]) -> None:
    one, _ = two
    assert one.leads()
    server = plane.running("kube-apiserver")
    server.send_signal(signal.SIGSTOP)
    try:
        one.clock.seconds += 9
        with pytest.raises(Transient):
            one.try_lead()
        assert one.may_act()
        one.clock.seconds += 1
        assert not one.may_act()
    finally:
        server.send_signal(signal.SIGCONT)
    assert until(lambda: _leads_again(one))


def _leads_again(replica: Replica) -> bool:
    try:
        return replica.try_lead()
    except Transient:
        return False


def test_another_lease_is_not_to_be_had(plane: ControlPlane) -> None:
    connection = Connection(access_of(plane), SystemClock(), 2.0)
    for candidate in (replace(AgentReplica("x", OWN), name="other"), replace(AgentReplica("x", OWN), namespace="default")):
        with pytest.raises(Refused, match="403"):
            Leadership(connection, Hand(), candidate).try_lead()
    connection.close()


def test_times_by_which_two_would_act_are_refused() -> None:
    with pytest.raises(ValueError, match="act_seconds"):
        AgentReplica("x", OWN, lease_seconds=10, act_seconds=10)
