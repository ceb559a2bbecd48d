"""Regions that fall silent, in the tests of the command."""

from reconciler.model.attempt import Attempt
from tests.cli.world import HubWorld, running

STEP = 10.0


def place_in_us(world: HubWorld, job_id: str = "one") -> Attempt:
    """Both regions report, and red's job runs in us, the cheaper of them."""
    for region in ("eu", "us"):
        world.report(region)
    world.cycle()
    attempt = world.record("red", job_id).current
    assert attempt is not None
    assert attempt.region == "us"
    world.report("eu")
    world.report("us", running(attempt.name, world.clock.now()))
    world.cycle(STEP)
    return attempt


def fall_silent(world: HubWorld, region: str, seconds: float) -> None:
    """So long the region is not heard of, while the other one is."""
    (other,) = {"eu", "us"} - {region}
    until = world.clock.seconds + seconds
    while world.clock.seconds < until:
        world.report(other)
        world.cycle(STEP)
