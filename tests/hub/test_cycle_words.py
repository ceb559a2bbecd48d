"""What people say of regions that are not heard of: that they really are lost, and that they never come back."""

from pathlib import Path

import pytest

from reconciler.model.attempt import Outcome, State
from reconciler.model.grants import lease_key
from reconciler.model.record import Phase
from reconciler.model.region_state import RegionState
from tests.hub.rig import Rig, two_regions
from tests.hub.silence import lease, lost, pass_time, state
from tests.hub.words import stopped

STEP = 10.0
ANN = "Ann Example <ann@example.com>"


@pytest.fixture
def local(tmp_path: Path) -> Rig:
    return two_regions(tmp_path)


def wait(rig: Rig, seconds: float, *, heard: tuple[str, ...] = ("us",)) -> None:
    pass_time(rig, seconds, heard=heard, step=STEP)


def say(rig: Rig, says: str, region: str = "eu", *, epoch: int = 1, force: bool = False) -> None:
    more = "force: true\n" if force else ""
    body = f'says: {says}\nregion: {region}\nepoch: {epoch}\n{more}by: "{ANN}"\n'
    rig.put({f"confirmations/{says}-{region}-{epoch}.yaml": body})


def where(rig: Rig) -> list[tuple[str, State]]:
    return [(one.region, one.state) for one in rig.record().attempts]


# ---- lost ---------------------------------------------------------------------------------------------------------


def test_a_persons_word_ends_the_doubt_and_shortens_no_wait(local: Rig) -> None:
    local.placed()
    wait(local, 200, heard=())
    found = local.hub_file().regions["eu"]
    assert (found.state, found.epoch, found.next_at) == (RegionState.LOST, 1, None)
    assert "`reconciler lost REGION`" in found.reason.text
    say(local, "lost")
    wait(local, 80, heard=())
    assert not lease(local).revoked
    assert local.hub_file().regions["eu"].next_at is not None
    wait(local, 50, heard=())
    assert lease(local).revoked
    assert not lease(local, "us").revoked


def test_a_word_of_an_earlier_lease_says_nothing_of_a_later_silence(local: Rig) -> None:
    local.write_lease("eu", 2)
    local.tell("eu", lease_epoch=2)
    local.placed()
    say(local, "lost", epoch=1)
    wait(local, 400, heard=())
    assert not lease(local).revoked


def test_a_word_of_a_region_that_is_heard_of_is_told_to_be_without_effect(local: Rig) -> None:
    first = local.placed()
    say(local, "lost")
    say(local, "forget", force=True)
    wait(local, 20, heard=("eu", "us"))
    assert local.attempt() == first
    assert (lease(local).revoked, state(local)) == (False, RegionState.READY)
    said = [one.what for one in local.hub_file().troubles if one.code == "RegionSpokenOf"]
    assert said[0].startswith("confirmations/forget-eu-1.yaml says that eu is lost, but it was heard of since")


def test_a_word_says_nothing_of_a_silence_that_comes_after_the_region_was_heard_of_again(local: Rig) -> None:
    """Also for a hub that was not there then; and once its file is gone, it can be said anew."""
    first = local.placed()
    wait(local, 60)
    say(local, "forget", force=True)
    wait(local, 10)
    local.restart()  # in which the region is heard of, and by no hub
    wait(local, 140)
    assert (local.attempt(), lease(local).revoked, state(local)) == (first, False, RegionState.LOST)
    assert [one.subject for one in local.hub_file().troubles if one.code == "RegionSpokenOf"] == [
        "confirmations/forget-eu-1.yaml"
    ]
    local.put({"confirmations/forget-eu-1.yaml": None})
    wait(local, 10)
    say(local, "forget", force=True)
    wait(local, 20)
    assert lease(local).revoked


