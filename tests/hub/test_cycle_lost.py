"""A region that is not heard of, from its first missed report to its return; the hub's own faults are not the region's."""

from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.hub.results import Ended
from reconciler.model.attempt import Outcome, State
from reconciler.model.grants import lease_key
from reconciler.model.record import Phase
from reconciler.model.region_state import RegionState
from reconciler.ports import Transient
from tests.builders import TEAM
from tests.hub.rig import Rig
from tests.hub.silence import STEP, lease, lost, pass_time, state
from tests.hub.words import region_file, stopped, succeeded


@pytest.fixture
def local(tmp_path: Path) -> Rig:
    rig = Rig(tmp_path)
    rig.tell("eu")
    rig.tell("us")
    rig.settle()
    return rig


def test_silence_is_told_step_by_step_and_only_a_revoked_lease_starts_the_job_elsewhere(local: Rig) -> None:
    first = local.placed()
    pass_time(local, 25)
    assert state(local) is RegionState.READY
    pass_time(local, 10)
    assert state(local) is RegionState.UNKNOWN
    assert "from 1" in local.hub_file().regions["eu"].reason.text
    assert local.condition("RegionReachable") == ("RegionUnknown", "")
    pass_time(local, 90)
    assert state(local) is RegionState.LOST
    words = local.hub_file().regions["eu"].reason.text
    assert "its lease is revoked, and its jobs start elsewhere" in words, words
    assert local.condition("RegionReachable") == ("RegionAway", "it would go to us")
    assert local.attempt() == first
    pass_time(local, 180)
    assert (local.attempt(), lease(local).revoked) == (first, False)
    pass_time(local, 40)
    assert state(local) is RegionState.REVOKED
    assert (lease(local).revoked, lease(local).epoch) == (True, 2)
    before, now = local.record().attempts
    assert (before.state, before.outcome) == (State.STOPPED, Outcome.REGION_LOST)
    assert (now.region, now.state) == ("us", State.GRANTED)
    assert local.granted("eu") == []
    assert local.granted("us") == [now.name]
    assert local.condition("RegionReachable") is None
    assert local.manifests("eu") == []


def test_a_region_of_short_times_gets_nothing_new_as_soon_as_it_is_silent_by_them(local: Rig) -> None:
    """Its report still counts as fresh by the policy, which other regions go by."""
    loss = "loss: {unknown_seconds: 5, grace_seconds: 10, self_fence_seconds: 15, fence_kill_seconds: 1}\n"
    local.put({"regions/eu.yaml": region_file("eu", 1.0, loss)})
    local.placed()
    local.tell_again("eu")
    pass_time(local, 7, step=1.0)
    assert state(local) is RegionState.UNKNOWN
    local.job("next")
    local.settle()
    assert local.attempt("next").region == "us"
    pass_time(local, 6, step=1.0)
    assert state(local) is RegionState.LOST
    assert local.condition("RegionReachable") == ("RegionAway", "it would go to us")


def test_its_jobs_start_elsewhere_in_the_very_cycle_that_revokes_and_not_before(local: Rig) -> None:
    local.placed()
    pass_time(local, 300)
    seen = []
    while not lease(local).revoked:
        assert local.granted("us") == []
        pass_time(local, STEP)
        seen.append((local.record().attempts[0].state, local.granted("eu"), len(local.granted("us"))))
    assert seen[-1] == (State.STOPPED, [], 1), seen


def test_an_attempt_is_granted_under_its_own_epoch_for_good(local: Rig) -> None:
    """A hub that dies between the revocation and its push leaves a ledger in which the attempt may run; the region may be back."""
    first = local.placed()
    assert (first.epoch, local.grants("eu").attempts[0].epoch) == (1, 1)
    local.write_lease("eu", 2)
    local.tell("eu", stopped(first.name), lease_epoch=2)
    local.clock.seconds += 1
    local.settle()
    before = local.record().attempts[0]
    assert (before.state, before.outcome) == (State.STOPPED, Outcome.REGION_LOST)
    assert first.name not in local.granted("eu")


