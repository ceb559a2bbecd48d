"""What a person should look at stands on the status branch: what regions say of themselves, who is silent, what is refused."""

from datetime import timedelta
from pathlib import Path

import pytest

from reconciler.hub.ledger import Trouble
from reconciler.hub.results import Ended
from reconciler.hub.troubles import PATIENCE_SECONDS, since
from reconciler.model.grants import grants_key
from reconciler.model.record import Phase
from reconciler.model.report import Health
from reconciler.ports import Transient
from tests.builders import NOW
from tests.hub.rig import Rig, two_regions

LATE = Health(code="LeaseLate", message="the lease was last renewed 130 s ago")


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return two_regions(tmp_path)


def codes(rig: Rig) -> dict[str, str]:
    return {trouble.code: trouble.subject for trouble in rig.hub_file().troubles}


def later(rig: Rig, seconds: float = PATIENCE_SECONDS + 1, **fields: object) -> None:
    """Time passes; both regions report, eu with `fields`."""
    rig.clock.seconds += seconds
    rig.tell_again("eu", **fields)
    rig.tell_again("us")
    rig.settle()


def test_words_of_an_engine_that_blame_no_job_are_the_regions_trouble(rig: Rig) -> None:
    rig.job(allowed_regions=["eu"])
    rig.settle()
    before = rig.attempt()
    said = {"GitRepository/flux-system/gpu-reconciler": "authentication required"}
    later(rig, 1, sync_errors=said)
    assert codes(rig) == {}
    later(rig, sync_errors=said)
    assert codes(rig) == {"SyncEngineRefuses": "eu: GitRepository/flux-system/gpu-reconciler"}
    assert rig.attempt() == before


def test_what_a_region_says_of_itself_is_told_once_it_has_stood_for_a_while(rig: Rig) -> None:
    tips = rig.tips()
    later(rig, 1, health=(LATE,))
    assert rig.tips() == tips, "it may be over in a moment"
    later(rig, health=(LATE,))
    (trouble,) = rig.hub_file().troubles
    assert (trouble.subject, trouble.code, trouble.what) == ("eu", "LeaseLate", f"eu: {LATE.message}")
    assert f"> eu: {LATE.message} (since " in rig.page()
    tips = rig.tips()
    later(rig, health=(Health(code="LeaseLate", message="the lease was last renewed 160 s ago"),))
    assert rig.tips() == tips, "numbers that only grow are no news"
    later(rig, 1, health=())
    assert rig.hub_file().troubles == ()
    assert "LeaseLate" not in rig.page()


def test_what_is_over_at_once_is_never_told(rig: Rig) -> None:
    tips = rig.tips()
    for _ in range(4):
        later(rig, PATIENCE_SECONDS - 2, health=(LATE,))
        later(rig, 1, health=())
    assert rig.tips() == tips


def test_a_region_that_falls_silent_is_told_without_anything_else_happening(rig: Rig) -> None:
    """Nothing lives, nobody pushes: the hub looks by itself."""
    rig.clock.seconds += 600
    rig.tell_again("us")
    assert rig.cycle().again_in_seconds is not None
    rig.clock.seconds += PATIENCE_SECONDS + 1
    rig.tell_again("us")
    rig.settle()
    assert codes(rig) == {"ReportStale": "eu"}
    later(rig, 1)
    assert codes(rig) == {}


def test_a_region_that_never_reported_is_told(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.tell("eu")
    rig.settle()
    wait = rig.cycle().again_in_seconds
    assert wait is not None
    assert wait <= PATIENCE_SECONDS
    rig.clock.seconds += PATIENCE_SECONDS
    rig.cycle(Ended.PUBLISHED)
    assert codes(rig) == {"NoReport": "us"}


def test_what_is_refused_is_told_with_when_that_began_and_in_the_words_of_now() -> None:
    frozen, still = (Trouble(subject="region/eu", code="BranchRefused", what=what) for what in ("frozen", "still frozen"))
    first = since([frozen], (), NOW)
    assert first == (frozen.model_copy(update={"since": NOW}),)
    later = NOW + timedelta(minutes=1)
    assert since([still], first, later) == (still.model_copy(update={"since": NOW}),)
    assert since([], first, later) == ()


def test_several_of_a_kind_are_one_line(rig: Rig) -> None:
    sick = tuple(Health(code="SickGpus", message=f"node n{number}: 1 of 8 GPUs is not healthy") for number in range(3))
    for _ in range(2):
        later(rig, health=sick)
    (trouble,) = rig.hub_file().troubles
    assert trouble.what == "eu: node n0: 1 of 8 GPUs is not healthy, and 2 more"


def test_grants_that_cannot_be_written_for_long_are_told(rig: Rig) -> None:
    rig.store.fails_put[grants_key("eu")] = Transient("away")
    rig.job(gpus=1)
    for _ in range(3):
        rig.clock.seconds += PATIENCE_SECONDS
        rig.cycle()
    assert codes(rig) == {"GrantsNotWritten": "eu"}
    rig.store.fails_put.clear()
    later(rig, 1)
    assert codes(rig) == {}
    assert rig.record().phase is Phase.STARTING


def test_a_hub_that_starts_goes_on_telling_what_was_told(rig: Rig) -> None:
    for _ in range(2):
        later(rig, health=(LATE,))
    before = rig.hub_file().troubles
    rig.restart()
    rig.settle()
    assert rig.hub_file().troubles == before
    assert len(before) == 1


@pytest.mark.parametrize("code", ["Fenced", "RegionTaken", "LeaseRevoked"])
def test_a_region_that_may_run_nothing_gets_nothing_new_until_it_may(rig: Rig, code: str) -> None:
    rig.tell("eu", health=(Health(code=code, message="why it is"),))
    rig.job(gpus=1)
    rig.job("only-eu", gpus=1, allowed_regions=["eu"])
    rig.settle()
    assert rig.attempt().region == "us", "though eu is cheaper"
    waits = rig.record("only-eu")
    assert (waits.phase, waits.waits["eu"].text) == (Phase.PENDING, "eu may run nothing at present: why it is")
    rig.tell("eu")
    rig.settle()
    assert rig.record("only-eu").phase is Phase.STARTING
