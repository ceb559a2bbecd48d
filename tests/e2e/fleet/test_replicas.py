"""Two replicas of a region's agent, and an API server that is away: one acts, nothing runs twice, nothing is given up."""

import signal
from collections.abc import Iterator

import pytest

from reconciler.model.record import Phase
from tests.e2e.fleet.up import Fleet, RegionUp
from tests.e2e.person import LASTS, job_text
from tests.waiting import until

TEAM, REGION = "language", "us-east"


@pytest.fixture
def region(fleet: Fleet) -> Iterator[RegionUp]:
    """A region with both replicas; afterwards with its first alone."""
    found = fleet.regions[REGION]
    found.standby.start()
    found.standby.until_said("stands by")
    yield found
    found.standby.stop()
    found.agent.start()
    until(lambda: holder(found) != "", 60.0, 0.5)


def holder(region: RegionUp) -> str:
    return region.kubectl("get", "lease", "agent", "-n", "gpu-reconciler", "-o", "jsonpath={.spec.holderIdentity}")


def push(fleet: Fleet, job: str, seconds: int) -> None:
    text = job_text(job, LASTS.format(seconds=seconds), allowed_regions=[REGION])
    fleet.person.push({f"jobs/{TEAM}/{job}.yaml": text})


def test_the_other_replica_goes_on_where_the_leader_was_killed(fleet: Fleet, region: RegionUp) -> None:
    push(fleet, "through-a-death", 30)
    fleet.person.until_phase(TEAM, "through-a-death", Phase.RUNNING)
    before = holder(region)
    region.agent.stop(signal.SIGKILL)
    until(lambda: holder(region) not in ("", before), 60.0, 0.5)
    push(fleet, "after-it", 1)
    fleet.person.until_phase(TEAM, "after-it", Phase.SUCCEEDED, within_seconds=90.0)
    fleet.person.until_phase(TEAM, "through-a-death", Phase.SUCCEEDED, within_seconds=90.0)
    assert len(fleet.witness.of("through-a-death")) == 1


def test_a_leader_that_was_frozen_finds_another_in_its_place(fleet: Fleet, region: RegionUp) -> None:
    before = holder(region)
    region.agent.freeze(on=True)
    push(fleet, "while-frozen", 20)
    until(lambda: holder(region) not in ("", before), 60.0, 0.5)
    fleet.person.until_phase(TEAM, "while-frozen", Phase.RUNNING, within_seconds=90.0)
    after = holder(region)
    region.agent.freeze(on=False)
    region.agent.until_said("leads no more")
    fleet.person.until_phase(TEAM, "while-frozen", Phase.SUCCEEDED, within_seconds=90.0)
    assert holder(region) == after
    assert len(fleet.witness.of("while-frozen")) == 1


def test_while_the_api_server_is_away_the_leader_keeps_the_regions_lease(fleet: Fleet, region: RegionUp) -> None:
    push(fleet, "without-api", 60)
    fleet.person.until_phase(TEAM, "without-api", Phase.RUNNING)
    region.plane.stop("kube-apiserver")
    leases = [fleet.lease(REGION)]
    try:
        for _ in range(2):  # the second renewal is from long after the leader could last renew its Lease
            until(lambda: fleet.lease(REGION) != leases[-1], 60.0, 0.5)
            leases.append(fleet.lease(REGION))
        region.agent.check()
        fleet.person.until_phase(TEAM, "without-api", Phase.RUNNING)
    finally:
        region.plane.start_api()
    fleet.person.until_phase(TEAM, "without-api", Phase.SUCCEEDED, within_seconds=180.0)
    assert len(fleet.witness.of("without-api")) == 1
