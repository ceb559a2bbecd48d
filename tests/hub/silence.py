"""Regions that fall silent, in the tests of the hub: time that passes for the others, and what is then so."""

from collections.abc import Callable

from reconciler.model.grants import Lease, lease_key
from reconciler.model.region_state import RegionState
from tests.hub.rig import Rig

STEP = 5.0


def pass_time(
    rig: Rig, seconds: float, *, heard: tuple[str, ...] = ("us",), each: Callable[[], None] = lambda: None, step: float = STEP
) -> None:
    """Let time pass with a cycle every few seconds; `heard`: regions that go on to report."""
    until = rig.clock.seconds + seconds
    while rig.clock.seconds < until:
        rig.clock.seconds += step
        for region in heard:
            rig.tell_again(region)
        each()
        rig.cycle()


def state(rig: Rig, region: str = "eu") -> RegionState:
    """As it is published."""
    found = rig.hub_file().regions.get(region)
    return RegionState.READY if found is None else found.state


def lease(rig: Rig, region: str = "eu") -> Lease:
    """As it stands in the store."""
    stored = rig.store.inner.get(lease_key(region))
    assert stored is not None
    return Lease.model_validate_json(stored.body)


def lost(rig: Rig, **fields: object) -> str:
    """A job runs in eu, and eu is not heard of until its lease is revoked; the attempt's name."""
    name = rig.placed(**fields).name
    pass_time(rig, 360)
    return name