@pytest.mark.slow
def test_a_region_whose_lease_is_renewed_is_alive_however_silent_its_reports_are(local: Rig) -> None:
    first = local.placed()

    def renew() -> None:
        if local.clock.seconds % 20 == 0:
            found = lease(local)
            renewed = found.model_copy(update={"renewal": found.renewal + 1}).model_dump_json().encode()
            local.store.inner.put(lease_key("eu"), renewed, expect=local.store.inner.etag(lease_key("eu")))

    pass_time(local, 900, each=renew)
    assert local.attempt() == first
    assert not lease(local).revoked
    assert state(local) is RegionState.LOST


def test_a_renewal_that_comes_first_wins_over_the_revocation(local: Rig) -> None:
    """What the hub reads may be old: then its compare-and-swap fails."""
    first = local.placed()
    pass_time(local, 290)
    seen = local.hub._watch.leases.seen["eu"]
    found = lease(local).model_copy(update={"renewal": 99}).model_dump_json().encode()
    local.store.inner.put(lease_key("eu"), found, expect=seen.etag)
    local.store.stale[lease_key("eu")] = seen.etag
    pass_time(local, 60)
    assert not lease(local).revoked
    assert local.attempt() == first


@pytest.mark.slow
def test_the_lease_says_itself_how_long_it_must_be_waited_for(local: Rig) -> None:
    local.placed()
    slow = lease(local).model_copy(update={"self_fence_seconds": 600.0}).model_dump_json().encode()
    local.store.inner.put(lease_key("eu"), slow, expect=local.store.inner.etag(lease_key("eu")))
    pass_time(local, 600)
    assert not lease(local).revoked
    pass_time(local, 90)
    assert lease(local).revoked


def test_it_comes_back_takes_its_new_epoch_and_gets_new_work_but_not_the_old(local: Rig) -> None:
    name = lost(local)
    assert local.grants("eu").epoch == 0
    local.tell("eu", stopped(name), lease_epoch=1)
    local.settle()
    assert state(local) is RegionState.REVOKED, "it reports, and has not taken its lease yet"
    assert local.granted("eu") == []
    local.write_lease("eu", 2)
    local.tell("eu", stopped(name), lease_epoch=2)
    local.settle()
    assert state(local) is RegionState.READY
    assert local.grants("eu").epoch == 2
    assert local.granted("eu") == []
    local.job("next", allowed_regions=["eu"])
    local.settle()
    assert local.granted("eu") == [local.attempt("next").name]


@pytest.mark.slow
def test_half_the_regions_silent_at_once_is_the_hubs_own_fault(local: Rig) -> None:
    first = local.placed()
    pass_time(local, 900, heard=())
    assert not lease(local).revoked
    assert local.attempt() == first
    assert "looks like a fault of the hub's own" in local.hub_file().regions["eu"].reason.text
    local.tell_again("us")
    pass_time(local, 290)
    assert not lease(local).revoked, "its clock began anew when the other was heard"
    pass_time(local, 60)
    assert lease(local).revoked


def test_a_store_that_does_not_answer_stops_all_clocks(local: Rig) -> None:
    first = local.placed()
    pass_time(local, 200)
    local.store.down = True
    for _ in range(60):
        local.clock.seconds += STEP
        with pytest.raises(Transient):
            local.hub.cycle()
    local.store.down = False
    pass_time(local, 20)
    assert not lease(local).revoked
    pass_time(local, 270)
    assert not lease(local).revoked
    assert local.attempt() == first
    pass_time(local, 60)
    assert lease(local).revoked


@pytest.mark.slow
def test_a_hub_that_has_just_started_watches_for_the_whole_time_and_keeps_what_was_told(local: Rig) -> None:
    local.placed()
    pass_time(local, 290)
    told = local.hub_file().regions["eu"]
    local.restart()
    pass_time(local, 20)
    assert local.hub_file().regions["eu"].since == told.since
    pass_time(local, 270)
    assert not lease(local).revoked
    pass_time(local, 60)
    assert lease(local).revoked