@pytest.mark.parametrize("epoch", [1, 2], ids=["of the present lease", "of the next one"])
@pytest.mark.parametrize(("says", "force"), [("lost", False), ("forget", False), ("forget", True)])
def test_a_word_that_was_said_too_early_does_not_lie_in_wait_for_a_silence(
    local: Rig, says: str, force: bool, epoch: int
) -> None:
    local.placed()
    say(local, says, force=force, epoch=epoch)
    wait(local, 20, heard=("eu", "us"))
    (note,) = local.hub_file().words.values()
    assert note.is_void
    if epoch == 2:
        local.write_lease("eu", 2)
        local.tell("eu", lease_epoch=2)
        local.settle()
        local.placed("other")
    first = local.attempt("llm-a" if epoch == 1 else "other")
    pass_time(local, 160, heard=("us",), step=20)
    assert state(local) is RegionState.LOST
    assert (lease(local).epoch, lease(local).revoked) == (epoch, False)
    assert local.attempt("llm-a" if epoch == 1 else "other") == first


def test_by_force_nothing_is_taken_from_a_region_that_does_not_count_as_lost(local: Rig) -> None:
    local.placed()
    wait(local, 60)
    say(local, "forget", force=True)
    wait(local, 30)
    assert (state(local), lease(local).revoked) == (RegionState.UNKNOWN, False)
    wait(local, 40)
    assert lease(local).revoked


# ---- forget -------------------------------------------------------------------------------------------------------


def test_nothing_waits_for_a_region_that_never_comes_back(local: Rig) -> None:
    lost(local, on_region_lost="wait")
    assert where(local) == [("eu", State.STOPPING)]
    why = local.record().why
    assert why is not None
    assert f"`reconciler release {local.record().key}`" in why.text
    assert local.hub_file().regions["eu"].epoch == 1
    say(local, "forget")
    wait(local, 20)
    assert where(local) == [("eu", State.STOPPED), ("us", State.GRANTED)]
    assert local.hub_file().regions["eu"].reason.text == (
        f"eu was given up: {ANN} said that it never comes back; its jobs go on elsewhere, where they may"
    )


def test_without_proof_and_without_force_it_ends_nothing(local: Rig) -> None:
    first = local.placed()
    wait(local, 150)
    say(local, "forget")
    wait(local, 50)
    assert local.attempt() == first
    assert not lease(local).revoked


def test_by_force_the_lease_is_taken_at_once_and_who_took_the_risk_is_written_down(local: Rig) -> None:
    first = local.placed()
    wait(local, 150)
    say(local, "forget", force=True)
    wait(local, 20)
    assert (lease(local).revoked, lease(local).epoch) == (True, 2)
    assert where(local) == [("eu", State.STOPPED), ("us", State.GRANTED)]
    before = local.record().attempts[0]
    assert before.outcome is Outcome.REGION_LOST
    risk = f"eu was given up by force: {ANN} said that it never comes back, and took the risk that something of it still runs"
    assert before.reason is not None
    assert before.reason.text == risk
    messages = [commit.message for commit in local.repository.walk(local.tips()["status"])]
    assert any(risk in message for message in messages)
    assert first.name not in local.granted("eu")


def test_it_holds_no_more_once_the_region_has_taken_its_next_lease(local: Rig) -> None:
    name = local.placed().name
    wait(local, 150)
    say(local, "forget", force=True)
    wait(local, 20)
    local.write_lease("eu", 2)
    local.tell("eu", stopped(name), lease_epoch=2)
    local.settle()
    assert state(local) is RegionState.READY
    local.job("next", allowed_regions=["eu"])
    local.settle()
    assert local.granted("eu") == [local.attempt("next").name]


@pytest.mark.parametrize("body", [None, b"{}"], ids=["missing", "broken"])
def test_by_force_a_lease_that_is_missing_or_broken_is_made_anew_and_revoked(local: Rig, body: bytes | None) -> None:
    local.placed()
    if body is None:
        local.store.inner.delete(lease_key("eu"))
    else:
        local.store.inner.put(lease_key("eu"), body, expect=local.store.inner.etag(lease_key("eu")))
    wait(local, 200)
    assert where(local) == [("eu", State.RUNNING)]
    assert local.hub_file().regions["eu"].epoch == 1
    say(local, "forget", force=True)
    wait(local, 20)
    assert (lease(local).revoked, lease(local).epoch) == (True, 2)
    assert where(local) == [("eu", State.STOPPED), ("us", State.GRANTED)]


def test_what_must_not_be_done_twice_is_held_also_then(local: Rig) -> None:
    local.placed(on_region_lost="hold")
    wait(local, 150)
    say(local, "forget", force=True)
    wait(local, 20)
    assert local.record().phase is Phase.HELD
