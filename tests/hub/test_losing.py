"""When a region counts as lost, when it may be given up, and when the hub rather doubts itself: tables."""

import pytest
from pydantic import ValidationError

from reconciler.hub.leases import LeaseSeen
from reconciler.hub.losing import Sight, Verdict, doubts_itself, is_due, judged, revocable_in, silent_together
from reconciler.model.grants import Lease
from reconciler.model.region import LossTimes
from reconciler.model.region_state import RegionState

TIMES = LossTimes()


def lease(since: float = 0.0, **fields: object) -> LeaseSeen:
    said = Lease.model_validate({"region": "eu", "epoch": 3, "incarnation": "one", "renewal": 7, **fields})
    return LeaseSeen("etag", said, since, 0.0)


NONE_THERE = LeaseSeen(None, None, 0.0, 0.0)
BROKEN = LeaseSeen("etag", None, 0.0, 0.0)

STATES: dict[str, tuple[float, LeaseSeen | None, RegionState, float | None]] = {
    "just heard of": (0.0, None, RegionState.READY, 30.0),
    "a report is missing": (30.0, None, RegionState.READY, 0.0),
    "silent": (31.0, lease(), RegionState.UNKNOWN, 89.0),
    "silent for the grace": (120.0, lease(), RegionState.UNKNOWN, 0.0),
    "lost": (121.0, lease(), RegionState.LOST, 179.0),
    "lost, and its lease was renewed lately": (1000.0, lease(since=990.0), RegionState.LOST, 290.0),
    "lost, and its lease says that it lasts longer": (400.0, lease(self_fence_seconds=600.0), RegionState.LOST, 260.0),
    "lost, and its lease says that its end takes longer": (400.0, lease(fence_kill_seconds=300.0), RegionState.LOST, 170.0),
    "lost, and its lease could not be looked at": (1000.0, None, RegionState.LOST, None),
    "lost, and no lease is there": (1000.0, NONE_THERE, RegionState.LOST, None),
    "lost, and what is there is no lease": (1000.0, BROKEN, RegionState.LOST, None),
    "given up": (1000.0, lease(revoked=True), RegionState.REVOKED, None),
    "given up, and heard of again": (1.0, lease(revoked=True), RegionState.REVOKED, None),
}


@pytest.mark.parametrize(("silent", "seen", "state", "next_in"), STATES.values(), ids=STATES)
def test_the_state_of_a_region(silent: float, seen: LeaseSeen | None, state: RegionState, next_in: float | None) -> None:
    assert judged(Sight(TIMES, 0.0, seen), silent) == Verdict(state, next_in, 0.0)


def test_it_is_due_when_the_lease_has_not_changed_for_all_of_its_time_and_not_before() -> None:
    sight = Sight(TIMES, 0.0, lease(since=15.0))
    assert [is_due(sight, now) for now in (120.0, 314.9, 315.0, 9000.0)] == [False, False, True, True]
    assert not is_due(Sight(TIMES, 300.0, lease(since=0.0)), 320.0), "it was heard of, whatever its lease says"


def test_a_region_to_which_nothing_was_ever_granted_may_get_its_first_lease_revoked() -> None:
    assert revocable_in(Sight(TIMES, 0.0, NONE_THERE, never_led=True), 300.0) == 0.0
    assert revocable_in(Sight(TIMES, 0.0, NONE_THERE), 9000.0) is None


SILENT, HEARD, GONE = RegionState.LOST, RegionState.READY, RegionState.REVOKED
AT_ONCE: dict[str, tuple[dict[str, tuple[RegionState, float]], tuple[str, ...], bool]] = {
    "one region, silent": ({"a": (SILENT, 0)}, (), False),
    "one of two": ({"a": (SILENT, 0), "b": (HEARD, 0)}, (), False),
    "both of two": ({"a": (SILENT, 0), "b": (SILENT, 5)}, (), True),
    "both of two, an hour apart": ({"a": (SILENT, 0), "b": (SILENT, -3600)}, (), False),
    "both of two, one of them given up long ago": ({"a": (SILENT, 0), "b": (GONE, 0)}, (), False),
    "both of two, and a person says that the other is down": ({"a": (SILENT, 0), "b": (SILENT, 0)}, ("b",), False),
    "two of four": ({"a": (SILENT, 0), "b": (SILENT, 0), "c": (HEARD, 0), "d": (HEARD, 0)}, (), True),
    "two of five": ({"a": (SILENT, 0), "b": (SILENT, 0), "c": (HEARD, 0), "d": (HEARD, 0), "e": (HEARD, 0)}, (), False),
}


@pytest.mark.parametrize(("regions", "aside", "doubts"), AT_ONCE.values(), ids=AT_ONCE)
def test_half_of_the_regions_and_two_at_least_are_no_accident(
    regions: dict[str, tuple[RegionState, float]], aside: tuple[str, ...], doubts: bool
) -> None:
    verdicts = {name: Verdict(state, None, since) for name, (state, since) in regions.items()}
    assert doubts_itself(*silent_together(verdicts, "a", aside)) is doubts


REFUSED = {
    "a grace beyond the sum": {"grace_seconds": 301},
    "a grace that ends before anything is unknown": {"grace_seconds": 20},
    "no margin": {"margin_seconds": 5},
}


@pytest.mark.parametrize("fields", REFUSED.values(), ids=REFUSED)
def test_times_that_make_no_sense_are_refused_when_they_are_read(fields: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        LossTimes.model_validate(fields)