def test_a_hub_that_dies_after_the_revocation_is_followed_by_one_that_goes_on(local: Rig) -> None:
    local.placed()
    pass_time(local, 300)
    local.git.before_push.append(lambda: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        pass_time(local, 100)
    assert lease(local).revoked
    assert local.attempt().state is State.RUNNING
    local.restart()
    pass_time(local, 60)
    assert [(one.region, one.state) for one in local.record().attempts] == [("eu", State.STOPPED), ("us", State.GRANTED)]


def test_a_job_that_waits_for_its_region_ends_by_that_regions_word(local: Rig) -> None:
    name = lost(local, on_region_lost="wait")
    assert (local.attempt().state, local.attempt().outcome) == (State.STOPPING, Outcome.REGION_LOST)
    assert local.granted("us") == []
    local.tell("eu", succeeded(name), lease_epoch=1)
    local.settle()
    assert local.record().phase is Phase.SUCCEEDED


def test_a_job_that_waits_starts_elsewhere_once_a_person_releases_it(local: Rig) -> None:
    lost(local, on_region_lost="wait")
    local.job(on_region_lost="wait", release=1)
    pass_time(local, 15)
    assert [(one.region, one.state) for one in local.record().attempts] == [("eu", State.STOPPED), ("us", State.GRANTED)]


def test_a_job_that_must_not_be_done_twice_is_held_for_a_person(local: Rig) -> None:
    lost(local, on_region_lost="hold")
    assert local.record().phase is Phase.HELD
    why = local.record().why
    assert why is not None
    assert f"reconciler release {TEAM}/llm-a" in why.text
    assert local.granted("us") == []
    local.job(on_region_lost="hold", release=1)
    pass_time(local, 15)
    assert local.attempt().region == "us"


def edited(rig: Rig, choice: str) -> None:
    rig.job(on_region_lost=choice, image="reg.example.com/train:2")


def paused_and_not(rig: Rig, choice: str) -> None:
    rig.job(on_region_lost=choice, suspend=True)
    pass_time(rig, 20, step=20)
    rig.job(on_region_lost=choice)


def preferred_elsewhere(rig: Rig, choice: str) -> None:
    rig.edit_placement(pin="us")


def out_of_time(rig: Rig, choice: str) -> None:
    rig.job(on_region_lost=choice, max_runtime_seconds=60)


WHAT_PEOPLE_DO: dict[str, Callable[[Rig, str], None]] = {
    "it is edited": edited,
    "it is paused, and goes on": paused_and_not,
    "it is pinned to another region": preferred_elsewhere,
    "its run time is over": out_of_time,
}


@pytest.mark.parametrize("what", WHAT_PEOPLE_DO)
@pytest.mark.parametrize("choice", ["hold", "wait"])
def test_what_people_do_while_a_region_is_silent_does_not_start_its_jobs_a_second_time(
    local: Rig, choice: str, what: str
) -> None:
    local.placed(on_region_lost=choice)
    pass_time(local, 60, step=20)
    WHAT_PEOPLE_DO[what](local, choice)
    pass_time(local, 400, step=20)
    assert local.record().phase is (Phase.HELD if choice == "hold" else Phase.STOPPING)
    assert [one.region for one in local.record().attempts] == ["eu"]
    assert local.granted("us") == []


def test_a_cancelled_job_waits_for_no_region(local: Rig) -> None:
    lost(local, on_region_lost="wait")
    local.remove("llm-a")
    pass_time(local, 15)
    assert local.record().phase is Phase.CANCELLED


def test_a_region_that_never_had_a_lease_is_given_up_by_making_its_first(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.tell("eu", lease_epoch=0)
    rig.tell("us")
    rig.store.inner.delete(lease_key("eu"))
    rig.job()
    rig.settle()
    assert (rig.attempt().region, rig.grants("eu").epoch) == ("eu", 0)
    pass_time(rig, 290)
    assert rig.store.inner.get(lease_key("eu")) is None
    pass_time(rig, 60)
    assert (lease(rig).epoch, lease(rig).revoked) == (1, True)
    assert rig.attempt().region == "us"


@pytest.mark.slow
def test_where_a_lease_is_gone_nothing_can_be_told_by_waiting(local: Rig) -> None:
    first = local.placed()
    local.store.inner.delete(lease_key("eu"))
    pass_time(local, 900)
    assert local.attempt() == first
    assert "cannot be told by waiting" in local.hub_file().regions["eu"].reason.text


def test_a_region_that_is_declared_no_more_is_watched_for_what_runs_there(local: Rig) -> None:
    local.placed()
    local.put({"regions/eu.yaml": None})
    pass_time(local, 400)
    assert lease(local).revoked
    assert local.attempt().region == "us"


def test_idle_cycles_stay_idle_while_everybody_is_heard(local: Rig) -> None:
    local.placed()
    local.tell_again("us")
    local.settle()
    assert local.cycle().ended is Ended.IDLE
